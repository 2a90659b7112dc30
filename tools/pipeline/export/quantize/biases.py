"""Corrects the biases of quantized layers by the mean error that quantization causes in their outputs.

Rounded weights, and values that are clipped or rounded before a layer, shift the mean of a channel in the same way for
every input. Noise averages out where a layer adds many products, but a shift of the mean does not. The bias compensates
the shift that calibration samples show, weighted by how well the samples agree. Layers are corrected from first to
last, so that each correction accounts for those before it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from tools.pipeline.export.ir.operators import DEQUANTIZATIONS
from tools.pipeline.export.quantize.float64 import Float64Interpreter
from tools.pipeline.export.quantize.nodes import attribute
from tools.pipeline.model_file.deterministic import computing

_aten = torch.ops.aten

# The channel dimension, counted from the last one.
_LAYERS = {_aten.conv2d.default: -3, _aten.conv_transpose2d.input: -3, _aten.linear.default: -1}


def correct_biases(
    converted: GraphModule,
    observed: Sequence[Mapping[str, Tensor]],
    samples: Sequence[Sequence[Tensor]],
    allows: Callable[[GraphModule, Node, Tensor], bool],
) -> None:
    """Corrects the biases of a converted module's layers, in place.

    Args:
      observed: floating-point results for samples, by the names of nodes.
      samples: the inputs of these samples.
      allows: whether a layer can have a bias.
    """
    if len(samples) < 2:
        # A single sample can't separate systematic errors from those of that sample.
        return
    layers = _layers(converted)
    with computing():
        runs = [_Run(converted, sample) for sample in samples]
        for node in list(converted.graph.nodes):
            results = [run.step(node) for run in runs]
            if node not in layers or node.name not in observed[0]:
                continue
            dim = _LAYERS[node.target]
            errors = torch.stack(
                [
                    (values[node.name].double() - result.double()).movedim(dim, -1).flatten(0, -2).mean(0)
                    for values, result in zip(observed, results, strict=True)
                ]
            )
            shift = _common(errors)
            if not bool(shift.any()):
                continue
            if _move(converted, node, shift, allows):
                for run in runs:
                    run.env[node] = run.env[node] + shift.float().reshape([-1] + [1] * (-dim - 1))
    converted.graph.eliminate_dead_code()
    converted.recompile()


def _common(errors: Tensor) -> Tensor:
    """Returns the mean error of each channel, from errors [sample, channel], reduced according to its uncertainty."""
    mean = errors.mean(0)
    doubt = errors.var(0) / len(errors)
    certain = mean.square() / torch.where(mean == 0, 1.0, mean.square() + doubt)
    return mean * certain


class _Run(Float64Interpreter):
    """Runs a module on a sample, operator by operator."""

    def __init__(self, module: GraphModule, sample: Sequence[Tensor]) -> None:
        super().__init__(module)
        self.args_iter = iter(self.graph.process_inputs(*sample))

    def step(self, node: Node) -> Any:
        """Runs the next operator, and drops values that no later operator reads."""
        if node.op == "output":
            return None
        self.env[node] = self.run_node(node)
        for read in self.user_to_last_uses.get(node, []):
            del self.env[read]
        return self.env.get(node)


def _layers(module: GraphModule) -> set[Node]:
    """Returns layers with quantized weights that are called once."""
    calls: dict[Any, list[Node]] = {}
    for node in module.graph.nodes:
        weight = node.args[1] if node.target in _LAYERS else None
        if isinstance(weight, Node) and weight.target in DEQUANTIZATIONS:
            (constant, *_) = weight.all_input_nodes
            if constant.op == "get_attr":
                # By now each call has its own constant; equal constants are stored once in the program.
                value = attribute(module, str(constant.target)).detach()
                calls.setdefault((value.shape, value.contiguous().numpy().tobytes()), []).append(node)
    return {nodes[0] for nodes in calls.values() if len(nodes) == 1}


def _move(module: GraphModule, layer: Node, shift: Tensor, allows: Callable[[GraphModule, Node, Tensor], bool]) -> bool:
    """Adds a shift to a layer's bias, which becomes a floating-point constant; returns False if the layer can't have
    it.
    """
    bias = layer.args[2] if len(layer.args) > 2 else None
    before = torch.zeros_like(shift)
    if isinstance(bias, Node):
        constant = bias.args[0] if bias.target in DEQUANTIZATIONS else bias
        if not isinstance(constant, Node) or constant.op != "get_attr":
            return False
        before = attribute(module, str(constant.target)).detach().double()
        if constant is not bias:
            scale = bias.args[1]
            before = before * (attribute(module, str(scale.target)) if isinstance(scale, Node) else scale)
    value = (before + shift).float()
    if not allows(module, layer, value):
        return False
    name = f"_{layer.name}_corrected_bias"
    module.register_buffer(name, value)
    with module.graph.inserting_before(layer):
        node = module.graph.get_attr(name)
    layer.args = (*layer.args[:2], node, *layer.args[3:])
    return True
