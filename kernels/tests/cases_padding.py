"""Cases of padding."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as functional

from kernels.tests.case_file import Case, Out
from kernels.tests.case_values import EVERY, case, channels_last, values

# One dtype for each element size.
SIZES = [torch.float32, torch.int8, torch.float16, torch.int64]


def padding_cases() -> Iterator[Case]:
    """Yields padding by a value, by mirror images and by edges; negative padding, too."""
    for dtype in EVERY:
        for pad in [(1, 2), (0, 0, 3, 1), (-1, 1, 2, -2), (2, -4), (), (1, 1, 1, 1, 1, 1)]:
            x = values((2, 3, 4), dtype)
            for value in (0, 1):
                yield case("aten::constant_pad_nd.out", x, pad, value, expected=functional.pad(x, pad, value=value))
        empty = values((0, 2), dtype)
        yield case(
            "aten::constant_pad_nd.out", empty, (0, 1, 2, 0), 1, expected=functional.pad(empty, (0, 1, 2, 0), value=1)
        )
    x = values((2, 3), torch.float32)
    infinite = functional.pad(x, (1, 1), value=-float("inf"))
    yield case("aten::constant_pad_nd.out", x, (1, 1), -float("inf"), expected=infinite)
    image = channels_last(values((2, 3, 4, 5), torch.float32))
    yield case("aten::constant_pad_nd.out", image, (1, 2, 0, 1), 0, expected=functional.pad(image, (1, 2, 0, 1)))
    bound = Out(torch.float32, (9, 9), is_dynamic=True)
    yield Case("aten::constant_pad_nd.out", [x, (1, 1), 0, bound], [functional.pad(x, (1, 1))])
    for dtype in SIZES:
        yield from _mirrors(dtype)


def _mirrors(dtype: torch.dtype) -> Iterator[Case]:
    # Eager has no code for them in all dtypes that the operators take.
    shape = (2, 3, 4, 5, 6)
    for dims, pads in [
        (1, [(1, 2), (0, 0), (3, -1), (-2, 4)]),
        (2, [(1, 2, 3, 0), (0, 3, -1, 2), (2, -3, -1, -1)]),
        (3, [(1, 2, 3, 0, 1, 1), (-1, 1, 0, 3, 2, -1)]),
    ]:
        for pad in pads:
            for leading in (1, 2):
                x = values(shape[2 - leading : 2] + shape[-dims:], dtype)
                wide = x.double() if dtype != torch.int64 else x
                for name, mode in (("reflection", "reflect"), ("replication", "replicate")):
                    expected = functional.pad(wide, pad, mode=mode).to(dtype)
                    yield case(f"aten::{name}_pad{dims}d.out", x, pad, expected=expected)
    image = channels_last(values((2, 3, 4, 5), dtype))
    for name, mode in (("reflection", "reflect"), ("replication", "replicate")):
        expected = functional.pad(image.double().contiguous(), (1, 2, 3, 1), mode=mode).to(dtype)
        yield case(f"aten::{name}_pad2d.out", image, (1, 2, 3, 1), expected=channels_last(expected))


def refused_padding_cases() -> Iterator[Case]:
    """Yields padding that does not fit."""
    x = torch.randn(2, 3)
    refused: list[tuple[str, list[Any]]] = [
        ("constant_pad_nd", [x, (1,), 0, Out(torch.float32, (2, 4))]),
        ("constant_pad_nd", [x, (1, 1, 1, 1, 1, 1), 0, Out(torch.float32, (4, 5))]),
        ("constant_pad_nd", [x, (-4, 0), 0, Out(torch.float32, (2, 0))]),
        ("constant_pad_nd", [x, (2**62, 0), 0, Out(torch.float32, (2, 3))]),
        ("constant_pad_nd", [x, (1, 1), 0, Out(torch.float32, (2, 4))]),
        ("reflection_pad1d", [x, (3, 0), Out(torch.float32, (2, 6))]),
        ("reflection_pad1d", [x, (-2, -1), Out(torch.float32, (2, 0))]),
        ("replication_pad1d", [torch.zeros(2, 0), (1, 1), Out(torch.float32, (2, 2))]),
        ("replication_pad2d", [x, (1, 1, 1, 1), Out(torch.float32, (4, 5))]),
        ("reflection_pad3d", [x, (1, 1), Out(torch.float32, (2, 5))]),
    ]
    for name, arguments in refused:
        yield Case(f"aten::{name}.out", arguments, error="InvalidArgument")
    yield Case("aten::constant_pad_nd.out", [x, (1, 1), 0, Out(torch.int32, (2, 5))], error="InvalidType")
