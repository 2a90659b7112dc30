"""Calls as a corrupted program may make them, made of valid ones."""

import random
from typing import Any

from torch import Tensor

from kernels.tests.case_file import Case, Out, Placed


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

    by_operator: dict[str, list[Case]] = {}
    for valid in cases:
        by_operator.setdefault(valid.operator, []).append(valid)
    operators = list(by_operator.values())
    corrupted = []
    for i in range(count):
        case = generator.choice(operators[i % len(operators)])
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
    by_operator: dict[str, list[Case]] = {}
    for valid in cases:
        by_operator.setdefault(valid.operator, []).append(valid)
    operators = list(by_operator.values())

    def placed(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(placed(item) for item in value)
        return Placed(value, 8 * generator.choice([0, 0, 0, 1, 2, 5])) if isinstance(value, (Tensor, Out)) else value

    overlapping = []
    for i in range(count):
        case = generator.choice(operators[i % len(operators)])
        fixed = constants.get(case.operator, ())
        arguments = [a if position in fixed else placed(a) for position, a in enumerate(case.arguments)]
        overlapping.append(Case(case.operator, arguments, error="any"))
    return overlapping
