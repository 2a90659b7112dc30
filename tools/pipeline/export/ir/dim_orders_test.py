from collections.abc import Callable

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from tools.pipeline.export.backends.portable import to_edge
from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.ir.dim_orders import (
    CONTIGUOUS_ONLY,
    drop_round_trips,
    has_default_order,
    order_for_kernels,
    takes_any_order_as_emitted,
    takes_any_order_upstream,
)
from tools.pipeline.export.plan.emission import emit
from tools.pipeline.export.plan.plan_passes import constant_only_instructions
from tools.pipeline.export.upstream.loaded_program import LoadedProgram
from tools.pipeline.registry.catalog import read_catalog


class Scaled(nn.Linear):
    """A layer whose weight another operator reads, too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x[:, :, :3] * self.weight)


def transposed(layer: nn.Linear) -> nn.Linear:
    """Gives the weight the order of a transposed matrix, which orthogonal parametrizations leave."""
    layer.weight = nn.Parameter(layer.weight.detach().t().contiguous().t())
    return layer


_IMAGE = (2, 6, 4, 5)
_LAYERS = {
    "convolution": (nn.Conv2d(6, 3, 3), "aten::convolution"),
    "pointwise": (nn.Conv2d(6, 1, 1), "aten::convolution"),
    "group_norm": (nn.GroupNorm(3, 6), "aten::native_group_norm"),
    "layer_norm": (nn.LayerNorm(5), "aten::native_layer_norm"),
    "linear": (nn.Linear(5, 3), "aten::linear"),
    "transposed": (transposed(nn.Linear(5, 3)), "aten::linear"),
    "transposed_and_read_elsewhere": (transposed(Scaled(5, 3)), "aten::linear"),
}


class Surrounded(nn.Module):
    """A layer between operators that keep the order of their input."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(torch.relu(x)))


@pytest.mark.parametrize("name", _LAYERS)
def test_an_operator_that_takes_contiguous_tensors_gets_them(name: str) -> None:
    layer, operator = _LAYERS[name]
    model = Surrounded(layer).eval()
    x = torch.randn(_IMAGE).contiguous(memory_format=torch.channels_last)
    program = to_edge(capture(model, (x,)))
    nodes = [
        node for node in program.graph.nodes if getattr(getattr(node.target, "_schema", None), "name", "") == operator
    ]
    assert len(nodes) == 1
    assert all(has_default_order(source.meta["val"]) for source in nodes[0].all_input_nodes)
    result = program.module()(x)
    torch.testing.assert_close(result, model(x))
    # The plan has the graph's orders of dimensions.
    plan = emit(program).program.execution_plan[0]
    orders = [list(value.val.dim_order) for value in plan.values if hasattr(value.val, "dim_order")]
    assert [0, 2, 3, 1] in orders
    assert not constant_only_instructions(plan)


class Shared(nn.Conv2d):
    """A layer whose weight another operator and the caller read, too."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return super().forward(x), x[:, :, :3, :3] * self.weight, self.weight


class Returned(nn.Linear):
    """A layer whose weight is an output, too, and transposed."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return super().forward(x), self.weight, self.weight.t()


@pytest.mark.parametrize(
    "model", [Shared(6, 2, 3).to(memory_format=torch.channels_last), transposed(Returned(5, 3))]
)  # fmt: skip
def test_a_weight_with_other_readers_is_stored_in_the_default_order(model: nn.Module) -> None:
    # ExecuTorch's kernel of a multiplication refuses operands in different orders.
    x = torch.randn(2, 6, 4, 5)
    program = to_edge(capture(model.eval(), (x,)))
    assert all(has_default_order(node.meta["val"]) for node in program.graph.nodes if node.op == "placeholder")
    torch.testing.assert_close(program.module()(x), model(x))
    assert not constant_only_instructions(emit(program).program.execution_plan[0])


class Viewed(nn.Module):
    """A view of what lies in the order of its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).flatten(2).cumsum(2)


@pytest.mark.parametrize("takes_any", [takes_any_order_as_emitted, takes_any_order_upstream])
def test_a_view_has_the_elements_of_the_default_order(takes_any: Callable[[str], bool]) -> None:
    """ExecuTorch lets it have the memory of what it is of, in whatever order that lies."""
    x = torch.randn(_IMAGE).contiguous(memory_format=torch.channels_last)
    manager = to_edge_transform_and_lower(torch.export.export(Viewed(), (x,)))
    order_for_kernels(manager.exported_program(), takes_any)
    (result,) = LoadedProgram(manager.to_executorch().buffer).run(x)
    torch.testing.assert_close(result, Viewed()(x))


def test_orders_are_not_changed_back_and_forth() -> None:
    x = torch.randn(_IMAGE).contiguous(memory_format=torch.channels_last)
    program = to_edge_transform_and_lower(torch.export.export(nn.Sequential(nn.ReLU(), nn.Tanh()), (x,)))
    edge = program.exported_program()
    order_for_kernels(edge, takes_any_order_upstream)
    drop_round_trips(edge)
    copies = [node for node in edge.graph.nodes if "dim_order" in str(node.target)]
    assert len(copies) == 2
    torch.testing.assert_close(edge.module()(x), torch.tanh(torch.relu(x)))


class Fraction(nn.Module):
    """Returns the part that a copy to an integer and back cuts off."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.to(torch.int64).to(torch.float32)


def test_a_copy_that_rounds_stays() -> None:
    edge = to_edge_transform_and_lower(torch.export.export(Fraction(), (torch.randn(3, 4),))).exported_program()
    drop_round_trips(edge)
    x = torch.tensor([[4.5, -2.25, 0.0, 9.75]] * 3)
    torch.testing.assert_close(edge.module()(x), Fraction()(x))


def test_contiguous_tensors_are_not_copied() -> None:
    model = Surrounded(nn.GroupNorm(3, 6)).eval()
    program = to_edge(capture(model, (torch.randn(_IMAGE),)))
    assert not [node for node in program.graph.nodes if "dim_order" in str(node.target)]


def test_the_list_is_what_the_kernels_take() -> None:
    taken: dict[str, bool] = {}
    for operator, kernel in read_catalog().items():
        name = operator.partition(".")[0]
        taken[name] = taken.get(name, True) and "dim_order" in kernel.variants
    # The other quantized ones take other orders where that makes no difference to them.
    assert not taken["cortex_m::quantized_linear"]
    assert not [name for name in CONTIGUOUS_ONLY if name.startswith("aten::") and taken[name]]
    refused = {name for name, takes in taken.items() if name.startswith("aten::") and not takes}
    matrices = {"addmm", "bmm", "mm", "_pdist_forward", "repeat_interleave"}
    numbers = {"arange", "scalar_tensor", "sym_numel", "sym_size", "sym_stride", "_local_scalar_dense"}
    assert refused - CONTIGUOUS_ONLY == {f"aten::{name}" for name in matrices | numbers}
