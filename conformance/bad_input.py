"""Calls with arguments that their operators cannot take: sizes, dims, numbers, dtypes, positions out of range."""

import random
from typing import Any

import torch
from executorch.exir.schema import Double, ExecutionPlan, Int, Null, ScalarType, Tensor

from conformance.calls import Call
from conformance.check import encode_input
from conformance.program import make_plan, to_bytes
from tools.verify.run_pte.cases import Case

_INTEGERS = (-1, 0, 1, 2, 7, -9, 255, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, -(2**63))
_NUMBERS = (0.0, -1.0, 0.5, 1e-300, 1e300, float("nan"), float("inf"), -float("inf"))
_SIZES = (0, 1, 3, 17, 2**16, 2**31 - 1, -1, -(2**31))
_DTYPES = (*range(8), 11, 15)
# Elements that are no positions of anything, by their number of bits.
_POSITIONS = {torch.int32: (-1, 2**31 - 1, -(2**31), 1000), torch.int64: (-1, 2**62, -(2**63), 2**32, 1000)}


def _corrupt_tensor(tensor: Tensor, rng: random.Random) -> None:
    what = rng.randrange(4)
    if what == 0:
        tensor.scalar_type = ScalarType(rng.choice(_DTYPES))
    elif what == 1 and tensor.dim_order:
        order = list(tensor.dim_order)
        rng.shuffle(order)
        tensor.dim_order = order  # type: ignore[assignment]
    elif what == 2:
        tensor.sizes = [*tensor.sizes, rng.choice(_SIZES)]
        tensor.dim_order = list(range(len(tensor.sizes)))  # type: ignore[assignment]
    elif tensor.sizes:
        tensor.sizes = list(tensor.sizes)
        tensor.sizes[rng.randrange(len(tensor.sizes))] = rng.choice(_SIZES)


def _corrupt_plan(plan: ExecutionPlan, rng: random.Random) -> None:
    """Changes one value of a plan, or which value an argument is."""
    arguments = plan.chains[0].instructions[0].instr_args.args
    if rng.random() < 0.15:
        arguments[rng.randrange(len(arguments))] = rng.randrange(len(plan.values))
        return
    index = rng.randrange(len(plan.values))
    value: Any = plan.values[index].val
    if isinstance(value, Int):
        value.int_val = rng.choice(_INTEGERS)
    elif isinstance(value, Double):
        value.double_val = rng.choice(_NUMBERS)
    elif isinstance(value, Tensor):
        _corrupt_tensor(value, rng)
    elif rng.random() < 0.3:
        plan.values[index].val = Null()


def _corrupt_elements(tensors: list[torch.Tensor], rng: random.Random) -> list[torch.Tensor]:
    result = []
    for tensor in tensors:
        if tensor.dtype in _POSITIONS and tensor.numel() and rng.random() < 0.7:
            tensor = tensor.clone(memory_format=torch.contiguous_format)
            tensor.view(-1)[rng.randrange(tensor.numel())] = rng.choice(_POSITIONS[tensor.dtype])
        result.append(tensor)
    return result


def corrupted(call: Call, seed: int) -> Case:
    """Returns a call with something wrong in it: elements of its inputs, or values of its plan."""
    rng = random.Random(f"{call.operator} {call.dtype} {seed}")
    plan, tensors = make_plan(call)
    if rng.random() < 0.3:
        tensors = _corrupt_elements(tensors, rng)
    else:
        for _ in range(rng.choice((1, 1, 2))):
            _corrupt_plan(plan, rng)
    return Case(to_bytes(plan), tuple(encode_input(tensor) for tensor in tensors))
