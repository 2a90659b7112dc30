import itertools
import random
from pathlib import Path

import numpy
import pytest

from tools.artifacts.packed_layer.packed_layer import CONVOLUTION, DSP, Head
from tools.pipeline.export.backends.cortex_m.winograd import winograd_lead
from tools.pipeline.export.options import Options
from tools.pipeline.export.testing import Result, export_source, model_source

_WINOGRAD = "torch_fusion::winograd_convolution"
_DIRECT = "torch_fusion::convolution"
# The first layers need more memory than those that follow, which leave some of it free.
_INIT = """
self.first, self.down = nn.Conv2d(3, 32, 3, padding=1), nn.MaxPool2d(2)
self.middle, self.last = nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
"""
_FORWARD = "return self.last(torch.relu(self.middle(self.down(self.first(x))))).mean((2, 3))"


def _exported(folder: Path, growth: int, forward: str = _FORWARD, init: str = _INIT, core: str = "cortex-m4") -> Result:
    source = model_source(forward, "(torch.randn(1, 3, 24, 24),)", init)
    return export_source(folder, source, options=Options(core, "cortex_m", winograd_growth=growth))


def test_convolutions_take_memory_that_is_free_and_what_is_granted(tmp_path: Path) -> None:
    direct, free, winograd = (_exported(tmp_path, growth) for growth in (0, 1, 40_000))
    assert [made.operators.get(_WINOGRAD, 0) for made in (direct, free, winograd)] == [0, 2, 2]
    (least,), (same,), (grown,) = (made.manifest["planned_buffers"] for made in (direct, free, winograd))
    assert least == same < grown <= least + 40_000
    # Results, origins and multiply-accumulates are the same.
    assert numpy.array_equal(winograd.golden["output_0"], direct.golden["output_0"])
    places = [
        [(entry["origin"], entry["macs"]) for entry in made.manifest["instructions"]] for made in (winograd, direct)
    ]
    assert places[0] == places[1]


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m55"])
def test_other_cores_have_other_products(tmp_path: Path, core: str) -> None:
    assert _WINOGRAD not in _exported(tmp_path, 40_000, core=core).operators


def test_other_convolutions_stay(tmp_path: Path) -> None:
    forms = ("(16, 32, 3, stride=2)", "(16, 32, 5)", "(16, 32, 3, dilation=2)", "(16, 4, 1)")
    init = "self.first, self.down = nn.Conv2d(3, 16, 3), nn.MaxPool2d(2)\n"
    init += f"self.others = nn.ModuleList([{', '.join(f'nn.Conv2d{form}' for form in forms)}])"
    forward = "y = self.down(self.first(x))\nreturn tuple(other(y) for other in self.others)"
    result = _exported(tmp_path, 40_000, forward, init)
    assert result.operators[_DIRECT] == 1 + len(forms) and _WINOGRAD not in result.operators


def _least_lead(head: Head, tiles: int, image: list[int], out: list[int]) -> int:
    """The least distance with which no byte is written before it has been read, by trying out every access."""
    (batch, channels, height, width), (_, out_channels, out_height, out_width) = image, out
    places = [*itertools.product(range(batch), range(0, out_height, 2), range(0, out_width, 2))]
    steps = [places[start : start + tiles] for start in range(0, len(places), tiles)]
    least, highest = -batch * channels * height * width, 0
    read = []
    for step in steps:
        rows = [
            (n, y + i - head.padding[0], x - head.padding[1] + j)
            for n, y, x in step
            for i in range(4)
            for j in range(4)
        ]
        read.append(
            [((n * height + y) * width + x) * channels for n, y, x in rows if 0 <= y < height and 0 <= x < width]
        )
    for number, step in enumerate(steps):
        for n, y, x in step:
            for i, j in itertools.product(range(2), range(2)):
                if y + i < out_height and x + j < out_width:
                    end = (((n * out_height + y + i) * out_width) + x + j + 1) * out_channels
                    highest = max(highest, end)
        later = [place for places in read[number + 1 :] for place in places]
        least = max(least, highest - min(later, default=batch * channels * height * width))
    return least


def test_results_lie_over_images_only_where_these_have_been_read() -> None:
    generator = random.Random(0)
    for _ in range(300):
        channels, out_channels = 4 * generator.randint(1, 3), generator.randint(1, 9)
        padding = (generator.randint(0, 1), generator.randint(0, 1))
        image = [generator.randint(1, 2), channels, generator.randint(3, 9), generator.randint(3, 9)]
        out = [image[0], out_channels, image[2] + 2 * padding[0] - 2, image[3] + 2 * padding[1] - 2]
        usual = ((3, 3), (1, 1), padding, (1, 1))
        head = Head(DSP, CONVOLUTION, 0, channels, 0, out_channels, *usual, 0, 0, -128, 127)
        tiles = 4 * generator.randint(1, 6)
        assert winograd_lead(head, tiles, image, out) >= _least_lead(head, tiles, image, out), (image, out, tiles)
