"""Cases of operators on symbols and of those that produce them, beside those of //conformance:op_db."""

import itertools
import math
import operator
from collections.abc import Iterator
from typing import Any

import torch

from kernels.tests.case_file import Case, Out
from kernels.tests.case_values import channels_last


def symbol_cases() -> Iterator[Case]:
    """Yields quotients and roundings compared with Python's, and results of maps and views."""
    for a, b in itertools.product((-7, 3, -2.5, 0.5, 1e17), (-3, 2, 0.5, -2.5)):
        for name, operation in (("add", operator.add), ("floordiv", operator.floordiv), ("mod", operator.mod)):
            yield Case(f"executorch_prim::{name}.Scalar", [a, b, None], value=operation(a, b))
    for a in (-2.5, -0.5, 0.5, 1.5, 2.5, 1e17):
        for name, one in (("ceil", math.ceil), ("round", round), ("trunc", math.trunc), ("sym_int", int)):
            yield Case(f"executorch_prim::{name}.Scalar", [a, None], value=one(a))
    for a, b in ((1.0, 0.1), (-1.0, 0.1), (5.3, -0.1), (0.3, 0.1), (1e300, 3.0), (-5.0, math.inf), (5.0, math.inf)):
        yield Case("executorch_prim::floordiv.Scalar", [a, b, None], value=a // b)
        yield Case("executorch_prim::mod.Scalar", [a, b, None], value=a % b)
    large = 2**63 - 1
    yield Case("executorch_prim::add.Scalar", [large, 1, None], value=-(2**63))
    yield Case("executorch_prim::floordiv.Scalar", [-(2**63), -1, None], value=-(2**63))
    x = torch.zeros(2, 3)
    yield Case("aten::sym_stride.int", [channels_last(torch.zeros(1, 3, 4, 5)), 1, None], value=1)
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
