"""Programs that lay the result of an operator over what it has checked, or make them one tensor: no access outside."""

import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir.schema import (
    Double,
    Int,
    IntList,
    KernelCall,
    Null,
    Operator,
    OptionalTensorList,
    Tensor,
    TensorList,
)
from executorch.exir.tensor import scalar_type_enum

from conformance.check import encode_input
from conformance.program import to_bytes
from kernels.tests.plans import make_plan, make_tensor
from tools.verify.run_pte.cases import Case, CaseResult, Runner, run_cases

# This machine's, with every kernel, under the sanitizers; no emulator is needed.
RUNNER = Runner(Path(os.environ["RUNNER"]), None, Path())


def _run(operator: Operator, inputs: list[tuple[torch.Tensor, int, int]], out: Tensor, *others: Any) -> CaseResult:
    """Calls an operator with inputs, which are at an offset of a memory, then other values, then the result.

    The inputs are values 0 and so on, the other values come after them and the result.
    """
    values = [_tensor(tensor.dtype, list(tensor.shape), memory, offset) for tensor, memory, offset in inputs]
    count = len(values)
    arguments = {
        "aten::index": [0, count + 1, count],
        "cortex_m::softmax": [0, *range(count + 1, count + 1 + len(others)), count],
        "torch_fusion::quantized_softmax": [0, 1, count + 1, count],
        "torch_fusion::quantized_masked_softmax": [0, 1, 2, count + 1, count],
    }[str(operator.name)]
    call = KernelCall(0, [*arguments, count])
    plan = make_plan([*values, out, *others], range(count), [count], [call], [operator], [64, 512, 64])
    return run_cases(RUNNER, [Case(to_bytes(plan), tuple(encode_input(tensor) for tensor, _, _ in inputs))])[0]


def _tensor(dtype: torch.dtype, sizes: list[int], memory: int, offset: int = 0) -> Tensor:
    return make_tensor(scalar_type_enum(dtype), sizes, (memory, offset))


def test_a_result_over_the_mask_that_chooses_it() -> None:
    # The first element that is written clears the mask: for the second row it has no true one any more.
    mask = torch.tensor([True, True, False, False])
    rows = torch.tensor([[0], [0]])
    result = _run(
        Operator("aten::index", "Tensor_out"),
        [(torch.zeros(3, 4), 2, 0), (rows, 3, 0), (mask, 1, 0)],
        _tensor(torch.float32, [2, 2], 1),
        OptionalTensorList([1, 2]),
    )
    assert result.error == "Ok", result.text()


def test_a_softmax_over_its_input() -> None:
    # The smallest operand of the sum becomes larger than the largest.
    x = torch.tensor([-127, -128, -128, -128, -128, -128], dtype=torch.int8)
    numbers = [-1, 0, -128, 2**31 - 1, 31, 0]
    result = _run(Operator("cortex_m::softmax", "out"), [(x, 1, 0)], _tensor(torch.int8, [6], 1, 1), *map(Int, numbers))
    assert result.error == "Ok", result.text()


@pytest.mark.parametrize(("offset", "error"), [(0, "Ok"), (8, "Ok"), (4, "InvalidArgument")])
def test_a_softmax_by_a_table_over_its_input(offset: int, error: str) -> None:
    # Behind its first element the output would be what the table has nothing for.
    x = torch.tensor([-127, -128, -128, -128, -128, 127], dtype=torch.int8)
    table = torch.full((256,), 32767, dtype=torch.int16)
    result = _run(
        Operator("torch_fusion::quantized_softmax", "out"),
        [(x, 1, 0), (table, 2, 0)],
        _tensor(torch.int8, [6], 1, offset),
        Int(-1),
    )
    assert result.error == error, result.text()


@pytest.mark.parametrize(("offset", "error"), [(0, "Ok"), (8, "InvalidArgument"), (16, "Ok")])
def test_a_softmax_over_its_masks(offset: int, error: str) -> None:
    x = torch.tensor([-127, -128, -128, -128, -128, 127], dtype=torch.int8)
    table, mask = torch.full((256,), 32767, dtype=torch.int16), torch.tensor([[[-1, -1, -1, -1, -1, 0]]]).to(torch.int8)
    result = _run(
        Operator("torch_fusion::quantized_masked_softmax", "out"),
        [(x, 1, 0), (table, 2, 0), (mask, 1, 8)],
        _tensor(torch.int8, [6], 1, offset),
        Int(1),
    )
    assert result.error == error, result.text()


_X = 0


@pytest.mark.parametrize(
    ("operator", "bound", "given", "others", "call"),
    [
        ("cat", [4], [2], [_tensor(torch.float32, [2], 2), TensorList([1, _X]), Int(0)], [2, 3, _X]),
        ("constant_pad_nd", [3], [2], [Int(1), Int(0), IntList([1, 2]), Double(0.0)], [_X, 3, 4, _X]),
        ("mm", [2, 4], [2, 1], [_tensor(torch.float32, [1, 4], 2)], [_X, 1, _X]),
        ("_cdist_forward", [2, 4], [2, 1], [_tensor(torch.float32, [4, 1], 2), Double(2.0), Null()], [_X, 1, 2, 3, _X]),
    ],
)
def test_a_result_that_is_an_operand_and_gets_another_shape(operator, bound, given, others, call) -> None:
    # The shape that the kernel has read of the operand would be wrong after that.
    x = make_tensor(scalar_type_enum(torch.float32), bound, (1, 0), is_dynamic=True)
    operators = [Operator(f"aten::{operator}", "out")]
    memories = [4 * math.prod(bound), 64]
    plan = make_plan([x, *others], [_X], [_X], [KernelCall(0, [*call, _X])], operators, memories)
    result = run_cases(RUNNER, [Case(to_bytes(plan), (encode_input(torch.ones(given)),))])[0]
    assert result.error == "InvalidProgram", result.text()
