"""Tests the export to VGF: delegates, and operators that stay on portable kernels with the reasons."""

import contextlib
import os
import sys
from pathlib import Path

import numpy
import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.schema import KernelCall, Program, ScalarType, Tensor
from tosa.Op import Op
from tosa.TosaGraph import TosaGraph

from tools.pipeline.export.backends.arm import delegates, forms
from tools.pipeline.export.backends.vgf import lower
from tools.pipeline.export.capture.reference import WrongReference
from tools.pipeline.export.options import Options
from tools.pipeline.export.testing import Result, export_source, functions, model_source
from tools.quiet.console import UserError

_IMAGE = "(torch.randn(1, 4, 12, 12),)"
_CONVOLUTIONS = "self.first, self.second = nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3)"


def _export(folder: Path, forward: str, inputs: str = _IMAGE, init: str = _CONVOLUTIONS, io: str = "int8") -> Result:
    return export_source(folder, model_source(forward, inputs, init), options=Options("cortex-m55", "vgf", io))


def _program(result: Result) -> Program:
    return deserialize_pte_binary(result.program).program


def _delegates(result: Result) -> int:
    return len(_program(result).execution_plan[0].delegates)


def _left(result: Result) -> list[str]:
    start = "stays on portable kernels: "
    return [line.partition(start)[2] for line in result.said if start in line]


def _check_outputs(result: Result) -> None:
    for index, output in enumerate(result.manifest["outputs"]):
        values, eager = (result.golden[f"{name}_{index}"].astype(numpy.float64) for name in ("output", "eager"))
        values = (values - output["zero_point"]) * output["scale"]
        assert numpy.abs(values - eager).max() < 0.05 * numpy.abs(eager).max()


def test_a_program_in_floating_point_is_held_to_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(program):
        program.state_dict["first.bias"] = torch.nn.Parameter(program.state_dict["first.bias"] + 1)

    monkeypatch.setattr(forms, "compose_layers", wrong)
    with pytest.raises(WrongReference, match=r"output 0 .* of the program is not .* after .*compose_layers"):
        _export(tmp_path, "return self.first(x)", io="float32")


def test_scores_beside_a_mask_may_exceed_those_of_calibration(tmp_path: Path) -> None:
    """The module that is quantized limits them to the range that int8 will have."""
    forward = "return ((x @ x.transpose(1, 2)) + torch.full((6, 6), -1e9).triu(1)).softmax(-1) @ x"
    source = model_source(forward, "(torch.randn(1, 6, 8),)")
    source += functions(calibration_inputs="[(torch.randn(1, 6, 8) / 2,)]")
    result = export_source(tmp_path, source, options=Options("cortex-m55", "vgf", "int8"))
    assert result.decibels() > 5


@pytest.mark.parametrize("io", ["int8", "float32"])
def test_operators_of_one_dtype_take_integers_of_64_bits(tmp_path: Path, io: str) -> None:
    """ExecuTorch makes some of their operands 32-bit integers."""
    forward = """
at, none = self.first(x).mean((2, 3)).argmax(1), torch.zeros(4, dtype=torch.int64)
put = none.clone()
put[at] = at + 1
ones = torch.ones_like(at)
return none.scatter(0, at, at), none.scatter_add(0, at, ones), none.index_add(0, at, (at > 1).long()), put
"""
    result = _export(tmp_path, forward, io=io)
    for index in range(4):
        assert numpy.array_equal(result.golden[f"output_{index}"], result.golden[f"eager_{index}"])
        assert result.golden[f"output_{index}"].dtype == numpy.int64


@pytest.mark.parametrize("enabled", [False, True])
def test_a_region_of_autocast_is_delegated_with_what_is_around_it(tmp_path: Path, enabled: bool) -> None:
    """Transformers compute positions in one that isn't enabled; one that is would compute in bfloat16."""
    result = _export(
        tmp_path, f"with torch.autocast('cpu', enabled={enabled}):\n    x = self.first(x)\nreturn self.second(x)"
    )
    assert _delegates(result) == 1
    assert any("autocast() is left out" in text for text in result.said) == enabled
    _check_outputs(result)


def test_a_layer_that_executorch_cannot_lower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A portable kernel computes it, with the passes' message as the reason, and VGF computes the rest."""
    monkeypatch.setattr(delegates, "tables_before_pools", contextlib.nullcontext)
    result = _export(
        tmp_path, "y = torch.tanh(self.first(x))\ny = nn.functional.avg_pool2d(y, 2)\nreturn self.second(y)"
    )
    assert _delegates(result) == 2
    (note,) = _left(result)
    assert note.startswith("avg_pool2d: my_model.py:12: ExecuTorch takes it for VGF and can't lower it then: ")
    assert "AVG_POOL2D requires" in note and "\n" not in note
    _check_outputs(result)


def test_what_the_model_converter_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may print an error or abort; its other output, and the name of a deleted file, are irrelevant to users."""
    original = lower.vgf_backend.vgf_compile

    def compile_badly(tosa: bytes, flags: list[str]) -> bytes:
        block = TosaGraph.GetRootAs(tosa, 0).Regions(0).Blocks(0)
        operators = {block.Operators(index).Op() for index in range(block.OperatorsLength())}
        return original(b"nothing" if Op.SIGMOID in operators else tosa, flags)

    monkeypatch.setattr(lower.vgf_backend, "vgf_compile", compile_badly)
    forward = "y = self.first(x)\ny = torch.sigmoid(y)\nreturn self.second(y)"
    result = _export(tmp_path, forward, io="float32")
    assert _delegates(result) == 2
    (note,) = _left(result)
    said = "ERROR: TOSA graph data is invalid, should start with TOSA, has noth; Fail to load TOSA file"
    assert note == f"sigmoid: my_model.py:12: Arm's model converter can't compile it: {said}"


@pytest.mark.parametrize("io", ["float32", "int8"])
def test_what_ends_the_model_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, io: str) -> None:
    program = tmp_path / "model-converter"
    program.write_text(f"#!{sys.executable}\nimport os\nos.abort()\n")
    program.chmod(0o755)
    monkeypatch.setattr(lower, "_converter", lambda: program)
    result = _export(tmp_path, "return torch.relu(self.first(x))", io=io)
    assert _delegates(result) == 0
    assert all(note.endswith("Arm's model converter can't compile it: it ended with SIGABRT") for note in _left(result))
    assert _left(result)


def test_what_ends_the_reference_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The golden outputs are computed all the same."""
    monkeypatch.setattr(delegates, "_reference", lambda *_: os.abort())
    result = _export(tmp_path, "return torch.relu(self.first(x))")
    assert _delegates(result) == 0
    reason = "the TOSA reference model, which the golden outputs are of, can't compute it: it ended with SIGABRT"
    assert _left(result) and all(note.endswith(reason) for note in _left(result))
    _check_outputs(result)


def test_portable_kernels_get_images_in_the_default_order(tmp_path: Path) -> None:
    """Delegates have channels-last images, of which ExecuTorch's kernels would compute wrong numbers."""
    forward = (
        "y = self.first(x)\n"
        "z = torch.sort(y, 1)[0]\n"
        "z = torch.sort(z, 2)[0]\n"
        "return self.second(z), torch.sort(y.flatten(2), 2)[0]"
    )
    plan = _program(_export(tmp_path, forward)).execution_plan[0]
    copies = 0
    for instruction in plan.chains[0].instructions:
        call = instruction.instr_args
        if not isinstance(call, KernelCall):
            continue
        if plan.operators[call.op_index].name == "dim_order_ops::_to_dim_order_copy":
            copies += 1
            continue
        for place in call.args:
            value = plan.values[place].val
            if isinstance(value, Tensor):
                assert list(value.dim_order) == sorted(value.dim_order)
    # No value is copied back and forth between the two orders.
    assert 1 <= copies <= 2


def test_the_layers_are_named_that_make_an_int8_program_useless(tmp_path: Path) -> None:
    forward = "return self.conv(torch.log((x * self.sizes).square().mean(1, keepdim=True) + 1e-8) + 9)"
    init = "self.conv, self.sizes = nn.Conv2d(1, 4, 3), nn.Buffer(torch.logspace(-3, 0, 12))"
    result = _export(tmp_path, forward, init=init)
    (note,) = (text for text in result.said if "less than 15 dB. Most of the noise is made at" in text)
    assert "my_model.py:1" in note and 'io = "float32", with which nothing is quantized, calibration' in note


@pytest.mark.parametrize(
    ("query", "options", "io"), [("x", ", is_causal=True", "float32"), ("x[0, :, :3]", "", "int8")]
)
def test_attention_with_a_causal_mask_or_without_heads(query: str, options: str, io: str, tmp_path: Path) -> None:
    forward = (
        f"query = {query}; keys = x if query.dim() == 4 else x[0]\n"
        f"return nn.functional.scaled_dot_product_attention(query, keys, self.layer(keys){options})"
    )
    result = _export(tmp_path, forward, "(torch.randn(1, 2, 6, 8),)", "self.layer = nn.Linear(8, 8)", io)
    assert not result.operators and not _left(result)


_WIDE_INDICES = "its indices are of 64 bits, VGF's of 32"


@pytest.mark.parametrize(
    ("is_known", "reasons"),
    [
        (True, (_WIDE_INDICES,)),
        # ExecuTorch 1.5 leaves it to portable kernels by itself.
        (False, ("its result is of 64-bit integers, which VGF has not", _WIDE_INDICES)),
    ],
)
def test_what_the_runtime_would_not_take(tmp_path, monkeypatch, is_known, reasons) -> None:
    """PyTorch's indices have 64 bits, and VGF's 32: the runtime refuses to copy the one to the other."""
    if not is_known:
        monkeypatch.setattr(lower._IsNarrow, "is_node_supported", lambda *_: True)
    result = _export(tmp_path, "y = self.first(x)\nreturn self.second(y).argmax(1), y")
    assert result.operators["aten::argmax"] == 1
    assert "aten::convolution" not in result.operators
    assert any(note.startswith("argmax") and note.endswith(reasons) for note in _left(result))


def test_sampling_at_computed_places(tmp_path: Path) -> None:
    """ExecuTorch takes it for VGF with a shader that no program has."""
    forward = "return self.second(nn.functional.grid_sample(self.first(x), self.grid, align_corners=False))"
    init = f"{_CONVOLUTIONS}\nself.grid = nn.Parameter(torch.rand(1, 6, 6, 2))"
    result = _export(tmp_path, forward, init=init)
    assert "aten::grid_sampler_2d" in result.operators
    assert _delegates(result) == 2


def test_weights_that_are_computed(tmp_path: Path) -> None:
    """VGF computes the layers after such a convolution, with the weights that are folded into them."""
    forward = "w = x[:, :, :3, :3].expand(4, 4, 3, 3) * 0.5\ny = nn.functional.conv2d(x, w)\nreturn self.second(y)"
    init = "self.second = nn.Sequential(nn.Conv2d(4, 4, 3, bias=False), nn.BatchNorm2d(4))"
    result = _export(tmp_path, forward, init=init)
    assert result.operators["aten::convolution"] == 1
    assert "quantized_decomposed::dequantize_per_channel" not in result.operators
    _check_outputs(result)
    assert _export(tmp_path, forward, init=init, io="float32").operators["aten::convolution"] == 1


def test_outputs_without_dimensions(tmp_path: Path) -> None:
    result = _export(tmp_path, "y = self.first(x)\nreturn y.mean(), y")
    assert result.golden["output_0"].shape == (1,)
    _check_outputs(result)


@pytest.mark.parametrize("io", ["float32", "int8"])
def test_an_assignment_adds_for_each_index(tmp_path: Path, io: str) -> None:
    # A delegate takes indices of 32 bits.
    forward = "y = self.fc(x)\nreturn self.fc(y.index_put((self.rows,), y[1:4], True))"
    init = "self.fc = nn.Linear(9, 9)\nself.register_buffer('rows', torch.tensor([0, 2, 0], dtype=torch.int32))"
    assert _export(tmp_path, forward, "(torch.randn(5, 9),)", init, io).decibels(0) > 25


def test_groups_of_a_transposed_convolution(tmp_path: Path) -> None:
    result = _export(tmp_path, "return self.layer(x)", init="self.layer = nn.ConvTranspose2d(4, 6, 3, groups=2)")
    assert _delegates(result) == 1
    assert not _left(result)
    _check_outputs(result)


def test_an_activation_of_a_layer_in_floating_point(tmp_path: Path) -> None:
    init = "self.layer = nn.ConvTranspose2d(4, 6, 3, dilation=2)"
    result = _export(tmp_path, "return self.layer(x).relu()", init=init)
    (note,) = _left(result)
    assert note.startswith("convolution: layer (ConvTranspose2d) at my_model.py:11: ")
    _check_outputs(result)


def test_operators_without_a_kernel_in_the_runtime(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no kernel for what.*\n  torch.linalg.lu from my_model.py:11 \(`return torch"):
        _export(tmp_path, "return torch.linalg.lu(x)[2]", "(torch.randn(4, 4),)", io="float32")


def test_zero_points_have_the_bits_that_the_kernel_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise RuntimeError("no")

    monkeypatch.setattr(lower.vgf_backend, "vgf_compile", refuse)
    result = _export(tmp_path, "return self.second(self.first(x))")
    calls = result.calls("quantized_decomposed::dequantize_per_channel")
    # Weights and biases are dequantized per channel.
    assert len(calls) == 4
    assert all(call[2].scalar_type == ScalarType.LONG for call in calls)


@pytest.mark.parametrize("io", ["float32", "int8"])
def test_what_is_refused(tmp_path: Path, io: str) -> None:
    state = "self.layer = nn.Linear(4, 4)\nself.register_buffer('seen', torch.zeros(4))"
    with pytest.raises(UserError, match=r"takes no model that changes its buffers \(seen\)"):
        _export(tmp_path, "self.seen.add_(1)\nreturn self.layer(x) + self.seen", "(torch.randn(2, 4),)", state, io)
