"""Tests that undeclared reads of a model file fail with the name of the file, however it reads."""

import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import pytest
import torch

from tools.pipeline.declared_reads.declared_reads import UndeclaredRead, declared_reads
from tools.pipeline.declared_reads.landlock import confine_reads
from tools.pipeline.model_file.model_file import ModelFile
from tools.quiet.console import UserError

_MODEL = """\
import ctypes, glob, mmap, os, pathlib, shutil, socket, sqlite3, subprocess, tempfile
import numpy, torch
def model():
    {body}
    return torch.nn.ReLU().eval()
def example_inputs():
    return (torch.ones(1),)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files as a model file may read them, beside it in `data` and far from it in `elsewhere`."""
    for name in ("data", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("1")
        numpy.save(tmp_path / name / "a.npy", numpy.ones(2))
        torch.save(torch.ones(2), tmp_path / name / "a.pt")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "a.txt")
    return tmp_path


def run(folder: Path, body: str, *data: str) -> None:
    """Calls model() of a model file with the statements `body`, `data` of its folder being declared."""
    path = folder / "model_under_test.py"
    path.write_text(_MODEL.format(body=body.replace("DIR", str(folder))))
    with declared_reads([path, *(folder / name for name in data)]):
        ModelFile(path).model()


@pytest.mark.parametrize(
    "body",
    [
        "open('DIR/elsewhere/a.txt').read()",
        "open(b'DIR/elsewhere/a.txt', 'rb').read()",
        "open('DIR/data/../elsewhere/a.txt').read()",
        "open('DIR/link').read()",
        "open('DIR/elsewhere/a.txt', 'r+').read()",
        "pathlib.Path('DIR/elsewhere/a.txt').read_bytes()",
        "os.open('DIR/elsewhere/a.txt', os.O_RDONLY)",
        "os.symlink('DIR/elsewhere', 'DIR/new'); open('DIR/new/a.txt').read()",
        "shutil.copy('DIR/elsewhere/a.txt', tempfile.mkdtemp())",
        "numpy.load('DIR/elsewhere/a.npy')",
        "numpy.load('DIR/elsewhere/a.npy', mmap_mode='r')",
        "numpy.fromfile('DIR/elsewhere/a.txt')",
        "torch.load('DIR/elsewhere/a.pt')",
        "torch.load('DIR/elsewhere/a.pt', mmap=True)",
        "mmap.mmap(os.open('DIR/elsewhere/a.txt', os.O_RDONLY), 0, access=mmap.ACCESS_READ)",
        "sqlite3.connect('DIR/elsewhere/a.txt').execute('select 1')",
        "ctypes.CDLL('DIR/elsewhere/a.txt')",
        "__import__('threading').Thread(target=lambda: None).start(); open('DIR/elsewhere/a.txt')",
    ],
)
def test_reading_elsewhere_fails_by_name(folder: Path, body: str) -> None:
    with pytest.raises(UserError, match=r"model_under_test.py:\d+: model\(\) failed: UndeclaredRead") as caught:
        run(folder, body, "data/a.txt")
    assert f"{folder}/" in str(caught.value)
    assert "`data` of the target" in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        "os.listdir('DIR/data')",
        "list(os.scandir('DIR/data'))",
        "glob.glob('DIR/data/*')",
        "list(pathlib.Path('DIR/data').iterdir())",
        "list(pathlib.Path('DIR').rglob('*.txt'))",
        "os.listdir('DIR/elsewhere')",
    ],
)
def test_listing_what_is_not_all_declared_fails(folder: Path, body: str) -> None:
    with pytest.raises(UserError, match="is listed, but .* is not an input of the target"):
        run(folder, body, "data/a.txt")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("socket.create_connection(('127.0.0.1', 9))", r"the network is used \(127.0.0.1"),
        ("socket.getaddrinfo('example.org', 80)", r"the network is used \(example.org"),
        ("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))", r"\(127.0.0.1:9\)"),
        ("__import__('urllib.request').request.urlopen('http://example.org/a')", r"\(example.org"),
        ("subprocess.run(['cat', 'DIR/elsewhere/a.txt'])", "the program cat is started"),
        ("os.system('cat DIR/elsewhere/a.txt')", "the program cat .* is started"),
        ("os.popen('cat DIR/elsewhere/a.txt')", "the program .*sh is started"),
        ("os.posix_spawn('/bin/cat', ['cat'], {})", "the program /bin/cat is started"),
        ("ctypes.CDLL(None).open(b'DIR/elsewhere/a.txt', 0)", "is called directly"),
        ("ctypes.CDLL('libc.so.6')", "the C library libc.so.6 is called directly"),
    ],
)
def test_what_cannot_be_checked_is_refused(folder: Path, body: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        run(folder, body)


@pytest.mark.parametrize(
    "body",
    [
        "assert open('DIR/data/a.txt').read() == '1'",
        "numpy.load('DIR/data/a.npy'); torch.load('DIR/data/a.pt', mmap=True)",
        "assert len(os.listdir('DIR/data')) == 3; assert len(glob.glob('*.pt', root_dir='DIR/data')) == 1",
        "open('DIR/new', 'w').write('x'); assert open('DIR/new').read() == 'x'",
        "d = tempfile.mkdtemp(); open(d + '/b', 'w').write('x'); assert os.listdir(d) == ['b']; open(d + '/b').read()",
        "f = tempfile.NamedTemporaryFile('w+'); f.write('x'); f.flush(); open(f.name).read()",
        "open('DIR/a', 'w').close(); os.rename('DIR/a', 'DIR/b'); open('DIR/b').read()",
        "open('/proc/self/status').read(); torch.linspace(0, 1, 5); torch.export.export",
        "import unittest.mock, xml.dom.minidom",
        "next(iter(torch.utils.data.DataLoader(torch.arange(4), num_workers=1)))",
    ],
)
def test_declared_inputs_and_own_files_may_be_read(folder: Path, body: str) -> None:
    run(folder, body, "data")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("open('DIR/data/a.txt', 'w')", "data/a.txt is an input of the target, and opened for writing"),
        ("open('DIR/data/a.txt', 'r+')", "is an input of the target"),
        ("open('DIR/data/new.txt', 'w')", "is an input of the target"),
        ("numpy.memmap('DIR/data/a.npy', mode='r+')", "is an input of the target"),
        ("os.symlink('DIR/data', 'DIR/new'); open('DIR/new/a.txt', 'w')", "is an input of the target"),
        ("open(os.path.expanduser('~/torch_fusion_test'), 'w')", "is no temporary file"),
    ],
)
def test_only_temporary_files_may_be_written(folder, monkeypatch, body, says) -> None:
    monkeypatch.setenv("HOME", str(Path("/").absolute()))
    before = (folder / "data" / "a.txt").read_text(encoding="utf-8")
    with pytest.raises((UserError, UndeclaredRead), match=says):
        run(folder, body, "data")
    assert (folder / "data" / "a.txt").read_text(encoding="utf-8") == before


def test_inputs_may_be_read_by_where_their_links_lead(folder: Path) -> None:
    run(folder, "open(os.path.realpath('DIR/link')).read()", "link")


@pytest.mark.parametrize("read", ["torch.load('a.pt')", "open('./a.txt').read()", "open('a.npy').read()"])
def test_a_file_beside_the_model_file_precedes_one_of_its_name(folder, monkeypatch, read) -> None:
    monkeypatch.chdir(folder / "elsewhere")
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(UserError, match="a.npy is read, but") if "npy" in read else contextlib.nullcontext():
        run(folder / "data", read, "a.pt", "a.txt")


def test_a_file_that_is_not_there_asks_for_data(folder: Path) -> None:
    with pytest.raises(UserError, match=r"No such file.* Is '.*/missing.csv' in `data` of the target\?"):
        run(folder, "open('DIR/missing.csv')")


def test_a_refusal_that_the_model_file_catches_is_an_error_all_the_same(folder: Path) -> None:
    with pytest.raises(UserError, match=r"model_under_test.py:5: .*elsewhere/a.txt is read, but"):
        run(folder, "try:\n        open('DIR/elsewhere/a.txt')\n    except OSError: pass")


def test_a_package_that_looks_for_an_optional_file_goes_on_without(folder: Path) -> None:
    # Installed packages are found by sys.path, as this one.
    (folder / "packages").mkdir()
    (folder / "packages/optional_file.py").write_text(
        f"try: text = open({str(folder / 'elsewhere/a.txt')!r}).read()\nexcept OSError: text = None\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder / "packages")
        run(folder, "import optional_file; assert optional_file.text is None")


def test_nothing_is_watched_afterwards(folder: Path) -> None:
    with pytest.raises(UndeclaredRead), declared_reads([]):
        (folder / "elsewhere/a.txt").read_text()
    assert (folder / "elsewhere/a.txt").read_text() == "1"


def test_the_tool_takes_data(folder: Path) -> None:
    from tools.pipeline.train.__main__ import main

    path = folder / "my_model.py"
    path.write_text(
        "import torch\ndef model(): return torch.nn.Linear(1, 1).eval()\ndef train():\n"
        f"    open({str(folder / 'data/a.txt')!r}).read()\n    return model()\n"
    )
    arguments = ["--model", str(path), "--output", str(folder / "weights")]
    assert main(arguments) == 1
    assert not (folder / "weights").exists()
    assert main([*arguments, "--data", str(folder / "data/a.txt")]) == 0


_CONFINED = """\
import subprocess, sys, torch
from pathlib import Path
from tools.pipeline.declared_reads.declared_reads import confine_process
folder = Path(sys.argv[1])
confine_process([folder / "data"])
torch.from_file(str(folder / "data/a.txt"), dtype=torch.uint8, size=1)
for read in (lambda: torch.from_file(str(folder / "elsewhere/a.txt"), dtype=torch.uint8, size=1),
             lambda: subprocess.run(["cat", folder / "elsewhere/a.txt"], check=True, capture_output=True)):
    try:
        read()
    except (RuntimeError, subprocess.CalledProcessError):
        continue
    sys.exit("read")
"""


def test_the_kernel_refuses_what_passes_python_by(folder: Path) -> None:
    if ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) < 1:
        pytest.skip("this kernel has no Landlock")
    # The tool's process confines itself: the folder of temporary files may be read, so this one must not be in it.
    environment = dict(os.environ, TMPDIR=str(folder / "data"))
    assert tempfile.gettempdir() != str(folder / "data")
    command = [sys.executable, "-c", _CONFINED, str(folder)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_confining_reads_tells_whether_the_kernel_can() -> None:
    # The confinement is permanent, so it needs a separate process.
    script = "from tools.pipeline.declared_reads.landlock import confine_reads; print(confine_reads([]))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout in ("True\n", "False\n")
    assert callable(confine_reads)


_IMPORTS = """\
import sys
from pathlib import Path
from tools.pipeline.declared_reads.declared_reads import confine_process
confine_process([Path("model/layers.py")])
sys.path.append("model")
import layers
try:
    print(open("model/other.txt").read())
except PermissionError:
    print("refused")
"""


def test_a_confined_process_imports_a_module_beside_the_model_file(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/layers.py").write_text("")
    (tmp_path / "model/other.txt").write_text("read")
    (tmp_path / "temporary").mkdir()
    environment = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
    command = [sys.executable, "-c", _IMPORTS]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    # Without Landlock the kernel refuses nothing.
    script = "from tools.pipeline.declared_reads.landlock import confine_reads; print(confine_reads([]))"
    can = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert result.stdout == ("refused\n" if can == "True\n" else "read\n")
