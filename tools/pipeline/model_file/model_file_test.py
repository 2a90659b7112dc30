"""Files that describe several models."""

import copy
import io
import os
import zipfile
from pathlib import Path

import numpy
import pytest
import torch

from tools.pipeline.model_file.model_file import ModelFile
from tools.quiet.console import UserError

_SEVERAL = """
import torch

class Scaled:
    def __init__(self, size):
        self.size = size

    def model(self):
        return torch.nn.Linear(self.size, 2).eval()

    def example_inputs(self):
        return (torch.zeros(1, self.size),)

def entries():
    return {"small": Scaled(3), "large": Scaled(30), "broken": object()}
"""


def model_file(folder: Path, text: str, entry: str = "") -> ModelFile:
    path = folder / "several.py"
    path.write_text(text)
    return ModelFile(path, entry=entry)


def test_an_entry_is_a_model_of_its_own(tmp_path: Path) -> None:
    for entry, size in (("small", 3), ("large", 30)):
        file = model_file(tmp_path, _SEVERAL, entry)
        assert [tensor.shape for tensor in file.example_inputs()] == [(1, size)]
        assert [tuple(parameter.shape) for parameter in file.model().parameters()] == [(2, size), (2,)]
        assert not file.has("train")


@pytest.mark.parametrize(
    ("text", "entry", "message"),
    [
        (_SEVERAL, "smal", r"several.py:\d+: entries\(\) has no 'smal'; set entry to one of broken, large, small"),
        ("", "small", r"there is no function entries\(\)"),
        ("def entries(): return ['small']", "small", r"must return a dict of names to models, .*, not a list"),
        ("import torch\ndef entries(): return {'a': torch.nn.ReLU()}", "a", r"models, objects that have model\(\)"),
        ("def entries(): return {}", "small", r"must return a dict of names to models"),
        ("def entries(): return 1 / 0", "small", r"entries\(\) failed: ZeroDivisionError"),
    ],
)
def test_an_entry_that_is_not_there(tmp_path: Path, text: str, entry: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        model_file(tmp_path, text, entry)


def test_tensors_are_in_the_default_order_of_dimensions(tmp_path: Path) -> None:
    """A data set has its images in another one, which a program doesn't take."""
    text = """
import torch
image = torch.rand(1, 8, 8, 3).permute(0, 3, 1, 2)
def example_inputs(): return (image,)
def calibration_inputs(): return [(image,)]
def evaluation_set(): return [(image,)], torch.zeros(1, dtype=torch.int64)
"""
    file = model_file(tmp_path, text)
    samples = [file.example_inputs(), *file.calibration_inputs(), *file.evaluation_set()[0]]
    assert [tensor.is_contiguous() for sample in samples for tensor in sample] == [True] * 3


def test_a_file_with_a_module_alone_gets_the_function_that_returns_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"class Net it is `def model\(\): return Net\(\).eval\(\)`"):
        model_file(tmp_path, "import torch\nfrom torch.nn import Linear\nclass Net(Linear): pass").model()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm", ["weight_norm", "spectral_norm", "parametrizations.weight_norm"])
def test_a_model_whose_weights_are_computed_can_be_copied(norm: str, tmp_path: Path) -> None:
    text = f"import torch\ndef model(): return torch.nn.utils.{norm}(torch.nn.Linear(3, 3)).eval()"
    module = model_file(tmp_path, text).model()
    torch.testing.assert_close(copy.deepcopy(module)(torch.ones(1, 3)), module(torch.ones(1, 3)))


def test_relative_paths_are_looked_for_beside_the_model_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, here = tmp_path / "mine", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    torch.save(torch.nn.Linear(2, 1).state_dict(), folder / "w.pt")
    torch.save(torch.nn.Linear(2, 1), folder / "whole.pt")
    numpy.save(folder / "x.npy", numpy.ones((3, 1, 2), numpy.float32))
    text = (
        "import numpy, torch\nSIZE = int(numpy.load('x.npy').size)\n"
        "def model():\n    net = torch.nn.Linear(2, 1).eval()\n"
        "    net.load_state_dict(torch.load('w.pt'))\n    return net\n"
        "def example_inputs(): return (torch.zeros(1, 2),)\n"
        "def calibration_inputs():\n    for x in numpy.load('x.npy'): yield (torch.from_numpy(x),)\n"
    )
    file = model_file(folder, text)
    assert torch.equal(file.model().weight, torch.load(folder / "w.pt")["weight"])
    assert len(file.calibration_inputs()) == 3
    assert Path.cwd() == here
    with pytest.raises(UserError, match="'v.pt'. Is 'v.pt' in `data` of the target?"):
        model_file(folder, text.replace("'w.pt'", "'v.pt'")).model()
    with pytest.raises(UserError, match="A state dict holds the weights of a module alone"):
        model_file(folder, text.replace("return net", "return net.state_dict()")).model()
    with pytest.raises(UserError, match="such as a whole module.*weights_only=False"):
        model_file(folder, text.replace("'w.pt'", "'whole.pt'")).model()


@pytest.mark.parametrize("form", ["to_sparse", "to_sparse_csr"])
def test_weights_are_dense_numbers(tmp_path: Path, form: str) -> None:
    text = (
        "import torch\nfrom torchao.quantization import Int8WeightOnlyConfig, quantize_\n"
        "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        torch.manual_seed(0)\n        self.fc = torch.nn.Linear(32, 4)\n        self.again = self.fc\n"
        f"        self.register_buffer('edges', torch.ones(4, 4).tril().{form}())\n"
        "    def forward(self, x): return (self.edges @ self.fc(x).T).T\n"
        "def net():\n    net = Net().eval()\n    quantize_(net, Int8WeightOnlyConfig())\n    return net\n"
        "def model(): return net()\n"
    )
    file, x = model_file(tmp_path, text), torch.randn(3, 32)
    model = file.model()
    assert torch.allclose(model(x), file.module.net()(x), atol=1e-5)
    kinds = {type(tensor) for tensor in (*model.parameters(), *model.buffers())}
    assert kinds == {torch.nn.Parameter, torch.Tensor} and model.edges.layout == torch.strided
    assert model.fc.weight is model.again.weight


@pytest.mark.parametrize(
    ("name", "load"), [("x.pt", "torch.load"), ("x.pt2", "torch.export.load"), ("x.safetensors", "load_file")]
)
def test_a_damaged_file_of_weights_says_what_to_do(tmp_path: Path, name: str, load: str) -> None:
    (tmp_path / name).write_bytes(b"damaged")
    text = f"import json, torch\ndef load_file(x): return json.load(open(x))\ndef model(): return {load}({name!r})\n"
    with pytest.raises(UserError, match=r"model\(\) failed: .*\. If the file is damaged, .* save or download it again"):
        model_file(tmp_path, text).model()


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no function model\(\)"):
        model_file(tmp_path, _SEVERAL, "broken").model()
    with pytest.raises(UserError, match=r"several models: set entry to one of broken, large, small"):
        model_file(tmp_path, _SEVERAL).model()


def test_folders_of_a_workspace_may_be_called_as_installed_packages_are(tmp_path, monkeypatch) -> None:
    for name, source in {
        "tools/__init__.py": "",
        "tools/own_sizes.py": "SIZE = 3",
        "numpy/own/layers.py": "import torch\nfrom tools.own_sizes import SIZE\nlayer = torch.nn.Linear(SIZE, 2)",
        "model.py": "from numpy.own.layers import layer\ndef model():\n    return layer.eval()",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    monkeypatch.chdir(tmp_path)
    assert ModelFile(Path("model.py")).model().in_features == 3


class _RunsCode:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self._folder),)


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("sample_inputs/model.pt", "", ""),
        ("weights/weight_0", '"use_pickle": false', '"use_pickle": true'),
        ("constants/opaque_obj_0", '"config": {}', '"config": {"x": {"path_name": "opaque_obj_0"}}'),
        ("aotinductor/model/model.so", "", ""),
        ("extra/x", '"expr_str": "Symbol(', '"expr_str": "sympify.__globals__, Symbol('),
        ("extra/x", '"expr_str": "Symbol(', '"expr_str": "preview('),
        ("extra/x", r"\"context\": \"null\"", r"\"context\": \"{\\\"__enum__\\\": true}\""),
    ],
)
def test_an_exported_program_runs_no_code(tmp_path: Path, part: str, old: str, new: str) -> None:
    shapes = ({0: torch.export.Dim("rows", min=2, max=8)},)
    net = torch.nn.Linear(4, 2)
    torch.export.save(torch.export.export(net, (torch.ones(3, 4),), dynamic_shapes=shapes), tmp_path / "good.pt2")
    evil = io.BytesIO()
    torch.save((_RunsCode(tmp_path / "ran"),), evil)
    with zipfile.ZipFile(tmp_path / "good.pt2") as good, zipfile.ZipFile(tmp_path / "evil.pt2", "w") as bad:
        members = {name: good.read(name) for name in good.namelist()}
        assert any(old.encode() in data for data in members.values())
        for name, data in (members | {f"good/data/{part}": evil.getvalue()}).items():
            bad.writestr(name, data.replace(old.encode(), new.encode()) if old and name.endswith(".json") else data)
    text = f"import torch\ndef model(): return torch.export.load({str(tmp_path / 'NAME.pt2')!r}).module()\n"
    assert model_file(tmp_path, text.replace("NAME", "good")).model()(torch.ones(3, 4)).shape == (3, 2)
    with pytest.raises(UserError, match=r"failed: .*evil.pt2 has more than tensors.* as example inputs$"):
        model_file(tmp_path, text.replace("NAME", "evil")).model()
    assert not (tmp_path / "ran").exists()
