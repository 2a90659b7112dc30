"""Tests that an export is held to the outputs of the user's module."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tools.pipeline.export.backends.cortex_m import lower
from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.capture.reference import WrongReference, differs
from tools.pipeline.export.options import Options
from tools.pipeline.export.quantize import quantize
from tools.pipeline.export.rewrite import no_ops
from tools.pipeline.export.rewrite.numbers import write_numbers
from tools.pipeline.export.testing import export_source, functions, model_source

_INT8 = Options("cortex-m4", "cortex_m")
_STREAM = model_source(
    "self.level.mul_(0.5).add_(x)\nreturn self.conv(self.level), x.argmax(), torch.log(x)",
    "(torch.rand(1, 2, 6),)",
    'self.conv = nn.Conv1d(2, 4, 3)\nself.register_buffer("level", torch.zeros(1, 2, 6))',
)


def _doubled(module, _samples):
    """Changes what a model computes, as an equalization does that misses a reader of a layer."""
    with torch.no_grad():
        for weight in (*module.parameters(), *module.buffers()):
            weight.mul_(2)
    return []


def test_a_model_that_equalization_changes_is_an_internal_error(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(quantize, "equalize", _doubled)
    with pytest.raises(WrongReference) as caught:
        export_source(tmp_path, _STREAM, options=_INT8)
    assert str(caught.value) == (
        "output 0 (output_0) of the model that is quantized is not model()'s any more after a step behind the passes, "
        "such as the equalization of channels"
    )


def test_a_lowered_program_that_computes_something_else_is_an_internal_error(tmp_path: Path, monkeypatch) -> None:
    run = lower.run
    monkeypatch.setattr(lower, "run", lambda *args: [[tensor * 2 for tensor in outputs] for outputs in run(*args)])
    with pytest.raises(WrongReference, match=r"output 0 \(output_0\) of the lowered program is not that of the quan"):
        export_source(tmp_path, _STREAM, options=replace(_INT8, packed=False))


def test_inputs_beyond_those_of_calibration_may_meet_the_limit_of_an_equalized_channel(tmp_path: Path) -> None:
    source = model_source(
        "return self.read(nn.functional.relu6(self.write(x))).relu()",
        "(8 * torch.rand(1, 3, 10, 10),)",
        "self.write, self.read = nn.Conv2d(3, 16, 3, bias=False), nn.Conv2d(16, 8, 3)\n"
        "self.write.weight.data *= 3 * torch.logspace(-2, 0, 16).reshape(-1, 1, 1, 1)\n"
        "self.read.weight.data /= torch.logspace(-2, 0, 16).reshape(1, -1, 1, 1)",
    )
    source += functions(calibration_inputs="[(torch.rand(1, 3, 10, 10) / 2,)]")
    assert export_source(tmp_path, source, options=_INT8).program


def test_the_error_names_the_pass(tmp_path: Path, monkeypatch) -> None:
    def wrong(program):
        (node,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.log.default)
        node.target = torch.ops.aten.exp.default

    monkeypatch.setattr(no_ops, "drop_no_ops", wrong)
    with pytest.raises(WrongReference, match=r"output 2 .* after the pass drop_no_ops \(cortex_m, captured\)"):
        export_source(tmp_path, _STREAM, options=_INT8)


@pytest.mark.parametrize(
    ("result", "expected", "is_other"),
    [
        ([1.0, 2.0], [1.0, 2.0001], False),
        ([1.0, 2.0], [1.0, 2.2], True),
        # Only finite numbers are compared, and no results that are all rounding errors.
        ([1.0, 2.0], [1.0, float("inf")], False),
        ([1e-9, 0.0], [0.0, 1e-9], False),
        ([1, 2, 3, 4], [1, 2, 3, 5], True),
        # An index of the maximum of almost equal numbers.
        ([3], [4], False),
        ([[1.0, 2.0]], [1.0, 2.0], True),
    ],
)
def test_results_differ_beyond_rounding(result, expected, is_other) -> None:
    assert differs([torch.tensor(result)], [torch.tensor(expected)]) == is_other


def test_numbers_beside_integers_without_dimensions_have_none() -> None:
    """ExecuTorch's quantizers for Arm would give the count one dimension, which the output then had, too."""

    class Count(torch.nn.Module):
        def forward(self, x):
            count = (x > 0).sum()
            return count + 1, count < 5, count * 0.5

    inputs = (torch.tensor([1.0, -1.0, 2.0]),)
    program = capture(Count().eval(), inputs)
    write_numbers(program)
    called = [node for node in program.graph.nodes if node.op == "call_function"]
    assert not any(isinstance(each, (int, float)) for node in called[2:] for each in node.args)
    results = program.module(check_guards=False)(*inputs)
    assert all(map(torch.equal, results, Count()(*inputs)))
    assert [each.dtype for each in results] == [torch.int64, torch.bool, torch.float32]
