"""The repository's own models: what is left of them in the program, and what it computes."""

import functools
import hashlib
import tempfile
from pathlib import Path

import pytest
import torch

from tools.pipeline.export.testing import Result, SilentConsole, export_file, run_tool
from tools.pipeline.export.upstream.loaded_program import LoadedProgram
from tools.pipeline.model_file.model_file import ModelFile
from tools.pipeline.train.train import train

_OPERATORS = {
    "softmax/softmax": {"aten::_softmax": 1},
    "add/add_float32": {"aten::add": 1},
    "add/add_int32": {"aten::add": 1},
    "sine/sine": {"aten::linear": 3, "aten::relu": 2},
    "digits/digits": {"aten::convolution": 2, "aten::relu": 2, "torch_fusion::max_pool2d": 2, "aten::linear": 1},
    "phyto_cnn/phyto_cnn": {
        "aten::convolution": 1,
        "aten::relu": 2,
        "torch_fusion::max_pool2d": 1,
        "aten::permute_copy": 1,
        "aten::cat": 1,
        "aten::linear": 2,
        "aten::_softmax": 1,
    },
}


def path_of(name: str) -> Path:
    return Path("models") / f"{name}.py"


@functools.cache
def exported(name: str) -> Result:
    if not ModelFile(path_of(name)).has("train"):
        return export_file(path_of(name))
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "model.weights"
        weights.write_bytes(train(path_of(name), SilentConsole()))
        return export_file(path_of(name), weights)


@pytest.mark.parametrize("name", _OPERATORS)
def test_computes_what_eager_mode_does(name: str) -> None:
    assert exported(name).largest_error() <= 1e-5


@pytest.mark.parametrize("name", _OPERATORS)
def test_holds_the_necessary_operators_only(name: str) -> None:
    assert exported(name).operators == _OPERATORS[name]


@pytest.mark.parametrize("name", _OPERATORS)
def test_plans_no_more_than_what_lives_at_once(name: str) -> None:
    manifest = exported(name).manifest
    assert manifest["planned_buffers"] == [manifest["live_bytes_lower_bound"]]


@pytest.mark.parametrize("name", _OPERATORS)
def test_manifest_says_where_operators_come_from(name: str) -> None:
    for operator in exported(name).manifest["operators"]:
        assert operator["overload"] == "out"
        assert set(operator["dtypes"]) <= {"Float", "Int", "Long"}
        assert 1 <= len(operator["origin"]) <= operator["calls"]
        assert not any("/torch/" in origin or origin.startswith("/") for origin in operator["origin"])


def test_origins_and_work_of_phyto_cnn() -> None:
    manifest = exported("phyto_cnn/phyto_cnn").manifest
    operators = {operator["name"]: operator for operator in manifest["operators"]}
    assert operators["aten::convolution"]["origin"][0].startswith("conv (Conv1d) at models/phyto_cnn/phyto_cnn.py:")
    assert operators["aten::cat"]["origin"][0].startswith("models/phyto_cnn/phyto_cnn.py:")
    assert operators["aten::convolution"]["macs"] == 8 * 96 * 5
    assert operators["aten::linear"]["macs"] == 16 * 12 * 16 + 4 * 192
    assert operators["aten::relu"]["macs"] == 0
    assert manifest["constants_bytes"] == 4 * (8 * 5 + 8 + 12 * 16 + 12 + 4 * 192 + 4)


def test_sine_is_close_to_sine() -> None:
    x = torch.linspace(0, 2 * torch.pi, 501)
    method = LoadedProgram(exported("sine/sine").program)
    y = torch.tensor([method.run(value.reshape(1, 1))[0].item() for value in x])
    assert float((y - torch.sin(x)).abs().mean()) < 0.02


def test_digits_are_recognized() -> None:
    golden = exported("digits/digits").golden
    assert golden["output_0"].shape == (360, 1, 10)
    right = golden["output_0"].reshape(360, 10).argmax(axis=1) == golden["labels"]
    assert right.mean() >= 0.95


def test_digits_holds_out_what_it_does_not_train_on() -> None:
    module = ModelFile(path_of("digits/digits")).module
    held_out, _ = module._split(held_out=True)
    trained_on, _ = module._split(held_out=False)
    assert (len(held_out), len(trained_on)) == (360, 1437)


def digest(folder: Path, hash_seed: int) -> str:
    """Digest of what training sine and exporting phyto_cnn give, in processes of their own."""
    folder.mkdir()
    weights = folder / "sine.weights"
    files = {"program": ".pte", "golden": ".npz", "manifest": ".json", "log": ".log"}
    options = [item for key, end in files.items() for item in (f"--{key}", folder / ("phyto" + end))]
    options += ["--model", path_of("phyto_cnn/phyto_cnn"), "--name", "phyto", "--core", "cortex-m4"]
    results = [
        run_tool("tools.pipeline.train", "--model", path_of("sine/sine"), "--output", weights, hash_seed=hash_seed),
        run_tool("tools.pipeline.export", *options, hash_seed=hash_seed),
    ]
    assert all(result.returncode == 0 for result in results), [result.stderr for result in results]
    outputs = sorted(path for path in folder.iterdir() if path.suffix != ".log")
    return "\n".join(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in outputs)


def test_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    one = digest(tmp_path / "one", hash_seed=1)
    assert one.count("\n") == 3
    assert one == digest(tmp_path / "another folder", hash_seed=2)
