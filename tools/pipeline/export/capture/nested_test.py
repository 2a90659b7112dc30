"""Models that take and return dicts, tuples in them, and keywords."""

from pathlib import Path

import pytest
import torch

from tools.pipeline.export.options import Options
from tools.pipeline.export.testing import Result, export_source, functions, model_source, run_program
from tools.quiet.console import UserError

_MODEL = """
import torch
from torch import Tensor, nn

class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(4, 4)

    def forward(self, x, features, mask=None):
        mean, deviation = features["statistics"]
        y = self.scale((x - mean) / deviation) * features["gain"]
        y = y if mask is None else y * mask
        return {"scores": y, "features": {"mean": y.mean(-1), "ends": (y[:, 0], y[:, -1])}}

def model():
    torch.manual_seed(0)
    return Head().eval()
"""
_FEATURES = '{"statistics": (torch.randn(1, 4), torch.rand(1, 4) + 1), "gain": torch.rand(1, 1)}'
_POSITIONAL = f"\ndef example_inputs():\n    return (torch.randn(1, 4), {_FEATURES})\n"
_KEYWORDS = f"""
def example_inputs():
    return {{"mask": torch.ones(1, 4), "features": {_FEATURES}, "x": torch.randn(1, 4)}}

def calibration_inputs():
    # In any order of keys.
    samples = [example_inputs() | {{"mask": torch.rand(1, 4)}} for _ in range(4)]
    return [dict(reversed(sample.items())) for sample in samples]
"""
_OUTPUTS = ["scores", "features_mean", "features_ends_0", "features_ends_1"]


def _names(result: Result, kind: str) -> list[str]:
    return [entry["name"] for entry in result.manifest[kind]]


def test_tensors_in_dicts_are_inputs_and_outputs_with_names(tmp_path: Path) -> None:
    result = export_source(tmp_path, _MODEL + _POSITIONAL)
    assert _names(result, "inputs") == ["x", "features_statistics_0", "features_statistics_1", "features_gain"]
    assert _names(result, "outputs") == _OUTPUTS
    assert result.largest_error() < 1e-6
    # The user's own layer and line, whatever calls it.
    (linear,) = [each for each in result.manifest["operators"] if each["name"] == "aten::linear"]
    assert linear["origin"][0].startswith("scale (Linear) at ")


def test_dataclasses_and_named_tuples_are_inputs(tmp_path: Path) -> None:
    forward = "return x['now'].image * pair.gain if x['now'].mask is None else x"
    inputs = "({'now': Camera(torch.randn(1, 4), None)}, Pair(torch.ones(1)))"
    classes = """
import dataclasses
import typing
import torch
@dataclasses.dataclass
class Camera:
    image: torch.Tensor
    mask: torch.Tensor | None
class Pair(typing.NamedTuple):
    gain: torch.Tensor
"""
    result = export_source(tmp_path, classes + model_source(forward, inputs, arguments="x, pair"))
    assert _names(result, "inputs") == ["x_now_image", "pair_gain"]
    assert result.largest_error() < 1e-6


@pytest.mark.parametrize("options", [Options(), Options(core="cortex-m4", backend="cortex_m")], ids=["float", "int8"])
def test_keywords_are_inputs_in_the_order_of_the_example(options: Options, tmp_path: Path) -> None:
    result = export_source(tmp_path, _MODEL + _KEYWORDS, options=options)
    names = ["mask", "features_statistics_0", "features_statistics_1", "features_gain", "x"]
    assert _names(result, "inputs") == names
    assert _names(result, "outputs") == _OUTPUTS
    if options.backend == "portable":
        inputs = [torch.from_numpy(result.golden[f"input_{i}"][0].copy()) for i in range(5)]
        masked = run_program(result.program, [torch.zeros(1, 4), *inputs[1:]])
        assert not masked[0].any()


@pytest.mark.parametrize(
    ("example", "says"),
    [
        ('(torch.ones(1), {"a_b": torch.ones(1), "a": {"b": torch.ones(1)}})', "two tensors 'other_a_b' would have"),
        ('(torch.ones(1), {"a": torch.ones(1), "A": torch.ones(1)})', "'other_a' and 'other_A' would have"),
        ('(torch.ones(1), {"a": torch.ones(1), "b": 3.0})', "element 1.b is float 3.0. A program is made for one such"),
        ("(torch.ones(1), None)", "element 1 is None. Leave it out; a dict of keywords"),
        ("{3: torch.ones(1)}", "a dict of keywords, which are strings"),
        ("(torch.ones(1), {'b': torch.ones(1)})\n\n"
         "def calibration_inputs():\n    return [(torch.ones(1), {'a': torch.ones(1)})]",
         r"sample 0 is a tuple \(float32\[1\], a dict \(a: float32\[1\]\)\), example_inputs\(\) is"),
    ],
)  # fmt: skip
def test_what_names_no_tensors_is_refused(example: str, says: str, tmp_path: Path) -> None:
    model = model_source("return x + x", example, arguments="x, other=None")
    options = Options(core="cortex-m4", backend="cortex_m") if "calibration" in example else Options()
    with pytest.raises(UserError, match=says):
        export_source(tmp_path, model, options=options)


_INT8 = Options(core="cortex-m4", backend="cortex_m")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        ("torch.jit.script(net)", r"model\(\) returned a TorchScript module.*\.pt2.*torch.export.save"),
        ("torch.jit.trace(net, torch.ones(1, 4))", r"model\(\) returned a TorchScript module"),
        ("torch.nn.Sequential(torch.jit.script(net)).eval()", r"a module whose 0 is a TorchScript.*; leave out"),
    ],
)
def test_torchscript_is_refused_with_the_way_to_go(make: str, message: str, tmp_path: Path) -> None:
    source = f"""
import torch

def model():
    net = torch.nn.Linear(4, 2).eval()
    return {make}

def example_inputs():
    return (torch.ones(1, 4),)
"""
    with pytest.raises(UserError, match=f"my_model.py:4: .*{message}"):
        export_source(tmp_path, source)


def test_functions_that_are_batched_equal_eager(tmp_path: Path) -> None:
    forward = "return torch.vmap(lambda row: self.layer(row).tanh() @ self.row)(x)"
    init = "self.layer, self.row = nn.Linear(3, 8), nn.Parameter(torch.randn(8))"
    assert export_source(tmp_path, model_source(forward, "(torch.randn(5, 3),)", init)).largest_error() < 1e-6


@pytest.mark.parametrize(
    "made",
    [
        "torch.compile(net)",
        "nn.Sequential(torch.compile(net))",
        "torch.export.export(net, example_inputs())",
        "nn.Sequential(net, *(norm(nn.Linear(2, 2)) for norm in (p.orthogonal, p.weight_norm)))",
    ],
)
def test_modules_that_pytorch_made_of_others_are_exported(made: str, tmp_path: Path) -> None:
    source = f"""
import torch
from torch import nn
from torch.nn.utils import parametrizations as p

def model():
    torch.manual_seed(0)
    net = nn.Linear(4, 2).eval()
    made = {made}
    return made.eval() if isinstance(made, nn.Module) else made

def example_inputs():
    return (torch.ones(1, 4),)
"""
    result = export_source(tmp_path, source)
    assert set(result.operators) == {"aten::linear"}


def test_distributions_have_no_checks_of_values_in_a_program(tmp_path: Path) -> None:
    forward = """
normal, choice = torch.distributions.Normal(x, x.exp()), torch.distributions.Categorical(logits=x)
return normal.log_prob(x.sin()), choice.log_prob(choice.probs.argmax(-1)), choice.entropy()
"""
    result = export_source(tmp_path, model_source(forward, "(torch.linspace(-1, 1, 4),)"))
    assert len(result.manifest["outputs"]) == 3


def test_memory_that_is_written_later_has_no_range_of_its_own_in_int8(tmp_path: Path) -> None:
    forward = """
y = self.fc(x)
out = torch.empty_like(y)
out[:, :3] = y[:, 3:]
out[:, 3:] = y[:, :3]
return out
"""
    source = model_source(forward, "(torch.linspace(-1, 1, 4).reshape(1, 4),)", "self.fc = nn.Linear(4, 6)")
    source += functions(calibration_inputs="[example_inputs()]")
    result = export_source(tmp_path, source, options=_INT8)
    assert abs(result.golden["eager_0"] - result.golden["output_0"]).max() < 0.05


_NAMED = """
from dataclasses import dataclass
from typing import NamedTuple
import torch
from torch import Tensor, nn

class Pair(NamedTuple):
    scores: Tensor
    hidden: Tensor

@dataclass
class Result:
    pair: Pair
    best: object
    loss: Tensor | None = None
"""


@pytest.mark.parametrize(
    ("returned", "names", "options"),
    [
        ("x.max(1)", ["values", "indices"], Options()),
        ("(x + 1, None)", ["output_0"], Options()),
        ("dict(a=Pair(None, x + 1), b=None, c=[None, (x * 2, None)])", ["a_hidden", "c_0_0"], _INT8),
        ("(x + 1, x.topk(2))", ["output_0", "output_1_values", "output_1_indices"], Options()),
        ("Result(Pair(x + 1, x * 2), x.sort(0))", ["pair_scores", "pair_hidden", "best_values", "best_indices"], _INT8),
    ],
)
def test_fields_of_named_tuples_and_dataclasses_are_outputs(returned, names, options, tmp_path) -> None:
    source = _NAMED + model_source(f"return {returned}", "(torch.randn(3, 4),)")
    result = export_source(tmp_path, source, options=options)
    assert _names(result, "outputs") == names
