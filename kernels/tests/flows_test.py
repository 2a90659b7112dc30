"""Tests programs whose shapes and control flow depend on the inputs, exported by ExecuTorch: maps, numbers, buffers.

//firmware/tests/programs has branches, and sizes up to a bound.
"""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from torch import Tensor
from torch.export import Dim, export

from tools.verify.run_pte.cases import Case, CaseResult, run_cases
from tools.verify.run_pte.run_pte import read_runners
from tools.verify.run_pte.values import encode

RUNNERS = read_runners().boards
# ExecuTorch's ScalarType.
CODES = {torch.int64: 4, torch.float32: 6}


def program(model: torch.nn.Module, example: tuple[Tensor, ...], dynamic: Any = None) -> bytes:
    """Returns a model as the portable flow exports it."""
    exported = export(model.eval(), example, dynamic_shapes=dynamic)
    # Operators of maps and branches are not checked elsewhere either.
    edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    return edge.to_executorch().buffer


def run(pte: bytes, calls: Sequence[tuple[Tensor, ...]], board: str) -> list[CaseResult]:
    """Runs a program on several inputs."""
    cases = [Case(pte, tuple(encode(x.numpy(), CODES[x.dtype], range(x.dim())) for x in inputs)) for inputs in calls]
    return run_cases(RUNNERS[board], cases)


def check(model: torch.nn.Module, calls: Sequence[tuple[Tensor, ...]], board: str, dynamic: Any = None) -> bytes:
    """Exports a model with the first of some calls, and compares the results of all with eager mode."""
    pte = program(model, calls[0], dynamic)
    for inputs, result in zip(calls, run(pte, calls, board), strict=True):
        assert result.error == "Ok", f"{[tuple(x.shape) for x in inputs]}: {result.text()}"
        (value,) = result.outputs
        torch.testing.assert_close(torch.from_numpy(value.array.copy()), model(*inputs), rtol=2e-5, atol=2e-5)
    return pte


class Maps(torch.nn.Module):
    """A function of each row."""

    def forward(self, rows: Tensor, other: Tensor) -> Tensor:
        return torch._higher_order_ops.map(lambda row, other: torch.relu(row) * other, rows, other)


class Symbols(torch.nn.Module):
    """Numbers of the shape, floating-point ones among them."""

    def forward(self, x: Tensor) -> Tensor:
        count = x.shape[0]
        pairs = x.reshape(count // 2, 2).sum(1)[: count // 4 + 1]
        return pairs + torch.full((count // 4 + 1,), count / 3.0)


class Parts(torch.nn.Module):
    """Returns a number of rows that an input gives."""

    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        number = count.item()
        torch._check(number >= 0)
        torch._check(number <= 4)
        return x[:number] * 2


@pytest.fixture(params=["host", "mps2_an386"])
def board(request: pytest.FixtureRequest) -> str:
    if request.param not in RUNNERS:
        pytest.skip("no runner for this machine")
    return str(request.param)


def test_a_function_maps_over_rows(board: str) -> None:
    check(Maps(), [(torch.randn(4, 3), torch.randn(3))], board)


def test_numbers_of_shapes(board: str) -> None:
    check(Symbols(), [(torch.randn(count),) for count in (8, 4, 16)], board, ({0: 4 * Dim("quarter", min=1, max=4)},))


def test_sizes_that_an_input_says(board: str) -> None:
    x = torch.randn(4, 2)
    pte = check(Parts(), [(x, torch.tensor(2)), (x, torch.tensor(4)), (x, torch.tensor(0))], board)
    (beyond,) = run(pte, [(x, torch.tensor(5))], board)
    # The slice is cut at the end, as in Python.
    assert beyond.error == "Ok"
    assert beyond.outputs[0].array.shape == (4, 2)


class Sum(torch.nn.Module):
    """Returns the sum of all inputs so far."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sum", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.sum.add_(x)
        return self.sum * 2


def test_state_starts_with_zeros_whatever_ran_before(board: str) -> None:
    inputs = [(torch.full((3,), value),) for value in (1.0, 2.0, 3.0)]
    pte = program(Sum(), inputs[0])
    for (x,), result in zip(inputs, run(pte, inputs, board), strict=True):
        assert result.error == "Ok", result.text()
        torch.testing.assert_close(torch.from_numpy(result.outputs[0].array.copy()), x * 2)
