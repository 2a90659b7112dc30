import pytest
import torch
from torch import Tensor, nn

from tools.pipeline.export.backends.portable import to_edge
from tools.pipeline.export.capture.capture import capture


class _Padded(nn.Module):
    def __init__(self, ends: tuple[int, ...]) -> None:
        super().__init__()
        self.ends = ends

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, self.pad, lambda x: self.pad(-x), (x,)) if len(self.ends) == 2 else self.pad(x)

    def pad(self, x: Tensor) -> Tensor:
        return nn.functional.pad(x, self.ends, "circular")


@pytest.mark.parametrize("ends", [(2, 5), (3, 0, 0, 1), (1, 2, 0, 4, 3, 1), (-1, 2, 1, 0)])
def test_circular_padding_equals_eager_and_stores_nothing(ends: tuple[int, ...]) -> None:
    inputs = (torch.randn(1, 2, *[5] * (len(ends) // 2), generator=torch.Generator().manual_seed(0)),)
    module = _Padded(ends)
    edge = to_edge(capture(module, inputs))
    torch.testing.assert_close(edge.module()(*inputs), module(*inputs), rtol=0, atol=0)
    assert not [name for name, value in edge.constants.items() if isinstance(value, Tensor)]
