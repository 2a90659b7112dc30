"""The repository's own models: what the program computes, and what the manifest says of it."""

import functools
import json
import os
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from tools.pipeline.export.testing import Result
from tools.pipeline.export.upstream.loaded_program import LoadedProgram
from tools.pipeline.model_file.model_file import ModelFile

_MODELS = ("softmax", "add_float32", "add_int32", "sine", "digits", "phyto_cnn")
_FILES = {Path(file).name: Path(file) for file in os.environ["PROGRAMS"].split()}


@functools.cache
def exported(name: str) -> Result:
    """What the build has exported."""
    program, golden, manifest = (_FILES[name + end] for end in (".pte", ".golden.npz", ".manifest.json"))
    with numpy.load(golden) as arrays:
        return Result(program.read_bytes(), dict(arrays), json.loads(manifest.read_text(encoding="utf-8")), [], None)


@pytest.mark.parametrize("name", _MODELS)
def test_computes_what_eager_mode_does(name: str) -> None:
    assert exported(name).largest_error() <= 1e-5


@pytest.mark.parametrize("name", _MODELS)
def test_plans_no_more_than_what_lives_at_once(name: str) -> None:
    manifest = exported(name).manifest
    assert manifest["planned_buffers"] == [manifest["live_bytes_lower_bound"]]


@pytest.mark.parametrize("name", _MODELS)
def test_manifest_says_where_operators_come_from(name: str) -> None:
    for operator in exported(name).manifest["operators"]:
        assert operator["overload"] == "out"
        assert set(operator["dtypes"]) <= {"Float", "Int", "Long"}
        assert 1 <= len(operator["origin"]) <= operator["calls"]
        assert not any("/torch/" in origin or origin.startswith("/") for origin in operator["origin"])


def test_origins_and_work_of_phyto_cnn() -> None:
    manifest = exported("phyto_cnn").manifest
    operators = {operator["name"]: operator for operator in manifest["operators"]}
    assert operators["aten::convolution"]["origin"][0].startswith("conv (Conv1d) at models/phyto_cnn/phyto_cnn.py:")
    assert operators["aten::cat"]["origin"][0].startswith("models/phyto_cnn/phyto_cnn.py:")
    assert operators["aten::convolution"]["macs"] == 8 * 96 * 5
    assert operators["aten::linear"]["macs"] == 16 * 12 * 16 + 4 * 192
    assert operators["aten::relu"]["macs"] == 0
    assert manifest["constants_bytes"] == 4 * (8 * 5 + 8 + 12 * 16 + 12 + 4 * 192 + 4)


def test_sine_is_close_to_sine() -> None:
    x = torch.linspace(0, 2 * torch.pi, 501)
    method = LoadedProgram(exported("sine").program)
    y = torch.tensor([method.run(value.reshape(1, 1))[0].item() for value in x])
    assert float((y - torch.sin(x)).abs().mean()) < 0.02


def test_digits_are_recognized() -> None:
    golden = exported("digits").golden
    assert golden["output_0"].shape == (360, 1, 10)
    right = golden["output_0"].reshape(360, 10).argmax(axis=1) == golden["labels"]
    assert right.mean() >= 0.95


def test_digits_holds_out_what_it_does_not_train_on() -> None:
    module: Any = ModelFile(Path("models/digits/digits.py")).module
    held_out, _ = module._split(held_out=True)
    trained_on, _ = module._split(held_out=False)
    assert (len(held_out), len(trained_on)) == (360, 1437)
