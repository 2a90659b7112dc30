"""Determines the optional parts of the runtime that programs need: runtime/executor/optional_parts.h."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Flag, auto

from tools.artifacts.program.program_schema import (
    BoolList,
    DoubleList,
    IntList,
    OptionalTensorList,
    Program,
    String,
    Tensor,
    TensorList,
)
from tools.pipeline.registry.catalog import Kernel


class Part(Flag):
    """The functions of OptionalParts, in its order."""

    PARSE_LIST = auto()
    FIND_CONSTANT = auto()
    LOAD_INITIAL_STATE = auto()
    LOCATE_SEGMENT = auto()


ALL_PARTS = ~Part(0)

_FUNCTIONS = {
    Part.PARSE_LIST: "deserialization::TensorParser::parse_list",
    Part.FIND_CONSTANT: "deserialization::TensorParser::find_constant",
    Part.LOAD_INITIAL_STATE: "deserialization::TensorParser::load_initial_state",
    Part.LOCATE_SEGMENT: "locate_segment",
}


def needed_parts(program: Program) -> Part:
    """Returns the parts that a program needs."""
    parts = Part(0)
    segment = program.constant_segment
    # The first entry is a placeholder.
    if segment is not None and len(segment.offsets or []) > 1:
        parts |= Part.LOCATE_SEGMENT
    for plan in program.execution_plan or []:
        for value in plan.values or []:
            if isinstance(value.val, String | IntList | DoubleList | BoolList | TensorList | OptionalTensorList):
                parts |= Part.PARSE_LIST
            elif isinstance(value.val, Tensor) and value.val.data_buffer_idx:
                parts |= Part.FIND_CONSTANT if value.val.allocation_info is None else Part.LOAD_INITIAL_STATE
    return parts


@dataclass(frozen=True)
class CheckedArgument:
    """An argument that the loader checks: CheckedArgument of runtime/executor/optional_parts.h.

    Attributes:
      function: the C++ expression of the kernel's function.
      position: its position among the call's arguments.
      mark: what it must be, or becomes: Constant, Packed, Relocated or Replaced.
    """

    function: str
    position: int
    mark: str


def checked_arguments(function: str, kernel: Kernel) -> list[CheckedArgument]:
    """Returns the checked arguments of a kernel, whose C++ function is `function`."""
    marks = {
        **dict.fromkeys(kernel.constants, "Constant"),
        **dict.fromkeys(kernel.packed, "Packed"),
        **dict.fromkeys(kernel.views, "Relocated"),
        **dict.fromkeys(kernel.results, "Replaced"),
    }
    return [CheckedArgument(function, position, mark) for position, mark in sorted(marks.items())]


def parts_source(parts: Part, checked: Sequence[CheckedArgument]) -> list[str]:
    """Returns the lines of C++ that define kOptionalParts.

    Args:
      parts: the included functions.
      checked: the checked arguments of kernels.
    """
    table = [f"    {{{entry.function}, {entry.position}, Mark::{entry.mark}}}," for entry in checked]
    arguments = ["namespace {", "constexpr CheckedArgument kCheckedArguments[] = {", *table, "};", "} // namespace"]
    entries = [
        f"    &{function}," if part in parts else f"    nullptr, // {function}" for part, function in _FUNCTIONS.items()
    ]
    entries.append("    {kCheckedArguments}," if table else "    {},")
    return [
        *(arguments if table else []),
        "extern const OptionalParts kOptionalParts;",
        "const OptionalParts kOptionalParts = {",
        *entries,
        "};",
    ]
