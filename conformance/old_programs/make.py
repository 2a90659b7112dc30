"""Makes the programs of one ExecuTorch release: run by hand, in an environment that holds this release and its PyTorch.

    python make.py FOLDER

writes FOLDER/<model>.pte and FOLDER/golden.npz with, per model, its inputs and what eager PyTorch makes of them.
golden.npz is the same up to rounding for each release; programs whose bytes the release before wrote are not kept. The
script uses what every release since 0.3 has, so that the programs differ by the release alone. A PyTorch built for CUDA
does, also where its CUDA libraries are mere stand-ins: nothing of it is called.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

torch.cuda.is_available = lambda: False
torch.cuda.device_count = lambda: 0

from executorch.exir import ExecutorchBackendConfig, to_edge  # noqa: E402


class Add(nn.Module):
    """Inputs alone: no constants."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b


class Scale(nn.Module):
    """A parameter, and a scalar that becomes a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor + 0.5


def models() -> Iterator[tuple[str, nn.Module, tuple[torch.Tensor, ...], Any]]:
    """Yields name, model, inputs and dynamic shapes of each."""
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    cnn = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4))
    batch = torch.export.Dim("batch", min=1, max=6)
    yield "add", Add(), (torch.randn(2, 3), torch.randn(2, 3)), None
    yield "scale", Scale(), (torch.randn(2, 3),), None
    yield "softmax", nn.Softmax(dim=1), (torch.randn(2, 5),), None
    yield "mlp", mlp, (torch.randn(1, 4),), None
    yield "cnn", cnn, (torch.randn(1, 2, 4, 4),), None
    yield "dynamic", nn.Softmax(dim=1), (torch.randn(3, 5),), ({0: batch},)


def configurations() -> Iterator[tuple[str, ExecutorchBackendConfig]]:
    """Yields configurations by the place of constants: the release's default, and inside or outside of the program if
    there is the choice.
    """
    yield "", ExecutorchBackendConfig()
    for name, value in (("inline", False), ("segment", True)):
        try:
            yield f"_{name}", ExecutorchBackendConfig(extract_constant_segment=value)
        except TypeError:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the files are written")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    golden: dict[str, np.ndarray] = {}
    for name, model, inputs, dynamic in models():
        model.eval()
        with torch.no_grad():
            outputs = model(*inputs)
            exported = torch.export.export(model, inputs, dynamic_shapes=dynamic)
        for suffix, configuration in configurations():
            if suffix and name not in ("mlp", "scale"):
                continue
            program = to_edge(exported).to_executorch(configuration).buffer
            (folder / f"{name}{suffix}.pte").write_bytes(program)
        golden |= {f"{name}_input_{i}": value.numpy() for i, value in enumerate(inputs)}
        golden[f"{name}_output"] = outputs.numpy()
    np.savez(folder / "golden.npz", **golden)


if __name__ == "__main__":
    main()
