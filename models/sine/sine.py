"""sin(x) on [0, 2*pi] by a multilayer perceptron, trained in the build: 1-16-16-1 with ReLU."""

import math

import torch
from torch import nn
from tqdm import tqdm

_STEPS = 3000

# The factor of the penalty on each layer's largest weight, squared: int8 divides a layer's range into 255 steps.
_RANGE_PENALTY = 1e-3


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)).eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.tensor([[1.0]]),)


def train() -> nn.Module:
    """Minimises the squared error over random angles, with weights of small ranges.

    Prints the mean absolute error over the whole interval.
    """
    net = model().train()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.02, total_steps=_STEPS)
    for _ in tqdm(range(_STEPS), desc="sine", unit="step"):
        x = torch.rand(256, 1) * (2 * math.pi)
        ranges = sum(layer.weight.abs().max() ** 2 for layer in net if isinstance(layer, nn.Linear))
        loss = nn.functional.mse_loss(net(x), torch.sin(x)) + _RANGE_PENALTY * ranges
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    net.eval()
    print(f"mean absolute error {mean_absolute_error(net):.4f}")
    return net


def mean_absolute_error(net: nn.Module) -> float:
    """Mean of |net(x) - sin(x)| over 1001 equally spaced x in [0, 2*pi]."""
    x = torch.linspace(0, 2 * math.pi, 1001).unsqueeze(1)
    with torch.no_grad():
        return (net(x) - torch.sin(x)).abs().mean().item()


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    """The whole interval, which fixes the range of every activation."""
    return [(x.reshape(1, 1),) for x in torch.linspace(0, 2 * math.pi, 101)]
