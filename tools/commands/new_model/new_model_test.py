import ast
import json
import pickle
import re
import resource
import shutil
import sys
import tempfile
from pathlib import Path

import numpy
import pytest
import torch

from tools.commands.new_model.new_model import main

_MODEL = """
import torch

from layers.gate import Gate

def model():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), Gate()).eval()

def example_inputs():
    return (torch.rand(1, 4),)

def train():
    return model()
"""


def _write(folder: Path, text: str, name: str = "wave.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_model_of_one_file(tmp_path: Path) -> None:
    text = _MODEL.replace("from layers.gate import Gate", "Gate = torch.nn.ReLU").partition("def train")[0]
    path = _write(tmp_path, text, "blink.py")
    output = tmp_path / "new"
    assert main([str(path), "--output", str(output), "--checkout", "../.."]) == 0
    assert sorted(file.name for file in output.iterdir()) == [
        ".bazelrc",
        ".bazelversion",
        ".gitignore",
        "BUILD.bazel",
        "MODULE.bazel",
        "bazelw",
        "blink.py",
    ]
    assert (output / "blink.py").read_text(encoding="utf-8") == text
    assert 'path = "../.."' in (output / "MODULE.bazel").read_text(encoding="utf-8")
    build = (output / "BUILD.bazel").read_text(encoding="utf-8")
    assert 'torch_program(\n    name = "blink",\n    src = "blink.py",\n)\n' in build


def test_a_model_of_several_in_a_file(tmp_path: Path) -> None:
    text = (
        "import torch\n\nclass Net:\n    def model(self):\n        return torch.nn.ReLU().eval()\n\n"
        "    def example_inputs(self):\n        return (torch.rand(3),)\n\ndef entries(): return {'Wide 2': Net()}\n"
    )
    assert main([str(_write(tmp_path, text)), "--entry", "Wide 2"]) == 0
    build = (tmp_path / "wave_wide_2/BUILD.bazel").read_text(encoding="utf-8")
    assert 'name = "wave_wide_2",\n    src = "wave_wide_2.py",\n    entry = "Wide 2",\n' in build


def test_boards_with_an_npu_get_a_program_for_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path, _MODEL.replace("from layers.gate import Gate", "Gate = torch.nn.ReLU"), "blink.py")
    written = {}
    for name, boards, options in (
        ("mixed", "pico,mps3_an547_u55,numaker_m55m1", ["--int8"]),
        ("npu", "corstone320_u85", ["--int8"]),
        ("float", "numaker_m55m1", []),
    ):
        assert main([str(path), "--output", str(tmp_path / name), "--boards", boards, *options]) == 0
        written[name] = (tmp_path / name / "BUILD.bazel").read_text(encoding="utf-8"), capfd.readouterr().err
    build, out = written["mixed"]
    on_core = 'name = "blink",\n    src = "blink.py",\n    backend = "cortex_m",\n    train = True,\n)'
    on_npu = 'name = "blink_npu",\n    src = "blink.py",\n    backend = "ethos_u",\n    weights = ":blink",\n)'
    assert on_core in build and on_npu in build and build.count('model = ":blink_npu"') == 3
    # No test can run the NuMaker's image.
    assert build.count("firmware_test(") == 2 and build.count('BOARDS + "numaker_m55m1"') == 1
    assert "./bazelw test //..." in out and "./bazelw run //:pico.flash" in out
    build, out = written["npu"]
    assert 'name = "blink"' in build and 'backend = "ethos_u"' in build and "firmware_test" not in build
    assert "./bazelw build //..." in out and "flash" not in out
    build, out = written["float"]
    assert "backend" not in build and "leaves the NPU of numaker_m55m1 idle; with --int8" in out


def test_a_model_that_trains_and_has_modules_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = "import torch\n\nclass Gate(torch.nn.Module):\n    def forward(self, x):\n        return x.relu()\n"
    _write(tmp_path / "mine", gate, "layers/gate.py")
    path = _write(tmp_path / "mine", _MODEL)
    # The user stands in this project's checkout, where nothing of theirs belongs.
    (tmp_path / "checkout").mkdir()
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path / "checkout"))
    assert main(["../mine/wave.py", "--checkout", "/checkout"]) == 0
    assert not any((tmp_path / "checkout").iterdir())
    output = path.with_suffix("")
    build = (output / "BUILD.bazel").read_text(encoding="utf-8")
    assert '    src = "wave.py",\n    data = ["layers/gate.py"],\n    train = True,\n)\n' in build
    assert "blink" not in build
    assert (output / "layers" / "gate.py").read_text(encoding="utf-8") == gate
    assert (output / "wave.py").read_text(encoding="utf-8") == _MODEL


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("wave.txt", "", "wave.txt: a model file must be a Python file, named *.py"),
        (".py", "", "must be a Python file"),
        ("wave.py", "import torch\n", "there is no function model()"),
        ("wave.py", "def model(:\n", "wave.py:1: "),
        ("wave.py", "def entries(): return {'b': 1, 'a': 2}\n", "several models: choose one with --entry, of a, b"),
        (
            "wave.py",
            "import torch\n\nclass model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.eval()\n\n    def forward(self, x):\n        return None\n\n"
            "def example_inputs():\n    return (torch.rand(3),)\n",
            "wave.py: the model's output 0 must be a tensor, not None.",
        ),
        ("wave.py", "import a_package_of_mine\n", 'add yours in its workspace: docs/models.md, "Python packages"'),
        (
            "wave.py",
            "import torch\n\ndef model():\n    return torch.nn.Linear(2, 2).eval()\n\n"
            "def example_inputs():\n    return (torch.rand(3),)\n",
            "the model fails on its example_inputs() float32[3]: ",
        ),
    ],
)
def test_a_model_file_that_does_not_work(tmp_path, capfd, name, text, says) -> None:
    path = _write(tmp_path / "mine", text, name)
    assert main([str(path), "--output", str(tmp_path / "new")]) == 1
    assert says in capfd.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("my-Net v2.py", "my_net_v2"),
        ("größe.py", "groe"),
        ("2d.py", "_2d"),
        ("...py", "model"),
        ("pico2_w.py", "pico2_w_model"),
        ("signal.py", "signal_model"),
    ],
)
def test_any_file_has_a_program(tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, program: str) -> None:
    path = _write(tmp_path, _MODEL.replace("from layers.gate import Gate", "Gate = torch.nn.ReLU"), name)
    assert main([str(path), "--checkout", "/checkout"]) == 0
    assert f"in which {name} is {program}.py" in capfd.readouterr().err
    assert (tmp_path / program / f"{program}.py").read_bytes() == path.read_bytes()
    assert f'name = "{program}",' in (tmp_path / program / "BUILD.bazel").read_text(encoding="utf-8")


_READS = """
import json
from pathlib import Path
import torch
from .parts import make

HERE = Path(__file__).parent

def model():
    net = make(json.loads((HERE / "my settings.json").read_text())["size"])
    net.load_state_dict(torch.load(HERE / "weights/net.pt"))
    return net.eval()

def example_inputs():
    return (torch.rand(1, 4),)

def calibration_inputs():
    return [(torch.from_numpy(__import__("numpy").load(HERE / "samples.npy")),)]
"""


def test_files_that_the_model_reads_are_its_data(tmp_path: Path) -> None:
    path = _write(tmp_path / "mine", _READS)
    _write(tmp_path / "mine", "import torch\n\ndef make(n):\n    return torch.nn.Linear(4, n)\n", "parts.py")
    _write(tmp_path / "mine", '{"size": 2}', "my settings.json")
    _write(tmp_path / "mine", "", "unused.json")
    (tmp_path / "mine/weights").mkdir()
    torch.save(torch.nn.Linear(4, 2).state_dict(), tmp_path / "mine/weights/net.pt")
    numpy.save(tmp_path / "mine/samples.npy", numpy.ones((1, 4), numpy.float32))
    output = tmp_path / "new"
    assert main([str(path), "--output", str(output), "--checkout", "/checkout"]) == 0
    build = (output / "BUILD.bazel").read_text(encoding="utf-8")
    (data,) = re.findall(r"    data = (\[.*?\]),\n", build, re.DOTALL)
    assert ast.literal_eval(data) == ["my settings.json", "parts.py", "samples.npy", "weights/net.pt"]
    assert all((output / name).read_bytes() == (path.parent / name).read_bytes() for name in ast.literal_eval(data))


def test_a_model_file_that_is_not_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.py"), "--output", str(tmp_path / "new")]) == 1
    assert "there is no such model file" in capfd.readouterr().err


def test_a_model_file_in_the_checkout_needs_a_folder_outside(tmp_path, monkeypatch, capfd) -> None:
    path = _write(tmp_path, _MODEL)
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    assert main([str(path)]) == 1
    assert "name a folder outside with --output" in capfd.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["wave.py"]


def test_a_checkout_below_tmp_can_be_used(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path, _MODEL)
    assert main([str(path), "--output", str(tmp_path / "new"), "--checkout", "/tmp/torch_fusion"]) == 0
    assert "  ./bazelw test //...\n" in capfd.readouterr().err
    assert "exec /tmp/torch_fusion/bazelw " in (tmp_path / "new/bazelw").read_text(encoding="utf-8")
    assert "--noincompatible_sandbox_hermetic_tmp" in (tmp_path / "new/.bazelrc").read_text(encoding="utf-8")


def test_a_folder_that_debians_bazel_cannot_handle_is_refused_at_once(tmp_path, monkeypatch, capfd) -> None:
    path = _write(tmp_path / "größe", _MODEL.replace("from layers.gate import Gate", "Gate = torch.nn.ReLU"))
    monkeypatch.setenv("BAZELW", "debian")
    assert main([str(path)]) == 1
    assert "größe/wave has characters other than ASCII" in capfd.readouterr().err
    assert [file.name for file in path.parent.iterdir()] == ["wave.py"]
    assert main([str(path), "--output", str(tmp_path / "new")]) == 0
    monkeypatch.delenv("BAZELW")
    assert main([str(path)]) == 0


def test_a_disk_that_gets_full_leaves_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # Larger than the workspace's own files.
    filler = "#" * 60_000
    path = _write(tmp_path, _MODEL.replace("from layers.gate import Gate", f"Gate = torch.nn.ReLU {filler}"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        assert main([str(path), "--output", str(tmp_path / "new")]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "File too large" in capfd.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["wave.py"]


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch, capfd) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    path = _write(tmp_path / "mine", _MODEL.replace("from layers.gate import Gate", "Gate = torch.nn.ReLU"))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    # The workspace's own files are written by then.
    monkeypatch.setattr(shutil, "copyfile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        main([str(path), "--output", str(tmp_path / "new")])
    assert capfd.readouterr().err == ""
    assert sorted(file.name for file in tmp_path.iterdir()) == ["mine", "tmp"]
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("checkout", ['/a "folder"', "/with\\backslash", "/{braces}"])
def test_any_folder_of_the_checkout(checkout: str, tmp_path: Path) -> None:
    path = _write(tmp_path, _MODEL.replace("from layers.gate import Gate", "Gate = torch.nn.ReLU"))
    assert main([str(path), "--output", str(tmp_path / "new"), "--checkout", checkout]) == 0
    calls = ast.parse((tmp_path / "new/MODULE.bazel").read_text(encoding="utf-8")).body
    paths = [keyword.value for call in calls for keyword in call.value.keywords if keyword.arg == "path"]
    assert [ast.literal_eval(value) for value in paths] == [checkout]


def test_it_is_started_where_the_model_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(tmp_path, _MODEL.replace("from layers.gate import Gate", "Gate = torch.nn.ReLU"))
    monkeypatch.chdir(path.parent)
    assert main([str(path), "--checkout", "/checkout"]) == 0
    assert sorted(file.name for file in path.with_suffix("").iterdir() if file.suffix == ".py") == ["wave.py"]


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path, _MODEL.replace("from layers.gate import Gate", "Gate = torch.nn.ReLU"))
    assert main([str(path), "--output", str(tmp_path)]) == 1
    assert "is not empty" in capfd.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["wave.py"]


def test_a_new_repository_is_a_folder_for_a_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(tmp_path, _MODEL.replace("from layers.gate import Gate", "Gate = torch.nn.ReLU"))
    output = tmp_path / "new"
    (output / ".git").mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        assert main([str(path), "--output", str(output)]) == 1
    assert [file.name for file in output.iterdir()] == [".git"]
    assert main([str(path), "--output", str(output)]) == 0
    assert {".git", "BUILD.bazel"} < {file.name for file in output.iterdir()}


_NET = """
import torch
def model():
    net = torch.nn.Linear(4, 2)
    net.load_state_dict(torch.load("vib.pt"))
    return net.eval()
def example_inputs():
    return (torch.ones(1, 4),)
"""


def test_weights_beside_the_model_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path / "mine", _NET, "vib.py")
    assert main([str(path), "--output", str(tmp_path / "new")]) == 1
    shown = capfd.readouterr().err
    assert "there is no 'vib.pt' in either" in shown and "`data`" not in shown
    torch.save(torch.nn.Linear(4, 2).state_dict(), tmp_path / "mine" / "vib.pt")
    assert main([str(path), "--output", str(tmp_path / "new")]) == 0
    assert 'data = ["vib.pt"]' in (tmp_path / "new" / "BUILD.bazel").read_text(encoding="utf-8")
    assert (tmp_path / "new" / "vib.pt").is_file()


_WHOLE = "torch.nn.modules.container.Sequential"


def _save_all(folder: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 2)).eval()
    weights = net[0].state_dict()
    torch.save(weights, folder / "weights.pt")
    header = {
        "weight": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
        "bias": {"dtype": "F32", "shape": [2], "data_offsets": [32, 40]},
        "__metadata__": {"format": "pt"},
    }
    text = json.dumps(header).encode()
    data = b"".join(weights[name].numpy().tobytes() for name in ("weight", "bias"))
    (folder / "tensors.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    torch.save({"epoch": 3, "model": weights, "optimizer": {"state": {}}}, folder / "checkpoint.ckpt")
    torch.save({f"module.{name}": value for name, value in weights.items()}, folder / "parallel.pth")
    torch.save(net, folder / "whole.pth")
    torch.export.save(torch.export.export(net, (torch.ones(1, 4),)), folder / "program.pt2")
    torch.jit.save(torch.jit.trace(net[0], torch.ones(1, 4)), folder / "script.pt")
    (folder / "net.onnx").write_bytes(b"onnx")
    (folder / "bert").mkdir()
    (folder / "bert/config.json").write_text('{"architectures": ["BertModel"], "vocab_size": 99}')
    _write(
        folder,
        "import torch\n\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(4, 2)\n",
        "net/a.py",
    )


def test_what_is_no_model_file_says_what_it_is_and_what_to_write(tmp_path, capfd) -> None:
    _save_all(tmp_path)
    for name, kind, line in (
        ("weights.pt", "a state dict", "module.load_state_dict(torch.load('weights.pt'))"),
        ("checkpoint.ckpt", "a state dict", "module.load_state_dict(torch.load('checkpoint.ckpt')['model'])"),
        ("whole.pth", f"a pickled module, of {_WHOLE}, and loading it runs any code", "weights_only=False).eval()"),
        ("script.pt", "a TorchScript module, and loading it runs any code", ".state_dict(), 'script_weights.pt'), and"),
        ("net.onnx", "a model of ONNX", "bring the PyTorch module"),
        ("net", "a folder", "docs/models.md says"),
        ("bert", "a folder of Hugging Face's transformers, of BertModel", ".with_name('bert')).eval()"),
        ("bert", "a folder of Hugging", "return (torch.zeros(1, 16, dtype=torch.int64),)"),
    ):
        assert main([str(tmp_path / name)]) == 1
        shown = capfd.readouterr().err
        assert f"and this is {kind}" in shown and line in shown and "torch printed" not in shown
    for name, module, says in (
        ("none.pt", "net.a.Net", "none.pt: there is no such file"),
        ("script.pt", "net.a.Net", "save its weights where you trust it"),
        ("weights.pt", "Net", "--module Net: put the name of its file or package before it, such as net.Net"),
        ("weights.pt", "torch.nn.Linear", "'in_features' and 'out_features'\nWrite weights.py with what is missing"),
    ):
        assert main([str(tmp_path / name), "--module", module, "--shape", "1,4"]) == 1
        assert says in re.sub(r"\n  \(.*", "", capfd.readouterr().err)
    assert not list(tmp_path.glob("*.py"))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("weights.pt", ["--module", "net.a.Net", "--shape", "1,4"]),
        ("checkpoint.ckpt", ["--module", "net.a.Net", "--shape", "1,4"]),
        ("parallel.pth", ["--module", "net.a.Net", "--shape", "1,4"]),
        ("tensors.safetensors", ["--module", "net.a.Net", "--shape", "1,4"]),
        ("whole.pth", ["--module", _WHOLE, "--shape", "1,4"]),
        ("program.pt2", []),
    ],
)
def test_a_model_file_is_written_around_what_was_saved(tmp_path, capfd, name, arguments) -> None:
    _save_all(tmp_path)
    path = tmp_path / name
    assert main([str(path), "--output", str(tmp_path / "new"), "--int8", *arguments]) == 0
    assert f"Give {path.stem}.py calibration_inputs()" in "".join(capfd.readouterr())
    assert 'backend = "cortex_m",' in (tmp_path / "new" / "BUILD.bazel").read_text(encoding="utf-8")
    # A second one does not replace it.
    text = path.with_suffix(".py").read_text(encoding="utf-8")
    assert main([str(path), "--output", str(tmp_path / "other"), *arguments]) == 1
    assert (
        path.with_suffix(".py").read_text(encoding="utf-8")
        == text
        == (tmp_path / "new" / f"{path.stem}.py").read_text()
    )
    assert (tmp_path / "new" / name).is_file()


def test_what_a_stranger_pickled_is_not_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, ...]:
            return exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",)

    path = tmp_path / "weights.pt"
    torch.save({"weight": Hostile()}, path)
    for arguments in ([], ["--shape", "1,4"], ["--module", "net.Net", "--shape", "1,4"]):
        assert main([str(path), *arguments]) == 1
        assert "a pickled module, of __builtin__.exec, and loading it runs any code" in capfd.readouterr().err
    # A class whose name is code itself.
    path.write_bytes(pickle.dumps(Hostile()).replace(b"\x8c\x08builtins", b"\x8c\x06a\nb()\n"))
    assert main([str(path), "--shape", "1,4"]) == 1
    assert "and this is nothing that PyTorch saved; docs/models.md" in capfd.readouterr().err
    path.write_bytes(b"PK\x05\x06" + bytes([1] * 18))
    assert main([str(path), "--shape", "1,4"]) == 1
    assert "internal error" not in capfd.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["weights.pt"]


@pytest.mark.parametrize("shape", ["1,5", "4x4", "quaternion:1,4", ""])
def test_a_shape_that_does_not_fit_leaves_nothing(tmp_path, capfd, shape) -> None:
    _save_all(tmp_path)
    assert main([str(tmp_path / "whole.pth"), "--module", _WHOLE, "--shape", shape]) == 1
    assert "internal error" not in capfd.readouterr().err
    assert main([str(tmp_path / "weights.pt"), "--shape", "1,4", "--module", "net.a.Nett"]) == 1
    assert "weights.pt: its class can't be imported: cannot import name 'Nett'" in capfd.readouterr().err
    assert not [*tmp_path.glob("whole*/"), *tmp_path.glob("*.py")]


def test_a_terminal_is_asked_for_what_is_missing(tmp_path, monkeypatch, capsys) -> None:
    _save_all(tmp_path)
    monkeypatch.chdir(tmp_path)
    to = ["--output", str(tmp_path / "new")]
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(SystemExit):
        main(to)
    # Nothing more is asked about a missing file.
    answers = [str(tmp_path / "none.pt")]
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answers.pop(0))
    assert main(to) == 1
    answers = [str(tmp_path / "weights.pt"), "net.a.Net", "1,4", "picoo", "pico", "y"]
    assert main(to) == 0
    build = (tmp_path / "new" / "BUILD.bazel").read_text(encoding="utf-8")
    assert 'name = "pico"' in build and "nucleo" not in build and 'backend = "cortex_m"' in build
    with pytest.raises(SystemExit):
        main([*to, "--boards", "picoo", str(tmp_path / "weights.py")])
    assert "there is no board picoo; it can be b_l475e_iot01a, corstone320_u85, mps2_an385" in capsys.readouterr().err


def test_the_log_is_private_and_kept_only_for_an_error(tmp_path, monkeypatch, capfd) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    path = _write(tmp_path / "mine", _MODEL.replace("from layers.gate import Gate", "Gate = torch.nn.ReLU"))
    assert main([str(path), "--output", str(tmp_path / "new")]) == 0
    assert list(temporary.iterdir()) == []

    logs = []
    path.write_text('import os\nos.write(1, b"printed")\nraise ValueError', encoding="utf-8")
    for _ in range(2):
        assert main([str(path), "--output", str(tmp_path / "other")]) == 1
        (log,) = re.findall(r"what torch printed: (.*)\)", capfd.readouterr().err)
        logs.append(Path(log))
    assert logs[0] != logs[1]
    assert [log.stat().st_mode & 0o777 for log in logs] == [0o600, 0o600]
