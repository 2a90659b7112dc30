"""Checks the sizes that a model file lets vary."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch.export import Dim

from tools.pipeline.export.capture.eager import Eager
from tools.pipeline.model_file.describe import describe
from tools.pipeline.model_file.model_file import ModelFile
from tools.quiet.console import UserError

_EXAMPLE = '{1: torch.export.Dim("steps", max=16)}'


def checked_shapes(file: ModelFile, eager: Eager) -> Any:
    """Returns what dynamic_shapes() gives, in the format of `torch.export.export(dynamic_shapes=)`. Inputs that a dict
    leaves out have one shape.

    Raises UserError for what names no input or dimension of the example, and for sizes that exclude the example's.
    """
    shapes, (names, _) = file.dynamic_shapes(), eager.names
    # torch.export takes those of the inputs in *args as one entry.
    if shapes is None or not set(names) <= set(inspect.signature(eager.module.forward).parameters):
        return shapes
    what = f"{file.path}: dynamic_shapes()"
    if isinstance(shapes, dict):
        for name, sizes in shapes.items():
            if name not in names and sizes is not None:
                raise UserError(
                    f"{what} names {name!r}, but example_inputs() gives {', '.join(names)}; leave {name!r} out, or "
                    "give example_inputs() a tensor for it."
                )
        shapes = {name: shapes.get(name) for name in names}
    elif not isinstance(shapes, (list, tuple)) or len(shapes) != len(names):
        raise UserError(
            f"{what} must return a dict by input, such as {{{names[0]!r}: {_EXAMPLE}}}, or a tuple with an entry for "
            f"each of {', '.join(names)}, not {describe(shapes)}."
        )
    listed = shapes.values() if isinstance(shapes, dict) else shapes
    for name, sizes, tensor in zip(names, listed, eager.inputs, strict=True):
        if sizes is not None:
            _check_sizes(sizes, list(tensor.shape), f"{what}: {name!r}")
    return shapes


def _check_sizes(sizes: Mapping[Any, Any] | Sequence[Any], shape: list[int], what: str) -> None:
    """Checks the sizes of an input with an example of a shape."""
    if isinstance(sizes, (list, tuple)) and len(sizes) == len(shape):
        sizes = dict(enumerate(sizes))
    elif not isinstance(sizes, dict):
        raise UserError(
            f"{what} must be a dict by dimension, such as {_EXAMPLE}, or a tuple with an entry for each of its "
            f"{len(shape)} dimensions, not {describe(sizes)}."
        )
    for dim, size in sizes.items():
        if not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
            raise UserError(f"{what} has no dimension {dim!r}; its shape in example_inputs() is {shape}.")
        if not isinstance(size, (int, Dim, type(Dim.AUTO), type(None))):
            raise UserError(f"{what}: dimension {dim} must be a torch.export.Dim or None, not {describe(size)}.")
        if isinstance(size, (int, Dim)):
            least, most = (size, size) if isinstance(size, int) else (size.min, size.max)
            if not least <= shape[dim] <= most:
                raise UserError(f"{what}: dimension {dim} is {size}, but {shape[dim]} in example_inputs().")
