"""Tensors that are assigned part by part have the elements that PyTorch gives them, and are concatenations."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.rewrite.assignments import assemble

_X = torch.randn(4, 6, 5, generator=torch.Generator().manual_seed(0))


class _Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("kept", torch.zeros(4, 6, 5))

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def assembled(function: Callable[[Any, Tensor], Any]) -> ExportedProgram:
    """The program of a function of the input, checked against PyTorch."""
    program = assemble(torch.export.export(_Model(function), (_X,)))
    torch.testing.assert_close(program.module()(_X), _Model(function)(_X), rtol=0, atol=0)
    return program


def operators(program: ExportedProgram) -> list[str]:
    return [node.target.__name__ for node in program.graph.nodes if node.op == "call_function"]


def shifted(_: Any, x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[:-1, :2], y[1:, 2:4], y[:, 4:] = x[1:, :2], x[:-1, 2:4], x[:, 4:]
    return y + 1


def tiled(_: Any, x: Tensor) -> Tensor:
    y = torch.empty(8, 12, 5)
    for row in range(2):
        for column in range(2):
            y[4 * row : 4 * row + 4, 6 * column : 6 * column + 6] = x * (row + column)
    return y.relu()


def changed(_: Any, x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1] *= 2
    y[1:3, 2:] += x[:2, 2:]
    y[0] = 3.0
    y[..., -1] = x[..., 0].double()
    return y * 2


def filled(_: Any, x: Tensor) -> Tensor:
    y = x.new_full((4, 6, 5), 2.0)
    y[:, :3] = x[:, 3:]
    return y * 3


@pytest.mark.parametrize("function", [shifted, tiled, changed, filled])
def test_what_is_assigned_is_put_together(function: Callable[[Any, Tensor], Any]) -> None:
    found = operators(assembled(function))
    assert "cat.default" in found
    assignments = {"slice_scatter.default", "select_scatter.default", "copy.default"}
    assert not (assignments | {"new_full.default", "zeros_like.default"}) & {*found}


def test_parts_that_are_overwritten_are_not_made() -> None:
    found = operators(assembled(shifted))
    # Each of two rows of zeros has two channels; two of three concatenated groups of channels have two parts.
    assert (found.count("full.default"), found.count("cat.default")) == (2, 3)


def test_steps_stay_assignments() -> None:
    def strided(_: Any, x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        y[::2] = x[1::2]
        return y + x

    assert "slice_scatter.default" in operators(assembled(strided))


def test_state_stays_in_its_place() -> None:
    def stream(model: Any, x: Tensor) -> Tensor:
        model.kept[:, :-1] = model.kept[:, 1:].clone()
        model.kept[:, -1] = x[:, 0]
        return model.kept.sum(1)

    found = operators(assembled(stream))
    assert "slice_scatter.default" in found and "cat.default" not in found


def test_a_program_without_assignments_stays_the_same() -> None:
    program = torch.export.export(_Model(lambda _, x: torch.cat([x[1:], x[:1]]).relu_()), (_X,))
    assert assemble(program) is program


@pytest.mark.parametrize("seed", range(6))
def test_any_assignments(seed: int) -> None:
    draw = random.Random(seed)

    def place() -> tuple[Any, ...]:
        dims: list[Any] = []
        for size in _X.shape:
            start = draw.randrange(size)
            dims.append(
                draw.choice([slice(None), slice(start, draw.randint(start + 1, size)), start, slice(start, None, 2)])
            )
        return tuple(dims)

    places = [(place(), draw.choice(["number", "constant", "part", "more"])) for _ in range(draw.randint(1, 5))]

    def assign(_: Any, x: Tensor) -> Tensor:
        y = torch.ones_like(x) if seed % 2 else x * 3
        for number, (where, kind) in enumerate(places):
            if kind == "number":
                y[where] = number + 0.5
            elif kind == "constant":
                y[where] = torch.full(y[where].shape, float(number))
            elif kind == "part":
                y[where] = x[where] + number
            else:
                y[where] += x[where]
        return y.tanh() + y[1:2]

    assembled(assign)


class _Ring(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ring, self.keys = nn.Buffer(torch.zeros(4, 3)), nn.Buffer(torch.zeros(2, 4, 3))
        self.count = nn.Buffer(torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        at = self.count % 4
        self.ring[at] = x[0]
        self.keys[:, at] = x
        number, row, last = self.keys.clone(), self.ring.clone(), self.keys.clone()
        number[:, at, 1:] = 7.0
        row[at] = x[:1]
        last[:, :, at.clamp(max=2)] = x[:, :1]
        self.count += 1
        return self.ring.clone(), self.keys.clone(), number, row, last


def test_an_index_of_a_ring_buffer_is_a_tensor_without_dimensions() -> None:
    x = _X[:2, 0, :3]
    program, eager = capture(_Ring(), (x,)).module(), _Ring()
    for _ in range(5):
        torch.testing.assert_close(program(x), eager(x), rtol=0, atol=0)
