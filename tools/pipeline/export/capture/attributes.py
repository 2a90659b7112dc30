"""Finds state that a model keeps in attributes of its modules, such as `self.h = self.cell(x, self.h)`.

A program holds state in buffers only. torch.export takes the values that other attributes have at first for constants.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from tools.pipeline.model_file.call import CALLED
from tools.pipeline.model_file.describe import describe
from tools.quiet.console import UserError

_PLAIN = (Tensor, bool, int, float, str, type(None))


def hold_attributes(model: torch.nn.Module, used: torch.nn.Module, sample: Sequence[Tensor]) -> None:
    """Makes buffers of the tensors that a model changes from call to call, in place.

    Args:
      used: a copy of the model that has run.
      sample: inputs to run both with.

    Raises UserError for changes of other attributes, such as numbers and lists, on which results depend.
    """
    changed = list(_changed(model, used))
    if not changed or _agree(_results(model, sample), _results(_with_buffers_of(model, used), sample)):
        return
    for name, before, after in changed:
        owner, _, attribute = name.rpartition(".")
        written = name.removeprefix(f"{CALLED}.")
        if not isinstance(before, Tensor) or before.shape != after.shape or before.dtype != after.dtype:
            values = ", ".join(map(str, after.shape)) if isinstance(after, Tensor) else "..."
            raise UserError(
                f"a call gives other results after another one, as the model changes its attribute {written!r}, first "
                f"{describe(before)}, then {describe(after)}. State must be a buffer of one shape: "
                f"self.register_buffer({attribute!r}, torch.zeros({values})) in __init__(); forward() assigns to it."
            )
        module = model.get_submodule(owner)
        delattr(module, attribute)
        module.register_buffer(attribute, before, persistent=False)


def _changed(model: torch.nn.Module, used: torch.nn.Module) -> Iterator[tuple[str, Any, Any]]:
    """Yields the names of attributes that have other values in a copy of a model, with the values of both."""
    copies = dict(used.named_modules())
    for path, module in model.named_modules():
        for name, after in vars(copies[path]).items():
            before = vars(module).get(name)
            leaves = pytree.tree_leaves((before, after))
            is_plain = not name.startswith("_") and all(isinstance(leaf, _PLAIN) for leaf in leaves)
            if is_plain and not _same(before, after):
                yield f"{path}.{name}".lstrip("."), before, after


def _same(one: Any, other: Any) -> bool:
    firsts, seconds = pytree.tree_flatten(one), pytree.tree_flatten(other)
    return firsts[1] == seconds[1] and all(
        torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else type(a) is type(b) and a == b
        for a, b in zip(firsts[0], seconds[0], strict=True)
    )


def _with_buffers_of(model: torch.nn.Module, used: torch.nn.Module) -> torch.nn.Module:
    for path, module in model.named_modules():
        for name, buffer in module._buffers.items():
            used.get_submodule(path)._buffers[name] = None if buffer is None else buffer.clone()
    return used


def _results(model: torch.nn.Module, sample: Sequence[Tensor]) -> list[Tensor]:
    """Returns the results of a call, which leaves the model as it is, with the same random numbers in each."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return pytree.tree_leaves(copy.deepcopy(model)(*(tensor.clone() for tensor in sample)))


def _agree(one: list[Tensor], other: list[Tensor]) -> bool:
    """Whether results are the same up to rounding, which differs where a model remembers what it has computed."""
    return len(one) == len(other) and all(
        a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=1e-4, equal_nan=True)
        for a, b in zip(one, other, strict=True)
    )
