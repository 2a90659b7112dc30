"""Tests convolution kernels without rows that only multiply padding, and convolutions of images one pixel wide."""

from pathlib import Path

import numpy
import pytest
import torch
from torch import nn

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.options import Options
from tools.pipeline.export.rewrite.kernel_reach import leave_out_what_is_over_padding
from tools.pipeline.export.testing import Result, export_source, model_source

# Layers, the sizes of their images, and those of the kernels that are left.
_CASES: dict[str, tuple[nn.Module, tuple[int, ...], tuple[int, ...]]] = {
    "one pixel": (nn.Conv2d(4, 6, 3, padding=1), (1, 1), (1, 1)),
    "one pixel, every channel by itself": (nn.Conv2d(4, 4, 5, padding=2, groups=4, bias=False), (1, 1), (1, 1)),
    "the first of two": (nn.Conv2d(4, 6, 3, 2, 1), (2, 2), (2, 2)),
    "one row": (nn.Conv2d(4, 6, (5, 3), padding=(2, 1)), (1, 8), (1, 3)),
    "one column": (nn.Conv2d(4, 6, 3, padding="same"), (8, 1), (3, 1)),
    "dilated": (nn.Conv2d(4, 6, 3, padding=4, dilation=4), (4, 5), (1, 3)),
    "all": (nn.Conv2d(4, 6, 3, padding=1), (2, 2), (3, 3)),
    "not padded": (nn.Conv2d(4, 6, 2), (2, 3), (2, 2)),
    "more padding than kernel": (nn.Conv2d(4, 6, 3, padding=3), (1, 1), (3, 3)),
    "padded on one side more": (nn.Conv2d(4, 6, (4, 3), padding="same"), (8, 1), (4, 3)),
    "sequence": (nn.Conv1d(4, 6, 9, padding="same"), (3,), (5,)),
    "volume": (nn.Conv3d(4, 6, 3, padding=1), (1, 4, 1), (1, 3, 1)),
}


@pytest.mark.parametrize("case", _CASES)
def test_what_is_only_over_padding_is_left_out_exactly(case: str) -> None:
    torch.manual_seed(0)
    layer, sizes, kernel = _CASES[case]
    x = torch.randn(2, 4, *sizes)
    program = leave_out_what_is_over_padding(capture(layer.eval(), (x,)))
    (node,) = [node for node in program.graph.nodes if node.name.startswith("conv")]
    assert tuple(node.args[1].meta["val"].shape[2:]) == kernel
    with torch.no_grad():
        # Fewer products with zero may be added in another order.
        torch.testing.assert_close(program.module()(x), layer(x))


def test_programs_have_no_weights_that_are_only_over_padding(tmp_path: Path) -> None:
    options = Options("cortex-m4", "cortex_m", "int8")

    def export(layers: str) -> Result:
        init, forward = f"self.layers = nn.Sequential({layers})", "return self.layers(x)"
        return export_source(tmp_path, model_source(forward, "(torch.randn(1, 16, 2, 2),)", init), options=options)

    first = "nn.Conv2d(16, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU()"
    whole = export(f"{first}, nn.Conv2d(16, 16, 1)")
    cut = export(f"{first}, nn.Conv2d(16, 16, 3, 1, 1)")
    assert len(cut.program) == len(whole.program)
    assert [sum(each["macs"] for each in result.manifest["operators"]) for result in (cut, whole)] == [16 * 16 * 5] * 2


def _over_time(is_image: bool) -> str:
    """A model of convolutions over time, of images that are one pixel wide or of sequences."""

    def both(one: int, other: int) -> str:
        return f"({one}, {other})" if is_image else str(one)

    kind = "nn.Conv2d" if is_image else "nn.Conv1d"
    init = (
        f"self.a = {kind}(4, 8, {both(5, 1)}, {both(2, 1)}, {both(2, 0)})\n"
        f"self.b = {kind}(8, 8, {both(3, 1)}, 1, {both(2, 0)}, {both(2, 1)}, 8)\n"
        f"self.c = {kind}(8, 8, 1)"
    )
    x, y = ("x.unsqueeze(-1)", "y.squeeze(-1)") if is_image else ("x", "y")
    forward = f"y = self.a({x}).relu()\ny = torch.tanh(self.c(self.b(y).relu()) + y)\nreturn {y}"
    return model_source(forward, "(torch.randn(1, 4, 40),)", init)


def test_images_that_are_one_pixel_wide_lie_down(tmp_path: Path) -> None:
    options = Options("cortex-m4", "cortex_m", "int8", packed=True)
    images, sequences = (export_source(tmp_path, _over_time(each), options=options) for each in (True, False))
    # The number of operators is the same: only inputs and outputs move, in int8 where images are channels-last.
    assert sum(images.operators.values()) == sum(sequences.operators.values())
    convolutions = images.calls(*(name for name in images.operators if "convolution" in name))
    assert [list(image.sizes[2:]) for image, *_ in convolutions] == [[1, 40], [1, 20], [1, 20]]
    expected = images.golden["eager_0"]
    for result in (images, sequences):
        (output,) = result.manifest["outputs"]
        steps = result.golden["output_0"].astype(numpy.float32) - output["zero_point"]
        # The error is a few quantization steps of the result's range.
        assert numpy.abs(steps * output["scale"] - expected).max() <= 0.05 * numpy.ptp(expected)
