from pathlib import Path

import pytest

from tests.documents.documents import main

_FILES = ("README.md", "docs/build.md", "docs/images/a.png", "kernels/add.cpp", "kernels/old/1.pte")
_FILES += ("tools/defs.bzl", "tools/flash.py", "docs/rules.md")
_TARGETS = ("//kernels:kernels", "//kernels:add_test", "//tools:flash", "//tools:x.flash")
_RULES = "### image\n\n| `deps` | what |\n| `board` | x |\n\n### other\n\n| `size_kb` | x |\n"
_RULES += "\n### image_test\n\n| `**kwargs` | attributes of `image_rule`, `atol`. |\n"
_FLASH = 'parser.add_argument("--fast")\n'
_BUILD = "# The build\n\n## What `x` fetches\n\n```sh\n# no heading\n```\n"
_TEXTS = {"docs/build.md": _BUILD, "docs/rules.md": _RULES, "tools/flash.py": _FLASH}


def run(folder: Path, text: str) -> int:
    for name in _FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(({"README.md": text} | _TEXTS).get(name, ""))
    targets = folder / "targets"
    targets.write_text("\n".join(_TARGETS))
    return main(["--root", str(folder), "--targets", str(targets), *_FILES])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("See [the build](docs/bild.md).", "docs/bild.md"),
        ("See [the build](docs/build.md#what-x-takes).", "docs/build.md#what-x-takes"),
        ("See [the build](docs/build.md#no-heading).", "docs/build.md#no-heading"),
        ("See [below](#further-down).", "#further-down"),
        ("`kernels/sub.cpp` has it.", "kernels/sub.cpp"),
        ("`kernels/*/2.pte` are old.", "kernels/*/2.pte"),
        ("    ./bazelw test //kernels:sub_test", "//kernels:sub_test"),
        ("    ./bazelw test //kernels/new/...", "//kernels/new/..."),
        ("    ./bazelw test //docs:all //tools:all --//tools:sleep=on", "//tools:sleep"),
        ("`//docs/images:b` and `//docs/images`", "//docs/images:b"),
        ("    ./bazelw run //tools:flash -- --fast --slow 3 # --never", "--slow"),
        ("```starlark\nboard(name = 1,\n    ...\n)\n```", "): positional argument follows keyword argument"),
        ("    bazel run //:my_image.flesh -- --fast", ".flesh"),
        ("```starlark\nimage(name = 1, deps = [2], boards = 3)\n```", "image(boards)"),
        ("As here:\n\n    image(\n        deps = [],\n\n        size_kb = 4,\n    )\n\nDone.\n", "image(size_kb)"),
        ('`load("@torch_fusion//tools:rules.bzl", "x")`', "@torch_fusion//tools:rules.bzl"),
    ],
)
def test_what_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, name: str) -> None:
    assert run(tmp_path, text) == 1
    assert capsys.readouterr().out == f"README.md: {name}\n"


@pytest.mark.parametrize(
    "text",
    [
        "# Top\n[a](docs/build.md), [b](docs/build.md#what-x-fetches), [c](#top), [d](https://example.org/docs/x)",
        "`kernels/add.cpp`, `./kernels/old/`, `kernels/old/<number>.pte`, `kernels/*.cpp`, ends in kernels/add.cpp.",
        "`//kernels`, `//kernels/...`, `//kernels:add_test`, `//tools:flash`, `//docs/images:a.png`, `//...`",
        "    ./bazelw run //tools:flash --//tools:flash=1 -- --fast x # or --slow",
        "    ./bazelw run //:image.flash\n\n    image(board = x, deps = [], name = 3, tags = [])\n    his(a = 1)\n",
        "```starlark\nimage_test(deps = [], atol = 1)\n```",
        # These are names of others, and of the reader.
        "`program.pte`, `//:blink`, `//blink:x`, `@rules_cc//tools:x`, `kernels/my_x.cpp`, `//kernels/my_x:x`",
        "`https://example.org/kernels/x.cpp` and `/home/me/kernels/x.cpp`",
    ],
)
def test_what_is_there_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert run(tmp_path, text) == 0
    assert capsys.readouterr().out == ""


def test_a_mark_of_a_command_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "<!-- commands: long: //x -->\n\n    ./bazelw run //tools:flash\n") == 1
    assert "README.md: a comment marks the command '//x'" in capsys.readouterr().err


def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    targets = tmp_path / "targets"
    assert main(["--root", str(tmp_path), "--targets", str(targets), "README.md"]) == 1
    assert f"documents: error: {targets} can't be read" in capsys.readouterr().err
