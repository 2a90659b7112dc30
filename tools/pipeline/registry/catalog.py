"""Reads the catalog of kernels: kernels/*/operators.yaml."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools.pipeline.registry.calls import SCALAR_TYPES
from tools.quiet.files import reading

KERNELS = Path(__file__).absolute().parents[3] / "kernels"
# Levels of lists and mappings; a table has four.
_DEEPEST = 20

_INTEGRAL = ("Byte", "Char", "Short", "Int", "Long")
_FLOATING = ("Half", "Float", "Double", "BFloat16")
# The names of sets of dtypes in operators.yaml; "any" are all dtypes of a program.
DTYPE_SETS = {
    "any": tuple(SCALAR_TYPES.values()),
    "all": (*_INTEGRAL, *_FLOATING, "Bool"),
    "real": (*_INTEGRAL, *_FLOATING),
    "floating": _FLOATING,
    "bits": (*_INTEGRAL, "Bool"),
}


@dataclass(frozen=True)
class Kernel:
    """A kernel, as described in operators.yaml.

    Attributes:
      operator: e.g. aten::add.out.
      function: C++ name of the kernel: a template on its Selection, or a boxed function.
      header: the header that declares it, from the repository's root.
      dtypes: the dtypes its tensors may have, by ScalarType's names.
      variants: names of the optional variants that it supports, in lower case.
      is_boxed: whether it takes its arguments boxed, as the registry calls it.
      is_template: whether it is a template on its Selection; boxed kernels are if they have dtypes or variants.
      is_limited: whether calls with other dtypes and variants than these can be refused.
      writes: positions of the arguments that the operator writes to; empty if that is the last one.
      constants: positions of the arguments that must be constants of the program.
      packed: positions of those of the constants that are packed layers.
      views: positions of the arguments that the operator turns into views by giving them other memory.
      results: positions of the arguments that are numbers, whose value the operator replaces.
      fixed_dtypes: positions of arguments whose dtype is independent of the others, with the permitted ones.
      factors: positions of Scalars that need no code if they are 1.
      operands: positions of Scalars that take part in type promotion without affecting the result's dtype.
      index_outputs: positions of outputs that need no code unless they are read.
      options: positions of Bools that need no code if they are false.
      masks: positions of lists of tensors in which Bool or Byte tensors need code.
      modes: positions of strings with the values, or None, that need code of their own.
    """

    operator: str
    function: str
    header: str
    dtypes: tuple[str, ...]
    variants: tuple[str, ...]
    is_boxed: bool
    is_template: bool
    is_limited: bool
    writes: tuple[int, ...]
    constants: tuple[int, ...]
    views: tuple[int, ...]
    results: tuple[int, ...]
    packed: tuple[int, ...]
    fixed_dtypes: dict[int, tuple[str, ...]]
    factors: tuple[int, ...]
    operands: tuple[int, ...]
    index_outputs: tuple[int, ...]
    options: tuple[int, ...]
    masks: tuple[int, ...]
    modes: dict[int, tuple[str | None, ...]]


def read_catalog(folder: Path = KERNELS, own: Iterable[Path] = ()) -> dict[str, Kernel]:
    """Returns all kernels by operator, in the order of the files' names and of the entries in them.

    Args:
      own: files with kernels of users' own operators.

    Raises:
      UserError: a file is no table of kernels, or an operator has two.
    """
    kernels = dict(_read_folder(folder))
    for path in own:
        _read_file(path, kernels)
    return kernels


@functools.cache
def _read_folder(folder: Path) -> Mapping[str, Kernel]:
    """Returns the kernels of a folder, which don't change while a tool that compiles many methods runs."""
    kernels: dict[str, Kernel] = {}
    for path in sorted(folder.glob("*/operators.yaml")):
        _read_file(path, kernels)
    return kernels


def _read_file(path: Path, kernels: dict[str, Kernel]) -> None:
    """Adds the kernels of a file to others."""
    with reading("table of kernels", path, "kernels/README.md says what an entry is"):
        text, depth = path.read_text(encoding="utf-8"), 0
        try:
            # The loader in C: the other one takes seven times as long, in each build of a program. It calls itself for
            # each level, and ends the process where the stack does.
            for event in yaml.parse(text, Loader=yaml.CSafeLoader):
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if depth > _DEEPEST:
                    raise ValueError(f"line {event.start_mark.line + 1} has more than {_DEEPEST} levels")
            entries = yaml.load(text, Loader=yaml.CSafeLoader)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error
        for entry in entries:
            for kernel in _kernels(entry):
                if kernel.operator in kernels:
                    raise ValueError(f"{kernel.operator} has a kernel already")
                kernels[kernel.operator] = kernel


def _dtypes(given: str | list[str]) -> tuple[str, ...]:
    """Returns the dtypes of a list, or of a set by its name."""
    return DTYPE_SETS[given] if isinstance(given, str) else tuple(given)


def _function(operator: str, given: str | None, header: str) -> str:
    """Returns the C++ name of an operator's kernel.

    Args:
      given: the name in the table, without its namespace if that is the one of this library's kernels; None for the
        operator's name and overload, of which the overload's Tensor, int and self are no part.
    """
    if given and "::" in given:
        return given
    name, _, overload = operator.partition("::")[2].partition(".")
    words = [word for word in overload.lower().split("_") if word not in ("", "tensor", "int", "self")]
    namespace = "cortex_m::" if header.startswith("kernels/cortex_m/") else ""
    return f"torch::executor::native::{namespace}{given or '_'.join([name.lstrip('_'), *words])}"


def _kernels(entry: dict[str, Any]) -> list[Kernel]:
    functions = [name for name in entry["kernels"].values() if name is not None]
    for text in (entry["header"], *entry["kernels"], *functions):
        if not isinstance(text, str):
            raise TypeError(f"a kernel's operator, function and header are texts, and not {text!r}")
    is_limited = not entry.get("boxed", False) or "dtypes" in entry or "variants" in entry
    make = functools.partial(
        Kernel,
        header=entry["header"],
        dtypes=_dtypes(entry.get("dtypes", "any")),
        variants=tuple(entry.get("variants", ())),
        is_boxed=bool(entry.get("boxed", False)),
        is_template=is_limited and entry.get("template", True),
        is_limited=is_limited,
        writes=tuple(entry.get("writes", ())),
        constants=tuple(entry.get("constants", ())),
        views=tuple(entry.get("views", ())),
        results=tuple(entry.get("results", ())),
        packed=tuple(entry.get("packed", ())),
        fixed_dtypes={index: _dtypes(types) for index, types in entry.get("fixed_dtypes", {}).items()},
        factors=tuple(entry.get("factors", ())),
        operands=tuple(entry.get("operands", ())),
        index_outputs=tuple(entry.get("index_outputs", ())),
        options=tuple(entry.get("options", ())),
        masks=tuple(entry.get("masks", ())),
        modes={index: tuple(modes) for index, modes in entry.get("modes", {}).items()},
    )
    return [
        make(operator=operator, function=_function(operator, function, entry["header"]))
        for operator, function in entry["kernels"].items()
    ]
