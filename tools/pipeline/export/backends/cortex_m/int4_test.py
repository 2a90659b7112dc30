import functools
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from tools.artifacts.packed_layer.packed_layer import DSP, LINEAR_INT4, MVE
from tools.pipeline.export.backends.cortex_m.int4 import (
    Int4Layer,
    compute,
    factors_of,
    pack_int4,
    round_to_int4,
    unpack_int4,
)
from tools.pipeline.export.options import Options
from tools.pipeline.export.testing import Result, export_source, functions, model_source
from tools.quiet.console import UserError

_CORE = "cortex-m4"
# The first layer has 4-bit integer weights, the second doesn't, and the third can't have any.
_LAYERS = """
self.first = nn.Conv2d(40, 24, 1)
self.first.weight.data = torch.randint(-7, 8, (24, 40, 1, 1)) / 100.0
self.second = nn.Sequential(nn.Linear(24, 13, bias=False), nn.ReLU6())
self.stem = nn.Conv2d(3, 40, 3)
"""
_FORWARD = "return self.second(self.first(torch.relu(self.stem(x))).mean((2, 3)))"
_MORE = """
def calibration_inputs():
    torch.manual_seed(2)
    return [(torch.randn(1, 3, 6, 6),) for _ in range(20)]
"""


@functools.cache
def _exported(core: str, **options: Any) -> Result:
    """The layers, with int4 weights where the options don't say otherwise, exported once for the tests that read it."""
    source = model_source(_FORWARD, "(torch.randn(1, 3, 6, 6),)", _LAYERS) + _MORE
    chosen: dict[str, Any] = {"weight_dtype": "int4"} | options
    with tempfile.TemporaryDirectory() as folder:
        return export_source(Path(folder), source, options=Options(core, "cortex_m", **chosen))


def _weights(result: Result) -> dict[str, str]:
    """Returns the weight schemes of layers by name."""
    assert result.report is not None
    layers = result.report["layers"]
    return {layer["place"].split()[0]: layer["weight"]["scheme"] for layer in layers if "weight" in layer}


@pytest.mark.parametrize("group_size", [32, 0])
@pytest.mark.parametrize("inner", [1, 31, 32, 33, 100])
def test_weights_are_rounded_to_the_nearest_that_int4_has(group_size: int, inner: int) -> None:
    torch.manual_seed(inner)
    weight = torch.randn(5, inner)
    weight[3] = 0
    integers, scales = round_to_int4(weight, group_size)
    _, factors = factors_of(integers)
    steps = (factors * scales[:, None]).repeat_interleave(32, 1)[:, :inner]
    error = (integers * scales[:, None] - weight).abs()
    # Weights that are not clipped have an error of at most half a step.
    inside = (integers / factors.repeat_interleave(32, 1)[:, :inner]).abs() < 7
    assert bool((error <= steps / 2 + 1e-6)[inside].all())
    assert not bool(integers[3].any())
    # Four bits for a normal distribution, whose best uniform quantizer of 16 steps has 20.2 dB (Max, 1960).
    if inner == 100:
        noise = 10 * math.log10(float(weight.square().sum() / error.square().sum()))
        assert noise > (18 if group_size else 16)


def test_what_int4_has_stays_what_it_is() -> None:
    torch.manual_seed(0)
    for group_size in (32, 0):
        exact = torch.randint(-7, 8, (6, 70)).float()
        exact[:, 0] = 7
        integers, scales = round_to_int4(exact / 16, group_size)
        assert torch.allclose(integers * scales[:, None], exact / 16)


def test_groups_have_their_own_scales() -> None:
    torch.manual_seed(0)
    weight = torch.randn(4, 64) * torch.tensor([1.0, 0.05]).repeat_interleave(32)

    def noise(group_size: int) -> float:
        integers, scales = round_to_int4(weight, group_size)
        return float((integers * scales[:, None] - weight)[:, 32:].square().sum())

    assert noise(32) < noise(0) / 20


def test_inputs_that_are_large_are_rounded_for() -> None:
    torch.manual_seed(0)
    weight, energy = torch.randn(8, 64), torch.full((64,), 1e-3)
    energy[::8] = 1

    def noise(given: torch.Tensor | None) -> float:
        integers, scales = round_to_int4(weight, 32, given)
        return float(((integers * scales[:, None] - weight).square() * energy).sum())

    assert noise(energy) < 0.8 * noise(None)


def test_the_mean_of_outputs_stays_what_it_is(tmp_path: Path) -> None:
    """If inputs are about one, an error of the weights is an error of the bias, too, which compensates it."""
    init, inputs = "self.layer = nn.Linear(64, 32, bias=False)", "(1 + torch.rand(1, 64) / 8,)"
    more = functions(calibration_inputs="[(1 + torch.rand(1, 64) / 8,) for _ in range(20)]")
    options = Options("cortex-m4", "cortex_m", weight_dtype="int4")
    result = export_source(tmp_path, model_source("return self.layer(x)", inputs, init) + more, options=options)
    assert result.operators["torch_fusion::linear_int4"] == 1
    # The ratio without correction is 21 dB.
    assert result.decibels() > 30


@pytest.mark.parametrize("arrangement", [DSP, MVE])
@pytest.mark.parametrize(("channels", "inner"), [(1, 1), (4, 32), (5, 8), (7, 33), (3, 63), (13, 100)])
def test_what_is_packed_can_be_unpacked(channels: int, inner: int, arrangement: int) -> None:
    torch.manual_seed(0)
    for largest in (1, 127):
        factors = torch.randint(1, largest + 1, (channels, -(-inner // 32))).repeat_interleave(32, 1)[:, :inner]
        weight = torch.randint(-8, 8, (channels, inner)) * factors
        bias, multipliers = torch.randint(-9, 9, (channels,)), torch.full((channels,), 1 << 30)
        shifts = torch.randint(-31, 0, (channels,))
        layer = Int4Layer(LINEAR_INT4, weight, bias, multipliers, shifts, 3, -4, -100, 90)
        packed = pack_int4(layer, arrangement)
        assert packed is not None
        again = unpack_int4(packed)
        for name, value in vars(layer).items():
            found = getattr(again, name)
            assert torch.equal(found, value) if isinstance(value, torch.Tensor) else found == value, name
        x = torch.randint(-128, 128, (3, inner), dtype=torch.int8)
        assert torch.equal(compute(layer, x), compute(again, x))


def test_layers_whose_sums_are_too_large_are_not_packed() -> None:
    ones = torch.ones(2, dtype=torch.int64)
    layer = Int4Layer(LINEAR_INT4, torch.ones(2, 8), ones << 30, ones << 30, -ones, 0, 0, -128, 127)
    assert pack_int4(layer, DSP) is None
    layer = Int4Layer(LINEAR_INT4, torch.ones(2, 8), ones, ones << 30, 0 * ones, 0, 0, -128, 127)
    assert pack_int4(layer, DSP) is None


@pytest.mark.parametrize("core", [_CORE, "cortex-m55"])
def test_layers_get_int4_weights(core: str) -> None:
    result = _exported(core)
    assert {name for name in result.operators if name.startswith("torch_fusion::")} == {
        "torch_fusion::convolution",
        "torch_fusion::pointwise_int4",
        "torch_fusion::linear_int4",
    }
    assert _weights(result) == {
        "stem": "per channel",
        "first": "int4 per group of 32",
        # The layer has a single group.
        "second.0": "int4 per channel",
    }
    assert result.decibels() > 15
    # The bounds of relu6 are in the integers.
    assert float(result.golden["output_0"].min()) >= 0


def test_layers_are_chosen_by_name() -> None:
    named = _exported(_CORE, weight_dtype="int8", weight_dtypes=(("second", "int4"),))
    assert _weights(named) == {"stem": "per channel", "first": "per channel", "second.0": "int4 per channel"}
    nested = _exported(_CORE, weight_dtypes=(("second", "int4"), ("second.0", "int8")))
    assert _weights(nested)["second.0"] == "per tensor"
    with pytest.raises(UserError, match="weight_dtypes names 'secnd', which is no layer of the model; it has second"):
        _exported(_CORE, weight_dtypes=(("secnd", "int4"),))


def test_auto_leaves_int8_where_the_outputs_need_it() -> None:
    result = _exported(_CORE, weight_dtype="auto", min_snr=36)
    weights = _weights(result)
    # The first layer's are integers of four bits already.
    assert (weights["first"], weights["second.0"]) == ("int4 per group of 32", "per tensor")
    assert any("int4 weights in 1 of 2 places" in line for line in result.said)
    assert result.decibels() > 30
    none = _exported(_CORE, weight_dtype="auto", min_snr=60, io="int8")
    assert not any("int4" in scheme for scheme in _weights(none).values())
