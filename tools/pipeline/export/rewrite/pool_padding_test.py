import pytest
import torch
import torch.nn.functional as F

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.rewrite.pool_padding import take_ignored_padding

_X = torch.randn(2, 3, 9, 10, generator=torch.Generator().manual_seed(0)) - 3


@pytest.mark.parametrize(
    ("ends", "value", "pool", "is_taken"),
    [
        ((1, 1, 1, 1), float("-inf"), lambda y: F.max_pool2d(y, 3, 2), True),
        ((0, 1, 2, 0), -1e4, lambda y: F.max_pool2d(y, 3, 1), True),
        ((1, 2, 0, 1), torch.finfo(torch.float32).min, lambda y: F.max_pool2d(y, (4, 3), (1, 2), (1, 0)), True),
        ((1, 0, 2, 1), -1e4, lambda y: y.amax((2, 3), keepdim=True), True),
        ((1, 0), -1e4, lambda y: y.amax(-1), True),
        ((1, 0, 2, 1), -1e4, lambda y: y.amax(3), False),
        ((1, 1, 1, 1), 0.0, lambda y: F.max_pool2d(y, 3, 2), False),
        ((1, 1, 1, 1), -1e4, lambda y: F.avg_pool2d(y, 3, 2), False),
        ((0, -1), -1e4, lambda y: y.amax((2, 3)), False),
    ],
)
def test_padding_that_maxima_ignore_is_taken(ends: tuple[int, ...], value: float, pool: object, is_taken: bool) -> None:
    assert callable(pool)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return pool(F.pad(x, ends, value=value))

    program = take_ignored_padding(capture(Model().eval(), (_X,)))
    assert torch.equal(program.module()(_X), Model()(_X))
    assert is_taken == (not any("pad" in node.name for node in program.graph.nodes))
