"""Conditions and loops as operators, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.map import map as map_
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from tools.pipeline.export.capture.capture import branches, capture
from tools.pipeline.export.options import Options
from tools.pipeline.export.pipelines import STRAIGHT
from tools.pipeline.export.testing import export_source, model_source
from tools.quiet.console import UserError

_Result = Tensor | tuple[Tensor, ...]


class _Network(nn.Module):
    def __init__(self, function: Callable[[_Network, Tensor], _Result]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.a = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor) -> _Result:
        return self.function(self, x)


def _layers(n: _Network, x: Tensor) -> _Result:
    return torch.cond(x.sum() > 0, lambda x: n.norm(n.a(x)), lambda x: n.a(x) * 2, (x,))


def _condition_of_one_element(n: _Network, x: Tensor) -> _Result:
    return torch.cond((x.sum() > 0).reshape(1), lambda x: (x + 1, x.argmax(1)), lambda x: (x.exp(), x.argmin(1)), (x,))


def _inside_of_another(n: _Network, x: Tensor) -> _Result:
    def inner(x: Tensor) -> _Result:
        return torch.cond(x[0, 0] > 0, lambda x: n.a(x), lambda x: -x, (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: x * 3, (x,))


def _one_after_another(n: _Network, x: Tensor) -> _Result:
    a = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
    return a, torch.cond(a.sum() > 0, lambda x: x.relu(), lambda x: n.a(x), (a,))


def _scan(n: _Network, x: Tensor) -> _Result:
    def step(state: Tensor, each: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.tanh(n.a(each) + state)
        return state, state * 2

    return scan(step, torch.zeros(4), x)


def _scan_with_a_condition(n: _Network, x: Tensor) -> _Result:
    def step(state: Tensor, each: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.cond(
            each.sum() > 0, lambda state, each: state + each, lambda state, each: state * 1, (state, each)
        )
        return state, state + 0

    return scan(step, torch.zeros(4), x)


def _while(n: _Network, x: Tensor) -> _Result:
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, n.a(x) + i), (torch.tensor(0), x))


def _while_with_an_early_exit(n: _Network, x: Tensor) -> _Result:
    return while_loop(lambda i, x: (i < 4) & (x.sum() < 20), lambda i, x: (i + 1, x * 2), (torch.zeros(()), x))


def _while_without_steps(n: _Network, x: Tensor) -> _Result:
    return while_loop(lambda i, x: i > 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))


def _loops_inside(n: _Network, x: Tensor) -> _Result:
    """The bound of the innermost loop is the step of the one around it, and one graph is called with two bounds."""

    def inner(i: Tensor, x: Tensor) -> Tensor:
        loop = while_loop(lambda j, x: j < i, lambda j, x: (j + 1, x * 2 + j), (torch.zeros((), dtype=torch.long), x))
        return loop[1]

    def outer(x: Tensor) -> Tensor:
        choose = lambda i, x: torch.cond(x.sum() > 0, lambda x: inner(i, x), lambda x: n.a(x), (x,))  # noqa: E731
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, choose(i, x)), (torch.tensor(0), x))[1]

    return torch.cond(x.sum() > 0, outer, lambda x: map_(lambda each: inner(torch.tensor(2), each), x), (x,))


def _scan_inside(n: _Network, x: Tensor) -> _Result:
    def step(state: Tensor, each: Tensor) -> tuple[Tensor, Tensor]:
        start = (torch.tensor(0), state)
        _, state = while_loop(lambda i, s: i < 2, lambda i, s: (i + 1, torch.tanh(s + each)), start)
        return state, state * torch.tensor([1.0, 2.0, 3.0, 4.0])

    return torch.cond(x.sum() > 0, lambda x: scan(step, torch.zeros(4), x)[1], lambda x: x * 1, (x,))


def _map(n: _Network, x: Tensor) -> _Result:
    return map_(lambda each: n.a(each).relu(), x)


def _state(n: _Network, x: Tensor) -> _Result:
    n.seen.add_(x[0])
    return torch.cond(n.seen.sum() > 0, lambda x: n.a(x), lambda x: x.neg(), (x,))


def _changes_in_branches(n: _Network, x: Tensor) -> _Result:
    def change(x: Tensor) -> Tensor:
        n.seen.add_(x[0])
        return torch.cond(x[0, 1] > 0, mark, lambda x: n.seen * 1, (x,))

    def mark(x: Tensor) -> Tensor:
        n.seen[0] = 7
        return x[0] * n.seen

    before = n.seen * 1
    return before, torch.cond(x.sum() > 0, change, lambda x: n.a(x)[0], (x,)), n.seen * 1


@pytest.mark.parametrize(
    "function",
    [
        _layers,
        _condition_of_one_element,
        _inside_of_another,
        _one_after_another,
        _scan,
        _scan_with_a_condition,
        _while,
        _while_with_an_early_exit,
        _while_without_steps,
        _loops_inside,
        _scan_inside,
        _map,
        _state,
        _changes_in_branches,
    ],
)
def test_results_are_those_of_pytorch(function: Callable[[_Network, Tensor], _Result]) -> None:
    network = _Network(function).eval()
    torch.manual_seed(1)
    samples = [
        sign * torch.rand(3, 4) * torch.tensor([1.0, second, 1.0, 1.0]) for sign in (1, -1) for second in (1, -9)
    ]
    program = STRAIGHT.run(capture(network, (samples[0],), None))
    assert not branches(program, Path("net.py"))
    module = program.module(check_guards=False)
    for sample in samples:
        results = []
        for each in module, network:
            # The program has the network's buffer.
            network.seen.zero_()
            with torch.no_grad():
                results.append(each(sample))
        torch.testing.assert_close(*results)


def _export(folder: Path, forward: str) -> list[str]:
    source = model_source(forward, "(torch.randn(2, 4),)", "self.layer = nn.Linear(4, 4)\nself.small = nn.Linear(4, 1)")
    return export_source(folder, source, options=Options("cortex-m4", "cortex_m")).said


def test_an_early_exit_in_int8(tmp_path: Path) -> None:
    forward = (
        "x = self.layer(x).relu()\n"
        "return torch.cond(self.small(x).max() > 0, lambda y: y * 1, lambda y: self.layer(y), (x,))"
    )
    (note,) = [line for line in _export(tmp_path, forward) if "torch.cond" in line]
    assert 'the program computes both branches, and chooses a result; backend "portable" has it as it is.' in note


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (
            "from torch._higher_order_ops.while_loop import while_loop\n"
            "return while_loop(lambda x: x.sum() < 3, lambda x: (x * 2,), (x,))[0]",
            r"takes no while_loop\(\) \(my_model.py:\d+\); it takes torch.cond\(\), and loops over a bounded number",
        ),
        (
            "from torch._higher_order_ops.scan import scan\n"
            "x = x.repeat(300, 1)\n"
            "return scan(lambda s, e: ((s * 2 + e).relu(), s + 1), torch.zeros(4), x)[1]",
            r"takes no scan of a function \(my_model.py:\d+\); .* at most 1000 operators in all of them",
        ),
        (
            "from torch._higher_order_ops.scan import scan\n"
            "x = x.repeat(300, 1)\n"
            "step = lambda s, e: (torch.cond(e.sum() > 0, torch.neg, torch.relu, (s + e,)), s + 1)\n"
            "return scan(step, x[0] * 1, x)[1]",
            r"takes no scan of a function \(my_model.py:\d+\)",
        ),
    ],
)
def test_loops_that_are_refused(tmp_path: Path, forward: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        _export(tmp_path, forward)
