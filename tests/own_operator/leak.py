"""mine::leak: an integrator that leaks, whose kernel is of several files."""

import torch


@torch.library.custom_op("mine::leak", mutates_args=())
def leak(x: torch.Tensor, rate: float) -> torch.Tensor:
    """Computes y[..., t] = x[..., t] + (1 - rate) * y[..., t - 1]."""
    steps = [x[..., 0]]
    for t in range(1, x.shape[-1]):
        steps.append(x[..., t] + (1 - rate) * steps[-1])
    return torch.stack(steps, -1)


@leak.register_fake
def _(x: torch.Tensor, rate: float) -> torch.Tensor:
    return x.new_empty(x.shape)
