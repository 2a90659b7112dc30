"""Finds state that a model keeps in attributes of its modules, such as `self.h = self.cell(x, self.h)`, or elsewhere.

A program holds state in buffers only. torch.export takes the values that other attributes have at first for constants.
"""

import contextlib
import copy
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from tools.pipeline.model_file.call import CALLED, plain
from tools.pipeline.model_file.describe import describe
from tools.quiet.console import UserError

# The name of an attribute of modules that maps other attributes, such as a tuple of tensors that is state, to the names
# of the buffers for the leaves in them, empty for those that are no tensors.
HELD = "_held_in_buffers"

_PLAIN = (Tensor, bool, int, float, str, type(None))
# The attributes that each module has of PyTorch's.
_OWN = vars(torch.nn.Module()).keys()
# The number of samples that are tried for a first call.
_FIRST = 4


def hold_attributes(model: torch.nn.Module, used: torch.nn.Module, samples: Sequence[Sequence[Tensor]]) -> None:
    """Makes buffers of the tensors that a model changes from call to call, in place.

    Args:
      used: a copy of the model that has run.
      samples: inputs to run both with.

    Raises UserError for changes of other attributes, such as numbers and lists, or of a buffer's shape, on which
    results depend.
    """
    for one, other in zip(model.modules(), used.modules(), strict=True):
        for name, value in list(one._parameters.items()):
            if value is not None and not _same(value, other._parameters[name]):
                for module in one, other:
                    module.register_buffer(name, module._parameters.pop(name).detach())
    changed = list(_changed(model, used))
    # Inputs may reset the state.
    samples = samples[: _FIRST if changed else 1]
    fresh, used = [_results(model, sample) for sample in samples], _with_buffers_of(model, used)
    if all(_agree(results, _results(used, sample)) for results, sample in zip(fresh, samples, strict=True)):
        return
    objects = [id(before) for _, before, _ in changed if not isinstance(before, _PLAIN)]
    if not changed or len(objects) > len(set(objects)):
        where = "in objects that two attributes share" if changed else "in objects of unknown kinds"
        raise UserError(
            f"a call gives other results after another one: the model keeps state {where}. State must be a buffer: "
            "self.register_buffer(...) in __init__(); forward() assigns to it."
        )
    if not _have_one_form(changed):
        filled = _fill(copy_of(model), changed)
        again = copy_of(filled)
        with torch.no_grad():
            again(*(tensor.clone() for tensor in samples[0]))
        if _have_one_form(_changed(filled, again)) and all(
            _agree(results, _results(filled, sample)) for results, sample in zip(fresh, samples, strict=True)
        ):
            changed = list(_changed(_fill(model, changed), used))
    for name, before, after in changed:
        owner, _, attribute = name.rpartition(".")
        if not _is_one_form(before, after):
            first = f"tensor({before})" if isinstance(before, (int, float)) else "zeros(...)"
            if isinstance(after, Tensor):
                first = f"zeros({', '.join(map(str, after.shape))})"
            raise UserError(
                "a call gives other results after another one, as the model changes its attribute "
                f"{name.removeprefix(f'{CALLED}.')!r}, first {describe(before)}, then {describe(after)}. State must be "
                f"a buffer of one shape: self.register_buffer({attribute!r}, torch.{first}) in __init__(); forward() "
                "assigns to it. If a first call does something else, torch.where() chooses that by another buffer."
            )
        module = model.get_submodule(owner)
        if isinstance(before, Tensor):
            delattr(module, attribute)
            module.register_buffer(attribute, before, persistent=False)
            continue
        tensors = [isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(before)]
        names = [f"{attribute}_{index}" if is_tensor else "" for index, is_tensor in enumerate(tensors)]
        vars(module).setdefault(HELD, {})[attribute] = names
        for each, tensor in zip(names, pytree.tree_leaves(before), strict=True):
            if each:
                module.register_buffer(each, tensor.clone(), persistent=False)


def _fill(model: torch.nn.Module, changed: Sequence[tuple[str, Any, Any]]) -> torch.nn.Module:
    """Gives attributes that have no tensors before the first call, such as `self.h = None`, zeros, in place."""
    for name, before, after in changed:
        owner, _, attribute = name.rpartition(".")
        leaves = pytree.tree_leaves(after)
        others = pytree.tree_leaves(before) if _is_one_structure(before, after) else [None] * len(leaves)
        if not _is_one_form(before, after) and all(
            isinstance(leaf, Tensor) or _same_form(leaf, other) for leaf, other in zip(leaves, others, strict=True)
        ):
            module, zeros = model.get_submodule(owner), pytree.tree_map_only(Tensor, torch.zeros_like, after)
            (module._buffers if attribute in module._buffers else vars(module))[attribute] = zeros
    return model


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
            try:
                is_plain = name not in _OWN and all(isinstance(leaf, _PLAIN) for leaf in _leaves((before, after)))
            except RecursionError:
                continue
            if is_plain and not _same(before, after):
                yield f"{path}.{name}".lstrip("."), before, after


def _leaves(value: Any) -> list[Any]:
    """Returns the leaves of a value, in which objects that hold tensors, such as dataclasses, are nodes."""
    leaves = pytree.tree_leaves(value)
    unknown = {type(leaf) for leaf in leaves if _holds_tensors(leaf)}
    for each in unknown:
        pytree.register_pytree_node(
            each,
            lambda holder: (list(vars(holder).values()), list(vars(holder))),
            lambda values, names, kind=each: _holder(kind, dict(zip(names, values, strict=True))),
        )
    return _leaves(value) if unknown else leaves


def _holder(kind: type, values: dict[str, Any]) -> Any:
    made: Any = object.__new__(kind)
    vars(made).update(values)
    return made


def _holds_tensors(value: Any) -> bool:
    """Whether a value is an object of a class that isn't PyTorch's, with tensors among its attributes.

    Raises RecursionError for objects that refer to each other.
    """
    if not hasattr(value, "__dict__") or callable(value) or type(value).__module__.partition(".")[0] == "torch":
        return False
    leaves = pytree.tree_leaves(list(vars(value).values()))
    return any([isinstance(leaf, Tensor) or _holds_tensors(leaf) for leaf in leaves])  # noqa: C419


def _is_one_structure(before: Any, after: Any) -> bool:
    return pytree.tree_structure(before) == pytree.tree_structure(after)


def _have_one_form(changed: Iterable[tuple[str, Any, Any]]) -> bool:
    return all(_is_one_form(before, after) for _, before, after in changed)


def _is_one_form(before: Any, after: Any) -> bool:
    pairs = pytree.tree_leaves(before), pytree.tree_leaves(after)
    return _is_one_structure(before, after) and all(map(_same_form, *pairs))


def _same_form(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return type(one) is type(other) and one == other
    return one.shape == other.shape and one.dtype == other.dtype


def _same(one: Any, other: Any) -> bool:
    return _is_one_structure(one, other) and all(
        torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else type(a) is type(b) and a == b
        for a, b in zip(pytree.tree_leaves(one), pytree.tree_leaves(other), strict=True)
    )


def _with_buffers_of(model: torch.nn.Module, used: torch.nn.Module) -> torch.nn.Module:
    # Buffers that share memory do so in a copy, too.
    for path, module in copy_of(model).named_modules():
        buffers = used.get_submodule(path)._buffers
        for name, buffer in module._buffers.items():
            if buffer is not None and _same_form(buffer, buffers.get(name)):
                buffers[name] = buffer
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
