"""Calls as a corrupted program may make them, made of valid ones."""

import math
import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kernels.tests.case_file import Case, Out, Placed

# Elements that a loop over a tensor without elements may stand for: kMaxEmptySpan of runtime/core/tensor_view.h.
_MOST_EMPTY = 1 << 24


def _chosen(cases: list[Case], count: int, generator: random.Random) -> Iterator[Case]:
    """Yields calls at random, as many of each operator."""
    by_operator: dict[str, list[Case]] = {}
    for case in cases:
        by_operator.setdefault(case.operator, []).append(case)
    operators = list(by_operator.values())
    for i in range(count):
        yield generator.choice(operators[i % len(operators)])


def exploding_cases(cases: list[Case], count: int, seed: int) -> list[Case]:
    """Calls of few elements that may stand for much work: numbers are huge, some in proportion to each other, and
    tensors have huge sizes where they have no element.
    """
    generator = random.Random(seed)

    def exploded(value: Any, numbers: list[int], sizes: dict[int, int], share: float) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(exploded(item, numbers, sizes, share) for item in value)
        if isinstance(value, Tensor) and 0 in (shape := [sizes.get(size, size) for size in value.shape]):
            return torch.empty(shape, dtype=value.dtype)
        if isinstance(value, Out):
            return Out(value.dtype, tuple(sizes.get(size, size) for size in value.sizes), is_dynamic=value.is_dynamic)
        if generator.random() > share or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return generator.choice(numbers)
        if isinstance(value, float):
            return generator.choice([0.0, 1e-30, 1e30, -1e30, float(numbers[-1])])
        if isinstance(value, Tensor) and value.dtype in (torch.int32, torch.int64):
            return torch.full_like(value, generator.choice(numbers) % (1 << 31))
        return value

    found = []
    for case in _chosen(cases, count, generator):
        huge = generator.choice([2**10, 2**20, 2**24, 2**30, 2**31 - 1, 2**40, 2**61])
        values = [item for value in case.arguments for item in (value if isinstance(value, (tuple, list)) else [value])]
        shapes = [tuple(getattr(value, "shape", getattr(value, "sizes", ()))) for value in values]
        known = [size for shape in shapes for size in shape] + [1]
        sizes = {generator.choice(known): 0, generator.choice(known): generator.choice([2**10, 2**20, 2**24])}
        spans = [math.prod(filter(None, (sizes.get(size, size) for size in shape))) for shape in shapes]
        renamed = [[sizes.get(size, size) for size in shape] for shape in shapes]
        if max(spans) > _MOST_EMPTY or not all(0 in shape or not {*shape} & {*sizes.values()} for shape in renamed):
            sizes = {}
        numbers = [0, 1, -1, huge, huge - 1, 2 * huge + 1, -huge]
        share = generator.choice([0, 0.3, 1])
        found.append(
            Case(case.operator, [exploded(value, numbers, sizes, share) for value in case.arguments], error="any")
        )
    return found


def corrupted_cases(cases: list[Case], count: int, seed: int) -> list[Case]:
    """Calls as a corrupted program may make them: arguments exchanged, dropped, of other types, shapes and values."""
    generator = random.Random(seed)
    tensors = [a for case in cases for a in case.arguments if isinstance(a, Tensor) and a.numel() < 200]
    floats = [0.0, -1.0, 1e-40, 1e-30, 1e30, float("inf"), float("nan")]

    def replacement(value: Any) -> Any:
        choice = generator.randrange(8)
        if choice < 3 and isinstance(value, Out):
            other = generator.choice(tensors)
            sizes = tuple(other.shape) if choice else value.sizes
            dtype = other.dtype if choice < 2 else value.dtype
            return Out(dtype, sizes, is_dynamic=generator.random() < 0.5)
        if choice < 4 and isinstance(value, Tensor):
            return generator.choice(tensors)
        if choice < 5 and isinstance(value, tuple) and value and isinstance(value[0], int):
            numbers = [generator.choice([-1, 0, 1, 2, 7, 2**31, -(2**63), 2**62]) for _ in value]
            return tuple(numbers[: generator.randrange(len(numbers) + 2)])
        if choice < 5 and isinstance(value, tuple) and value and isinstance(value[0], float):
            return tuple(generator.choice(floats) for _ in value)
        if choice < 5 and isinstance(value, float):
            return generator.choice(floats)
        if choice < 6 and isinstance(value, int):
            return generator.choice([-(2**63), -5, -1, 0, 1, 2, 5, 2**31 - 1, 2**32, 2**63 - 1])
        return generator.choice(
            [None, 0, -1, 2**40, 1.5, float("nan"), True, "floor", (), (1, 2), generator.choice(tensors)]
        )

    corrupted = []
    for case in _chosen(cases, count, generator):
        arguments = list(case.arguments)
        for _ in range(generator.choice([1, 1, 2, 3])):
            position = generator.randrange(len(arguments))
            arguments[position] = replacement(arguments[position])
        if generator.random() < 0.05:
            arguments = arguments[: generator.randrange(len(arguments)) + 1]
        corrupted.append(Case(case.operator, arguments, error="any"))
    return corrupted


def overlapping_cases(cases: list[Case], count: int, seed: int, constants: dict[str, tuple[int, ...]]) -> list[Case]:
    """Generates calls whose tensors a corrupted program has placed over each other.

    Args:
      constants: by operator the positions of arguments that the loader requires to be constants.
    """
    generator = random.Random(seed)

    def placed(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(placed(item) for item in value)
        return Placed(value, 8 * generator.choice([0, 0, 0, 1, 2, 5])) if isinstance(value, (Tensor, Out)) else value

    overlapping = []
    for case in _chosen(cases, count, generator):
        fixed = constants.get(case.operator, ())
        arguments = [a if position in fixed else placed(a) for position, a in enumerate(case.arguments)]
        overlapping.append(Case(case.operator, arguments, error="any"))
    return overlapping
