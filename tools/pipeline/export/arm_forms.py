"""Models in forms of which ExecuTorch's Arm backends delegate all, and leave nothing to the core nor refuse it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
from executorch.backends.arm._passes import arm_pass_manager
from torch.export import ExportedProgram
from torch.fx import GraphModule

from tools.pipeline.export.rewrite import emit, replace_node

_aten = torch.ops.aten
_quantized = torch.ops.quantized_decomposed
_RESTORE = (_quantized.dequantize_per_tensor.default, _quantized.dequantize_per_channel.default)
_RELU6 = (_aten.relu6.default, _aten.relu6_.default)
_PRELUS = (_aten.prelu.default, _aten._prelu_kernel.default)
_ACTIVATIONS = (
    _aten.clamp.default, _aten.hardtanh.default, _aten.hardtanh_.default, _aten.relu.default, _aten.relu_.default,
)  # fmt: skip


def write_activations(program: ExportedProgram) -> None:
    """Writes activations that ExecuTorch's quantizers don't know by operators that they do, in place.

    PReLU is max(x, weight * x) where no weight is above 1, and max(x, 0) + weight * min(x, 0) otherwise.
    """
    graph = program.graph
    constants = {**program.graph_signature.inputs_to_parameters, **program.graph_signature.inputs_to_buffers}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in _RELU6:
            node.target, node.args = _aten.hardtanh.default, (node.args[0], 0.0, 6.0)
        if node.target not in _PRELUS:
            continue
        source, weight = node.args
        values = program.state_dict.get(constants.get(weight.name, ""))
        with graph.inserting_before(node):
            # A weight for each channel, which are the second dimension.
            count, dims = weight.meta["val"].numel(), source.meta["val"].dim()
            if weight.meta["val"].dim() != dims:
                shape = [count if axis == 1 else 1 for axis in range(dims)]
                weight = emit(graph, node, _aten.reshape.default, weight, shape)
            if values is not None and float(values.detach().max()) <= 1:
                result = emit(
                    graph, node, _aten.maximum.default, source, emit(graph, node, _aten.mul.Tensor, source, weight)
                )
            else:
                below = emit(graph, node, _aten.clamp.default, source, None, 0.0)
                scaled = emit(graph, node, _aten.mul.Tensor, below, weight)
                result = emit(graph, node, _aten.add.Tensor, emit(graph, node, _aten.relu.default, source), scaled)
        replace_node(program, node, result)
        graph.erase_node(node)
    program.graph_module.recompile()


def part_activations(module: GraphModule) -> None:
    """Quantizes between a layer and its activation where the result's zero point is not the least integer, in place.

    Only with that one ExecuTorch computes both as one operator, and leaves both to the core otherwise: a concatenation
    with something that has negative numbers gives a ReLU the scale and zero point of both. The numbers are the same:
    what the layer's integers are cut to is what they are quantized to anyway.
    """
    graph = module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in _ACTIVATIONS:
            continue
        source, readers = node.args[0], list(node.users)
        if not readers or any(reader.target != _quantized.quantize_per_tensor.default for reader in readers):
            continue
        parameters = readers[0].args[1:]
        zero_point, least = parameters[1], parameters[2]
        if zero_point == least or not any(operand.target in _RESTORE for operand in source.all_input_nodes):
            continue
        with graph.inserting_before(node):
            quantized = graph.call_function(_quantized.quantize_per_tensor.default, (source, *parameters))
            restored = graph.call_function(_quantized.dequantize_per_tensor.default, (quantized, *parameters))
        for each in (quantized, restored):
            each.meta = dict(node.meta)
        node.replace_input_with(source, restored)
    module.recompile()


@contextlib.contextmanager
def tables_before_pools() -> Iterator[None]:
    """Lets ExecuTorch's passes turn functions into tables before they turn to average poolings.

    As they are, a pooling behind a function whose result PyTorch has in floating point, whatever it is given (tanh,
    sigmoid, exp), is refused, as the table that returns integers isn't there yet.
    """
    manager = arm_pass_manager.ArmPassManager
    original = manager.add_passes
    pools = (arm_pass_manager.RewriteAdaptiveAvgPool2dPass, arm_pass_manager.RewriteAvgPool2dPass)

    def add_passes(self: object, passes: Sequence[object]) -> None:
        tables = [each for each in passes if isinstance(each, arm_pass_manager.InsertTableOpsPass)]
        ordered = [each for each in passes if each not in tables]
        places = [place for place, each in enumerate(ordered) if isinstance(each, pools)]
        place = min(places, default=len(ordered))
        original(self, [*ordered[:place], *tables, *ordered[place:]])

    manager.add_passes = add_passes
    try:
        yield
    finally:
        manager.add_passes = original
