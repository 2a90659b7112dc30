"""Tests the export for an Ethos-U: delegates, operators that stay on the core and the reasons, and refused models."""

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy
import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.dialects._ops import ops as exir_ops

from npu import ethos_u55, ethos_u85
from tools.artifacts.ethos_u.npu import Npu
from tools.artifacts.ethos_u.payload import parse
from tools.pipeline.export.backends.arm import delegates
from tools.pipeline.export.backends.arm.concat_scales import isolate_concat_scales
from tools.pipeline.export.backends.arm.forms import compose_layers, layers_of_many_steps
from tools.pipeline.export.backends.arm.masks import write_masks
from tools.pipeline.export.backends.arm.refused import LoweringError, lower_all_but_refused
from tools.pipeline.export.backends.ethos_u import addresses, forms, lower, vela
from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.capture.state import State
from tools.pipeline.export.ir.operators import CHOICES, MASKED_FILLS
from tools.pipeline.export.options import Options
from tools.pipeline.export.quantize.extents import Extents
from tools.pipeline.export.rewrite.own_operators import keep_recurrent_layers
from tools.pipeline.export.testing import Result, by_hand, export_file, export_source, functions, model_source
from tools.pipeline.export.upstream.gaps import Gap
from tools.quiet.console import UserError

_Case = TypeVar("_Case")

_IS_BEFORE_1_5 = Gap("executorch.backends:arm", "flips stay on the core, parts go wrong", until="1.5").is_open()

_PORT = {"burst_length": 32, "read_latency": 32, "write_latency": 32, "max_reads": 4, "max_writes": 4}
_NPU = Npu(
    accelerator="ethos-u55-128",
    memory_mode="shared_sram",
    clock_hz=400_000_000,
    ports={
        "axi0": {"memory": "Sram", "clock_scale": "1.0"} | _PORT,
        "axi1": {"memory": "OffChipFlash", "clock_scale": "0.5"} | _PORT,
    },
    arena_bytes=1 << 20,
    cache_bytes=0,
)
_IMAGE = "(torch.randn(1, 4, 12, 12),)"


def _sampled(cases: list[_Case]) -> list[_Case]:
    """Every sixth form of layers or functions."""
    return by_hand(cases) or cases[::6]


def _export(folder: Path, source: str, io: str = "int8", npu: Npu = _NPU, core: str = "cortex-m55") -> Result:
    return export_source(folder, source, options=Options(core, "ethos_u", io, npu=npu))


def _delegates(result: Result) -> int:
    return len(deserialize_pte_binary(result.program).program.execution_plan[0].delegates)


_LAYER = model_source("return torch.relu(self.conv(x))", _IMAGE, "self.conv = nn.Conv2d(4, 8, 3)")


@pytest.mark.parametrize(("io", "dtype"), [("int8", numpy.int8), ("int16", numpy.int16), ("float32", numpy.float32)])
def test_io(tmp_path: Path, io: str, dtype: type) -> None:
    result = _export(tmp_path, _LAYER, io)
    assert _delegates(result) == 1
    assert result.golden["input_0"].dtype == result.golden["output_0"].dtype == dtype
    # With float32 the program quantizes its inputs and outputs; otherwise it only calls the delegate.
    assert bool(result.operators) == (io == "float32")
    _check_outputs(result)


@pytest.mark.parametrize(
    "forward",
    [
        "y = self.first(x)\nreturn torch.maximum(y, self.second(x)) - y.permute(0, 1, 3, 2)",
        *by_hand(
            [
                "return x + self.second(torch.relu(self.first(x)))",
                "y = self.first(x)\nreturn self.second(y * torch.sigmoid(y.mean((2, 3), keepdim=True)))",
                "return torch.maximum(self.second(x) * self.image, self.image)",
                "return self.first(torch.cat([x[:, 1:], self.image[:1]], 1) + self.image)",
            ]
        ),
    ],
)
def test_layers_of_16_bits_that_are_read_in_32(tmp_path: Path, forward: str) -> None:
    init = "self.first, self.second = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)\n"
    init += "self.image = nn.Parameter(torch.randn(1, 1, 12, 12))"
    result = _export(tmp_path, model_source(forward, _IMAGE, init), "int16")
    assert _delegates(result) == 1
    _check_outputs(result, 0.02)


def test_what_moves_integers_is_run_where_pytorch_has_no_operator_for_them() -> None:
    """Upsampling of channels-last images is such an operator."""
    module = torch.nn.Upsample(scale_factor=2).eval()
    image = torch.arange(-36, 36, dtype=torch.int8).reshape(1, 8, 3, 3).to(memory_format=torch.channels_last)
    with pytest.raises(NotImplementedError):
        module(image)
    ((result,),) = delegates.run(torch.export.export(module, (image,)), [], [(image,)])
    assert result.dtype == torch.int8 and result.dim_order() == image.dim_order()
    assert torch.equal(result, image.contiguous().repeat_interleave(2, 2).repeat_interleave(2, 3))


def test_one_execution_of_a_call_checks_addresses_and_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    execute = addresses.execute
    monkeypatch.setattr(addresses, "execute", lambda *args: done.append(args) or execute(*args))
    _export(tmp_path, _LAYER)
    assert len(done) == 1


def _check_outputs(result: Result, share: float = 0.05) -> None:
    """Outputs are at most that share of the largest number of eager mode from it; indices are mostly the same."""
    for index, output in enumerate(result.manifest["outputs"]):
        values, eager = result.golden[f"output_{index}"], result.golden[f"eager_{index}"]
        if eager.dtype.kind == "i":
            # The index is that of the first of equal int8 elements.
            assert (values == eager).mean() > 0.7
            continue
        if values.dtype != numpy.float32:
            values = (values.astype(numpy.float64) - output["zero_point"]) * output["scale"]
        assert numpy.abs(values - eager).max() < share * numpy.abs(eager).max(), index


def _check_whole(result: Result, share: float = 0.05, decibels: float | None = None) -> None:
    """The network is one delegate, whose outputs are close to those of eager mode."""
    assert (_delegates(result), result.operators) == (1, {})
    if decibels is None:
        _check_outputs(result, share)
    else:
        assert _worst(result) > decibels


def _worst(result: Result) -> float:
    """The least signal-to-noise ratio of the outputs."""
    return min(map(result.decibels, range(len(result.manifest["outputs"]))))


@pytest.mark.parametrize(
    "form",
    [
        "return torch.log_softmax(x * 4, -1)",
        "return nn.LogSoftmax(0)(4 * x[0, 0])",
        "return torch.log(torch.softmax(x * 4, -1))",
    ],
)
def test_log_softmax_keeps_numbers_whose_softmax_is_less_than_an_integer(tmp_path: Path, form: str) -> None:
    """The logarithm of an int8 softmax would have 3 dB."""
    _check_whole(_export(tmp_path, model_source(form, "(torch.randn(1, 3, 10),)")), decibels=35)


def test_copies_of_what_is_not_computed_there_leave_the_layers_beside_them_to_the_npu(tmp_path: Path) -> None:
    """Vela refuses a subgraph whose output is only copied, and with it the layer."""
    forward = "self.level.mul_(0.5).add_(x * 0.5)\nreturn self.conv(x), x.clone(), self.level.clone()"
    init = "self.conv = nn.Conv2d(4, 4, 3)\nself.register_buffer('level', torch.randn(1, 4, 12, 12))"
    result = _export(tmp_path, model_source(forward, _IMAGE, init))
    assert _delegates(result) == 1 and not any("Vela" in text for text in result.said)
    assert _worst(result) > 25


def test_a_loop_on_a_condition_whose_counter_is_read_in_several_subgraphs(tmp_path: Path) -> None:
    """ExecuTorch drops a constant once for each of its copies in a subgraph."""
    forward = (
        "more = lambda i, x: (i < 3) & (x.abs().max() < 3)\n"
        "step = lambda i, x: (i + 1, torch.tanh(self.layer(x)) * 1.5)\n"
        "start = (torch.zeros((), dtype=torch.int64), x)\n"
        "i, x = torch._higher_order_ops.while_loop(more, step, start)\n"
        "return x, i"
    )
    source = model_source(forward, "(torch.randn(1, 4),)", "self.layer = nn.Linear(4, 4)")
    result = _export(tmp_path, source, "float32", replace(_NPU, accelerator="ethos-u85-256"))
    assert not any("can't lower" in text or "_number" in text for text in result.said)
    assert result.decibels() > 25 and (result.golden["output_1"] == result.golden["eager_1"]).all()


def test_a_part_without_elements_does_not_spoil_the_scale_of_what_it_is_joined_with(tmp_path: Path) -> None:
    """A stream shifts out all of its buffer where a step is as long."""
    forward = "return self.conv(torch.cat([x[:, :, 12:], x], 2)), x[:, :0]"
    result = _export(tmp_path, model_source(forward, _IMAGE, "self.conv = nn.Conv2d(4, 4, 3)"))
    assert result.decibels(0) > 35


_WIDE = model_source(
    "y = torch.log((x * self.sizes).square().mean(1, keepdim=True) + 1e-8) + 9\nreturn self.conv(y)",
    _IMAGE,
    "self.conv, self.sizes = nn.Conv2d(1, 4, 3), nn.Buffer(torch.logspace(-3, 0, 12))",
)


def test_layers_that_cost_most_accuracy_stay_on_the_core_in_floating_point(tmp_path: Path) -> None:
    result = _export(tmp_path, _WIDE, "float32")
    (note,) = (text for text in result.said if "layers stay in floating point that cost most accuracy" in text)
    assert _worst(result) > 15 and _delegates(result) > 0, note
    assert any("log" in text and "it stays in floating point for accuracy" in text for text in result.said)
    assert result.report is not None
    reasons = {each["operator"]: each.get("reason") for each in result.report["layers"]}
    assert reasons["aten::log"] == "it stays so for accuracy" and reasons["aten::conv2d"] is None


def test_layers_that_cost_most_accuracy_are_named_where_the_border_is_of_integers(tmp_path: Path) -> None:
    result = _export(tmp_path, _WIDE)
    (note,) = (text for text in result.said if "less than 15 dB. Most of the noise is made at" in text)
    assert "my_model.py:1" in note and 'io = "float32", with which the build leaves such layers' in note


_STREAMED = functions(calibration_inputs="[(torch.randn(1, 8),) for _ in range(40)]")


@pytest.mark.parametrize("io", ["float32", "int8"])
def test_a_state_is_not_rounded_to_integers_from_call_to_call(tmp_path: Path, io: str) -> None:
    source = model_source(
        "self.level.mul_(0.98).add_(x, alpha=0.02)\nreturn self.head(self.level)",
        "(torch.randn(1, 8),)",
        'self.register_buffer("level", torch.zeros(1, 8))\nself.head = nn.Linear(8, 4)',
    )
    result = _export(tmp_path, source + _STREAMED, io)
    (note,) = (text for text in result.said if "over a stream of 40 calls" in text)
    assert float(re.search(r"calls: (\S+) dB", note)[1]) > 30, note


def test_features_of_spectra_stay_on_the_core_in_floating_point(tmp_path: Path) -> None:
    source = model_source(
        "y = torch.log(torch.fft.rfft(x * self.window).abs().square() + 1e-6)\nreturn self.conv(y)",
        "(torch.randn(1, 3, 32),)",
        'self.register_buffer("window", torch.hann_window(32))\nself.conv = nn.Conv1d(3, 4, 3)',
    )
    result = _export(tmp_path, source, "float32")
    assert _worst(result) > 30 and _delegates(result) > 0
    assert not any("accuracy" in text or "bring it closer" in text for text in result.said)


def test_a_pooling_of_one_window_has_any_stride(tmp_path: Path) -> None:
    """The stride, here the kernel's size, exceeds the NPU's; the image may extend beyond the window."""
    init = "self.conv = nn.Conv2d(4, 4, 1)\nself.pools = nn.ModuleList(map(nn.AvgPool2d, (12, (11, 12), 9)))"
    source = model_source("y = self.conv(x)\nreturn tuple(pool(y) for pool in self.pools)", _IMAGE, init)
    result = _export(tmp_path, source)
    _check_whole(result)


def test_a_pooling_without_a_stride(tmp_path: Path) -> None:
    pools = ", ".join(f"nn.functional.{pool}(x, 2)" for pool in ("max_pool2d", "avg_pool2d"))
    result = _export(tmp_path, model_source(f"x = torch.relu(x)\nreturn {pools}", _IMAGE))
    assert result.golden["output_0"].shape == result.golden["output_1"].shape == (1, 1, 4, 6, 6)
    _check_whole(result)


_CONVOLUTIONS = "self.first, self.second = nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3)"


@pytest.mark.parametrize(
    ("layer", "numbers", "operators"),
    [
        ("torch.relu(self.up(y))", "int8", {"cortex_m::quantized_transpose_conv2d"}),
        *by_hand(
            [
                ("self.up(y)", "int8", {"cortex_m::quantized_transpose_conv2d"}),
                ("self.grouped(y)", "int8", {"cortex_m::quantized_transpose_conv2d"}),
            ]
        ),
        ("nn.functional.avg_pool2d(y, 9, 1, 4, False, False)", "int8", {"cortex_m::quantized_avg_pool2d"}),
        *([("torch.flip(y, (2,))", "int8", {"aten::flip"})] if _IS_BEFORE_1_5 else []),
        # Neither has an int8 form here: of a wrong one nothing would be noticed but wrong numbers.
        *by_hand(
            [
                (
                    "nn.functional.interpolate(y, scale_factor=1.5)",
                    "floating point",
                    {"cortex_m::dequantize_per_tensor", "aten::upsample_nearest2d", "cortex_m::quantize_per_tensor"},
                )
            ]
        ),
        (
            "nn.functional.interpolate(y, scale_factor=2.5, mode='bilinear')",
            "floating point",
            {"cortex_m::dequantize_per_tensor", "aten::upsample_bilinear2d", "cortex_m::quantize_per_tensor"},
        ),
    ],
)
def test_what_the_npu_cannot_take_runs_on_the_core(tmp_path, layer, numbers, operators) -> None:
    init = f"{_CONVOLUTIONS}\nself.up = nn.ConvTranspose2d(4, 4, 3, 3)\n"
    init += "self.grouped = nn.ConvTranspose2d(4, 4, 3, 3, groups=2)"
    result = _export(tmp_path, model_source(f"y = self.first(x)\ny = {layer}\nreturn self.second(y)", _IMAGE, init))
    assert _delegates(result) == 2
    assert set(result.operators) - {"dim_order_ops::_to_dim_order_copy"} == operators
    notes = [line for line in result.said if "stays on the core" in line]
    assert notes
    assert all(f" in {numbers}: " in note and "my_model.py:" in note for note in notes)
    _check_outputs(result)


def test_what_stays_on_the_core_does_so_for_reasons_in_words_of_the_model(tmp_path: Path) -> None:
    forward = "y = self.first(x)\nreturn self.second(y.flip(1)), y.mean((2, 3)).argmax(1)"
    result = _export(tmp_path, model_source(forward, _IMAGE, _CONVOLUTIONS))
    notes = sorted(line.partition("stays on the core: ")[2] for line in result.said if "stays on the core" in line)
    flipped = {"flip": "the NPU has no such operation", "copy": "one of its inputs is of 64-bit integers"}
    assert {note.split(" ")[0]: note.rpartition(": ")[2] for note in notes} == {
        "argmax": "its indices are of 64 bits, the NPU's of 32",
        **(flipped if _IS_BEFORE_1_5 else {}),
    }
    _check_outputs(result)


@pytest.mark.parametrize(
    "function",
    _sampled(
        [
            "F.softplus(x, 2)",
            "F.hardshrink(x)",
            "0.5 * x * (1 + torch.erf(x / 2 ** 0.5))",
            "F.mish(x)",
            "torch.where(x > 0.3, x, -0.2 * x)",
            "x.sqrt() * (x + 1).log()",
            "x * F.relu6(x + 3) / 6",
            "torch.rsqrt(x * x / 16 + 1e-5)",
            "F.logsigmoid(x) ** 2",
        ]
    ),
)
def test_functions_are_tables(tmp_path: Path, function: str) -> None:
    """Each integer is the function's value, rounded once, whatever operators the function has."""
    inputs = "(torch.randn(1, 4, 12, 12).abs(),)" if "sqrt()" in function else _IMAGE
    source = "import torch.nn.functional as F\n" + model_source(f"return {function}", inputs)
    result = _export(tmp_path, source)
    assert _delegates(result) == 1
    assert not result.operators
    (operand,), (output,) = result.manifest["inputs"], result.manifest["outputs"]
    numbers = (torch.from_numpy(result.golden["input_0"]).float() - operand["zero_point"]) * operand["scale"]
    values = eval(function, {"F": torch.nn.functional, "torch": torch, "x": numbers})
    integers = (values / output["scale"]).round().add(output["zero_point"]).clamp(-128, 127)
    # Two operators of PyTorch may differ from one of ExecuTorch in the last bit of a half.
    difference = (integers - torch.from_numpy(result.golden["output_0"])).abs()
    assert difference.max() <= 1
    assert difference.mean() < 0.01


def test_functions_that_the_npu_cannot_take_are_tables_of_the_core(tmp_path: Path) -> None:
    """They have more dimensions than the NPU supports."""
    forward = "return F.softplus(x.reshape(2, 1, 2, 1, 3, 2, 6, 1) * 3)"
    result = _export(tmp_path, "import torch.nn.functional as F\n" + model_source(forward, _IMAGE[:-2] + "[:, :1],)"))
    assert "cortex_m::quantized_activation" in result.operators
    assert "torch_fusion::table" not in result.operators


def test_attention_whose_queries_are_learned(tmp_path: Path) -> None:
    """The projection and scaling of the queries only read constants, which ExecuTorch's passes can't handle.

    Copies of a graph rename an input that has the name of a Python builtin.
    """
    init = """
self.queries = nn.Parameter(torch.randn(1, 4, 16))
self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
"""
    forward = "return self.attention(self.queries, input, input, need_weights=False)[0] + self.queries"
    result = _export(tmp_path, model_source(forward, "(torch.randn(1, 6, 16),)", init, "input"))
    _check_whole(result)


@pytest.mark.parametrize(
    "state",
    _sampled(["x.new_zeros(x.shape[0], 4)", "torch.zeros(1, 4)", "torch.full_like(x[:, 0], 0.5)", "self.start.exp()"]),
)
def test_what_a_network_begins_with(tmp_path: Path, state: str) -> None:
    """It is made of constants, by operators, and goes into concatenations and layers as inputs do."""
    init = "self.layer = nn.Linear(8, 4)\nself.start = nn.Parameter(torch.randn(1, 4))"
    forward = f"state = {state}\nfor i in range(2):\n    state = self.layer(torch.cat([x[:, i], state], 1)).tanh()\n"
    result = _export(tmp_path, model_source(forward + "return state", "(torch.randn(1, 2, 4),)", init))
    _check_whole(result)


@pytest.mark.parametrize("layer", ["LSTM", *by_hand(["GRU"])])
def test_recurrent_layers_of_many_steps(tmp_path: Path, layer: str) -> None:
    """The core computes them in int8 as a whole; unrolled, they would take minutes to export."""
    init = "self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 4)\n"
    init += f"self.layer = nn.{layer}(8, 4, 2, batch_first=True, bidirectional=True)"
    forward = "return self.last(self.layer(torch.relu(self.first(x)))[0])"
    result = _export(tmp_path, model_source(forward, "(torch.randn(1, 40, 6),)", init))
    assert _delegates(result) == 3
    assert result.operators == {f"torch_fusion::quantized_{layer.lower()}": 4}
    assert any(f"layer ({layer}) at my_model.py:" in line and "has 160 steps" in line for line in result.said)
    _check_outputs(result)


def test_an_lstm_with_a_projection_is_unrolled_whatever_its_steps() -> None:
    """The core has no kernel for it."""
    layer, x = torch.nn.LSTM(4, 8, 2, bias=False, bidirectional=True, proj_size=3), torch.randn(7, 1, 4)
    program = torch.export.export(layer.eval(), (x,))
    assert not layers_of_many_steps(program)
    out, states = compose_layers(program).module()(x)
    expected, expected_states = layer(x)
    torch.testing.assert_close((out, *states), (expected, *expected_states))


def test_a_slice_without_elements(tmp_path: Path) -> None:
    forward = "return self.layer(x), x[:, 3:3].sum(1)"
    result = _export(tmp_path, model_source(forward, "(torch.randn(1, 6),)", "self.layer = nn.Linear(6, 4)"), "float32")
    assert _delegates(result) == 1
    assert result.decibels(0) > 25 and not result.golden["output_1"].any()


def test_what_is_computed_twice_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = model_source("return self.norm(x)", _IMAGE, "self.norm = nn.LayerNorm(12)")
    once = _export(tmp_path, source)
    monkeypatch.setattr(lower, "_merge_equal", lambda *_: None)
    twice = _export(tmp_path, source)
    assert len(once.program) < len(twice.program)
    assert (once.golden["output_0"] == twice.golden["output_0"]).all()


_U85 = replace(_NPU, accelerator="ethos-u85-256")
_SEQUENCE = "(torch.randn(1, 4, 12),)"
_STEP = "(torch.randn(1, 6), torch.randn(1, 8).tanh())"


_LAYERS = """\
self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.LayerNorm(12)
self.up, self.pair = nn.ConvTranspose2d(4, 4, 2, 2), nn.ConvTranspose2d(2, 4, 2, 2)
"""
_PRELU = "nn.init.uniform_(self.act.weight, -0.5, {largest})"
# Each case has the network's forward(), its inputs unless they are an image, and its layers unless they are _LAYERS.
_WHOLE: list[tuple[str, ...]] = [
    # Parts of tensors, which Vela splits: it would compute with the channels of the whole.
    ("return self.pair(x[:, 1:3])",),
    ("return self.pair(x.chunk(2, 1)[0])",),
    ("return torch.softmax(x.select(1, 2), 1)",),
    ("return self.norm(x[:, :, 3:])",),
    ("q, k = x[0].split(6, 2)\nreturn q @ k.transpose(1, 2)",),
    # Both operands end up in the same memory.
    ("y = torch.cat([x, -x], 1)\nreturn y * y.mean((2, 3), keepdim=True)",),
    # Functions that become parts of tensors, which Vela writes to another offset.
    ("return nn.functional.avg_pool2d(torch.sigmoid(self.conv(x)), 3, 2, 1)",),
    ("return torch.cat([nn.functional.hardswish(self.conv(x)), x], 2)",),
    ("return torch.stack([torch.softmax(self.conv(x), 1), x], 2)",),
    ("return nn.functional.pad(torch.maximum(self.conv(x), x), (1, 1, 1, 1))",),
    ("return nn.functional.pad(x @ x, (1, 1, 1, 1))",),
    ("y = self.conv(x)\nreturn nn.functional.pad(y * y.mean((2, 3), keepdim=True), (1, 0, 0, 2))",),
    # Operators that move elements are before the function.
    ("return nn.functional.pad(torch.tanh(x).permute(0, 2, 3, 1), (1, 1, 1, 1))",),
    # Layers that the quantizer does not know. Recurrent cells are for U85, whose slices Vela has had trouble with.
    (
        "y = self.pool(self.same(x))\nreturn self.average(self.up(nn.functional.max_pool1d(y, 2)))",
        _SEQUENCE,
        "self.same, self.pool = nn.Conv1d(4, 8, 4, padding='same'), nn.AvgPool1d(3, 1, 1)\n"
        "self.up, self.average = nn.ConvTranspose1d(8, 4, 4, 2, 1), nn.AdaptiveAvgPool1d(2)",
    ),
    (
        "return self.shuffle(self.norm(self.same(x)))",
        _IMAGE,
        "self.same, self.norm = nn.Conv2d(4, 8, (2, 4), padding='same', dilation=(1, 3)), "
        "nn.InstanceNorm2d(8, affine=True)\nself.shuffle = nn.ChannelShuffle(2)",
    ),
    (
        "y = nn.functional.mish(self.conv(nn.functional.softplus(x)))\n"
        "return nn.functional.logsigmoid(y), nn.functional.softplus(y, 2)",
        _IMAGE,
        "self.conv = nn.Conv2d(4, 8, 3)",
    ),
    ("return self.conv(x.roll((1, -2), (2, 3))).roll(1), x.roll(0, 1) + 1", _IMAGE, "self.conv = nn.Conv2d(4, 8, 3)"),
    # Groups of transposed convolutions, and one for each channel.
    (
        "return self.groups(x), self.channels(x), self.rows(x.flatten(2))",
        "(torch.randn(1, 4, 5, 6),)",
        "self.groups = nn.ConvTranspose2d(4, 6, 3, 2, 1, groups=2)\n"
        "self.channels = nn.ConvTranspose2d(4, 4, 4, 2, 1, 0, 4)\n"
        "self.rows = nn.ConvTranspose1d(4, 8, 4, 2, groups=4, bias=False)",
    ),
    # Strides larger than the NPU's.
    (
        "return self.rows(x).relu(), self.sound(x.flatten(2)), self.patches(x)",
        "(torch.randn(1, 4, 6, 23),)",
        "self.rows, self.sound = nn.Conv2d(4, 8, (3, 7), (2, 5), (1, 2)), nn.Conv1d(4, 8, 6, 4)\n"
        "self.patches = nn.Conv2d(4, 8, 4, 4, bias=False)",
    ),
    (
        "return nn.functional.max_pool2d(self.conv(x), (2, 6)), nn.functional.max_pool1d(x.flatten(2), 12)",
        "(torch.randn(1, 4, 6, 20),)",
        "self.conv = nn.Conv2d(4, 8, 3)",
    ),
    # In three dimensions and without a batch, the pooling has one dimension less.
    ("return self.norm(self.conv(x))", _IMAGE, "self.conv, self.norm = nn.Conv2d(4, 8, 3), nn.LocalResponseNorm(3)"),
    (
        "y = nn.functional.max_pool2d(self.conv(x), 2)\nreturn nn.functional.avg_pool2d(self.same(self.up(y)), 2)",
        "(torch.randn(4, 8, 8),)",
        "self.conv, self.up = nn.Conv2d(4, 8, 3), nn.ConvTranspose2d(8, 4, 2, 2)\n"
        "self.same = nn.Conv2d(4, 4, 3, padding='same')",
    ),
    (
        "y = nn.functional.max_pool1d(self.conv(x), 2)\nreturn nn.functional.avg_pool1d(self.up(y), 2)",
        "(torch.randn(4, 16),)",
        "self.conv, self.up = nn.Conv1d(4, 8, 3, padding='same'), nn.ConvTranspose1d(8, 4, 2, 2)",
    ),
    (
        "return nn.functional.max_pool3d(x, 2), nn.functional.avg_pool3d(x, (2, 3, 2))",
        "(torch.randn(1, 4, 4, 6, 6),)",
        "",
    ),
    (
        "return self.first(x), self.second(x)",
        "(torch.randn(1, 4, 5, 6, 6),)",
        "self.first = nn.Conv3d(4, 6, (2, 3, 3), (1, 2, 1), padding=1, dilation=(2, 1, 1), groups=2)\n"
        "self.second = nn.Conv3d(4, 4, 2, 2, bias=False)",
    ),
    ("return self.cell(x, x1)", _STEP, "self.cell = nn.GRUCell(6, 8)"),
    ("return self.cell(x, (x1, x1 + 0.5))", _STEP, "self.cell = nn.LSTMCell(6, 8)"),
    (
        "return self.cells(x)[0]",
        "(torch.randn(1, 2, 6),)",
        "self.cells = nn.GRU(6, 4, batch_first=True, bidirectional=True)",
    ),
    (
        "return self.norm(x).square(), x.amin(2), -(-x).amax(2), x.min(1).values, x.std(2)",
        _SEQUENCE,
        "self.norm = nn.RMSNorm(12)",
    ),
    (
        "y = torch.diff(x, prepend=x[..., :1], dim=-1)\n"
        "return y, x.unfold(-1, 5, 3) * 2, x.unfold(1, 2, 1).detach() + 1, x.unfold(1, 2, 1).mT.flatten(2) * 2",
        _SEQUENCE,
        "",
    ),
    (
        "y = torch.hstack([x.swapaxes(1, 2), torch.lerp(x, -x, 0.3).swapaxes(1, 2)])\n"
        "return nn.functional.normalize(y, dim=1)",
        _SEQUENCE,
        "",
    ),
    # Views that are moved for all that reads them.
    # Means of several dimensions that a view makes one, and of those that it makes of channels.
    ("return torch.log_softmax(self.conv(x).flatten(2).mean(-1), -1)", _IMAGE, "self.conv = nn.Conv2d(4, 4, 3)"),
    ("return nn.functional.pixel_shuffle(x * 2, 2).mean((2, 3))", "(torch.randn(1, 8, 4, 3),)", ""),
    # A view's result is read both directly and in another order.
    (
        "y = self.conv(x.unsqueeze(-1))\n"
        "return self.back(torch.sigmoid(self.linear(self.norm(y).transpose(1, 2))).transpose(1, 2) * y)",
        "(torch.randn(1, 12),)",
        "self.conv, self.back, self.linear = nn.Conv1d(12, 8, 1), nn.Conv1d(8, 12, 1), nn.Linear(8, 8)\n"
        "self.norm = nn.GroupNorm(1, 8)",
    ),
    # Boxes of a detector: parts of five dimensions.
    (
        "y = self.conv(x).view(1, 3, 6, 4, 4).permute(0, 1, 3, 4, 2).sigmoid()\n"
        "return torch.cat([y[..., :2] * 2 + self.grid, (y[..., 2:4] * 2) ** 2, y[..., 4:]], -1).view(1, -1, 6)",
        "(torch.randn(1, 4, 4, 4),)",
        "self.conv, self.grid = nn.Conv2d(4, 18, 1), nn.Buffer(torch.randn(1, 1, 4, 4, 2))",
    ),
    # Functions and activations that other layers read.
    ("return self.conv(self.act(self.conv(x)))", _IMAGE, "self.act = nn.PReLU()"),
    ("return self.act(self.conv(x))", _IMAGE, f"self.act = nn.PReLU(4)\n{_PRELU.format(largest=1)}"),
    # Above 1 it is no maximum.
    ("return self.act(self.conv(x))", _IMAGE, f"self.act = nn.PReLU(4)\n{_PRELU.format(largest=3)}"),
    ("return self.act(x.mean((2, 3)))", _IMAGE, f"self.act = nn.PReLU(4)\n{_PRELU.format(largest=3)}"),
    ("return -self.conv(x)",),
    # Functions whose results PyTorch computes in floating point, before a pooling.
    ("return nn.functional.avg_pool2d(torch.tanh(self.conv(x)), 2)",),
    ("return nn.functional.avg_pool2d(torch.sigmoid(x), 3, 2)",),
    ("return nn.functional.adaptive_avg_pool2d(torch.exp(self.conv(x)), 2)",),
    # Pixels that are read several times.
    ("return self.conv(nn.functional.interpolate(torch.relu(self.conv(x)), scale_factor=2))",),
    ("return torch.cat([nn.functional.interpolate(x.mean((2, 3), True), (12, 12)), self.conv(x)], 1)",),
    # A constant that a function is computed of.
    ("return self.conv(x) * torch.exp(self.conv.weight[:, 0, 0, 0].reshape(1, 4, 1, 1))",),
    # A ReLU's result shares scale and zero point with tensors that have negative numbers.
    ("y = torch.relu(self.conv(x))\nreturn torch.cat([self.up(y), y.repeat(1, 1, 2, 2)], 1)",),
    ("return torch.cat([self.conv(x), nn.functional.relu6(self.conv(x))], 1)",),
    ("return torch.cat([self.conv(x), nn.functional.hardtanh(self.conv(x))], 1)",),
    # Constants in the order in which the NPU reads them; Vela's commands for U55 would transpose them in flash.
    ("return self.conv(x) * self.image", _IMAGE, "self.image = nn.Parameter(torch.randn(4, 12, 12))"),
    ("return self.conv(x + self.image)", _IMAGE, "self.image = nn.Parameter(torch.randn(1, 1, 12, 12))"),
    (
        "return self.conv(torch.cat([x[:, 1:], self.image], 1))",
        _IMAGE,
        "self.image = nn.Parameter(torch.randn(1, 1, 12, 12))",
    ),
    ("return torch.maximum(self.conv(x), self.image)", _IMAGE, "self.image = nn.Parameter(torch.randn(1, 4, 12, 12))"),
    ("y = x.new_zeros(1, 4, 12, 12)\nreturn self.conv(x) * y + x",),
    ("y, (h, c) = self.cells(x[0])\nreturn y, h, c", _SEQUENCE, "self.cells = nn.LSTM(12, 6, proj_size=4)"),
]


# By hand, each of the NPU's configurations takes a share of the networks. The export compares its commands with the
# TOSA reference model.
_U85_NAMES = by_hand(sorted(ethos_u85.CONFIGURATIONS)) or [_U85.accelerator]
_NPU_NAMES = by_hand([*ethos_u55.CONFIGURATIONS, *_U85_NAMES]) or [_NPU.accelerator]


@pytest.mark.parametrize("network", _sampled(_WHOLE), ids=lambda network: network[0].rpartition("return ")[2])
def test_a_delegate_of_the_whole(tmp_path: Path, network: tuple[str, ...]) -> None:
    """Also an operator that ExecuTorch or Vela can't take as it is becomes part of the one delegate."""
    forward, inputs, init = (*network, *(_IMAGE, "")[len(network) - 1 :])
    source = model_source(forward, inputs, _LAYERS + init, "x, x1" if "x1" in forward else "x")
    names = _U85_NAMES if "Cell" in init else _NPU_NAMES
    npu = replace(_NPU, accelerator=names[_WHOLE.index(network) % len(names)])
    _check_whole(_export(tmp_path, source, npu=npu), 0.1)


@pytest.mark.parametrize("npu", [_NPU, *by_hand([_U85])])
def test_what_vela_or_executorch_leave_out_is_written_by_other_layers(tmp_path: Path, npu: Npu) -> None:
    """Convolutions with padding and strides above three; maxima that become parts; padding that cuts off."""
    init = """\
self.patches, self.rows = nn.Conv2d(4, 8, 7, 4, 3), nn.Conv2d(4, 8, (5, 3), (4, 1), (2, 1))
self.skips, self.groups = nn.Conv2d(4, 8, 3, 4, 1), nn.Conv2d(4, 8, 5, 4, 2, groups=2)
self.channels, self.sound = nn.Conv2d(4, 4, 5, 4, 2, groups=4), nn.Conv1d(4, 4, 9, 4, 4, groups=4)"""
    forward = """\
sound = self.sound(x.flatten(2))
convolutions = self.patches(x), self.rows(x), self.skips(x), self.groups(x), self.channels(x), sound
return *convolutions, torch.cat([sound.amax(-1), sound.amin(-1)], 1), nn.functional.pad(x, (1, -2, 0, -1)) + 1"""
    result = _export(tmp_path, model_source(forward, "(torch.randn(1, 4, 12, 13),)", init), npu=npu)
    _check_whole(result, 0.1)


def test_what_is_joined_with_larger_numbers_has_steps_of_its_own(tmp_path: Path) -> None:
    forward = "y = self.a(x)\nreturn y.sigmoid(), torch.cat([y.sigmoid(), self.b(x) * 100], 1)"
    init = "self.a, self.b = nn.Linear(12, 12), nn.Linear(12, 12)"
    result = _export(tmp_path, model_source(forward, "(torch.randn(1, 12),)", init))
    assert result.manifest["outputs"][0]["scale"] < 0.005 < result.manifest["outputs"][1]["scale"]
    _check_outputs(result)


@pytest.mark.parametrize("forward", ["lstm", "gru", "topk", "max", "split", "pool"])
def test_one_of_several_results_is_joined_with_larger_numbers(forward: str) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.gru = torch.nn.LSTMCell(6, 6), torch.nn.GRU(6, 6, batch_first=True)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            results = {
                "lstm": lambda: self.lstm(x[0]),
                "gru": lambda: [each[0] for each in self.gru(x)],
                "topk": lambda: x[0].topk(3),
                "max": lambda: x[0].max(0, keepdim=True),
                "split": lambda: x[0].tanh().split([2, 4], 1),
                "pool": lambda: torch.nn.functional.max_pool2d(x, 2, return_indices=True),
            }
            part = results[forward]()[0]
            return torch.cat([part, part * 100], -1), part + 1

    torch.manual_seed(0)
    sample = (torch.randn(1, 6, 6),)
    program = keep_recurrent_layers(capture(Model().eval(), sample))
    isolate_concat_scales(program, [sample], State({}), Path("m.py"))
    parted = [node for node in program.graph.nodes if node.target == torch.ops.aten.mul.Tensor and node.args[1] == 1.0]
    assert len(parted) == 1


def test_bounds_by_tensors_of_one_tensor(tmp_path: Path) -> None:
    """ExecuTorch parts a clamp after its quantization, and returned what the parts share without its zero point."""
    init = "self.low, self.high = (nn.Parameter(sign * torch.rand(8, 1, 1)) for sign in (-0.3, 2))\n"
    forward = "y = self.layer(x)\nreturn torch.clamp(y, self.low, self.high), torch.clamp(y, min=self.low), "
    forward += "y.clip(max=self.high), y.clamp_min(self.low) * 9"
    source = model_source(forward, _IMAGE, f"{init}self.layer = nn.Conv2d(4, 8, 3)")
    result = _export(tmp_path, source)
    _check_whole(result, decibels=30)


@pytest.mark.parametrize(
    ("operand", "options", "io"),
    _sampled(
        [
            ("x", "scale_factor=3", "int8"),
            ("x", "scale_factor=2, mode='bilinear'", "int8"),
            ("x", "size=(24, 48), mode='bilinear'", "int8"),
            ("x", "scale_factor=(2, 1)", "int8"),
            ("x", "size=(36, 12), mode='bilinear'", "int8"),
            ("x", "scale_factor=2", "int8"),
            ("x.flatten(2)", "scale_factor=3, mode='linear'", "int8"),
            ("x", "scale_factor=3, mode='bilinear'", "int16"),
            ("x.flatten(2)", "scale_factor=4, mode='linear'", "int8"),
            ("x.flatten(2)", "size=432", "int16"),
        ]
    ),
)
def test_upsampling_that_ethos_u55_does_not_have(tmp_path: Path, operand: str, options: str, io: str) -> None:
    """Nearest upsampling returns exact integers, and linear upsampling PyTorch's numbers rounded."""
    function = f"nn.functional.interpolate({operand}, {options})"
    result = _export(tmp_path, model_source(f"return {function}", _IMAGE), io)
    assert _delegates(result) == 1
    assert not result.operators
    integers = torch.from_numpy(result.golden["input_0"][0]).double()
    expected = eval(function, {"nn": torch.nn, "x": integers})
    difference = (expected - torch.from_numpy(result.golden["output_0"][0])).abs()
    assert difference.max() <= (0.5 if "linear" in options else 0)


@pytest.mark.parametrize(
    "options",
    [
        # 10 rows become 23, at positions from the factor 2.35.
        "scale_factor=2.35, mode='bilinear'",
        # Two of three pixels, and the first of two.
        "size=(15, 20)",
        *by_hand(["scale_factor=0.5"]),
    ],
)
def test_resampling_takes_the_pixels_that_pytorch_takes(tmp_path: Path, options: str) -> None:
    forward = f"return self.conv(nn.functional.interpolate(self.conv(x), {options}))"
    result = _export(tmp_path, model_source(forward, _IMAGE, "self.conv = nn.Conv2d(4, 4, 3)"), npu=_U85)
    assert any("stays on the core: upsample" in line for line in result.said)
    _check_outputs(result)


def test_operators_of_the_core_get_the_order_that_they_take(tmp_path: Path) -> None:
    forward = "y = self.conv(x)\nreturn self.conv(nn.functional.grid_sample(y, y[:, :2].permute(0, 2, 3, 1)))"
    result = _export(tmp_path, model_source(forward, _IMAGE, "self.conv = nn.Conv2d(4, 4, 3)"))
    ((first, *_, last),) = result.calls("aten::grid_sampler_2d")
    assert first.dim_order == last.dim_order == [0, 1, 2, 3]


_BETWEEN = (
    f"{_CONVOLUTIONS}\nself.up = nn.ConvTranspose2d(2, 4, 2, 2)\nself.image = nn.Parameter(torch.randn(1, 4, 10, 10))"
)


@pytest.mark.parametrize(
    ("layer", "hidden", "place", "reason"),
    [
        *(
            [
                (
                    "self.up(y[:, 1:3])",
                    "ethos_u.forms.copy_parts",
                    "convolution in int8: up (ConvTranspose2d) at my_model.py:",
                    "Vela's commands for ethos-u55-128 give other numbers than the TOSA reference model: ",
                )
            ]
            if _IS_BEFORE_1_5
            else []
        ),
        *by_hand(
            [
                (
                    "y * self.image",
                    "ethos_u.lower.moved_constants arm.delegates.fewer_transpositions",
                    "mul in int8: my_model.py:",
                    "a command that Vela compiled reaches beyond its memory: operation ",
                )
            ]
        ),
        # The core has no int8 form for operands of different scales.
        (
            "torch.maximum(y, self.image)",
            "ethos_u.lower.moved_constants arm.delegates.fewer_transpositions",
            "maximum in floating point: my_model.py:",
            "a command that Vela compiled reaches beyond its memory: operation ",
        ),
    ],
)
def test_what_vela_compiles_wrong(tmp_path, monkeypatch, layer, hidden, place, reason) -> None:
    """The core computes it; few attempts locate it, and the NPU computes the rest."""
    attempts = []
    preprocess = lower.EthosUBackend.preprocess

    def count(program: torch.export.ExportedProgram, specs: list[CompileSpec]) -> object:
        attempts.append(program)
        return preprocess(program, specs)

    monkeypatch.setattr(lower.EthosUBackend, "preprocess", staticmethod(count))
    for name in hidden.split():
        is_pass = ".forms." in name
        nothing = (lambda *_: None) if is_pass else (lambda *_: contextlib.nullcontext())
        monkeypatch.setattr(f"tools.pipeline.export.backends.{name}", nothing)
    forward = f"y = torch.relu(self.first(x))\ny = {layer}\nreturn self.second(y)"
    result = _export(tmp_path, model_source(forward, _IMAGE, _BETWEEN))
    assert _delegates(result) == 2
    (note,) = _left_to_the_core(result)
    assert note.startswith(place) and reason in note and "\n" not in note
    assert len(attempts) <= 10
    assert not any("what the NPU can't take computes in floating point" in line for line in result.said)
    _check_outputs(result)


@pytest.mark.parametrize(
    ("shape", "init", "forward"),
    _sampled(
        [
            ("(2, 5, 8)", "self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 3)", "return self.b(torch.relu(self.a(x)))"),
            ("(8,)", "self.a = nn.Linear(8, 4, bias=False)", "return torch.tanh(self.a(x))"),
            (
                "(1, 8, 6, 5)",
                "self.a = nn.Linear(5, 4)\nself.b = nn.Conv2d(8, 4, 3)",
                "return self.b(self.a(self.c(x)))",
            ),
            ("(4, 8)", "self.a = nn.Linear(8, 8)", "return self.a(torch.relu(self.a(x))) + x"),
        ]
    ),
)
def test_linear_layers_of_the_core(tmp_path, monkeypatch, shape, init, forward) -> None:
    """Their weights have a scale per channel, as the NPU's do."""
    preprocess = lower.EthosUBackend.preprocess

    def refuse(program: torch.export.ExportedProgram, specs: list[CompileSpec]) -> object:
        if any(node.target == exir_ops.edge.aten.linear.default for node in program.graph.nodes):
            raise ValueError("no linear layers")
        return preprocess(program, specs)

    monkeypatch.setattr(lower.EthosUBackend, "preprocess", staticmethod(refuse))
    init += "\nself.c = nn.Conv2d(8, 8, 3, padding=1)"
    result = _export(tmp_path, model_source(forward, f"(torch.randn({shape}),)", init))
    notes = _left_to_the_core(result)
    assert any(re.match(r"linear\b.* in int8: ", note) for note in notes)
    reasons = {note.rpartition(": ")[2] for note in notes}
    assert reasons <= {"no linear layers", "what it reads is in floating point"}
    assert result.operators["cortex_m::quantized_conv2d"] >= 1
    assert not any("linear" in name or "dequantize" in name for name in result.operators)
    _check_outputs(result)


def test_memory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        _export(tmp_path, _LAYER, npu=replace(_NPU, arena_bytes=256))
    assert "bytes of memory to work in, and the board has 256 for it" in str(caught.value)
    assert "Conv2D" in str(caught.value)


def test_integers_stay_what_they_are(tmp_path: Path) -> None:
    """Tokens go in and a class comes out: neither is anything to quantize."""
    result = _export(
        tmp_path,
        model_source(
            "return torch.argmax(self.second(self.first(x)), 2)",
            "(torch.randint(0, 8, (2, 4)),)",
            "self.first = nn.Embedding(8, 4); self.second = nn.Linear(4, 4)",
        ),
    )
    assert _delegates(result) == 1
    assert result.golden["input_0"].dtype == numpy.int64
    _check_outputs(result)


def test_a_pooling_whose_last_window_begins_in_the_padding(tmp_path: Path) -> None:
    forward = "return nn.functional.avg_pool2d(self.conv(x), 2, 2, 1, ceil_mode=True)"
    result = _export(tmp_path, model_source(forward, "(torch.rand(1, 4, 11, 11),)", "self.conv = nn.Conv2d(4, 4, 1)"))
    _check_outputs(result)


def test_quotients_of_integers_are_exact(tmp_path: Path) -> None:
    """Places of a map are coordinates, and counts are divided."""
    source = model_source(
        "y = self.layer(x)\nreturn y, y.flatten(1).argmax(1) // 7, torch.div(x1, 3, rounding_mode='trunc')",
        "(torch.randn(1, 2, 8, 8), torch.randint(-900, 900, (1, 50), dtype=torch.int32))",
        "self.layer = nn.Conv2d(2, 2, 3)",
        "x, x1",
    )
    result = _export(tmp_path, source, io="float32")
    for index in (1, 2):
        assert (result.golden[f"output_{index}"] == result.golden[f"eager_{index}"]).all()


@pytest.mark.parametrize("layer", ["nn.Linear(4, 4)", *by_hand(["nn.RNN(4, 4)", "nn.LSTM(4, 4)"])])
def test_numbers_that_depend_on_no_input_need_no_range(tmp_path: Path, layer: str) -> None:
    """A similarity has a constant minimum of its denominator, a recurrent layer a constant initial state."""
    forward = "y = self.layer(x)\ny = y if torch.is_tensor(y) else y[0]\n"
    forward += "return nn.functional.cosine_similarity(y[:, 0], y[:, 1])"
    source = model_source(forward, "(torch.randn(2, 4, 4),)", f"self.layer = {layer}")
    assert _delegates(_export(tmp_path, source)) >= 1


def _left_to_the_core(result: Result) -> list[str]:
    return [line.partition("stays on the core: ")[2] for line in result.said if "stays on the core: " in line]


def test_a_layer_that_executorch_cannot_lower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core computes it, with the passes' message as the reason, and the NPU computes the rest."""
    monkeypatch.setattr(delegates, "tables_before_pools", contextlib.nullcontext)
    forward = "y = torch.tanh(self.first(x))\ny = nn.functional.avg_pool2d(y, 2)\nreturn self.second(y)"
    result = _export(tmp_path, model_source(forward, _IMAGE, _CONVOLUTIONS))
    assert _delegates(result) == 2
    (note,) = _left_to_the_core(result)
    assert note.startswith("avg_pool2d in int8: my_model.py:12: ExecuTorch takes it for ethos-u55-128 and can't")
    assert "Unsupported input" in note and "\n" not in note
    _check_outputs(result)


def test_what_executorch_does_not_expect(tmp_path: Path) -> None:
    """The pooling check expects four dimensions; the export reports that it doesn't support the pooling."""
    forward = "y, at = nn.functional.max_pool2d(self.first(x), 2, return_indices=True)\nreturn self.second(y), at"
    result = _export(tmp_path, model_source(forward, "(torch.randn(4, 12, 12),)", _CONVOLUTIONS))
    assert _delegates(result) == 2
    assert result.operators["aten::max_pool2d_with_indices"] == 1
    place = "max_pool2d_with_indices in floating point: my_model.py:"
    (note,) = (note for note in _left_to_the_core(result) if note.startswith(place))
    assert (": ExecuTorch's check of it ended with " if _IS_BEFORE_1_5 else "its result is of 64-bit integers") in note


def test_places_of_maxima(tmp_path: Path) -> None:
    """They are the core's; maxima beside them the NPU's."""
    forward = "y = self.first(x)\nreturn *y.max(1), *y.min(2, keepdim=True), y.max(3)[1]"
    result = _export(tmp_path, model_source(forward, _IMAGE, _CONVOLUTIONS))
    assert _delegates(result) == 1
    assert {"aten::argmax", "aten::argmin"} <= result.operators.keys()
    assert not {"aten::max", "aten::min", "aten::amax", "aten::amin"} & result.operators.keys()
    _check_outputs(result)


@pytest.mark.parametrize(
    ("pools", "npu"),
    [
        (("max_pool2d(x, 5, 4, 2)", "avg_pool2d(x, 5, (4, 6), 2, False, False)"), _U85),
        *by_hand([(("max_pool2d(x, 3, 4, 1, ceil_mode=True)", "avg_pool2d(x, 5, (1, 4), 2)"), _NPU)]),
    ],
)
def test_poolings_of_larger_strides_than_the_npu_has(tmp_path: Path, pools: tuple[str, str], npu: Npu) -> None:
    forward = "return " + ", ".join(f"nn.functional.{pool}" for pool in pools)
    # Averages have the input's scale, in which averages around 0 would be a few integers only.
    result = _export(tmp_path, model_source(forward, "(torch.rand(1, 4, 16, 17) - 0.25,)"), npu=npu)
    _check_whole(result)


def test_integers_that_a_state_and_an_output_have(tmp_path: Path) -> None:
    forward = """
found = (self.layer(x) + self.emb(self.last)).argmax(-1)
self.last.copy_(torch.where(found != 0, found, self.last))
found = (self.layer(x) + self.emb(self.last)).argmax(-1)
self.last.copy_(torch.where(found != 0, found, self.last))
return self.layer(x), self.last.clone()
"""
    init = (
        "self.layer, self.emb = nn.Linear(6, 4), nn.Embedding(4, 4)\n"
        "self.register_buffer('last', torch.zeros(1, dtype=torch.int64))"
    )
    result = _export(tmp_path, model_source(forward, "(torch.randn(1, 6),)", init))
    assert numpy.array_equal(result.golden["output_1"], result.golden["eager_1"])
    _check_outputs(result)


def test_a_subgraph_that_returns_its_input_is_left_to_the_core(tmp_path: Path) -> None:
    """Channels-last, the permuted image has the same bytes."""
    init = "self.conv = nn.Conv2d(4, 8, 3)"
    result = _export(tmp_path, model_source("return self.conv(x), x.permute(0, 2, 3, 1)", _IMAGE, init))
    assert any("permute in int8" in line and "returns one of its inputs" in line for line in result.said)
    _check_outputs(result)


@pytest.mark.parametrize("dtype", ["double", "half"])
def test_another_floating_point_stays_on_the_core(dtype: str, tmp_path: Path) -> None:
    """A constant of it makes what reads it one."""
    forward = f"y = self.layer(x).{dtype}()\nreturn self.layer((y - y.mean(-1, True) * self.gain).float())"
    init = f"self.layer = nn.Linear(8, 8)\nself.register_buffer('gain', torch.full((1,), 0.5).{dtype}())"
    result = _export(tmp_path, model_source(forward, "(torch.rand(2, 8),)", init))
    assert _delegates(result) == 2
    _check_outputs(result)


def test_dynamic_shapes(tmp_path: Path) -> None:
    source = _LAYER + functions(dynamic_shapes="{'x': {2: torch.export.Dim('h', max=12)}}")
    with pytest.raises(UserError, match="takes no dynamic_shapes"):
        _export(tmp_path, source)


def test_each_attempt_has_the_constants_that_delegates_took_in_the_one_before() -> None:
    program = capture(torch.nn.Linear(3, 2).eval(), (torch.randn(1, 3),))
    found = []

    def lower_once(refused: Mapping[str, str]) -> int:
        found.append(set(program.state_dict))
        program.state_dict.clear()
        if not refused:
            raise LoweringError(["fc"], "no reason")
        return len(refused)

    assert lower_all_but_refused(program, lower_once, lambda lowered: lowered) == 1
    assert found == [{"weight", "bias"}] * len(found) and len(found) > 1


def test_many_refused_places_are_not_located_one_by_one() -> None:
    """Locating each one takes several attempts."""
    places = [f"line {number}" for number in range(64)]
    attempts: list[Mapping[str, str]] = []

    def lower_once(refused: Mapping[str, str]) -> set[str]:
        attempts.append(refused)
        if left := [place for place in places if place not in refused]:
            raise LoweringError(left, "no reason")
        return set(refused)

    program = capture(torch.nn.ReLU(), (torch.randn(1, 3),))
    assert lower_all_but_refused(program, lower_once, lambda lowered: lowered) == set(places)
    assert len(attempts) < 20


@pytest.mark.parametrize(
    ("function", "by", "reason"),
    [
        # An assertion of the compiler's ends its process, and not the export.
        (
            (vela.arm_backend, "vela_compile"),
            lambda *_, **__: os.abort(),
            "Vela can't compile it for ethos-u55-128: it ended with SIGABRT",
        ),
        # Vela merges outputs that hold the same elements; the delegate would have fewer than its callers read.
        (
            (vela, "parse"),
            lambda payload: replace(parse(payload), outputs=()),
            "Vela can't compile it for ethos-u55-128: it leaves out 1 of the 1 outputs of a subgraph",
        ),
        (
            (delegates, "_reference"),
            lambda *_: os.abort(),
            "the TOSA reference model, which the NPU's results are held to, can't compute it: it ended with SIGABRT",
        ),
    ],
    ids=["vela", "outputs", "reference model"],
)
def test_what_ends_a_compilation_leaves_the_layer_to_the_core(tmp_path, monkeypatch, function, by, reason) -> None:
    monkeypatch.setattr(*function, by)
    result = _export(tmp_path, model_source("return torch.relu(self.first(x))", _IMAGE, _CONVOLUTIONS))
    assert _delegates(result) == 0
    assert any(note.endswith(reason) for note in _left_to_the_core(result))
    _check_outputs(result)


_TOKENS = "(torch.randn(1, 12, 32),)"
_HEADS = """\
q, k, v = self.qkv(x).reshape(1, 12, 3, 2, 16).permute(2, 0, 3, 1, 4).unbind(0)
scores = q @ k.transpose(-2, -1) / 4
attend = nn.functional.scaled_dot_product_attention
"""
_SCORES = """\
self.qkv = nn.Linear(32, 96)
self.seen = torch.tril(torch.ones(12, 12, dtype=torch.bool))
self.far = torch.zeros(12, 12).masked_fill(~self.seen, -float("inf"))
self.near = -torch.arange(12.0).sub(torch.arange(12.0)[:, None]).abs()
"""


@pytest.mark.parametrize(
    ("results", "npu", "io"),
    [
        (
            [
                "attend(q, k, v, is_causal=True)",
                # own_layers_test covers the other forms, which the same code reads.
                # Other numbers, some of them added to scores that are not excluded.
                "(scores + (self.near + self.far)).softmax(-1) @ v",
                *by_hand(
                    [
                        # A mask of shifted windows, and one of padding.
                        "(scores.view(1, 2, 12, 12) + self.far.clamp(min=-100)).view(2, 12, 12).softmax(-1) @ v[0]",
                        "torch.where(torch.arange(12) < 9, scores, torch.finfo(torch.float32).min).softmax(-1) @ v",
                    ]
                ),
            ],
            _NPU,
            "int8",
        ),
        *by_hand([(["attend(q, k, v, is_causal=True)", "attend(q, k, v, self.far)"], _U85, "int16")]),
    ],
)
def test_masked_attention(tmp_path: Path, results: list[str], npu: Npu, io: str) -> None:
    """Masks don't affect the scale of scores, and the NPU computes everything."""
    source = model_source(f"{_HEADS}return {', '.join(results)}", _TOKENS, _SCORES)
    result = _export(tmp_path, source, io, npu)
    _check_whole(result, decibels=30 if io == "int8" else 45)


@pytest.mark.parametrize("io", ["int8", *by_hand(["int16"])])
def test_masks_that_are_inputs(tmp_path: Path, io: str) -> None:
    forward = f"{_HEADS}return attend(q, k, v, x1), (scores - 1e4 * (1 - x2)).softmax(-1) @ v"
    inputs = "(torch.randn(1, 12, 32), -1e4 * (torch.arange(12)[None] > 7), 1.0 * (torch.arange(12)[None] < 5))"
    result = _export(tmp_path, model_source(forward, inputs, _SCORES, "x, x1, x2"), io)
    assert _worst(result) > 30
    assert io == "int16" or not result.operators


class _MaskedExtremes(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = x.masked_fill(mask, -torch.inf)
        # The last row of this one is excluded as a whole, which its result tells.
        gone = torch.where(torch.arange(5)[:, None] > 3, -1e4, x)
        return rows.amax(1), torch.where(mask.mT, x.mT, -1e9).max(2)[0], x.masked_fill(mask, 1e4).amin(1), gone.amax(-1)


def test_a_maximum_of_all_elements_stays_one() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.amax(), x.mean(None)

    program = capture(Model().eval(), (torch.randn(1, 2, 4, 4),))
    before = [node.target for node in program.graph.nodes]
    forms.reduce_images(program, npu=_NPU)
    assert [node.target for node in program.graph.nodes] == before


def test_what_masks_exclude_from_maxima_and_minima_has_no_share_in_ranges() -> None:
    path, given = Path("my_model.py"), (torch.randn(1, 5, 3), torch.arange(5)[None, :, None] > 2)
    module = _MaskedExtremes().eval()
    program = capture(module, given)
    write_masks(program, [given], State({}), 8, path)
    results = program.module(check_guards=False)(*given)
    assert all(map(torch.equal, results, module(*given)))
    masked = [node for node in program.graph.nodes if node.target in CHOICES | MASKED_FILLS]
    ranges = Extents(program, masked).observe([given], State({}), path).ranges
    assert sorted(max(-least, most) > 100 for least, most in ranges.values()) == [False, False, False, True]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Tensor x dtype torch.float32 and/or tensor y dtype torch.float32 is not supported in a.", "X takes no fl"),
        ("Had torch.int16 output that is not supported by TOSA-1.0+INT.", "X gives no int16 there"),
        ("Output dtype torch.int16 is not supported in a.", "X gives no int16 there"),
        ("Unsupported input dtype torch.int32 (Supports i8, i16).", "X takes no int32 there"),
        ("Unsupported input dtype torch.float32", "X takes no float32 there"),
        ("aten.slice_copy.Tensor: unsupported values dtype torch.int64; expected bool.", "X takes no int64 there"),
        (
            "<EdgeOpOverload: aten.slice_copy.Tensor>: schema = aten::slice_copy.Tensor(Tensor self, int dim=0) -> "
            "Tensor: unsupported values dtype torch.int64; expected one of (torch.bool).",
            "X takes no int64 there",
        ),
        ("Non-constant int64 input aten_add_tensor_3", "one of its inputs is of 64-bit integers"),
        (
            "index_select: index must be rank-1 int32, got dtype=torch.int64 shape=(3,).",
            "its indices are of 64 bits, X's of 32",
        ),
        ("TOSA ARGMAX does not support keepdim=True.", "its indices are of 64 bits, X's of 32"),
        ("aten.slice_copy.Tensor: dtype torch.float32 requires FP profile or INT.", "X takes no float32 there"),
        ("Casting from torch.int32 is not supported on U55.", "X casts nothing from int32"),
        ("a has shape b, rank=7 which is unsupported. Max supported rank is 6.", "a tensor has more than 6 dimensions"),
    ],
)
def test_reasons_have_no_names_of_pytorchs_inside(reason: str, words: str) -> None:
    assert delegates.in_words_of_models(reason, "X").startswith(words)


def test_a_row_of_which_nothing_is_left(tmp_path: Path) -> None:
    """A row that is far below zero everywhere excludes nothing."""
    init = "self.all = torch.zeros(12, 12)\nself.all[3] = -100"
    forward = "return (x @ x.transpose(1, 2) / 4 + self.all).softmax(-1) @ x"
    result = _export(tmp_path, model_source(forward, "(torch.randn(1, 12, 16),)", init))
    assert _worst(result) > 10
    (output,) = result.manifest["outputs"]
    values, eager = (result.golden[f"{name}_0"][0, :, 3] for name in ("output", "eager"))
    assert numpy.abs((values.astype(float) - output["zero_point"]) * output["scale"] - eager).max() < 0.1


def test_products_with_vectors(tmp_path: Path) -> None:
    forward = (
        "y = torch.relu(self.matrix @ x)\n"
        "z = self.vector @ x1\n"
        "return torch.mv(self.matrix, y), y @ self.matrix, torch.dot(self.vector, y), z, x1 @ x, x1.T @ y"
    )
    init = "self.matrix, self.vector = torch.randn(16, 16), torch.randn(16)"
    result = _export(tmp_path, model_source(forward, "(torch.randn(16), torch.randn(16, 16))", init, "x, x1"))
    _check_whole(result, decibels=25)


@pytest.mark.parametrize(("io", "least"), [("int8", 25), *by_hand([("int16", 45)])])
def test_ranges_have_room_for_what_calibration_has_not_seen(tmp_path: Path, io: str, least: float) -> None:
    init = "self.heads = nn.ModuleList(nn.Linear(64, 4) for _ in range(8))"
    source = model_source("return [head(x.tanh()) for head in self.heads]", "(torch.randn(64),)", init)
    samples = "[(torch.randn(64, generator=torch.Generator().manual_seed(each)),) for each in range({}, {})]"
    labelled = f"{samples.format(8, 40)}, torch.zeros(32, dtype=torch.int64)"
    source += functions(calibration_inputs=samples.format(0, 8), evaluation_set=labelled)
    assert _worst(_export(tmp_path, source, io)) > least


def test_one_pixel_is_upsampled(tmp_path: Path) -> None:
    """Such tensors come from a pooling over the whole image."""
    forward = (
        "y = x.mean((2, 3), keepdim=True)\n"
        "return [nn.functional.interpolate(y, size=size, mode='bilinear', align_corners=corners) for size, corners in "
        "(((12, 12), False), ((5, 7), True))]"
    )
    result = _export(tmp_path, model_source(forward, _IMAGE))
    _check_whole(result, decibels=35)


def test_weights_that_are_computed(tmp_path: Path) -> None:
    """The weights are features of a template; the NPU computes the layers around."""
    forward = (
        "y, template = torch.relu(self.conv(x)), torch.relu(self.conv(x1))\n"
        "return self.last(nn.functional.conv2d(y, template.transpose(0, 1), groups=8))"
    )
    init = "self.conv, self.last = nn.Conv2d(4, 8, 3), nn.Conv2d(8, 3, 1)"
    inputs = "(torch.randn(1, 4, 12, 12), torch.randn(1, 4, 6, 6))"
    result = _export(tmp_path, model_source(forward, inputs, init, "x, x1"))
    assert _delegates(result) == 2
    (note,) = _left_to_the_core(result)
    assert "convolution" in note and note.endswith("its weights are no constants")
    assert _worst(result) > 25


def test_what_vela_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transposed convolution of 16 bits: the partitioner takes it for the NPU, the compiler does not.

    What stands in the same line is the NPU's all the same. Messages name locations in the model, here in another file,
    whatever Vela's working directory is.
    """
    (tmp_path / "layers.py").write_text(
        "from torch import nn\n\n\nclass Up(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.ConvTranspose2d(4, 4, 3, 2)\n\n"
        "    def forward(self, x):\n        return self.layer(x)\n",
        encoding="utf-8",
    )
    init = f"{_CONVOLUTIONS}\nself.up = Up()"
    source = model_source("return self.second(self.up(self.first(x)).relu())", _IMAGE, init)
    (tmp_path / "my_model.py").write_text(f"from layers import Up\n{source}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = export_file(Path("my_model.py"), options=Options("cortex-m55", "ethos_u", "int16", npu=_NPU))
    assert _delegates(result) == 2
    note = _left_to_the_core(result)[0]
    assert note.startswith("convolution in floating point: up.layer (ConvTranspose2d) at layers.py:10: ")
    assert "Vela can't compile it for ethos-u55-128: " in note
    _check_outputs(result, 0.02)


def _transpositions(result: Result) -> int:
    assert result.npu is not None
    return sum(layer["operator"] == "Transpose" for each in result.npu["delegates"] for layer in each["layers"])


_ROWS_INIT = """
self.first, self.gate = nn.Conv1d(3, 16, 3, padding=1), nn.Conv1d(16, 32, 3, dilation=2)
self.out, self.squeeze, self.head = nn.Conv1d(16, 16, 1), nn.Conv1d(1, 1, 3, padding=1), nn.Linear(16, 5)
"""
_ROWS = """
x = torch.relu(self.first(x))
y = self.gate(F.pad(x, (4, 0)))
x = x + self.out(torch.tanh(y[:, :16]) * torch.sigmoid(y[:, 16:]))
x = x * torch.sigmoid(x.mean(2, keepdim=True))
return self.head(F.silu(x).amax(-1)) - self.head(x[..., -1])
"""
_RESIDUAL_INIT = """
self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
self.scale, self.head = nn.Parameter(torch.rand(16, 1, 1)), nn.Linear(16, 5)
"""
_RESIDUAL = """
x = torch.relu(self.first(x))
x = x + F.hardswish(self.second(x)) * self.scale
return self.head(x.mean((2, 3))) + self.head(x.amax((2, 3)))
"""


_TRANSPOSED = {"rows": (_ROWS, (1, 3, 32), _ROWS_INIT, 1), "images": (_RESIDUAL, (1, 3, 8, 8), _RESIDUAL_INIT, 0)}


@pytest.mark.parametrize(
    ("kind", "npu"), [("rows", _NPU), *by_hand([("images", _U85), ("rows", _U85), ("images", _NPU)])]
)
def test_nothing_between_layers_is_transposed(tmp_path: Path, kind: str, npu: Npu) -> None:
    """Except rows that are an input, whose steps are contiguous."""
    forward, shape, init, most = _TRANSPOSED[kind]
    source = "import torch.nn.functional as F\n" + model_source(forward, f"(torch.randn({shape}),)", init)
    result = _export(tmp_path, source, npu=npu)
    _check_whole(result)
    assert _transpositions(result) <= most


_CALIBRATED = functions(calibration_inputs="[(torch.randn(1, 12),) for _ in range(12)]")
_BUCKETS = "self.table, self.head = nn.Embedding(5, 6), nn.Linear(72, 3)"
_CACHE = """
self.key, self.head = nn.Linear(12, 6), nn.Linear(6, 6)
self.register_buffer("keys", torch.zeros(1, 2, 12, 3))
self.register_buffer("at", torch.zeros(1, dtype=torch.int32))
"""
_CACHED = """
self.keys.index_copy_(2, self.at.long() % 12, self.key(x).view(1, 2, 1, 3))
self.at.add_(1)
return self.head(self.keys[:, :, 0].reshape(1, 6))
"""


@pytest.mark.parametrize(
    ("init", "forward"),
    {
        "an input is compared": (_BUCKETS, "b = torch.tensor([-1.0, -0.3, 0.2, 0.9])\nreturn self.head(self.table("
        "torch.bucketize(x, b)).flatten(1))"),
        "an input has steps": ("self.head = nn.Linear(12, 12)", "return self.head(x), torch.remainder(x, 0.1)"),
        "a slot that one sample fills": (_CACHE, _CACHED),
        "an input is compared and joined": ("self.body, self.head = nn.Linear(12, 4), nn.Linear(16, 4)",
        "y = torch.cat([torch.sigmoid(self.body(x)) / 9, x], 1)\nreturn self.head(y), (x > 0.25).float()"),
    }.values(),
)  # fmt: skip
def test_values_of_inputs_that_decide_are_exact(tmp_path: Path, init: str, forward: str) -> None:
    result = _export(tmp_path, model_source(forward, "(torch.randn(1, 12),)", init) + _CALIBRATED, "float32")
    assert _worst(result) > 25


@pytest.mark.parametrize("npu", [_NPU, _U85], ids=lambda npu: npu.accelerator)
def test_an_assignment_adds_for_each_index(tmp_path: Path, npu: Npu) -> None:
    forward = "y = self.fc(x)\nreturn self.fc(y.index_put((torch.tensor([0, 2, 0]),), y[1:4], True))"
    source = model_source(forward, "(torch.randn(5, 9),)", "self.fc = nn.Linear(9, 9)")
    assert _worst(_export(tmp_path, source, npu=npu)) > 25


def test_codes_are_compared_with_signs(tmp_path: Path) -> None:
    """The sizes of the buffer, an operand after a function of several operators, were symbols; signs were inexact."""
    forward = "d = (torch.sign(x)[:, None] != self.codes).float().mean(-1)\nreturn d, d.argmin(-1)"
    init = "self.register_buffer('codes', torch.randn(5, 12).sign())"
    result = _export(tmp_path, model_source(forward, "(torch.randn(1, 12),)", init) + _CALIBRATED, "float32")
    assert result.decibels(0) > 25


def test_copies_for_the_npu_are_none_on_the_core_and_state_has_a_range_without_calibration_inputs(
    tmp_path: Path,
) -> None:
    init = "self.register_buffer('q', torch.tensor([1.0, 0, 0, 0]))\nself.register_buffer('i', torch.zeros(3))"
    forward = (
        "w, x, y, z = self.q.unbind()\n"
        "self.i += torch.linalg.cross(nn.functional.normalize(acc, dim=-1), torch.stack([2 * x * z, w * x, w * w]))\n"
        "a, b, c = (gyr + self.i).unbind()\n"
        "q = self.q + torch.stack([-x * a - y * b, w * a + y * c, w * b - x * c, w * c + x * b]) * 0.01\n"
        "self.q.copy_(q)\nreturn torch.atan2(q[0] * q[1], 1 - 2 * q[1] ** 2).reshape(1), q.clone()"
    )
    result = _export(tmp_path, model_source(forward, "(torch.randn(3), torch.randn(3))", init, "acc, gyr"))
    assert "aten::atan2" in result.operators and "aten::avg_pool2d" not in result.operators
    assert not any("avg_pool2d" in said for said in result.said)
