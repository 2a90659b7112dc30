"""Tests averages of the results, and before, of pointwise convolutions."""

import numpy
import pytest
import torch
from torch import nn

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.options import Options
from tools.pipeline.export.rewrite.averages import average_first, convolve_averages
from tools.pipeline.export.testing import export_source, model_source

_WIDE = nn.Conv2d(4, 3, 1)

# Layers, and the operators that are left of them, in order.
_CASES: dict[str, tuple[list[nn.Module], list[str]]] = {
    "transition": ([nn.ReLU(), _WIDE, nn.AvgPool2d(2)], ["relu", "conv2d"]),
    "transition to many channels": ([nn.Conv2d(4, 40, 1), nn.AvgPool2d(2)], ["avg_pool2d", "conv2d"]),
    "in groups": ([nn.Conv2d(4, 8, 1, groups=2), nn.AvgPool2d((2, 1))], ["avg_pool2d", "conv2d"]),
    "to few channels": ([nn.Conv2d(4, 1, 1), nn.AvgPool2d(2)], ["conv2d", "avg_pool2d"]),
    "with an activation": ([_WIDE, nn.ReLU(), nn.AvgPool2d(2)], ["conv2d", "relu", "avg_pool2d"]),
    "larger kernel": ([nn.Conv2d(4, 4, 3), nn.AvgPool2d(2)], ["conv2d", "avg_pool2d"]),
    "padded": ([_WIDE, nn.AvgPool2d(3, 2, 1)], ["conv2d", "avg_pool2d"]),
    "padding not counted": ([_WIDE, nn.AvgPool2d(3, 2, 1, count_include_pad=False)], ["avg_pool2d", "conv2d"]),
    "whole windows": ([_WIDE, nn.AvgPool2d(2, ceil_mode=True)], ["avg_pool2d", "conv2d"]),
    "inception": ([nn.AvgPool2d(3, 1, 1), _WIDE], ["conv2d"]),
    "inception without bias": ([nn.AvgPool2d((1, 3), 2), nn.Conv2d(4, 2, 1, bias=False)], ["conv2d"]),
    "inception to many channels": ([nn.AvgPool2d(3, 1, 1), nn.Conv2d(4, 9, 1)], ["avg_pool2d", "conv2d"]),
    "transition of the input": ([_WIDE, nn.AvgPool2d(2)], ["avg_pool2d", "conv2d"]),
    "strided": ([nn.AvgPool2d(2), nn.Conv2d(4, 3, 1, 2)], ["avg_pool2d", "conv2d"]),
}


@pytest.mark.parametrize("case", _CASES)
def test_results_are_those_of_the_layers(case: str) -> None:
    torch.manual_seed(0)
    layers, operators = _CASES[case]
    model, x = nn.Sequential(*layers).eval(), torch.randn(2, 4, 9, 8)
    program = convolve_averages(average_first(capture(model, (x,))))
    found = [node.target._opname for node in program.graph.nodes if node.op == "call_function"]
    assert [name for name in found if name not in ("div", "repeat")] == operators
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x), model(x))


@pytest.mark.parametrize("options", [Options(), Options("cortex-m4", "cortex_m", packed=True)], ids=["float32", "int8"])
def test_a_transition_takes_a_quarter_of_the_products_and_no_image_of_its_results(options, tmp_path) -> None:
    init = "self.a = nn.Conv2d(3, 32, 3, padding=1); self.b = nn.Conv2d(32, 24, 1)"
    forward = "return nn.functional.avg_pool2d(self.b(self.a(x)), 2)"
    result = export_source(tmp_path, model_source(forward, "(torch.randn(1, 3, 16, 16),)", init), options=options)
    assert sum(each["macs"] for each in result.manifest["operators"]) == 16 * 16 * 27 * 32 + 8 * 8 * 32 * 24
    expected = result.golden["eager_0" if options.backend == "cortex_m" else "output_0"]
    assert numpy.abs(result.golden["output_0"] - expected).max() <= 0.05 * numpy.ptp(expected)
