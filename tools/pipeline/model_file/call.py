"""Calls modules with nested inputs and outputs, and names the tensors in them.

A program takes and returns tensors one after another. A module may take dicts, tuples and lists of them, also nested,
and keywords. The tensors then are in the order in which they are written, and are named after the path to them:
`features_mean` for `{"features": {"mean": x}}`.
"""

import dataclasses
import inspect
import keyword
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tools.pipeline.model_file.describe import describe
from tools.quiet.console import UserError

# The name of the user's module in a module that calls it.
CALLED = "_called"


@dataclass(frozen=True)
class Call:
    """A call of a module, defined by an example.

    Attributes:
      example: a tuple of arguments, or a dict of keywords.
      tensors: the tensors in it, in the default order of dimensions, in which a program takes its inputs.
      paths: the path to each of them: indices and keys.
    """

    example: tuple[Any, ...] | dict[str, Any]
    tensors: tuple[torch.Tensor, ...]
    paths: tuple[tuple[str, ...], ...]

    @property
    def is_flat(self) -> bool:
        """Whether all arguments are tensors."""
        return isinstance(self.example, tuple) and all(len(path) == 1 for path in self.paths)

    def tensors_of(self, sample: Any) -> tuple[Any, ...]:
        """Returns the leaves of a sample in the order of the example's, whatever the order of its keys.

        Raises ValueError, without text, for a sample with another structure.
        """
        return tuple(_leaves_like(self.example, sample))

    def names(self, function: Any) -> list[str]:
        """Returns the tensors' names.

        Args:
          function: the called function, whose parameters name the elements of a tuple.
        """
        if isinstance(self.example, dict):
            return [name_of(path) for path in self.paths]
        parameters = _positional(function)
        rest = len(parameters) - 1
        paths = []
        for place, *others in self.paths:
            index = int(place)
            if index < len(parameters) and not parameters[index].startswith("*"):
                paths.append((parameters[index], *others))
            elif parameters and parameters[-1].startswith("*"):
                paths.append((parameters[-1].removeprefix("*"), str(index - rest), *others))
            else:
                paths.append(("input", place, *others))
        return [name_of(path) for path in paths]


def read_call(example: Any, what: str) -> Call:
    """Returns the call that an example defines.

    Raises UserError for an invalid example: it has anything but tensors, or nothing.
    """
    is_shape = isinstance(example, tuple) and all(isinstance(each, int) for each in example)
    if not isinstance(example, (tuple, dict)) or not example or is_shape:
        hint = " Write `(tensor,)`, with a comma." if isinstance(example, torch.Tensor) else ""
        if isinstance(example, list) and example:
            hint = " Write a tuple; of a data loader with labels that is `[(inputs,) for inputs, _ in loader]`."
        if is_shape and example:
            hint = f" Write `(torch.rand{example},)` for a tensor of that shape."
        raise UserError(
            f"{what} must be a tuple of at least one tensor, or a dict of keywords, not {describe(example)}.{hint}"
        )
    if isinstance(example, dict) and not all(isinstance(key, str) for key in example):
        raise UserError(f"{what} must be a dict of keywords, which are strings.")
    leaves = _leaves_with_paths(example)
    paths = tuple(tuple(map(_step, path)) for path, _ in leaves)
    for path, (_, leaf) in zip(paths, leaves, strict=True):
        if not isinstance(leaf, torch.Tensor):
            raise UserError(
                f"{what} must be a tuple of tensors; element {'.'.join(path)} is {describe(leaf)}. {_instead_of(leaf)}"
            )
    if not leaves:
        raise UserError(f"{what} must hold at least one tensor.")
    return Call(example, tuple(leaf.contiguous() for _, leaf in leaves), paths)


def _leaves_with_paths(example: Any) -> list[Any]:
    """Returns the leaves of an example, in which dataclasses are nodes."""
    leaves, _ = pytree.tree_flatten_with_path(example)
    unknown = {type(leaf) for _, leaf in leaves if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type)}
    for each in unknown:
        torch.export.register_dataclass(each)
    return _leaves_with_paths(example) if unknown else leaves


def _instead_of(leaf: Any) -> str:
    """Returns what to write in place of an argument that is no tensor."""
    if type(leaf).__name__ == "ndarray":
        return "torch.from_numpy() makes a tensor of it."
    if leaf is None:
        return "Leave it out; a dict of keywords can leave out any argument that has a default."
    return (
        "A program is made for one such value: return a module from model() whose forward() takes the tensors alone "
        "and passes the value on."
    )


def called(module: torch.nn.Module, call: Call, names: Sequence[str], method: str = "forward") -> torch.nn.Module:
    """Returns a module that takes tensors one after another, and calls a method of another one in the form of an
    example.

    Args:
      names: the tensors' names, which become the names of its parameters.
    """
    spec = pytree.tree_structure(call.example)

    def forward(self: torch.nn.Module, *tensors: torch.Tensor) -> Any:
        user_module = getattr(self, CALLED)
        function = user_module if method == "forward" else getattr(user_module, method)
        given = pytree.tree_unflatten(tensors, spec)
        return plain(function(**given) if isinstance(given, dict) else function(*given))

    parameters = ["self", *(f"{name}_" if keyword.iskeyword(name) else name for name in names)]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(parameter, kind) for parameter in parameters])
    forward.__signature__ = signature  # type: ignore[attr-defined]
    # Each has its own class, because copies of the module call the module that they hold.
    result: torch.nn.Module = type("Called", (torch.nn.Module,), {"forward": forward})()
    setattr(result, CALLED, module)
    if isinstance(module, torch.fx.GraphModule):
        # A graph from torch.export refuses train().
        result.training = module.training
        return result
    return result.train(module.training)


def plain(result: Any) -> Any:
    """Returns a module's result with dicts instead of named tuples, such as that of torch.max(x, 1), and dataclasses.

    Programs only support dicts, lists and tuples. Elements that are None are omitted, as in the `(logits, None)` of a
    network whose caches are off.
    """
    if isinstance(result, torch.Tensor):
        return result
    if isinstance(result, dict):
        items = {key: plain(value) for key, value in result.items() if value is not None}
        return result if _is_same(items.values(), result.values()) else items
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
        return {name: plain(value) for name, value in fields.items() if value is not None}
    if isinstance(result, tuple) and type(result) is not tuple:
        kind: Any = type(result)
        names = kind._fields if hasattr(kind, "_fields") else kind.__match_args__
        return {name: plain(value) for name, value in zip(names, result, strict=True) if value is not None}
    if isinstance(result, (list, tuple)):
        values = type(result)(plain(value) for value in result if value is not None)
        return result if _is_same(values, result) else values
    return result


def read_result(returned: Any) -> tuple[Any, list[torch.Tensor]]:
    """Returns a module's plain result, and the tensors in it.

    Raises UserError if there is none, or anything but tensors.
    """
    result = plain(returned)
    tensors = pytree.tree_leaves(result)
    if not tensors:
        raise UserError(f"the model returns no tensor: {describe(returned)}.")
    for index, output in enumerate(tensors):
        if not isinstance(output, torch.Tensor):
            raise UserError(f"the model's output {index} must be a tensor, not {describe(output)}.")
    return result, tensors


def _is_same(one: Collection[Any], other: Collection[Any]) -> bool:
    return len(one) == len(other) and all(value is before for value, before in zip(one, other, strict=True))


def output_names(result: Any) -> list[str]:
    """Returns the names of the tensors in a plain result: paths from `output`, or from the keys of a dict."""
    leaves, _ = pytree.tree_flatten_with_path(result)
    paths = [tuple(map(_step, path)) for path, _ in leaves]
    return [name_of(path if path and not path[0].isdigit() else ("output", *path)) for path in paths]


def check_names(names: Sequence[str], what: str) -> None:
    """Raises UserError for two tensors with the same name, ignoring case because of C macros."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            both = f"two tensors {name!r}" if seen[name.lower()] == name else f"{seen[name.lower()]!r} and {name!r}"
            raise UserError(f"{what}: {both} would have the same name in the program; rename a key.")
        seen[name.lower()] = name


def name_of(path: Sequence[str]) -> str:
    """Converts a path to a C identifier."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", "_".join(path)) or "tensor"
    return f"_{name}" if name[0].isdigit() else name


def _positional(function: Any) -> list[str]:
    """Returns the names of a function's positional parameters, with an asterisk before that of the rest."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in kinds:
            names.append(parameter.name)
        elif parameter.kind == inspect.Parameter.VAR_POSITIONAL:
            names.append(f"*{parameter.name}")
    return names


def _step(key: Any) -> str:
    """Returns a key of a path: a dict's key, an index, or an attribute's name."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _leaves_like(example: Any, sample: Any) -> list[Any]:
    if isinstance(example, torch.Tensor):
        if not isinstance(sample, torch.Tensor):
            raise ValueError
        return [sample]
    if isinstance(example, dict):
        if not isinstance(sample, dict) or sample.keys() != example.keys():
            raise ValueError
        return [leaf for key in example for leaf in _leaves_like(example[key], sample[key])]
    if type(sample) is type(example) and isinstance(example, (tuple, list)) and len(sample) == len(example):
        return [leaf for one, other in zip(example, sample, strict=True) for leaf in _leaves_like(one, other)]
    leaves, spec = pytree.tree_flatten(sample)
    if spec != pytree.tree_structure(example) or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        raise ValueError
    return leaves
