"""Sums that are rounded in different orders."""

import torch
from torch import nn
from torch.fx import Interpreter

from tools.pipeline.export.quantize.float64 import Float64Interpreter


class _Net(nn.Module):
    def __init__(self, order: torch.Tensor) -> None:
        super().__init__()
        torch.manual_seed(0)
        weight = torch.randn(64, 256)[:, order]
        self.register_buffer("weight", weight)
        self.register_buffer("order", order)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = x.index_select(-1, self.order)
        total = torch.nn.functional.linear(x, self.weight)
        return total, total.softmax(-1), total.to(torch.float64).sum(-1)


def test_results_do_not_depend_on_the_order_of_sums() -> None:
    x = torch.randn(100, 256, generator=torch.Generator().manual_seed(1))
    orders = [torch.arange(256), torch.arange(256).flip(0)]
    modules = [torch.export.export(_Net(order), (x,)).module() for order in orders]
    # Float32 shows that the orders differ.
    first, second = (Interpreter(module).run(x) for module in modules)
    assert not torch.equal(first[0], second[0])
    first, second = (Float64Interpreter(module).run(x) for module in modules)
    assert [each.dtype for each in first] == [torch.float32, torch.float32, torch.float64]
    assert all(map(torch.equal, first, second))
