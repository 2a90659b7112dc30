"""Finds state that a model keeps in attributes of its modules, such as `self.h = self.cell(x, self.h)`, or elsewhere.

A program holds state in buffers only. torch.export takes the values that other attributes have at first for constants.
"""

import contextlib
import copy
import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from tools.pipeline.model_file.call import CALLED, plain
from tools.pipeline.model_file.describe import describe
from tools.quiet.console import UserError

# The name of an attribute of modules that maps other attributes, such as a tuple of tensors that is state, to their
# structure and the names of the buffers for the tensors in them.
HELD = "_held_in_buffers"

_PLAIN = (Tensor, bool, int, float, str, type(None))


def hold_attributes(model: torch.nn.Module, used: torch.nn.Module, sample: Sequence[Tensor]) -> None:
    """Makes buffers of the tensors that a model changes from call to call, in place.

    Args:
      used: a copy of the model that has run.
      sample: inputs to run both with.

    Raises UserError for changes of other attributes, such as numbers and lists, or of a buffer's shape, on which
    results depend.
    """
    changed = list(_changed(model, used))
    if not changed or _agree(_results(model, sample), _results(_with_buffers_of(model, used), sample)):
        return
    for name, before, after in changed:
        owner, _, attribute = name.rpartition(".")
        written = name.removeprefix(f"{CALLED}.")
        (tensors, structure), (others, other) = pytree.tree_flatten(before), pytree.tree_flatten(after)
        if structure != other or not all(map(_same_form, tensors, others)):
            values = ", ".join(map(str, after.shape)) if isinstance(after, Tensor) else "..."
            raise UserError(
                f"a call gives other results after another one, as the model changes its attribute {written!r}, first "
                f"{describe(before)}, then {describe(after)}. State must be a buffer of one shape: "
                f"self.register_buffer({attribute!r}, torch.zeros({values})) in __init__(); forward() assigns to it."
            )
        module = model.get_submodule(owner)
        if isinstance(before, Tensor):
            delattr(module, attribute)
            module.register_buffer(attribute, before, persistent=False)
            continue
        names = [f"{attribute}_{index}" for index in range(len(tensors))]
        vars(module).setdefault(HELD, {})[attribute] = structure, names
        for each, tensor in zip(names, tensors, strict=True):
            module.register_buffer(each, tensor.clone(), persistent=False)


def check_repeatable(model: torch.nn.Module, sample: Sequence[Tensor], outputs: list[Tensor]) -> None:
    """Raises UserError if a model gives other results for a sample than it gave before, unless it is random."""
    results = _results(model, sample)
    if not _agree(results, outputs) and not _agree(results, _results(model, sample)):
        raise UserError(
            "a call gives other results after another one, though the model is the same: it keeps state outside of its "
            "modules, such as in a global variable, or draws numbers that are not torch's. State must be a buffer: "
            "self.register_buffer(...) in __init__(); forward() assigns to it."
        )


def copy_of(model: torch.nn.Module) -> torch.nn.Module:
    """Returns a copy of a model whose hooks and other functions refer to the copy, where they refer to the model."""
    handlers = copy._deepcopy_dispatch  # type: ignore[attr-defined]
    handlers[types.FunctionType] = _copy_function
    try:
        return copy.deepcopy(model)
    finally:
        handlers[types.FunctionType] = copy._deepcopy_atomic  # type: ignore[attr-defined]


def _copy_function(function: Any, memo: dict[int, Any]) -> Any:
    """Copies a function with the variables of the functions around it, as far as these can be copied."""
    cells = tuple(types.CellType() for _ in function.__closure__ or ())
    defaults = function.__defaults__
    if not cells and not defaults:
        return function
    copied = types.FunctionType(function.__code__, function.__globals__, function.__name__, defaults, cells)
    copied.__dict__.update(function.__dict__)
    copied.__kwdefaults__ = function.__kwdefaults__
    memo[id(function)] = copied

    def copy_value(value: Any) -> Any:
        before = dict(memo)
        try:
            return copy.deepcopy(value, memo)
        except Exception:
            memo.clear()
            memo.update(before)
            return value

    for cell, original in zip(cells, function.__closure__ or (), strict=True):
        # A variable that has no value yet.
        with contextlib.suppress(ValueError):
            cell.cell_contents = copy_value(original.cell_contents)
    copied.__defaults__ = defaults and tuple(map(copy_value, defaults))
    return copied


def _changed(model: torch.nn.Module, used: torch.nn.Module) -> Iterator[tuple[str, Any, Any]]:
    """Yields the names of attributes that have other values in a copy of a model, and of buffers that have another
    shape or dtype, with the values of both.
    """
    copies = dict(used.named_modules())
    for path, module in model.named_modules():
        for name, after in copies[path]._buffers.items():
            if not _same_form(before := module._buffers.get(name), after):
                yield f"{path}.{name}".lstrip("."), before, after
        for name, after in vars(copies[path]).items():
            before = vars(module).get(name)
            leaves = pytree.tree_leaves((before, after))
            is_plain = not name.startswith("_") and all(isinstance(leaf, _PLAIN) for leaf in leaves)
            if is_plain and not _same(before, after):
                yield f"{path}.{name}".lstrip("."), before, after


def _same_form(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return one is other is None
    return one.shape == other.shape and one.dtype == other.dtype


def _same(one: Any, other: Any) -> bool:
    firsts, seconds = pytree.tree_flatten(one), pytree.tree_flatten(other)
    return firsts[1] == seconds[1] and all(
        torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else type(a) is type(b) and a == b
        for a, b in zip(firsts[0], seconds[0], strict=True)
    )


def _with_buffers_of(model: torch.nn.Module, used: torch.nn.Module) -> torch.nn.Module:
    for path, module in model.named_modules():
        buffers = used.get_submodule(path)._buffers
        for name, buffer in module._buffers.items():
            if buffer is not None and _same_form(buffer, buffers.get(name)):
                buffers[name] = buffer.clone()
    return used


def _results(model: torch.nn.Module, sample: Sequence[Tensor]) -> list[Tensor]:
    """Returns the results of a call, which leaves the model as it is, with the same random numbers in each."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return pytree.tree_leaves(plain(copy_of(model)(*(tensor.clone() for tensor in sample))))


def _agree(one: list[Tensor], other: list[Tensor]) -> bool:
    """Whether results are the same up to rounding, which differs where a model remembers what it has computed."""
    return len(one) == len(other) and all(
        a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=1e-4, equal_nan=True)
        for a, b in zip(one, other, strict=True)
    )
