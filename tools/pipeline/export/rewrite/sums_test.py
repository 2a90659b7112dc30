"""Tests sums whose terms are joined by the tensors that they are functions of."""

import numpy
import pytest
import torch

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.options import Options
from tools.pipeline.export.rewrite.sums import join_terms
from tools.pipeline.export.testing import export_source, model_source

_DIVERGENCE = "1 + x - y.pow(2) - x.exp()"
# Sums, and the operators that they become, in order.
_CASES = {
    _DIVERGENCE: ["pow", "exp", "sub", "add", "sub"],
    "x.exp() + y * y - 1 - x": ["exp", "mul", "sub", "sub", "add"],
    "y - x - x.exp()": ["exp", "add", "sub"],
    "y[0] + x - x.sin() + y[1]": ["select", "sin", "select", "sub", "add", "add"],
    "x.exp() - x + y": ["exp", "sub", "add"],
    "x + y + 1 - 2": ["add", "add", "sub"],
    "x.exp() + y - 1": ["exp", "sub", "add"],
    "x + x.exp() - 1": ["exp", "add", "sub"],
    "torch.add(x, y, alpha=2) - x": ["add", "sub"],
    "x * y + x - y": ["mul", "add", "sub"],
}


@pytest.mark.parametrize("term", _CASES)
def test_results_are_those_of_the_sum(term: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return eval(term)

    torch.manual_seed(0)
    inputs = torch.randn(3, 4), torch.randn(3, 4)
    program = capture(Model(), inputs)
    join_terms(program)
    assert [node.target._opname for node in program.graph.nodes if node.op == "call_function"] == _CASES[term]
    torch.testing.assert_close(program.module()(*inputs), Model()(*inputs))


def test_a_number_may_be_the_only_term_that_is_not_subtracted() -> None:
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return 3 - (y - (2 - x)) - x.exp()

    inputs = torch.randn(3, 4), torch.randn(3, 4)
    # Decompositions make subtractions from numbers.
    program = capture(Model(), inputs).run_decompositions()
    join_terms(program)
    torch.testing.assert_close(program.module()(*inputs), Model()(*inputs))


def test_a_divergence_takes_a_table_of_each_tensor_in_int8(tmp_path) -> None:
    init = "self.a, self.b = nn.Linear(6, 8), nn.Linear(6, 8)"
    source = model_source(f"x, y = self.a(x), self.b(x); return {_DIVERGENCE}", "(torch.randn(1, 6),)", init)
    result = export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m", packed=True))
    calls = {each["name"]: each["calls"] for each in result.manifest["operators"]}
    assert calls.pop("torch_fusion::linear_table") == 2
    assert calls == {"cortex_m::quantize_per_tensor": 1, "cortex_m::dequantize_per_tensor": 2, "aten::sub": 1}
    expected = result.golden["eager_0"]
    assert numpy.abs(result.golden["output_0"] - expected).max() <= 0.05 * numpy.ptp(expected)
