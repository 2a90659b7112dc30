"""Modules with state that starts with other values than zeros: a Kalman filter, and the largest of all inputs."""

import torch
from torch import Tensor, nn


class Kalman(nn.Module):
    """Position and velocity of what is seen; beside it the largest place so far, a counter, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("estimate", torch.zeros(2))
        self.register_buffer("covariance", torch.eye(2))
        self.register_buffer("largest", torch.full((1,), -float("inf")))
        self.register_buffer("steps", torch.tensor([1]))
        self.register_buffer("past", torch.arange(32.0).reshape(1, 2, 4, 4) / 32)
        self.conv = nn.Conv2d(2, 3, 3, padding=1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        place = image.mean().reshape(1)
        # Equations of the filter, written element by element: floating point in int8 programs, too.
        (a, b), (c, d) = self.covariance.unbind()
        a, b, c = a + b + c + d + 0.1, b + d, c + d
        gain = torch.stack([a, c]) / (a + 0.5)
        first = self.estimate[0] + self.estimate[1]
        estimate = torch.stack([first, self.estimate[1]]) + gain * (place - first)
        row = torch.stack([a, b])
        self.covariance.copy_(torch.stack([row * (1 - gain[0]), torch.stack([c, d]) - gain[1] * row]))
        self.estimate.copy_(estimate)
        self.largest.copy_(torch.maximum(self.largest, place))
        self.steps.add_(1)
        seen = self.conv(image - self.past)
        self.past.copy_(0.5 * (self.past + image))
        return estimate, self.largest.clone(), self.steps.clone(), seen


def model() -> nn.Module:
    torch.manual_seed(0)
    return Kalman().eval()


def _images(seed: int, count: int) -> list[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(seed)
    return [(torch.rand(1, 2, 4, 4, generator=generator),) for _ in range(count)]


def example_inputs() -> tuple[Tensor, ...]:
    return _images(1, 1)[0]


def calibration_inputs() -> list[tuple[Tensor, ...]]:
    return _images(2, 40)


def evaluation_set() -> tuple[list[tuple[Tensor, ...]], Tensor]:
    # Each one's result depends on those before it.
    return _images(3, 6), torch.zeros(6, dtype=torch.int64)
