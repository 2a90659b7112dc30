"""Parts of the runtime that programs need: runtime/executor/optional_parts.h."""

from __future__ import annotations

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
    """The parts that a program needs."""
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
class CheckedArguments:
    """CheckedArguments of runtime/executor/optional_parts.h: positions of arguments that the loader checks.

    Attributes:
      function: C++ that is the kernel's function.
    """

    function: str
    constants: Sequence[int]
    views: Sequence[int]
    packed: Sequence[int]


def parts_source(parts: Part, checked: Sequence[CheckedArguments]) -> list[str]:
    """The lines of C++ that define kOptionalParts.

    Args:
      parts: the functions that are not left out.
      checked: what is checked of the kernels' arguments.
    """
    table = [
        f"    {{{kernel.function}, {_mask(kernel.constants):#x}, {_mask(kernel.views):#x}, {_mask(kernel.packed):#x}}},"
        for kernel in checked
    ]
    arguments = ["namespace {", "constexpr CheckedArguments kCheckedArguments[] = {", *table, "};", "} // namespace"]
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


def _mask(positions: Sequence[int]) -> int:
    return sum(1 << position for position in positions)
