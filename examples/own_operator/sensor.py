import torch
from smooth import smooth


class Sensor(torch.nn.Module):
    """Smooths a signal and classifies it."""

    def __init__(self) -> None:
        super().__init__()
        self.classify = torch.nn.Linear(32, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(smooth(x, 0.25))


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return Sensor().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.rand(1, 32),)
