"""Trains a model: runs the model file's train() reproducibly and writes the weights.

The weights file is the state_dict from `torch.save`; equal weights give equal bytes.
"""

import io
from collections.abc import Iterable
from pathlib import Path

import torch

from tools.pipeline.model_file.deterministic import make_deterministic
from tools.pipeline.model_file.model_file import ModelFile
from tools.quiet.console import Console, UserError


def train(path: Path, console: Console, folders: Iterable[Path] = (), entry: str = "") -> bytes:
    """Returns the trained state_dict of the model in the file `path`, serialized.

    Args:
      folders: the folders that the model file imports from, besides its own folder and the workspace.
      entry: the model in a file that describes several; empty: it describes one.

    Raises UserError if the file has no train(), if train() fails or returns a module that is not the one of model(), or
    if a trained weight is not finite.
    """
    make_deterministic()
    file = ModelFile(path, folders, entry)
    if not file.has("train"):
        raise UserError(f"{path}: there is no function train(); define it, or leave training out of the target.")
    expected = {name: (t.shape, t.dtype) for name, t in file.model().state_dict().items()}
    # The model's own weights must not depend on how often model() ran before.
    make_deterministic()
    with console.shown():
        trained = file.trained_model()
    weights = {name: tensor.detach().contiguous() for name, tensor in trained.state_dict().items()}
    _check_weights(path, expected, weights)
    return serialize(weights)


def serialize(weights: dict[str, torch.Tensor]) -> bytes:
    """Serializes with `torch.save` into memory: in a file, its name would be part of the bytes."""
    buffer = io.BytesIO()
    torch.save(weights, buffer)
    return buffer.getvalue()


def _check_weights(
    path: Path, expected: dict[str, tuple[torch.Size, torch.dtype]], weights: dict[str, torch.Tensor]
) -> None:
    for name, (shape, dtype) in expected.items():
        tensor = weights.get(name)
        if tensor is None:
            raise UserError(f"{path}: the module that train() returned has no {name!r}; return the class of model().")
        if (tensor.shape, tensor.dtype) != (shape, dtype):
            raise UserError(
                f"{path}: {name!r} is {list(shape)} in model() but {list(tensor.shape)} in what train() returned."
            )
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise UserError(f"{path}: training diverged: {name!r} holds values that are not finite.")
    for name in sorted(weights.keys() - expected.keys()):
        raise UserError(f"{path}: train() returned a module with {name!r}, which model() does not have.")
