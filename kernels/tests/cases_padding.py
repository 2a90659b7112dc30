"""Cases of padding, beside those of //conformance:op_db."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as functional

from kernels.tests.case_file import Case, Out
from kernels.tests.case_values import case, channels_last, values


def padding_cases() -> Iterator[Case]:
    """Yields padding that also cuts, by a value, by mirror images and by edges."""
    x = values((2, 3, 4), torch.float32)
    for pad, value in [((-1, 1, 2, -2), 1), ((2, -4), 0), ((), 1), ((1, 1, 1, 1, 1, 1), -float("inf"))]:
        yield case("aten::constant_pad_nd.out", x, pad, value, expected=functional.pad(x, pad, value=value))
    shape = (2, 3, 4, 5, 6)
    for dims, pads in [
        (1, [(1, 2), (0, 0), (3, -1), (-2, 4)]),
        (2, [(1, 2, 3, 0), (0, 3, -1, 2), (2, -3, -1, -1)]),
        (3, [(1, 2, 3, 0, 1, 1), (-1, 1, 0, 3, 2, -1)]),
    ]:
        for pad in pads:
            x = values((*shape[:1], *shape[-dims:]), torch.float32)
            for name, mode in (("reflection", "reflect"), ("replication", "replicate")):
                expected = functional.pad(x, pad, mode=mode)
                yield case(f"aten::{name}_pad{dims}d.out", x, pad, expected=expected)
    image = channels_last(values((2, 3, 4, 5), torch.float32))
    for name, mode in (("reflection", "reflect"), ("replication", "replicate")):
        expected = functional.pad(image.contiguous(), (1, 2, 3, -1), mode=mode)
        yield case(f"aten::{name}_pad2d.out", image, (1, 2, 3, -1), expected=channels_last(expected))


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
