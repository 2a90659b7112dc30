"""Cases of recurrent layers."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kernels.tests.case_file import Case, Out
from kernels.tests.case_values import out_like, refused


def recurrent_cases() -> Iterator[Case]:
    """Layers of LSTM and GRU in one direction, with and without initial states and biases."""
    sizes = [(1, 1, 1, 1), (5, 2, 4, 8), (3, 3, 7, 5), (0, 2, 3, 4), (4, 0, 3, 4)]
    for (steps, batch, features, hidden), reverse, batch_first in itertools.product(sizes, *[(False, True)] * 2):
        x = torch.randn(batch, steps, features) if batch_first else torch.randn(steps, batch, features)
        for has_state, has_bias in ((True, True), (False, False), (False, True)):
            initial = [torch.randn(batch, hidden) if has_state else None for _ in range(2)]
            flags = (has_bias, 1, 0.0, False, False, batch_first)
            for gates in (4, 3):
                weights = [torch.randn(gates * hidden, size) for size in (features, hidden)]
                biases = [torch.randn(gates * hidden) for _ in range(2)] if has_bias else []
                given = [torch.zeros(1, batch, hidden) if s is None else s.unsqueeze(0) for s in initial]
                dim = 1 if batch_first else 0
                ordered = x.flip(dim) if reverse else x
                work = Out(torch.float32, (4 * hidden,))
                # Eager mode refuses sequences without steps.
                if steps == 0:
                    out, state, cell = x.new_empty(*x.shape[:2], hidden), given[0], given[1]
                elif gates == 4:
                    out, state, cell = torch.lstm(ordered, given, [*weights, *biases], *flags)
                else:
                    out, state = torch.gru(ordered, given[0], [*weights, *biases], *flags)
                    cell = state
                out = (out.flip(dim) if reverse else out).contiguous()
                results: list[Tensor | None] = [out, state[0]] + ([cell[0]] if gates == 4 else [])
                bias = _bias(biases, gates, hidden) if has_bias else None
                arguments = [x, *(initial if gates == 4 else initial[:1]), *weights, bias, reverse, batch_first]
                outs = [out_like(result) for result in results if result is not None]
                name = "torch_fusion::lstm.out" if gates == 4 else "torch_fusion::gru.out"
                yield Case(name, [*arguments, *outs, work], [*results, None])


def _bias(biases: list[Tensor], gates: int, hidden: int) -> Tensor:
    """Returns the kernels' one bias of the layer's two."""
    if gates == 4:
        return biases[0] + biases[1]
    both = 2 * hidden
    return torch.cat([biases[0][:both] + biases[1][:both], biases[0][both:], biases[1][both:]])


def refused_recurrent_cases() -> Iterator[Case]:
    """Calls that no kernel may accept, with the error that says why."""
    x, weight, recurrent = torch.randn(5, 2, 4), torch.randn(32, 4), torch.randn(32, 8)
    outs = [Out(torch.float32, size) for size in ((5, 2, 8), (2, 8), (2, 8), (32,))]
    wrong: dict[int, Any] = {
        0: x.double(),
        1: torch.randn(3, 8),
        3: torch.randn(32, 5),
        4: torch.randn(24, 8),
        5: torch.randn(24),
        8: Out(torch.float32, (5, 2, 4)),
        11: Out(torch.float32, (8,)),
    }
    right = [x, None, None, weight, recurrent, None, False, False, *outs]
    calls = [{place: value} for place, value in wrong.items()]
    yield from refused("torch_fusion::lstm.out", right, InvalidArgument=calls)
