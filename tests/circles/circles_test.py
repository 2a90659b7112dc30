from pathlib import Path

import pytest

from tests.circles.circles import main


def run(folder: Path, files: dict[str, str]) -> int:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return main(["--root", str(folder), *files])


@pytest.mark.parametrize(
    "files",
    [
        {"a/x.py": "import a.y\n", "a/y.py": "def late():\n    from a.x import f\n"},
        {"a/x.py": "from a import y\n", "a/y.py": "from . import x\n"},
        {"a/b/x.py": "from ..y import f\n", "a/y.py": "from a.b.x import f\n"},
        {"a/__init__.py": "from a.x import f\n", "a/x.py": "from a import g\n"},
        {"m/net.py": "from layers import Layer\n", "m/layers.py": "import net\n"},
        {"a/x.py": "import a.y", "a/y.py": "import a.z", "a/z.py": "import a.x"},
    ],
)
def test_a_circle_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str]) -> None:
    assert run(tmp_path, files) == 1
    (circle,) = capsys.readouterr().out.splitlines()
    assert set(circle.split(" -> ")) == set(files)


def test_files_in_an_order_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        "a/__init__.py": "from a.x import f\n",
        "a/x.py": "from a.y import g\nimport os, torch\n",
        "a/y.py": "from b.z import h\n",
        "b/z.py": "import x\n",
        "r/x.bzl": 'load(":y.bzl", "f")\n',
    }
    assert run(tmp_path, files) == 0
    assert capsys.readouterr().out == ""


def test_a_file_that_is_no_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, {"a/x.py": "def\n"}) == 1
    assert "circles: error: a/x.py can't be read" in capsys.readouterr().err
