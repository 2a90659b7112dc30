"""Lowers quantized operators outside of the NPU's delegates to int8 operators of the core."""

import copy
import math
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from executorch.backends.arm._passes.arm_pass_utils import get_constant_placeholder_kind
from executorch.backends.arm.common.annotation_meta import ArmAnnotationInfo
from executorch.backends.arm.constants import DQ_OPS, Q_OPS
from executorch.backends.transforms.utils import create_constant_placeholder, get_param_tensor, is_param_node
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.backends.arm.delegates import is_copy
from tools.pipeline.export.backends.cortex_m.lower import target_of
from tools.pipeline.export.ir.dim_orders import copy_to_order
from tools.pipeline.export.ir.rewriting import emit, replace_node
from tools.pipeline.export.pipelines import CORTEX_M_SUBSTITUTION
from tools.pipeline.export.quantize.in_float import ALL_BUT_LAYERS, NoInt8Form
from tools.pipeline.export.quantize.quantize import check_integers

_aten = exir_ops.edge.aten
_quantized = exir_ops.edge.quantized_decomposed
_DEQUANTIZE = _quantized.dequantize_per_tensor.default
_DEQUANTIZE_CHANNELS = _quantized.dequantize_per_channel.default
_COPY = exir_ops.edge.dim_order_ops._to_dim_order_copy.default

# Activations that are fused into the layer before them, or computed on integers.
_ACTIVATIONS = frozenset((_aten.relu.default, _aten.hardtanh.default, _aten.clamp.default))
_OF_TWO = frozenset((_aten.add.Tensor, _aten.mul.Tensor, _aten.minimum.default, _aten.maximum.default))
# Operators that return one of their operands' integers, if all have the same scale and zero point.
_CHOICES = frozenset((_aten.minimum.default, _aten.maximum.default))
# Operators that return elements of their operands, which stay integers if all have the same scale and zero point.
_MOVES = frozenset((
    _aten.cat.default, _aten.clone.default, _aten.constant_pad_nd.default, _aten.expand_copy.default,
    _aten.flip.default, _aten.permute_copy.default, _aten.pixel_shuffle.default, _aten.pixel_unshuffle.default,
    _aten.repeat.default, _aten.select_copy.int, _aten.slice_copy.Tensor, _aten.squeeze_copy.dims,
    _aten.unsqueeze_copy.default, _aten.view_copy.default,
))  # fmt: skip


def to_int8(edge: ExportedProgram, core: str, path: Path) -> ExportedProgram:
    """Returns the program with the core's int8 operators in place of quantized operators outside of delegates.

    Operators that have no int8 form on the core stay in floating point.

    Args:
      edge: a program of int8 activations with delegates; it is not modified.
      core: the core, such as `cortex-m55`.
      path: the model file.

    Raises NoInt8Form if the core's operators can't express it.
    """
    # Tensors are shared: computed values of parameters can't be copied.
    tensors = (*edge.state_dict.values(), *edge.constants.values())
    lowered = copy.deepcopy(edge, {id(tensor): tensor for tensor in tensors})
    _convolve_linear(lowered)
    _leave_in_float(lowered)
    _drop_copies_in_float(lowered)
    _copy_operands(lowered)
    try:
        lowered = CORTEX_M_SUBSTITUTION.run(lowered, target=target_of(core))
    except Exception as error:
        # ExecuTorch's passes raise various errors for operators that they don't support.
        raise NoInt8Form([ALL_BUT_LAYERS], f"{type(error).__name__}: {error}".split("\n")[0]) from error
    _drop_copies(lowered)
    lowered.graph_module.recompile()
    check_integers(lowered, path)
    return lowered


def delegate_calls(program: ExportedProgram) -> list[Node]:
    """Returns the calls of delegates, in order."""
    return [node for node in program.graph.nodes if node.target == executorch_call_delegate]


def _copy_operands(program: ExportedProgram) -> None:
    """Copies the operands of delegates to the order that they already have, in place.

    A delegate knows the number of bytes of an operand but not their order. The passes may change the order of the
    operand, and would then give the delegate's results the same order.
    """
    for call in delegate_calls(program):
        for operand in call.args[1:]:
            order = list(operand.meta["val"].dim_order())
            with program.graph.inserting_before(call):
                call.replace_input_with(operand, copy_to_order(program, operand, order, operand.meta))


def _drop_copies(program: ExportedProgram) -> None:
    """Drops copies before delegates that change nothing, in place."""
    for call in delegate_calls(program):
        for operand in call.args[1:]:
            if operand.target != _COPY:
                continue
            before, after = operand.args[0].meta["val"], operand.meta["val"]
            if before.dtype == after.dtype and before.dim_order() == after.dim_order():
                call.replace_input_with(operand, operand.args[0])
    program.graph.eliminate_dead_code()


def _convolve_linear(program: ExportedProgram) -> None:
    """Turns linear layers into int8 convolutions of images of one pixel, one per row, in place.

    The NPU's weights have a scale per channel, whereas the core's linear layers have a single one.
    """
    graph, kernels = program.graph, dict[Node, Node]()
    for node in list(graph.nodes):
        if node.target != _aten.linear.default or not _is_linear_of_channels(program, node):
            continue
        source, weight, *bias = node.args
        *shape, size = source.meta["val"].shape
        rows = [math.prod(shape), size, 1, 1]
        if weight.args[0] not in kernels:
            kernels[weight.args[0]] = _kernel(program, weight.args[0])
        with graph.inserting_before(node):
            integers = source.args[0]
            order = list(range(len(shape) + 1))
            if list(integers.meta["val"].dim_order()) != order:
                integers = copy_to_order(program, integers, order, source.meta)
            integers = emit(node, _aten.view_copy.default, integers, rows)
            images = emit(node, source.target, integers, *source.args[1:])
            kernel = emit(node, weight.target, kernels[weight.args[0]], *weight.args[1:])
            bias = [*bias, None][0]
            layer = _emit_layer(
                node, _aten.convolution.default, images, kernel, bias, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
            )
        last, results = node, list(node.users)
        if results[0].target in _ACTIVATIONS:
            last, results = results[0], list(results[0].users)
            with graph.inserting_before(last):
                layer = _emit_layer(last, last.target, layer, *last.args[1:])
        for result in results:
            with graph.inserting_before(result):
                quantized = emit(result, result.target, layer, *result.args[1:])
                rows_back = emit(result, _aten.view_copy.default, quantized, list(last.meta["val"].shape))
            replace_node(program, result, rows_back)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _is_linear_of_channels(program: ExportedProgram, node: Node) -> bool:
    """Whether a linear layer is quantized, with constant weights that have a scale per channel."""
    source, weight, *_ = node.args
    readers = list(node.users)
    if len(readers) == 1 and readers[0].target in _ACTIVATIONS:
        readers = list(readers[0].users)
    return (
        source.target == _DEQUANTIZE
        and weight.target == _DEQUANTIZE_CHANNELS
        and is_param_node(program, weight.args[0])
        and all(reader.target in Q_OPS for reader in readers)
    )


def _emit_layer(origin: Node, target: EdgeOpOverload, *args: Any) -> Node:
    """Emits a call that replaces another one, with its quantization metadata."""
    layer = emit(origin, target, *args)
    if "custom" in origin.meta:
        layer.meta["custom"] = dict(origin.meta["custom"])
    return layer


def _kernel(program: ExportedProgram, weight: Node) -> Node:
    """Reshapes the weight of a linear layer to that of a 1x1 convolution."""
    data = get_param_tensor(program, weight)
    kind = get_constant_placeholder_kind(program, weight)
    with program.graph.inserting_before(weight):
        return create_constant_placeholder(
            program, program.graph, f"{weight.name}_kernel", kind, data[..., None, None].contiguous(), True
        )


def _leave_in_float(program: ExportedProgram) -> None:
    """Removes the mark of a quantized operator where the passes would compute wrong integers, in place.

    The passes fold quantization into every marked operator, because quantizers for the core only mark operators that
    they can lower.
    """
    in_int8: set[Node] = set()
    for node in program.graph.nodes:
        if node.op != "call_function" or node.target in (*Q_OPS, *DQ_OPS, executorch_call_delegate):
            continue
        if _has_int8_operator(node, in_int8):
            in_int8.add(node)
        elif "custom" in node.meta:
            info = {ArmAnnotationInfo.CUSTOM_META_KEY: dict(ArmAnnotationInfo(quantized=False))}
            node.meta["custom"] = {**node.meta["custom"], **info}


def _drop_copies_in_float(program: ExportedProgram) -> None:
    """Drops copies in floating point, in place, which only an NPU needs."""
    for node in list(program.graph.nodes):
        if is_copy(node) and node.args[0].target not in DQ_OPS:
            node.replace_all_uses_with(node.args[0])
            program.graph.erase_node(node)


def _has_int8_operator(node: Node, in_int8: set[Node]) -> bool:
    operands, readers = list(node.all_input_nodes), list(_readers(node))
    if node.target in _ACTIVATIONS:
        source = operands[0]
        return (source in in_int8 or source.target in DQ_OPS) and all(reader.target in Q_OPS for reader in readers)
    if node.target is operator.getitem:
        return operands[0] in in_int8
    if not all(operand.target in DQ_OPS for operand in operands):
        return False
    is_fused = len(readers) == 1 and readers[0].target in _ACTIVATIONS and node.target not in _MOVES
    if not is_fused and not all(reader.target in Q_OPS for reader in readers):
        return False
    if node.target in (_MOVES | _CHOICES) and len({tuple(other.args[1:]) for other in (*operands, *readers)}) > 1:
        return False
    return node.target in _MOVES or _is_layer(node)


def _readers(node: Node) -> Iterator[Node]:
    """Yields the readers of a node's first result."""
    for user in node.users:
        if user.target is operator.getitem:
            yield from user.users
        else:
            yield user


def _is_layer(node: Node) -> bool:
    """Whether the core has an operator for a layer with int8 operands and these arguments."""
    arguments: list[Any] = list(node.args)
    operands = [operand.meta["val"] for operand in node.all_input_nodes]
    if node.target == _aten.convolution.default:
        is_transposed, groups, dilation = arguments[6], arguments[8], arguments[5]
        return operands[0].dim() == 4 and (not is_transposed or (groups == 1 and set(dilation) == {1}))
    if node.target == _aten.avg_pool2d.default:
        return not any(arguments[4:5])
    if node.target in (_aten.max_pool2d.default, _aten.max_pool2d_with_indices.default):
        dilation, ceil_mode = (arguments + [[], [], 0, 1, False][len(arguments) - 1 :])[4:6]
        return set([dilation] if isinstance(dilation, int) else dilation) == {1} and not ceil_mode
    if node.target in _OF_TWO:
        # Broadcasts are not supported.
        return len({operand.shape for operand in operands}) == 1
    return node.target == _aten.bmm.default and len({operand.shape[0] for operand in operands}) == 1


def agree(before: list[torch.Tensor], after: list[torch.Tensor]) -> bool:
    """Whether the outputs of a floating-point and an int8 program are equal up to rounding.

    Their mean difference is at most a twentieth of the range; operators that read integers as numbers exceed that.
    """
    for reference, result in zip(before, after, strict=True):
        if not reference.is_floating_point() or not reference.numel():
            continue
        extent = float(reference.max() - reference.min())
        if float((reference - result).abs().mean()) > 0.05 * max(extent, 1e-6):
            return False
    return True
