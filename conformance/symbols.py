"""Calls of operators on numbers, with which programs compute sizes, and of those that read numbers of a tensor."""

import itertools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.calls import Call
from conformance.operators import DTYPES

# executorch/exir/passes/executorch_prim_ops_registry.py defines the operators by these functions.
_OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "eq": operator.eq,
    "floordiv": operator.floordiv,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
    "mul": operator.mul,
    "sub": operator.sub,
    "sym_max": max,
    "sym_min": min,
    "truediv": operator.truediv,
}
_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "ceil": math.ceil,
    "neg": operator.neg,
    "round": round,
    "sym_float": float,
    "sym_int": int,
    "trunc": math.trunc,
}
_PAIRS = ((7, 3), (-7, 3), (7, -3), (2**40, 5), (3, 3))
NAMES = tuple(
    f"executorch_prim::{name}.Scalar" for name in sorted([*_OF_TWO, *_OF_ONE, "mod", "sym_not", "sym_ite"])
) + ("aten::_local_scalar_dense", "aten::sym_numel", "aten::sym_size.int", "aten::sym_stride.int")


def _call(name: str, arguments: dict[str, Any], value: Any) -> Call:
    expected = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
    return Call(f"executorch_prim::{name}.Scalar", arguments, (expected,), source="made by hand")


def symbol_calls() -> Iterator[tuple[torch.dtype, Call]]:
    """Calls, each with the dtype that it counts for: that of its first number, or of its tensor."""
    pairs = [*_PAIRS, *((a + 0.5, b + 0.25) for a, b in _PAIRS)]
    for (name, function), (a, b) in itertools.product(_OF_TWO.items(), pairs):
        dtype = torch.int64 if isinstance(a, int) else torch.float64
        yield dtype, _call(name, {"a": a, "b": b}, function(a, b))
    for (name, one), (a, _) in itertools.product(_OF_ONE.items(), pairs):
        dtype = torch.int64 if isinstance(a, int) else torch.float64
        yield dtype, _call(name, {"a": a}, one(a))
    for a, b in _PAIRS:
        yield torch.int64, _call("mod", {"a": a, "b": b}, a % b)
    for condition in (True, False):
        yield torch.bool, _call("sym_not", {"a": condition}, not condition)
        yield (
            torch.bool,
            _call("sym_ite", {"b": condition, "t": 5, "f": 2.5 if condition else 9}, 5 if condition else 9),
        )
    for dtype in DTYPES:
        yield from ((dtype, call) for call in _tensor_calls(dtype))


def _tensor_calls(dtype: torch.dtype) -> Iterator[Call]:
    x = torch.ones(2, 3, 5, dtype=dtype)
    yield Call("aten::sym_numel", {"self": x}, (torch.tensor(30),), source="made by hand")
    for dim in (0, 2, -2):
        arguments = {"self": x, "dim": dim}
        yield Call("aten::sym_size.int", arguments, (torch.tensor(x.shape[dim]),), source="made by hand")
        yield Call("aten::sym_stride.int", arguments, (torch.tensor(x.stride(dim)),), source="made by hand")
    for number in (0, 1, 7):
        value = torch.tensor(number, dtype=dtype)
        wanted = torch.float64 if dtype.is_floating_point else torch.bool if dtype == torch.bool else torch.int64
        yield Call("aten::_local_scalar_dense", {"self": value}, (value.to(wanted),), source="made by hand")
