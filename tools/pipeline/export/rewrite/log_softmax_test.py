import pytest
import torch
from torch import Tensor, nn

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.rewrite.log_softmax import write_log_softmax


class _Logarithms(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        p = x.softmax(-1)
        return p, p.log(), (p + 1e-9).log(), (p.clamp(1e-6).double() + 1e-7).log(), p.clamp(min=1e-6).log()


class _Written(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        p = x.softmax(-1)
        p.mul_(2)
        return p.log()


@pytest.mark.parametrize(("module", "count"), [(_Logarithms(), 3), (_Written(), 0)])
def test_logarithms_of_a_softmax_equal_eager(module: nn.Module, count: int) -> None:
    inputs = (torch.randn(2, 7, generator=torch.Generator().manual_seed(0)) * 9,)
    program = write_log_softmax(capture(module, inputs))
    torch.testing.assert_close(program.module()(*inputs), module(*inputs))
    assert sum(node.target == torch.ops.aten.log_softmax.int for node in program.graph.nodes) == count
