"""Values and calls that cases are made of."""

import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kernels.tests.case_file import Case, Out, dim_order

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
REALS = [torch.float32, *INTEGERS]
BITS = [*INTEGERS, torch.bool]
# Including the floats that most operators have no code of their own for.
FLOATINGS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
NUMBERS = [*FLOATINGS, *INTEGERS]
EVERY = [*NUMBERS, torch.bool]


def values(shape: tuple[int, ...], dtype: torch.dtype, special: bool = False) -> Tensor:
    """Values of a dtype; `special` adds the extremes, and NaN and infinities."""
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, dtype=torch.bool)
    if dtype.is_floating_point:
        tensor = torch.randn(shape, dtype=dtype) * 3
        extremes = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 100.0, -100.0]
    else:
        info = torch.iinfo(dtype)
        low, high = (info.min, info.max) if special else (max(info.min, -9), 9)
        tensor = torch.randint(low, high, shape, dtype=dtype)
        extremes = [info.min, info.max, 0, 1]
    if special and tensor.numel() > 0:
        flat = tensor.view(-1)
        for i in range(min(flat.numel(), len(extremes))):
            flat[random.randrange(flat.numel())] = extremes[i] if flat.numel() > 1 else random.choice(extremes)
    return tensor


def out_like(expected: Tensor) -> Out:
    """Returns an output that fits a result."""
    return Out(expected.dtype, tuple(expected.shape), dim_order(expected))


def case(operator: str, *arguments: Any, expected: Tensor) -> Case:
    """Returns a call with one output, which comes last."""
    return Case(operator, [*arguments, out_like(expected)], [expected])


def channels_last(tensor: Tensor) -> Tensor:
    """Returns a tensor of four dims with its channels innermost."""
    return tensor.contiguous(memory_format=torch.channels_last)


def refused(operator: str, right: list[Any], **changes: list[dict[int, Any]]) -> Iterator[Case]:
    """Yields calls of an operator that are right but for some arguments.

    Args:
      changes: by error, the wrong arguments of each call by their places.
    """
    for error, wrong in ((error, wrong) for error, calls in changes.items() for wrong in calls):
        yield Case(operator, [wrong.get(place, argument) for place, argument in enumerate(right)], error=error)
