"""Passes with results that are known give the same graph, and call each operator once for the same shapes."""

import contextlib
from typing import Any

import pytest
import torch
from executorch.exir import to_edge
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.pass_base import ExportPass, NodeMetadata, ProxyValue
from torch import Tensor
from torch.fx import GraphModule

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.upstream.retracing import decomposed_once, known_results, known_results_of

_ATEN = torch.ops.aten


class _Steps(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        for _ in range(4):
            x = torch.sin(x) * x
        # Another shape, dtype or layout gives another result.
        return x, torch.sin(y).transpose(0, 1) + torch.sin(x[:, :3]).sum()


def _retraced(module: GraphModule, is_known: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[list[object], int]:
    """Returns the graph's text after a pass that changes nothing, and the number of operator calls for it."""
    calls = []
    call = EdgeOpOverload.__call__
    with monkeypatch.context() as patch:
        patch.setattr(EdgeOpOverload, "__call__", lambda *args, **kw: calls.append(args[0]) or call(*args, **kw))
        with known_results() if is_known else contextlib.nullcontext():
            graph = ExportPass()(module).graph_module.graph
    said: list[object] = [str(graph)]
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, Tensor):
            said.append((node.name, value.dtype, value.shape, value.stride()))
    return said, len(calls)


def test_known_results_are_those_of_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = (torch.randn(2, 5), torch.randn(2, 3, dtype=torch.float64))
    module = to_edge(capture(_Steps().eval(), inputs)).exported_program().graph_module
    expected, before = _retraced(module, False, monkeypatch)
    said, after = _retraced(module, True, monkeypatch)
    assert said == expected
    # Three of the four operators are cached.
    assert after <= before - 6


def test_known_results_of_parameters_are_those_of_buffers_too() -> None:
    norm, x = torch.nn.InstanceNorm2d(3, affine=True, track_running_stats=True).eval(), torch.randn(2, 3, 4, 4)
    with known_results():
        edge = to_edge(capture(norm, (x,))).exported_program()
    torch.testing.assert_close(edge.module()(x), norm(x))


def test_numbers_that_are_computed_are_others_in_each_call() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            sizes = [(row > 0).sum().item() for row in x]
            return torch.cat([torch.ones(size) for size in sizes])

    program = capture(Model(), (torch.tensor([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]]),))
    edge = to_edge(program).exported_program()

    def symbols(module: GraphModule) -> set[str]:
        return {str(value) for node in module.graph.nodes if isinstance(value := node.meta.get("val"), torch.SymInt)}

    with known_results_of(edge):
        assert len(symbols(ExportPass()(edge.graph_module).graph_module)) == len(symbols(edge.graph_module)) == 2


def test_what_no_table_decomposes_is_not_traced_again() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.nn.functional.hardswish((x + 1).mul_(2))

    def targets(program: torch.export.ExportedProgram) -> list[object]:
        return [node.target for node in program.graph.nodes if node.op == "call_function"]

    tables = ({}, {_ATEN.sin.default: torch.cos}, {_ATEN.hardswish.default: lambda x: torch.cos(x) * x})
    program = torch.export.export(Model(), (torch.randn(3),))
    expected = [targets(program.run_decompositions(table)) for table in tables]
    with decomposed_once():
        first = program.run_decompositions(tables[0])
        # In-place operators have been functionalized.
        assert first is not program and targets(first) == expected[0]
        assert first.run_decompositions(tables[1]) is first
        assert targets(first.run_decompositions(tables[2])) == expected[2] != expected[0]


def test_outside_of_passes_each_call_counts() -> None:
    """Tracing a program must see every call."""
    module = torch.fx.symbolic_trace(lambda x: torch.ops.aten.sin.default(torch.ops.aten.sin.default(x)))
    with known_results():
        program = torch.export.export(module, (torch.randn(3),))
        again = program.run_decompositions({})
    assert len(again.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)) == 2


class _SinesAreCosines(ExportPass):
    """Counts calls, and rewrites sines behind the first `kept` ones."""

    def __init__(self, kept: int) -> None:
        super().__init__()
        self.kept, self.names = kept, list[str]()

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: NodeMetadata) -> ProxyValue:
        if op == exir_ops.edge.aten.sin.default:
            self.names.append(str(op))
            op = exir_ops.edge.aten.cos.default if len(self.names) > self.kept else op
        return super().call_operator(op, args, kwargs, meta)


def test_results_of_one_shape_are_different_tensors() -> None:
    """ExecuTorch's decomposition of einsum tells its operands apart by them: it would take the second for the first."""
    module = to_edge(capture(_Steps().eval(), (torch.randn(2, 5), torch.randn(2, 3)))).exported_program().graph_module
    with known_results():
        graph = _SinesAreCosines(0)(module).graph_module.graph
    values = [node.meta["val"] for node in graph.find_nodes(op="call_function", target=exir_ops.edge.aten.mul.Tensor)]
    assert len({id(value) for value in values}) == 4


@pytest.mark.parametrize("kept", [0, 9])
def test_shapes_are_worked_out_in_the_graph_where_a_pass_changes_nothing_else(kept: int) -> None:
    def shorter() -> GraphModule:
        edge = to_edge(capture(_Steps().eval(), (torch.randn(2, 5), torch.randn(2, 3))))
        module = edge.exported_program().graph_module
        (node,) = module.graph.find_nodes(op="call_function", target=exir_ops.edge.aten.slice_copy.Tensor)
        node.args = (*node.args[:3], 2)
        return module

    def shapes(module: GraphModule) -> list[object]:
        return [node.meta["val"].shape for node in module.graph.nodes if node.op == "call_function"]

    module, before = shorter(), shapes(shorter())
    expected = shapes(_SinesAreCosines(kept)(shorter()).graph_module)
    with known_results():
        result = _SinesAreCosines(kept)(module).graph_module
    assert shapes(result) == expected != before
    assert (result is module) == (kept == 9)
    # A graph that is written anew leaves the first one as it was.
    assert kept == 9 or shapes(module) == before


@pytest.mark.parametrize("kept", [0, 3, 9])
def test_a_pass_that_changes_nothing_returns_its_graph_and_any_other_the_new_one(kept: int) -> None:
    module = to_edge(capture(_Steps().eval(), (torch.randn(2, 5), torch.randn(2, 3)))).exported_program().graph_module
    expected = str(_SinesAreCosines(kept)(module).graph_module.graph)
    before = str(module.graph)
    # Names of nodes that were written by hand become those of a new graph.
    next(node for node in module.graph.nodes if node.op == "call_function").name = "by_hand"
    rewrite = _SinesAreCosines(kept)
    with known_results():
        result = rewrite(module).graph_module
    assert str(result.graph) == expected
    assert (result is module) == (expected == before) == (kept == 9)
    # A pass that is called again for the new graph doesn't know of the first calls.
    assert len(rewrite.names) == 6
