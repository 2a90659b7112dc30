"""Reads the operators of programs and the arguments of each call."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tools.artifacts.program.program import DTYPES, calls_of, operator_name
from tools.artifacts.program.program_schema import (
    Bool,
    DelegateCall,
    Double,
    Int,
    IntList,
    KernelCall,
    MoveCall,
    OptionalTensorList,
    Program,
    ScalarType,
    String,
    Tensor,
    TensorList,
)

# Names of executorch::aten::ScalarType by value (runtime/core/portable_type/scalar_type.h).
SCALAR_TYPES = {ScalarType[name].value: dtype.cpp for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class TensorUse:
    """A tensor argument, with the properties that kernel selection depends on."""

    dtype: str
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    is_dynamic: bool

    @property
    def is_contiguous(self) -> bool:
        """Whether the dims are in their own order in memory; dims of size 1 don't matter."""
        single = {dim for dim, size in enumerate(self.sizes) if size == 1}
        order = [dim for dim in self.dim_order if dim not in single]
        return order == sorted(order)


@dataclass(frozen=True)
class Call:
    """One kernel call.

    Attributes:
      arguments: for each argument its tensors: none, one, or a list's.
      constants: for each argument its number: NaN if the program computes it in floating point, and None if the program
        computes another number, or if it isn't a number.
      modes: for each argument its string, if it is one.
      is_read: for each argument whether another instruction, or the program's caller, uses its value.
    """

    arguments: tuple[tuple[TensorUse, ...], ...]
    constants: tuple[float | int | bool | None, ...]
    modes: tuple[str | None, ...]
    is_read: tuple[bool, ...]


@dataclass
class OperatorUse:
    """An operator of a program with its calls."""

    name: str
    calls: list[Call] = field(default_factory=list)


def operator_uses(program: Program) -> list[OperatorUse]:
    """Returns the operators of a program's methods with their calls, in the order of their tables."""
    uses: dict[str, OperatorUse] = {}
    for plan in program.execution_plan or []:
        names = [operator_name(operator.name, operator.overload) for operator in plan.operators or []]
        for name in names:
            uses.setdefault(name, OperatorUse(name))
        readers = _readers(plan)
        computed = _computed_numbers(plan, names)
        for call in calls_of(plan):
            if isinstance(call, KernelCall):
                uses[names[call.op_index]].calls.append(_call(plan, list(call.args or []), readers, computed))
    return list(uses.values())


def _call(plan: Any, arguments: list[int], readers: list[int], computed: dict[int, float | None]) -> Call:
    # The exporter appends the result: the out argument again, or a list of the out arguments.
    result = arguments[-1:]
    if result and isinstance(plan.values[result[0]].val, TensorList):
        result = list(plan.values[result[0]].val.items or [])
    if result and set(result) <= set(arguments[:-1]):
        arguments = arguments[:-1]
    else:
        result = []
    own = arguments + result
    return Call(
        arguments=tuple(tuple(_tensors(plan, index)) for index in arguments),
        constants=tuple(
            computed[index] if index in computed else _constant(plan.values[index].val) for index in arguments
        ),
        modes=tuple(_string(plan.values[index].val) for index in arguments),
        is_read=tuple(readers[index] > own.count(index) for index in arguments),
    )


# Operators whose result is a floating-point number, and those whose result is one if an operand is.
_TO_FLOATING = {"executorch_prim::sym_float.Scalar", "executorch_prim::truediv.Scalar"}
_LIKE_OPERANDS = {
    f"executorch_prim::{name}.Scalar"
    for name in ("add", "sub", "mul", "floordiv", "mod", "neg", "sym_max", "sym_min", "sym_ite")
}


def _computed_numbers(plan: Any, names: list[str]) -> dict[int, float | None]:
    """Returns the values that are numbers which the program computes: NaN for floating-point numbers, otherwise None.

    The program doesn't tell: the exporter writes integers in either case.
    """
    computed: dict[int, float | None] = {}

    def is_floating(index: int) -> bool:
        value = plan.values[index].val
        if isinstance(value, Tensor):
            return SCALAR_TYPES.get(int(value.scalar_type)) in ("Half", "Float", "Double", "BFloat16")
        return isinstance(value, Double) or computed.get(index) is not None

    # Repeated because a value may be computed later in the order of a loop's instructions than it is read.
    changes = True
    while changes:
        before = dict(computed)
        for call in calls_of(plan):
            if isinstance(call, MoveCall):
                operands, result, like_operands, to_floating = [call.move_from], call.move_to, True, False
            elif isinstance(call, KernelCall) and call.args:
                name = names[call.op_index]
                operands, result = list(call.args[:-1]), call.args[-1]
                to_floating = name in _TO_FLOATING
                like_operands = name in _LIKE_OPERANDS or name == "aten::_local_scalar_dense"
            else:
                continue
            if not isinstance(plan.values[result].val, Int | Double | Bool):
                continue
            if to_floating or (like_operands and any(map(is_floating, operands))):
                computed[result] = math.nan
            else:
                computed.setdefault(result, None)
        changes = before.keys() != computed.keys() or any(
            (before[index] is None) != (computed[index] is None) for index in before
        )
    return computed


def _readers(plan: Any) -> list[int]:
    """Counts how often each value is an argument, an element of a list, or an output of the method."""
    counts = [0] * len(plan.values)
    for index in plan.outputs or []:
        counts[index] += 1
    for value in plan.values:
        if isinstance(value.val, TensorList | OptionalTensorList | IntList):
            for item in value.val.items or []:
                if item >= 0:
                    counts[item] += 1
    for call in calls_of(plan):
        if isinstance(call, KernelCall | DelegateCall):
            for index in call.args or []:
                counts[index] += 1
        elif isinstance(call, MoveCall):
            counts[call.move_from] += 1
    return counts


def _tensors(plan: Any, index: int) -> Iterator[TensorUse]:
    value = plan.values[index].val
    if isinstance(value, Tensor):
        sizes = tuple(value.sizes or ())
        code = int(value.scalar_type)
        yield TensorUse(
            dtype=SCALAR_TYPES.get(code, f"ScalarType {code}"),
            sizes=sizes,
            dim_order=tuple(value.dim_order or range(len(sizes))),
            is_dynamic=int(value.shape_dynamism) != 0,
        )
    elif isinstance(value, TensorList | OptionalTensorList):
        for item in value.items or []:
            if item >= 0:
                yield from _tensors(plan, item)


def _constant(value: Any) -> float | int | bool | None:
    if isinstance(value, Int):
        return value.int_val
    if isinstance(value, Double):
        return value.double_val
    if isinstance(value, Bool):
        return value.bool_val
    return None


def _string(value: Any) -> str | None:
    return value.string_val if isinstance(value, String) else None
