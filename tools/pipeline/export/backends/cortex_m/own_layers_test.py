"""Normalization and recurrent layers in int8, in the forms that models have them in."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tools.pipeline.export.backends.cortex_m import recurrent
from tools.pipeline.export.options import Options
from tools.pipeline.export.testing import Result, export_source, model_source

_BORDER = {"cortex_m::quantize_per_tensor": 1, "cortex_m::dequantize_per_tensor": 1}


def _exported(folder: Path, forward: str, inputs: str, init: str, **options: Any) -> Result:
    source = model_source(forward, inputs, init)
    return export_source(folder, source, options=Options("cortex-m4", "cortex_m", **options))


_WRITTEN = {
    "RMSNorm of Llama": ("x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)", "self.a * y"),
    "RMSNorm with a root": ("x / torch.sqrt((x * x).mean(-1, True) + 1e-6)", "y * (1 + self.a)"),
    "variance": ("(x - x.mean(-1, True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()", "y * self.a"),
    "deviation": ("self.a * (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + 1e-6)", "y + self.b"),
    "mean square of differences": (
        "(x - x.mean(-1, True)) * ((x - x.mean(-1, True)) ** 2).mean(-1, True).add(1e-5).rsqrt()", "self.b + y * self.a"
    ),
    "channels of an image": (
        "((z := x.view(2, 16, 3, 1)) - z.mean(1, True)) / ((z - z.mean(1, True)).pow(2).mean(1, True) + 1e-6).sqrt()",
        "self.a[:, None, None] * y + self.b[:, None, None]",
    ),
    "Euclidean norm": ("nn.functional.normalize(x, dim=-1)", "y * self.a"),
    "Euclidean norm of channels": ("nn.functional.normalize(x.view(2, 16, 3, 1))", "y"),
    "functional": ("torch.nn.functional.layer_norm(x, (3, 16))", "y"),
    "module": ("nn.LayerNorm(16)(x)", "y"),
}  # fmt: skip


def test_normalization_is_one_operator(tmp_path: Path) -> None:
    init = "self.a = nn.Parameter(torch.rand(16) + 0.5); self.b = nn.Parameter(torch.randn(16))"
    lines = [f"y = {normalized}; results.append({rest})" for normalized, rest in _WRITTEN.values()]
    forward = "\n".join(["results = []", *lines, "return tuple(results)"])
    result = _exported(tmp_path, forward, "(torch.randn(2, 3, 16) * 2 + 1,)", init)
    kept = {name: count for name, count in result.operators.items() if "transpose" not in name and "copy" not in name}
    assert kept == {
        "cortex_m::quantize_per_tensor": 1,
        "torch_fusion::quantized_layer_norm": len(_WRITTEN),
        "cortex_m::dequantize_per_tensor": len(_WRITTEN),
    }
    for index, form in enumerate(_WRITTEN):
        assert result.decibels(index) > 35, form


def test_what_only_looks_like_normalization_is_none(tmp_path: Path) -> None:
    forward = "return (x - x.mean(1, True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)"
    result = _exported(tmp_path, forward, "(torch.randn(2, 3, 16),)", "pass")
    assert not any("norm" in name for name in result.operators)


@pytest.mark.parametrize("norm", ["nn.GroupNorm(4, 16)", "nn.InstanceNorm2d(16, affine=True)"])
def test_groups_of_channels_are_normalized_where_they_lie(norm: str, tmp_path: Path) -> None:
    init = f"self.conv = nn.Conv2d(3, 16, 3); self.norm = {norm}; self.last = nn.Conv2d(16, 4, 1)"
    forward = "return self.last(self.norm(self.conv(x)))"
    result = _exported(tmp_path, forward, "(torch.randn(1, 3, 8, 8),)", init)
    assert result.operators == {**_BORDER, "torch_fusion::convolution": 2, "torch_fusion::quantized_group_norm": 1}
    assert result.decibels() > 30


def test_images_come_in_the_order_in_which_weights_lie(tmp_path: Path) -> None:
    init = "self.conv = nn.Conv2d(3, 4, 3); self.norm = nn.LayerNorm([4, 6, 6])"
    init += "; nn.init.normal_(self.norm.weight)"
    result = _exported(tmp_path, "return self.norm(self.conv(x))", "(torch.randn(1, 3, 8, 8),)", init)
    assert result.operators["torch_fusion::quantized_layer_norm"] == 1
    # There and back, as a convolution gives and takes them.
    assert result.operators["torch_fusion::transposed"] == 2
    assert result.decibels() > 30


def test_a_softmax_of_many_numbers_is_by_a_table(tmp_path: Path) -> None:
    forward = "return (x @ x.transpose(1, 2)).softmax(-1) @ x"
    result = _exported(tmp_path, forward, "(torch.randn(2, 24, 16),)", "pass")
    assert result.operators["torch_fusion::quantized_softmax"] == 1
    assert result.decibels() > 30
    # The 512 bytes of the table are only used in packed programs, and for more results than those of a small
    # classifier.
    for rows, packed in ((24, False), (3, True)):
        result = _exported(tmp_path, forward, f"(torch.randn(2, {rows}, 16),)", "pass", packed=packed)
        assert result.operators["cortex_m::softmax"] == 1
        assert result.decibels() > 30


_MASKED = {
    "sum with infinity": "scores + torch.full((12, 12), -torch.inf).triu(1)",
    "scaled sum": "scores * 0.3 + torch.full((12, 12), torch.finfo(torch.float32).min).triu(1)",
    "masked_fill": "(scores / 12 ** 0.5).masked_fill(torch.ones(12, 12).tril() == 0, float('-inf'))",
    "where": "torch.where(torch.ones(12, 12).tril().bool(), scores, torch.tensor(-1e4))",
    "product of GPT-1": "scores * torch.ones(12, 12).tril() - 1e4 * (1 - torch.ones(12, 12).tril())",
    "padding": "scores.masked_fill(torch.arange(12) > 8, -1e9)",
    "twice, and nothing": (
        "scores.masked_fill(torch.arange(12) > 8, -1e9).masked_fill(torch.arange(12) > 99, -1e9)"
        "- (torch.arange(12) < 3) * 1e9"
    ),
    "windows": "(scores[None] / 9 + torch.tensor([0., 0., -100.]).repeat(8).view(1, 2, 1, 1, 12)).flatten(0, 1)",
}  # fmt: skip


# Rows that see nothing, masks that vary, numbers that don't exclude, or not scores that may be 150 above others.
_NOT_MASKED = {
    "blind": "scores.masked_fill(torch.arange(24).view(24, 1) == 5, -1e9)",
    "computed": "scores.masked_fill(x[..., :1] > 3, -1e9)",
    "not excluded": "scores + torch.full((24, 24), -5.0).triu(1)",
    "beyond": "50 * scores + torch.full((24, 24), -100.0).triu(1)",
}


def test_a_mask_is_left_out_of_a_softmax_however_it_is_written(tmp_path: Path) -> None:
    init = "self.a, self.b = nn.Linear(8, 16), nn.Linear(8, 16)"
    results = [f"torch.softmax({form}, -1) @ k" for form in _MASKED.values()]
    forward = f"""
q, k = (layer(x).view(2, 12, 2, 8).transpose(1, 2) for layer in (self.a, self.b))
scores = q @ k.transpose(-2, -1)
return {", ".join(results)}
"""
    result = _exported(tmp_path, forward, "(torch.randn(2, 12, 8) * 3,)", init)
    assert result.operators["torch_fusion::quantized_masked_softmax"] == len(_MASKED)
    floats = ("_softmax", "bmm", "add", "mul", "div", "where", "masked_fill")
    assert not {f"aten::{name}" for name in floats} & set(result.operators)
    for index, form in enumerate(_MASKED):
        assert result.decibels(index) > 25, form


def test_what_is_no_mask_is_added(tmp_path: Path) -> None:
    results = [f"torch.softmax({form}, -1) @ x" for form in _NOT_MASKED.values()]
    forward = f"scores = x @ x.transpose(1, 2) / 4; return {', '.join(results)}"
    result = _exported(tmp_path, forward, "(torch.randn(1, 24, 16),)", "pass")
    assert "torch_fusion::quantized_masked_softmax" not in result.operators
    for index, form in enumerate(_NOT_MASKED):
        assert result.decibels(index) > 25, form


@pytest.mark.parametrize(
    ("layer", "operator", "calls"),
    [("nn.GRU(8, 24, bias=False)", "gru", 1), ("nn.LSTM(8, 12, 2, bidirectional=True, batch_first=True)", "lstm", 4)],
)
def test_recurrent_layers_are_one_operator_each(layer: str, operator: str, calls: int, tmp_path: Path) -> None:
    result = _exported(tmp_path, "return self.layer(x)[0]", "(torch.randn(9, 3, 8) * 2,)", f"self.layer = {layer}")
    assert {name: count for name, count in result.operators.items() if name != "aten::cat"} == {
        **_BORDER, f"torch_fusion::quantized_{operator}": calls,
    }  # fmt: skip
    assert result.decibels() > 30


@pytest.mark.parametrize(("cell", "state"), [("GRUCell", "h"), ("LSTMCell", "h[0]")])
def test_cells_are_layers_of_one_step(cell: str, state: str, tmp_path: Path) -> None:
    init = f"self.cell = nn.{cell}(8, 12); self.linear = nn.Linear(12, 3)"
    forward = f"h = self.cell(x[0]); h = self.cell(x[1], h); return self.linear({state})"
    result = _exported(tmp_path, forward, "(torch.randn(2, 3, 8),)", init)
    assert result.operators[f"torch_fusion::quantized_{cell.removesuffix('Cell').lower()}"] == 2
    assert "torch_fusion::linear" in result.operators
    assert result.decibels() > 30


def test_states_that_a_model_takes_and_returns_stay_in_floating_point(tmp_path: Path) -> None:
    forward = "y, h = self.layer(x[0], x[1]); return y, h"
    inputs = "((torch.randn(4, 1, 8), torch.rand(1, 1, 6) * 2 - 1),)"
    result = _exported(tmp_path, forward, inputs, "self.layer = nn.GRU(8, 6)")
    assert result.operators == {**_BORDER, "torch_fusion::quantized_gru": 1}


@pytest.mark.parametrize("gates", [3, 4])
def test_a_sequence_may_be_fed_in_pieces(gates: int) -> None:
    torch.manual_seed(0)
    layer = (nn.GRU if gates == 3 else nn.LSTM)(6, 10)
    weights = (layer.weight_ih_l0.detach(), layer.weight_hh_l0.detach())
    made = recurrent.constants(gates, *weights, torch.randn(40), 0.02, 14)
    assert made is not None
    run: Any = recurrent.quantized_gru if gates == 3 else recurrent.quantized_lstm
    tables = (made.weights, made.factors)
    x = torch.randint(-128, 128, (12, 2, 6), dtype=torch.int8)
    start = [torch.zeros(2, 10) for _ in range(gates - 2)]

    def step(part: torch.Tensor, states: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        out, *results = run(part, *states, *tables, 3, 14, 8192, 20, 0, False, False)
        return out, results[:-1]

    whole, last = step(x, start)
    parts, states = [], start
    for part in x.split(5):
        out, states = step(part, states)
        parts.append(out)
    assert torch.equal(torch.cat(parts), whole)
    assert all(map(torch.equal, states, last))
