import copy
import operator
import pickle

import torch
from torch import Tensor
from torch.fx import symbolic_trace

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.upstream.repeated_work import do_once


class _Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def test_a_graph_module_is_what_its_graph_was_when_it_was_recompiled() -> None:
    do_once()
    module = symbolic_trace(lambda x: x + 1)
    (call,) = module.graph.find_nodes(op="call_function", target=operator.add)
    x = torch.arange(3)
    assert module(x).tolist() == [1, 2, 3] and "x + 1" in module.code
    call.target = operator.mul
    call.args = (call.args[0], 5)
    module.recompile()
    assert "x * 5" in str(module) and "x * 5" in module.code
    assert module.forward(x).tolist() == [0, 5, 10]
    for other in (copy.copy(module), copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert other(x).tolist() == [0, 5, 10]


def test_composite_operators_are_kept_whole_or_decomposed_as_asked_every_time() -> None:
    model, x = _Linear().eval(), torch.randn(3, 4)
    whole = torch.ops.aten.linear.default
    before = dict(whole.py_kernels)
    program = capture(model, (x,))
    for _ in range(2):
        kept = program.run_decompositions({})
        assert whole in {node.target for node in kept.graph.nodes}
        decomposed = program.run_decompositions()
        assert whole not in {node.target for node in decomposed.graph.nodes}
        other = program.run_decompositions({whole: lambda x, weight, bias: x @ weight.t() - bias})
        assert {torch.ops.aten.sub.Tensor} <= {node.target for node in other.graph.nodes}
        torch.testing.assert_close(other.module()(x), model(x) - 2 * model.layer.bias)
        assert whole.py_kernels == before


def test_an_operator_that_is_registered_later_is_kept_whole() -> None:
    capture(_Linear().eval(), (torch.randn(3, 4),)).run_decompositions({})
    torch.library.define("repeated_work_test::twice", "(Tensor x) -> Tensor")
    torch.library.impl("repeated_work_test::twice", "CompositeImplicitAutograd", lambda x: x * 2)
    twice = torch.ops.repeated_work_test.twice.default

    class Twice(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.repeated_work_test.twice(x)

    program = capture(Twice(), (torch.randn(3),))
    assert twice in {node.target for node in program.run_decompositions({}).graph.nodes}
    assert twice not in {node.target for node in program.run_decompositions().graph.nodes}
