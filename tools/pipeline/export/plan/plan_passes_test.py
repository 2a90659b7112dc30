import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.passes import MemoryPlanningPass

from tools.pipeline.export.backends.portable import to_edge
from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.plan import plan_passes
from tools.pipeline.export.plan.branches import BranchPlanning, check_plan
from tools.pipeline.export.plan.emission import emit
from tools.pipeline.export.plan.plan_passes import constant_only_instructions, optimize_plan
from tools.pipeline.export.testing import export_source, functions, model_source
from tools.pipeline.export.upstream.loaded_program import LoadedProgram
from tools.pipeline.placement.placement import Lead

_CONVS = "self.a = nn.Conv2d(3, 4, 3, padding=1)\nself.b = nn.Conv2d(7, 4, 3, padding=1)"
_IMAGE = "torch.randn(1, 3, 4, 5)"
_CHANNELS_LAST = ".to(memory_format=torch.channels_last)"

# Name, forward(), inputs, operators that are left with one call each (of aten unless they say otherwise; none: any),
# __init__().
_CASES: list[tuple[str, ...]] = [
    ("view", "return (x + 1).view(3, 2) * 2", "(torch.randn(2, 3),)", "add mul"),
    (
        "views_of_all_kinds",
        "y = torch.relu(x).unsqueeze(0).transpose(0, 1).squeeze().reshape(3, 2).flatten().contiguous().clone()\n"
        "return torch.tanh(y.expand(1, 6))",
        "(torch.randn(2, 3),)",
        "relu tanh",
    ),
    ("dropout", "return self.drop(torch.relu(x)) + 1", "(torch.randn(2, 3),)", "relu add", "self.drop = nn.Dropout()"),
    (
        "slice_of_outermost",
        "y = torch.relu(x)\nreturn torch.tanh(y[1:3]) + y[0:2]",
        "(torch.randn(4, 3),)",
        "relu tanh add",
    ),
    (
        "split",
        "a, b = torch.relu(x).split([2, 3])\nreturn torch.tanh(b).sum() + a",
        "(torch.randn(5, 3),)",
        "relu tanh sum add",
    ),
    ("slice_of_innermost_moves_data", "return torch.relu(x)[:, 1:] * 2", "(torch.randn(4, 3),)", "relu slice_copy mul"),
    ("transposition_moves_data", "return torch.relu(x).t() * 2", "(torch.randn(4, 3),)", "relu permute_copy mul"),
    # The output is in the default order.
    (
        "transposed_to_how_it_lies",
        "return torch.relu(x).permute(0, 3, 1, 2).clone(memory_format=torch.channels_last).tanh()",
        "(torch.randn(1, 4, 5, 3),)",
        "relu tanh dim_order_ops::_to_dim_order_copy",
    ),
    ("cat_of_results", "return torch.cat([torch.relu(x), torch.tanh(x)]) * 2", "(torch.randn(4, 3),)", "relu tanh mul"),
    ("cat_of_an_input_moves_data", "return torch.cat([torch.relu(x), x]) * 2", "(torch.randn(4, 3),)", "relu cat mul"),
    (
        "cat_of_the_same_twice_moves_data",
        "y = torch.relu(x)\nreturn torch.cat([y, y]) * 2",
        "(torch.randn(4, 3),)",
        "relu cat mul",
    ),
    (
        "cat_of_innermost_moves_data",
        "return torch.cat([torch.relu(x), torch.tanh(x)], dim=1) * 2",
        "(torch.randn(4, 3),)",
        "relu tanh cat mul",
    ),
    (
        "cat_of_channels_in_cat",
        "y = torch.cat([torch.relu(self.a(x)), torch.tanh(x)], 1)\n"
        "return torch.cat([y * 2, torch.relu(self.b(y))], 1) + 1",
        "(torch.randn(1, 3, 4, 4),)",
        "",
        _CONVS,
    ),
    (
        "part_that_is_used_after_the_cat",
        "y = torch.relu(x)\nz = torch.cat([y, torch.tanh(x)])\nw = torch.sigmoid(z)\nreturn w * 2 + y.sum(), y - 1",
        "(torch.randn(4, 3),)",
        "relu tanh cat sigmoid mul sum add sub",
    ),
    ("identity_copies_its_input", "return x", "(torch.randn(2, 3),)"),
    ("view_of_an_input_is_copied_out", "return x.view(6), x", "(torch.randn(2, 3),)"),
    ("outputs_that_share", "y = x + 1\nreturn y, y.view(6), y", "(torch.randn(2, 3),)"),
    ("input_changed_in_place", "x += 1\nreturn x * 2", "(torch.randn(2, 3),)"),
    ("unused_input", "return x * 2", "(torch.randn(2, 3), torch.randn(9))", "mul"),
    ("channels_last", "return torch.tanh(torch.relu(x))", f"({_IMAGE}{_CHANNELS_LAST},)"),
    ("channels_last_inside", f"return self.a(x{_CHANNELS_LAST}).relu()", f"({_IMAGE},)", "", _CONVS),
    ("transposed_input", "return x * 2", "(torch.randn(3, 4).t(),)"),
    ("transposed_output", "return (x * 2).t()", "(torch.randn(3, 4),)"),
    ("constant_output", "return torch.ones(3) * 2", "(torch.randn(2),)"),
    ("input_changed_in_a_view", "y = x.view(-1)\ny[1:] = 0\nreturn x, x + 1", "(torch.randn(2, 3),)"),
    ("condition", "return torch.cond(x.sum() > 0, lambda x: x + 1, torch.neg, (x,))", "(torch.ones(2),)"),
    (
        "condition_on_a_condition",
        "a = torch.cond(x.sum() > 0, lambda x: x.sort()[0] * 2 + 1, lambda x: x.cumprod(0), (x,))\n"
        "b = torch.cond(a.sum() > 0, lambda x: x * 3, lambda x: (x - 5).relu(), (a,))\nreturn a, b",
        "(torch.ones(4),)",
    ),
    (
        "condition_in_a_condition",
        "def inner(x):\n"
        "    a = torch.cond(x.sum() > 3, lambda x: x * 2 + 1, lambda x: x - 1, (x,))\n"
        "    return torch.cond(a.mean() > 1, lambda x: x.view(2, 2) @ x.view(2, 2), lambda x: -x.view(2, 2), (a,)), a\n"
        "return torch.cond(x.sum() > 0, inner, lambda x: (x.view(2, 2), x * 1), (x,))",
        "(torch.ones(4),)",
    ),
    (
        "condition_that_returns_what_it_gets",
        "return torch.cond(x.sum() > 0, lambda x: (x.view(2, 2), self.w), lambda x: (self.w.view(2, 2), x), (x,))",
        "(torch.ones(4),)",
        "",
        'self.register_buffer("w", torch.arange(4.0))',
    ),
    (
        "loops_and_a_constant_inside_of_a_condition",
        "from torch._higher_order_ops.scan import scan\nfrom torch._higher_order_ops.while_loop import while_loop\n"
        "grow = lambda s: while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * 2 + i), (torch.tensor(0), s))[1]\n"
        "step = lambda s, x: (grow(s) + x, s * torch.tensor([1.0, 2.0, 3.0]))\n"
        "return torch.cond(x.sum() > 0, lambda x: scan(step, torch.ones(3), x)[1], lambda x: x - 1, (x,))",
        "(torch.ones(4, 3),)",
    ),
]


@pytest.mark.parametrize("case", _CASES, ids=[case[0] for case in _CASES])
def test_computes_what_eager_mode_does(case: tuple[str, ...], tmp_path: Path) -> None:
    name, forward, inputs, operators, init = (*case, *("", "pass")[len(case) - 3 :])
    arguments = "x, y" if name == "unused_input" else "x"
    result = export_source(tmp_path, model_source(forward, inputs, init, arguments))
    assert result.largest_error() < 1e-6
    left = {operator if "::" in operator else f"aten::{operator}": 1 for operator in operators.split()}
    assert not left or result.operators == left


def test_recurrent_state_lasts_from_call_to_call(tmp_path: Path) -> None:
    init = 'self.register_buffer("h", torch.zeros(2))'
    result = export_source(
        tmp_path, model_source("self.h.mul_(0.5).add_(x)\nreturn self.h * 2", "(torch.ones(2),)", init)
    )
    method = LoadedProgram(result.program)
    outputs = [method.run(torch.ones(2))[0].tolist() for _ in range(3)]
    assert outputs == [[2.0, 2.0], [3.0, 3.0], [3.5, 3.5]]


# forward(), and the initial values of buffers: of several dtypes and shapes, and two with equal values.
_INITIAL_STATES = {
    "counter": ("self.n.add_(1)\nreturn x * self.n", {"n": "torch.tensor([3])"}),
    "first": (
        "y = torch.where(self.first, x, 0.9 * self.y + 0.1 * x)\nself.y.copy_(y)\nself.first.fill_(False)\nreturn y",
        {"first": "torch.tensor([True])", "y": "torch.full((4,), 7.0)"},
    ),
    "equal": (
        "self.a.add_(x)\nself.b.mul_(0.5)\nself.z.add_(1)\nreturn self.a * self.b + self.z",
        {"a": "torch.ones(4)", "b": "torch.ones(4)", "z": "torch.zeros(4)"},
    ),
    "assigned": ("y = x + self.w[0]\nself.w = torch.roll(self.w, 1, 0) * 0.9\nreturn y", {"w": "torch.randn(3, 4)"}),
    "written_only": ("self.w.copy_(x)\nreturn x + 1", {"w": "torch.randn(4)"}),
}


@pytest.mark.parametrize("case", _INITIAL_STATES)
def test_state_starts_with_what_the_buffers_hold_each_time_a_program_is_loaded(case: str, tmp_path: Path) -> None:
    forward, buffers = _INITIAL_STATES[case]
    init = "\n".join(f'self.register_buffer("{name}", {value})' for name, value in buffers.items())
    source = model_source(forward, "(torch.randn(4),)", init)
    result = export_source(tmp_path, source)
    assert result.manifest["keeps_state"]
    scope: dict[str, Any] = {}
    exec(source, scope)
    inputs = [torch.randn(4, generator=torch.Generator().manual_seed(seed)) for seed in range(5)]
    for _ in range(2):
        eager, method = scope["model"](), LoadedProgram(result.program)
        for x in inputs:
            torch.testing.assert_close(method.run(x)[0], eager(x))


def test_state_with_initial_values_and_dynamic_shapes(tmp_path: Path) -> None:
    source = model_source(
        "self.n.mul_(2)\nreturn x * self.n", "(torch.randn(5, 4),)", 'self.register_buffer("n", torch.ones(1))'
    )
    source += functions(dynamic_shapes="{'x': {0: torch.export.Dim('n', min=2, max=5)}}")
    method = LoadedProgram(export_source(tmp_path, source).program)
    sums = [float(method.run(torch.ones(rows, 4))[0].sum()) for rows in (5, 2, 3)]
    assert sums == [40, 32, 96]


def test_elementwise_results_take_the_memory_of_their_operands(tmp_path: Path) -> None:
    # Input and result have memory, but the three operators between them need none.
    result = export_source(
        tmp_path, model_source("return torch.tanh(torch.relu(x * 2) + 1).sum(1)", "(torch.randn(4, 8),)")
    )
    assert result.manifest["planned_buffers"] == [128 + 16]
    assert result.manifest["live_bytes_lower_bound"] == 128 + 16


def test_an_output_does_not_overwrite_an_input(tmp_path: Path) -> None:
    # The caller may run the program again without setting its inputs anew.
    result = export_source(tmp_path, model_source("return x + 1", "(torch.randn(8),)"))
    assert result.manifest["planned_buffers"] == [64]


@pytest.mark.parametrize("forward", ["return x", "return x.view(6)", "return x.view(6), x"])
def test_outputs_have_memory_of_their_own(forward: str, tmp_path: Path) -> None:
    result = export_source(tmp_path, model_source(forward, "(torch.randn(2, 3),)"))
    plan = deserialize_pte_binary(result.program).program.execution_plan[0]
    offsets = [plan.values[index].val.allocation_info.memory_offset_low for index in {*plan.inputs, *plan.outputs}]
    assert len(set(offsets)) == len(offsets)


def test_values_that_nothing_uses_are_dropped_and_equal_ones_merged(tmp_path: Path) -> None:
    source = model_source(
        "return self.b(torch.relu(self.a(x)))", "(torch.randn(1, 3, 4, 4),)", _CONVS.replace("7", "4")
    )
    result = export_source(tmp_path, source)
    plan = deserialize_pte_binary(result.program).program.execution_plan[0]
    texts = [repr(value) for value in plan.values]
    assert len(texts) == len(set(texts))
    # 0, 1, the lists of them, false; 4 weights; input, result of a and of relu, output.
    assert len([text for text in texts if "Tensor(" in text]) == 7


@pytest.mark.parametrize("broken", ["_may_overwrite", "_is_movable_part"])
def test_the_check_finds_a_wrong_layout(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = torch.sigmoid(x)
            z = torch.cat([y, torch.tanh(x)])
            w = torch.sigmoid(z)
            return torch.relu(y), w * w.sum(), z.exp() + z

    program = emit(to_edge(capture(Model().eval(), (torch.randn(2, 3),)))).program
    optimize_plan(copy.deepcopy(program.execution_plan[0]))
    monkeypatch.setattr(plan_passes._Layout, broken, _yes)
    with pytest.raises(AssertionError, match="overwritten"):
        optimize_plan(program.execution_plan[0])


def test_the_check_finds_an_operand_that_is_overwritten_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.softmax(x @ x.t(), 1).sum(1)

    program = emit(to_edge(capture(Model().eval(), (torch.randn(8, 1),)))).program
    plan = program.execution_plan[0]
    names = [plan.operators[call.instr_args.op_index].name for call in plan.chains[0].instructions]
    index = names.index("aten::_softmax")
    plain, overlapped = [optimize_plan(copy.deepcopy(plan), leads).memory.nbytes for leads in ({}, {index: Lead(64)})]
    assert (plain, overlapped) == (2 * 256, 256 + 64)
    overlaps = plan_passes._Layout._overlaps
    monkeypatch.setattr(
        plan_passes._Layout,
        "_overlaps",
        lambda layout: [dataclasses.replace(overlap, lead=overlap.lead.moved(-64)) for overlap in overlaps(layout)],
    )
    with pytest.raises(AssertionError, match="overwritten by its result"):
        optimize_plan(plan, {index: Lead(64)})


def test_a_program_that_returns_something_else_is_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoadedProgram, "run", lambda self, x, method: [x + 1.5])
    with pytest.raises(AssertionError, match=r"output 0 of forward\(\) is not what the module returns"):
        export_source(tmp_path, model_source("return x + 1", "(torch.randn(8),)"))


def test_an_output_that_rounding_decides_is_not_held_to_pytorch(tmp_path: Path) -> None:
    # The output is the sign of the difference between two orders of summation.
    sums = "torch.cat([y[:, 1:].flip(-1).cumsum(-1).flip(-1), torch.zeros(1, 1)], 1)"
    forward = f"y = self.fc(x)\nreturn torch.sign(y - (y.flip(-1).cumsum(-1).flip(-1) - {sums}))"
    export_source(tmp_path, model_source(forward, "(torch.randn(1, 16),)", "self.fc = nn.Linear(16, 16)"))


def test_equal_elements_are_sorted_in_the_order_that_they_have(tmp_path: Path) -> None:
    # ExecuTorch's topk finds the zeros in another order.
    forward = "y = x.relu()\nreturn y.sort()[1], y.argsort(1, True), y.topk(30)[1], y.median(1)[1], y.kthvalue(9)[1]"
    result = export_source(tmp_path, model_source(forward, "(torch.randn(3, 40),)"))
    values = result.golden["input_0"][0].clip(0)
    up, down = (each.argsort(1, kind="stable") for each in (values, -values))
    for index, expected in enumerate((up, down, down[:, :30], up[:, 19], up[:, 8])):
        assert (result.golden[f"output_{index}"][0] == expected).all()


def test_remainders_of_negative_integers_are_not_compared_with_executorchs(tmp_path: Path) -> None:
    result = export_source(tmp_path, model_source("return x % 7", "(torch.arange(-9, 9).reshape(1, 18),)"))
    assert (result.golden["output_0"] == result.golden["input_0"] % 7).all()


@pytest.mark.parametrize(("broken", "message"), [("run", "is moved to where"), ("planned", "is read later")])
def test_the_check_finds_a_wrong_plan_of_branches(broken: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            a = torch.cond(x.sum() > 0, torch.exp, torch.neg, (x,))
            return a, torch.cond(a.sum() > 0, torch.sin, torch.cos, (a,))

    if broken == "run":
        monkeypatch.setattr(BranchPlanning, "run", MemoryPlanningPass.run)
        with pytest.raises(AssertionError, match=message):
            emit(to_edge(capture(Model().eval(), (torch.randn(2, 3),))))
        return
    plan = emit(to_edge(capture(Model().eval(), (torch.randn(2, 3),)))).program.execution_plan[0]
    first, second = (plan.values[index].val for index in plan.outputs)
    places = {each.allocation_info.memory_offset_low for each in (first, second)}
    assert len(places) == 2
    for value in plan.values:
        place = getattr(value.val, "allocation_info", None)
        if place is not None and place.memory_offset_low in places:
            place.memory_offset_low = min(places)
    with pytest.raises(AssertionError, match=message):
        check_plan(plan)


def _yes(_self: Any, *_arguments: Any) -> bool:
    return True


def test_finds_operators_that_work_on_constants_only() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ (self.weight.t() * torch.full((2, 3), 2.0))

    from executorch.exir import to_edge as to_edge_without_passes

    captured = capture(Model().eval(), (torch.randn(1, 2),))
    plain = to_edge_without_passes(captured).to_executorch().executorch_program.execution_plan[0]
    assert constant_only_instructions(plain)
    ours = emit(to_edge(captured)).program.execution_plan[0]
    assert not constant_only_instructions(ours)
    assert [operator.name for operator in ours.operators] == ["aten::mm"]


def test_random_numbers_are_not_constants(tmp_path: Path) -> None:
    result = export_source(tmp_path, model_source("return x + torch.rand(2)", "(torch.zeros(2),)"))
    assert result.operators["aten::rand"] == 1
