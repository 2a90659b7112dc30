"""Represents calls of kernels' inner functions, and the knowledge about their arguments at compile time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tools.abi.layouts.layouts import SHIFTS
from tools.pipeline.compile.layout import elements, is_constant, kind_of
from tools.pipeline.compile.program import Method


@dataclass(frozen=True)
class Call:
    """A call of an inner function.

    Attributes:
        header: the header that declares it.
        function: its name.
        arguments: C++ expressions.
        tensors: the tensors in the arguments.
        objects: definitions of constants of other types in the arguments, by name.
    """

    header: str
    function: str
    arguments: list[str]
    tensors: tuple[int, ...]
    objects: Mapping[str, str] = field(default_factory=dict)


def pointer(method: Method, index: int, c_type: str, is_out: bool = False) -> str:
    """Returns an expression for the address of a tensor's elements."""
    if is_constant(method.value(index)):
        return method.constants[method.value(index).val.data_buffer_idx]
    const = "" if is_out else "const "
    name = method.written.get(index, method.names[index]) if is_out else method.names[index]
    return f"at<{const}{c_type}>({memory_name(method, index) or 'model'}, {name}Offset)"


def memory_macro(memory: str) -> str:
    """Returns the macro with the attribute that puts an array into a memory."""
    return f"TORCH_FUSION_ARENA_{memory.upper()}"


def memory_name(method: Method, index: int) -> str:
    """Returns the array of the memory that a tensor is in, if that isn't the instance's arena."""
    memory = method.memory_of(index)[0]
    return f"{memory}_arena" if memory else ""


def are_plain(method: Method, dtype: str, *tensors: int) -> bool:
    """Whether tensors have a dtype, are contiguous, and have an address that is known at compile time."""
    return all(
        index in method.shapes and method.shapes[index].dtype == dtype and method.shapes[index].is_contiguous
        for index in tensors
    ) and are_placed(method, *tensors)


def are_placed(method: Method, *tensors: int) -> bool:
    """Whether tensors have a static shape and an address that is known at compile time."""
    return all(
        is_constant(method.value(index)) or (index in method.offsets and index not in method.kept) for index in tensors
    )


def ints(method: Method, *indices: int) -> list[int] | None:
    """Returns integers of a program, or None if it computes one of them."""
    if any(index in method.values or kind_of(method.value(index)) != "Int" for index in indices):
        return None
    return [int(method.value(index).val.int_val) for index in indices]


def flag(method: Method, index: int) -> bool | None:
    """Returns a Bool of a program, or None if it computes it, or has something else there."""
    value = method.value(index)
    return bool(value.val.bool_val) if index not in method.values and kind_of(value) == "Bool" else None


def number(method: Method, index: int) -> float | None:
    """Returns a number of a program, or None if it computes it, or has something else there."""
    value = method.value(index)
    if index in method.values or kind_of(value) not in ("Int", "Double"):
        return None
    return value.val.int_val if kind_of(value) == "Int" else float(value.val.double_val)


def int_list(method: Method, index: int) -> list[int] | None:
    """Returns a list of integers of a program, or None if it computes one of them."""
    return ints(method, *elements(method.value(index))) if kind_of(method.value(index)) == "IntList" else None


def is_factor(multiplier: int, shift: int) -> bool:
    """Whether check_factor() of kernels/cortex_m/requantize.h accepts a factor."""
    least, greatest = SHIFTS
    return -(2**31) <= multiplier < 2**31 and least <= shift <= greatest
