"""Networks with batch normalization, trained quantization-aware: model() is a checkpoint that is int8 already.

The training script of docs/quantize.md, with what its user would keep in a file kept in memory. Weights have eight
bits, or four where there are kernels for these.
"""

import functools
import io
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torchao.quantization.pt2e import move_exported_model_to_eval, move_exported_model_to_train
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

from tools.pipeline.export.quantize.qat import quantizer

_STEPS = 40


class Network(nn.Module):
    """Tells which quarter of an 8 x 8 image is the brightest."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.ReLU6(),
            nn.Conv2d(8, 6, 1), nn.BatchNorm2d(6),
            nn.AvgPool2d(2), nn.Flatten(), nn.Linear(24, 4),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def images(count: int) -> tuple[Tensor, Tensor]:
    """Images [count, 1, 8, 8] with one bright quarter, and which one it is."""
    x, labels = torch.randn(count, 1, 8, 8), torch.arange(count) % 4
    for image, label in zip(x, labels.tolist(), strict=True):
        row, column = label // 2 * 4, label % 2 * 4
        image[:, row : row + 4, column : column + 4] += 1.5
    return x, labels


class Pointwise(nn.Module):
    """The same, by layers whose weights can have four bits: with batch normalization and without, of many inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 40, 1, bias=False), nn.BatchNorm2d(40), nn.ReLU6(),
            nn.Conv2d(40, 16, 1), nn.ReLU(),
            nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 4),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@functools.cache
def checkpoint(network: type[nn.Module], weight_dtype: str) -> bytes:
    """Returns the trained and converted network, as torch.export.save() writes it."""
    torch.manual_seed(0)
    x, labels = images(64)
    captured = torch.export.export(network(), (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    prepared = prepare_qat_pt2e(captured.module(check_guards=False), quantizer(weight_dtype))
    move_exported_model_to_train(prepared)
    optimizer = torch.optim.Adam(prepared.parameters(), 0.01)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(prepared(x), labels).backward()
        optimizer.step()
    move_exported_model_to_eval(prepared)
    file = io.BytesIO()
    torch.export.save(torch.export.export(convert_pt2e(prepared), example_inputs()), file)
    return file.getvalue()


def example_inputs() -> tuple[Tensor, ...]:
    return (torch.ones(1, 1, 8, 8),)


def evaluation_set() -> tuple[list[tuple[Tensor, ...]], Tensor]:
    torch.manual_seed(1)
    x, labels = images(100)
    return [(image.unsqueeze(0),) for image in x], labels


def _entry(network: type[nn.Module], weight_dtype: str = "int8") -> SimpleNamespace:
    def model() -> nn.Module:
        return torch.export.load(io.BytesIO(checkpoint(network, weight_dtype))).module()

    return SimpleNamespace(model=model, example_inputs=example_inputs, evaluation_set=evaluation_set)


def entries() -> dict[str, object]:
    return {"int8": _entry(Network), "int4": _entry(Pointwise, "int4")}
