"""Two products of a 32x32 with another 32x32 matrix."""

import torch


class Bmm(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b)


def model() -> torch.nn.Module:
    return Bmm().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.rand(2, 32, 32, generator=generator) for _ in range(2))
