"""Cases of operators on symbols and of those that produce them."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kernels.tests.case_file import Case, Out
from kernels.tests.case_values import EVERY, channels_last

INTEGERS = (-7, -1, 0, 3, 8)
FLOATS = (-2.5, -0.5, 0.5, 1.5, 3.0, 1e17)
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "truediv": lambda a, b: a / b,
    "sym_max": max,
    "sym_min": min,
    "eq": lambda a, b: a == b,
    "gt": lambda a, b: a > b,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "le": lambda a, b: a <= b,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda a: -a,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
    "sym_int": int,
    "sym_float": float,
}


def symbol_cases() -> Iterator[Case]:
    """Yields numbers compared with Python's, sizes, and results of maps and views."""
    for (name, operation), a, b in itertools.product(BINARY.items(), (*INTEGERS, *FLOATS), (-3, -1, 2, 3, 0.5, -2.5)):
        yield Case(f"executorch_prim::{name}.Scalar", [a, b, None], value=operation(a, b))
    for (name, operation), a in itertools.product(UNARY.items(), (*INTEGERS, *FLOATS, 2.5, 3.5, -1.5)):
        yield Case(f"executorch_prim::{name}.Scalar", [a, None], value=operation(a))
    for a, b in ((1.0, 0.1), (-1.0, 0.1), (5.3, -0.1), (0.3, 0.1), (1e300, 3.0), (-5.0, math.inf), (5.0, math.inf)):
        yield Case("executorch_prim::floordiv.Scalar", [a, b, None], value=a // b)
        yield Case("executorch_prim::mod.Scalar", [a, b, None], value=a % b)
    large = 2**63 - 1
    yield Case("executorch_prim::add.Scalar", [large, 1, None], value=-(2**63))
    yield Case("executorch_prim::floordiv.Scalar", [-(2**63), -1, None], value=-(2**63))
    yield Case("executorch_prim::sym_not.Scalar", [False, None], value=True)
    yield Case("executorch_prim::sym_not.Scalar", [True, None], value=False)
    for condition, chosen in ((True, 5), (False, 2.5)):
        yield Case("executorch_prim::sym_ite.Scalar", [condition, 5, 2.5, None], value=chosen)
    x = torch.zeros(2, 3)
    yield Case("aten::sym_size.int", [x, -1, None], value=3)
    yield Case("aten::sym_numel", [x, None], value=6)
    yield Case("aten::sym_stride.int", [x, 0, None], value=3)
    yield Case("aten::sym_stride.int", [channels_last(torch.zeros(1, 3, 4, 5)), 1, None], value=1)
    for dtype in EVERY:
        element = torch.tensor([[1.5]]).to(dtype)
        yield Case("aten::_local_scalar_dense", [element, 0], value=element.item())
    yield Case("executorch_prim::et_view.default", [x, (3, -1), Out(torch.float32, (3, 2))], [x.view(3, 2)])
    row, before = torch.randn(3), torch.randn(2, 3)
    after = torch.stack((before[0], row))
    fixed = Out(torch.float32, (2, 3), initial=before)
    yield Case("executorch_prim::et_copy_index.tensor", [fixed, row, 1], [after])
    growing = Out(torch.float32, (4, 3), is_dynamic=True, initial=torch.cat((before, before)))
    yield Case("executorch_prim::et_copy_index.tensor", [growing, row, 1], [after])


def refused_symbol_cases() -> Iterator[Case]:
    """Arguments without a valid number or size."""
    x, row = torch.zeros(2, 3), torch.zeros(3)
    fixed = Out(torch.float32, (2, 3))
    growing = Out(torch.float32, (2, 3), is_dynamic=True)
    refused: list[tuple[str, str, list[Any]]] = [
        *(("InvalidArgument", f"{name}.Scalar", [1, 0, None]) for name in ("floordiv", "mod", "truediv")),
        ("InvalidArgument", "floordiv.Scalar", [1.5, 0.0, None]),
        *(("InvalidArgument", f"{name}.Scalar", [1e20, None]) for name in ("sym_int", "ceil", "round", "trunc")),
        ("InvalidArgument", "sym_int.Scalar", [math.nan, None]),
        ("InvalidType", "add.Scalar", [x, 1, None]),
        ("InvalidProgram", "add.Scalar", [1, 1]),
        ("InvalidArgument", "et_view.default", [x, (4, -1), Out(torch.float32, (3, 2))]),
        ("InvalidArgument", "et_copy_index.tensor", [fixed, row, 2]),
        ("InvalidArgument", "et_copy_index.tensor", [fixed, row, -1]),
        ("InvalidArgument", "et_copy_index.tensor", [fixed, x, 0]),
        ("InvalidArgument", "et_copy_index.tensor", [growing, row, 2]),
        ("InvalidType", "et_copy_index.tensor", [fixed, row.int(), 0]),
    ]
    for error, name, arguments in refused:
        yield Case(f"executorch_prim::{name}", arguments, error=error)
    yield Case("aten::sym_size.int", [x, 2, None], error="InvalidArgument")
    yield Case("aten::_local_scalar_dense", [x, 0], error="InvalidArgument")
