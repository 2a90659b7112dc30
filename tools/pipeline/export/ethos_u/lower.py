"""Quantizes a captured model for an Ethos-U and delegates to it what it can compute."""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch
from executorch.backends.arm.constants import DQ_OPS, Q_OPS
from executorch.backends.arm.ethosu import EthosUBackend, EthosUPartitioner
from executorch.backends.arm.operator_support.ethos_u55_support import EthosU55NotSupported
from executorch.backends.arm.operator_support.tosa_supported_operators import SupportedTOSAOperatorCheck
from executorch.backends.arm.quantizer import (
    EthosUQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)
from executorch.backends.arm.quantizer.arm_quantizer_utils import _mark_node_as_quantized
from executorch.backends.cortex_m.quantizer.pattern_matcher import PatternMatcher
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir.backend.backend_details import PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.dialects._ops import ops as exir_ops
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._pytree import tree_leaves

from tools.artifacts.ethos_u.npu import Npu
from tools.pipeline.export import delegates
from tools.pipeline.export.arm_forms import (
    POOLS,
    convolutions_to_16_bits,
    layers_of_many_steps,
    tables_before_pools,
    upsampling_of_sizes,
    write_layers,
)
from tools.pipeline.export.border import varying
from tools.pipeline.export.cortex_m.functions import (
    annotate_functions,
    attribute,
    find_functions,
    is_annotated,
    leave_state,
)
from tools.pipeline.export.cortex_m.own_layers import mark
from tools.pipeline.export.cortex_m.quantize import ALL_BUT_LAYERS, NoInt8Form, Quantized, Sample
from tools.pipeline.export.cortex_m.recurrent import lower_recurrent, round_weights
from tools.pipeline.export.cortex_m.state import State
from tools.pipeline.export.dim_orders import IMAGE, PIXELS
from tools.pipeline.export.ethos_u import vela
from tools.pipeline.export.ethos_u.addresses import WrongCommandsError
from tools.pipeline.export.ethos_u.constants import moved_constants
from tools.pipeline.export.ethos_u.core import agree, to_int8
from tools.pipeline.export.ethos_u.results import Comparison
from tools.pipeline.export.ethos_u.tables import NAME as TABLE
from tools.pipeline.export.ethos_u.tables import fold_numbers, tables_of_functions, write_tables
from tools.pipeline.export.lower import propagate_constants
from tools.pipeline.export.manifest import origin
from tools.pipeline.export.own_operators import RECURRENT, keep_recurrent_layers
from tools.pipeline.export.replaced import replaced
from tools.pipeline.export.rewrite import emit, for_each, named_arguments, replace_node

_Finished = TypeVar("_Finished")

_aten = torch.ops.aten
# Of poolings and convolutions on Ethos-U55 and U65.
_LARGEST_STRIDE = 3
# Of rows and columns of an image, by which they can upsample it.
_REPETITIONS = frozenset((1, 2, 4, 8))
_NEAREST, _BILINEAR = _aten.upsample_nearest2d.vec, _aten.upsample_bilinear2d.vec
# What it takes of memory grows with the square of its factor.
_LARGEST_INTERPOLATION = 4
# Places of a model that are looked for one by one, as they can't be lowered.
_LARGEST_SEARCH = 2
# Of a convolution's result, each of which is an image's convolution.
_MOST_PLANES = 32
_PARTS = frozenset((
    _aten.cat.default, _aten.concat.default, _aten.narrow.default, _aten.select.int, _aten.slice.Tensor,
    _aten.stack.default,
))  # fmt: skip
_SPLITS = frozenset((
    _aten.chunk.default, _aten.split.Tensor, _aten.split.sizes, _aten.split_with_sizes.default,
    _aten.tensor_split.indices, _aten.tensor_split.sections, _aten.unbind.int,
))  # fmt: skip
# What Vela computes right of parts that are not copied.
_READ_PARTS = frozenset((
    _aten.avg_pool2d.default, _aten.cat.default, _aten.conv1d.default, _aten.conv1d.padding, _aten.conv2d.default,
    _aten.conv2d.padding, _aten.linear.default,
))  # fmt: skip

# What writes its operands to parts of a tensor, and what moves elements on the way there.
_WRITERS = frozenset((
    _aten.cat.default, _aten.concat.default, _aten.constant_pad_nd.default, _aten.pad.default, _aten.stack.default,
))  # fmt: skip
_MOVES = frozenset((
    _aten.clone.default, _aten.contiguous.default, _aten.dropout.default, _aten.flatten.using_ints,
    _aten.permute.default, _aten.reshape.default, _aten.squeeze.default, _aten.squeeze.dim, _aten.squeeze.dims,
    _aten.t.default, _aten.transpose.int, _aten.unsqueeze.default, _aten.view.default,
))  # fmt: skip
# What Vela lets write to a part, and right: layers, with their activations.
_LAYERS = frozenset((
    _aten.avg_pool1d.default, _aten.avg_pool2d.default, _aten.conv1d.default, _aten.conv1d.padding,
    _aten.conv2d.default, _aten.conv2d.padding, _aten.linear.default, _aten.max_pool2d.default,
))  # fmt: skip
_ACTIVATIONS = frozenset((
    _aten.hardtanh.default, _aten.hardtanh_.default, _aten.relu.default, _aten.relu_.default,
))  # fmt: skip


@dataclass
class Lowered:
    """A program with delegates.

    Attributes:
      manager: the edge program.
      compiled: what Vela made of each delegate, in their order.
      rejected: what the NPU can't take, as (operator, place in the model, reason).
    """

    manager: EdgeProgramManager
    compiled: list[vela.Compiled]
    rejected: list[tuple[str, str, str]]


class _Quantizer(EthosUQuantizer):
    """ExecuTorch's quantizer, which leaves what is computed for a state in floating point.

    With activations of 8 bits, functions that it leaves alone, and those of several operators, become tables.
    """

    def __init__(self, npu: Npu, bits: int, states: int) -> None:
        super().__init__(vela.compile_spec(npu))
        config = get_symmetric_quantization_config() if bits == 8 else get_symmetric_a16w8_quantization_config()
        self.set_global(config)
        # The very objects that its neighbours have, as what others say would be quantized twice.
        self._operand, self._result = config.get_input_act_qspec(), config.get_output_act_qspec()
        self._bits = bits
        self._states = states

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        transformed = super().transform_for_annotation(model)
        if self._bits == 8:
            fold_numbers(transformed)
        _merge_equal(transformed)
        for node in transformed.graph.nodes:
            # What is made of one operator shares what is said of it, which a quantizer changes in place.
            if "custom" in node.meta:
                node.meta["custom"] = dict(node.meta["custom"])
        return transformed

    def annotate(self, model: GraphModule) -> GraphModule:
        leave_state(model.graph, self._states)
        if self._bits != 8:
            return super().annotate(model)
        self._annotate_recurrent(model.graph)
        # Those of several operators before ExecuTorch does so operator by operator.
        functions = [each for each in find_functions(model.graph) if len(each.nodes) > 1 and not is_annotated(each)]
        integers = {node for each in functions for node in (each.source, *each.results)}
        annotate_functions(functions, integers, self._operand, self._result)
        for node in (node for each in functions for node in each.nodes):
            node.meta[PatternMatcher.Q_PATTERN_MATCHED_KEY] = True
        annotated = super().annotate(model)
        functions = [each for each in find_functions(annotated.graph) if not is_annotated(each)]
        inputs = {node for node in annotated.graph.nodes if node.op == "placeholder"}
        annotate_functions(functions, inputs, self._operand, self._result)
        return annotated

    def _annotate_recurrent(self, graph: Graph) -> None:
        """Lets the core's recurrent layers take and return integers; their states it keeps in floating point."""
        for node in graph.nodes:
            if node.target not in RECURRENT:
                continue
            _mark_node_as_quantized(node, {node.args[0]: self._operand}, None, False)
            mark(node)
            for result in node.users:
                _mark_node_as_quantized(result, {}, self._result if result.args[1] == 0 else None, False)


def _merge_equal(module: GraphModule) -> None:
    """Lets operators that compute the same of the same be one, in place: ExecuTorch computes a norm's mean twice."""
    found: dict[tuple[object, ...], Node] = {}
    for node in list(module.graph.nodes):
        key: tuple[object, ...]
        if node.op == "get_attr":
            value = attribute(module, str(node.target))
            if value.numel() != 1:
                continue
            key = (value.dtype, value.shape, value.item())
        elif isinstance(node.target, OpOverload) and _is_determined(node.target):
            key = (node.target, repr(node.args), repr(node.kwargs))
        else:
            continue
        first = found.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            module.graph.erase_node(node)
    module.recompile()


def _is_determined(target: OpOverload) -> bool:
    return torch.Tag.nondeterministic_seeded not in target.tags and not target._schema.is_mutable


def quantize(
    program: ExportedProgram, samples: Iterable[Sample], npu: Npu, bits: int, path: Path, state: State
) -> Quantized:
    """The program with quantize and dequantize operators of ExecuTorch's Ethos-U quantizer, calibrated on the samples.

    Args:
      bits: of the activations, 8 or 16; weights have 8.
      path: the model file, for messages.
      state: what the program's first inputs are, and its first outputs change, from one sample to the next.

    Raises UserError as `delegates.quantize` does.
    """
    quantizer = _Quantizer(npu, bits, len(state.buffers))
    if bits == 8:
        keep_recurrent_layers(program, layers_of_many_steps(program))
    # ExecuTorch's passes quantize no results of operators that read constants alone, and then refuse their readers.
    program = write_layers(program)
    _fill_groups(program)
    program = propagate_constants(program)
    if npu.product != "u85":
        _write_minima(program)
    _reduce_strides(program)
    if npu.product != "u85":
        _write_volumes(program)
        _write_resampling(program)
        _pool_in_steps(program)
        _average_one_batch(program)
        _fold_strides(program)
    _copy_parts(program)
    if npu.product != "u85":
        _copy_functions(program)
    quantized = delegates.quantize(program, samples, quantizer, path, state)
    round_weights(quantized.module)
    return quantized


def _fill_groups(program: ExportedProgram) -> None:
    """Makes of the groups of transposed convolutions one, with zeros for what is in others, in place.

    ExecuTorch leaves them to the core in floating point, which has none of them in int8 either, and gives a bias scales
    of one group. Vela compresses zeros.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target != _aten.conv_transpose2d.input:
            continue
        given = named_arguments(node)
        weight, groups = given["weight"], given["groups"]
        if groups == 1:
            continue
        inputs, outputs = weight.meta["val"].shape[:2]
        size = inputs // groups
        with graph.inserting_before(node):
            parts = []
            for group in range(groups):
                part = emit(graph, node, _aten.slice.Tensor, weight, 0, group * size, (group + 1) * size)
                sides = [0, 0, 0, 0, group * outputs, (groups - 1 - group) * outputs]
                parts.append(emit(graph, node, _aten.constant_pad_nd.default, part, sides, 0.0))
            given |= {"weight": emit(graph, node, _aten.cat.default, parts, 0), "groups": 1}
            result = emit(graph, node, node.target, *given.values())
        replace_node(program, node, result)
        graph.erase_node(node)
    program.graph_module.recompile()


def _write_minima(program: ExportedProgram) -> None:
    """Computes minima along dimensions as maxima of what has the other sign, in place.

    Ethos-U55 and U65 have maxima alone, and what Vela 5.2 writes for minima gives other numbers.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.target == _aten.amin.default:
            result, arguments = node, node.args
        elif node.target == _aten.min.dim and [user.args[1] for user in node.users if user.users] == [0]:
            result, arguments = next(user for user in node.users if user.users), node.args
        else:
            continue
        if not result.meta["val"].is_floating_point():
            continue
        with graph.inserting_before(node):
            negative = emit(graph, node, _aten.mul.Tensor, arguments[0], -1.0)
            least = emit(graph, node, _aten.amax.default, negative, *arguments[1:])
            replace_node(program, result, emit(graph, node, _aten.mul.Tensor, least, -1.0))
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _reduce_strides(program: ExportedProgram) -> None:
    """Gives poolings of one window the stride 1, in place: the NPU's stride is at most 3."""
    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in POOLS or tuple(node.meta["val"].shape[-2:]) != (1, 1):
            continue
        source, kernel, *rest = node.args
        kernel = [kernel] * 2 if isinstance(kernel, int) else list(kernel)
        if any(padding for padding in tree_leaves(rest[1:2])):
            continue
        # Rows and columns behind the window, which the stride would have skipped.
        with graph.inserting_before(node):
            for axis, size in ((-2, kernel[0]), (-1, kernel[-1])):
                if source.meta["val"].shape[axis] > size:
                    value = source.meta["val"].narrow(axis, 0, size)
                    source = graph.call_function(torch.ops.aten.slice.Tensor, (source, axis % value.dim(), 0, size))
                    source.meta = dict(node.meta) | {"val": value}
        node.args = (source, kernel, [1, 1], *rest[1:])
    program.graph_module.recompile()


def _pool_in_steps(program: ExportedProgram) -> None:
    """Makes several maxima of one whose windows lie side by side and are larger than the NPU's stride, in place.

    Averages of averages would be rounded at each step, and halves always to the same side.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target != _aten.max_pool2d.default:
            continue
        given = named_arguments(node)
        kernel, stride = (_pair(given[name]) for name in ("kernel_size", "stride"))
        is_plain = not any(tree_leaves(given["padding"])) and set(tree_leaves(given["dilation"])) == {1}
        if max(stride) <= _LARGEST_STRIDE or not is_plain or given["ceil_mode"]:
            continue
        factors = [_factors(*sizes) for sizes in zip(kernel, stride, strict=True)]
        if not all(factors):
            continue
        result = node.args[0]
        with graph.inserting_before(node):
            for step in itertools.zip_longest(*factors, fillvalue=(1, 1)):
                result = emit(graph, node, node.target, result, *([size[i] for size in step] for i in range(2)))
        replace_node(program, node, result)
        graph.erase_node(node)
    program.graph_module.recompile()


def _average_one_batch(program: ExportedProgram) -> None:
    """Makes channels of the images of a batch that is averaged, in place: ExecuTorch takes batches of one."""
    graph = program.graph
    for node in list(graph.nodes):
        shape = node.meta["val"].shape if node.target == _aten.avg_pool2d.default else (1,)
        if shape[0] == 1:
            continue
        with graph.inserting_before(node):
            rows = [1, -1, *node.args[0].meta["val"].shape[2:]]
            source = emit(graph, node, _aten.reshape.default, node.args[0], rows)
            pool = emit(graph, node, node.target, source, *node.args[1:])
            result = emit(graph, node, _aten.reshape.default, pool, list(shape))
        replace_node(program, node, result)
        graph.erase_node(node)
    program.graph_module.recompile()


def _fold_strides(program: ExportedProgram) -> None:
    """Makes of columns that a convolution strides over, more than the NPU can, channels of one column, in place.

    As channels lie side by side, nothing moves. Else Vela writes a convolution for each column of the result.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in (_aten.conv1d.default, _aten.conv2d.default):
            continue
        given = named_arguments(node)
        source, weight, bias = (given[name] for name in ("input", "weight", "bias"))
        axes = weight.meta["val"].dim() - 2
        stride, padding, dilation = (
            list(given[name]) * (axes // len(given[name])) for name in ("stride", "padding", "dilation")
        )
        if stride[-1] <= _LARGEST_STRIDE or given["groups"] != 1 or dilation[-1] != 1:
            continue
        with graph.inserting_before(node):
            columns = -(-weight.meta["val"].shape[-1] // stride[-1])
            size = (node.meta["val"].shape[-1] + columns - 1) * stride[-1]
            source = _resize_columns(graph, node, source, padding[-1], size)
            weight = _resize_columns(graph, node, weight, 0, columns * stride[-1])
            source, weight = (_columns_to_channels(graph, node, each, stride[-1]) for each in (source, weight))
            stride[-1], padding[-1] = 1, 0
            result = emit(graph, node, node.target, source, weight, bias, stride, padding, dilation)
        replace_node(program, node, result)
        graph.erase_node(node)
    program.graph_module.recompile()


def _resize_columns(graph: Graph, origin: Node, node: Node, before: int, size: int) -> Node:
    """Columns of zeros in front, and behind as many as there are to be; or fewer columns."""
    after = size - before - node.meta["val"].shape[-1]
    if after < 0:
        node = emit(graph, origin, _aten.slice.Tensor, node, node.meta["val"].dim() - 1, 0, size - before)
    if before or after > 0:
        node = emit(graph, origin, _aten.constant_pad_nd.default, node, [before, max(after, 0)], 0.0)
    return node


def _columns_to_channels(graph: Graph, origin: Node, node: Node, count: int) -> Node:
    """So many columns side by side are channels of one, in the order in which they lie channels-last."""
    *outer, size = range(node.meta["val"].dim())
    last = emit(graph, origin, _aten.permute.default, node, [0, *outer[2:], size, 1])
    *shape, columns, channels = last.meta["val"].shape
    folded = emit(graph, origin, _aten.reshape.default, last, [*shape, columns // count, count * channels])
    first = emit(graph, origin, _aten.permute.default, folded, [0, size, *range(1, size)])
    if outer[2:]:
        return first
    # Else the result of a sequence would lie so, too, which delegates do not return.
    return emit(graph, origin, _aten.clone.default, first, memory_format=torch.contiguous_format)


def _write_volumes(program: ExportedProgram) -> None:
    """Convolves volumes plane by plane, in place, with the planes that a window reaches as channels of an image.

    Ethos-U55 and U65 have no convolutions of volumes.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target != _aten.conv3d.default or node.meta["val"].dim() != 5:
            continue
        given = named_arguments(node)
        source, weight = given["input"], given["weight"]
        stride, padding, dilation = (for_each(given[name], 3) for name in ("stride", "padding", "dilation"))
        depth = node.meta["val"].shape[2]
        if depth > _MOST_PLANES:
            continue
        with graph.inserting_before(node):
            if padding[0]:
                sides = [0, 0, 0, 0, padding[0], padding[0]]
                source = emit(graph, node, _aten.constant_pad_nd.default, source, sides, 0.0)
            size = dilation[0] * (weight.meta["val"].shape[2] - 1) + 1
            kernel = emit(graph, node, _aten.flatten.using_ints, weight, 1, 2)
            planes = []
            for start in range(0, depth * stride[0], stride[0]):
                window = emit(graph, node, _aten.slice.Tensor, source, 2, start, start + size, dilation[0])
                image = emit(graph, node, _aten.flatten.using_ints, window, 1, 2)
                rest = (stride[1:], padding[1:], dilation[1:], given["groups"])
                planes.append(emit(graph, node, _aten.conv2d.default, image, kernel, given["bias"], *rest))
            result = emit(graph, node, _aten.stack.default, planes, 2)
        replace_node(program, node, result)
        graph.erase_node(node)
    program.graph_module.recompile()


def _write_resampling(program: ExportedProgram) -> None:
    """Writes upsampling that Ethos-U55 and U65 don't have by what they do, in place.

    A linear interpolation between pixels is an average of pixels, each of which is there several times.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.target not in (_NEAREST, _BILINEAR):
            continue
        factors = _whole_factors(node)
        if factors is None:
            continue
        with graph.inserting_before(node):
            if node.target == _NEAREST:
                if _has_repetition(node.args[0].meta["val"].shape, factors):
                    continue
                result = _repeat(graph, node, node.args[0], factors)
            elif not named_arguments(node)["align_corners"] and max(factors) <= _LARGEST_INTERPOLATION:
                result = _interpolate(graph, node, factors)
            else:
                continue
        replace_node(program, node, result)
        graph.erase_node(node)
    program.graph_module.recompile()


def _whole_factors(node: Node) -> list[int] | None:
    """How often a resampling has each row and each column, if it is so often."""
    given = named_arguments(node)
    sizes, results = given["input"].meta["val"].shape[2:], node.meta["val"].shape[2:]
    factors = [result // size for size, result in zip(sizes, results, strict=True)]
    if any(factor * size != result for factor, size, result in zip(factors, sizes, results, strict=True)):
        return None
    asked = given["scale_factors"]
    return factors if asked is None or list(asked) == factors else None


def _has_repetition(shape: Sequence[int], factors: Sequence[float]) -> bool:
    """Whether Vela lets Ethos-U55 and U65 read each pixel, or the only one there is, several times for it."""
    batch, _, *sizes = shape
    return batch == 1 and (set(sizes) == {1} or (len(set(factors)) == 1 and _REPETITIONS.issuperset(factors)))


def _repeat(graph: Graph, origin: Node, image: Node, factors: Sequence[int]) -> Node:
    """Each row and each column so often."""
    batch, channels, rows, columns = image.meta["val"].shape
    shape = [batch, channels, rows * factors[0], columns * factors[1]]
    if _has_repetition(image.meta["val"].shape, factors):
        return emit(graph, origin, _NEAREST, image, shape[2:], None)
    # Channels lie side by side, so that nothing moves but what is repeated.
    result = emit(graph, origin, _aten.permute.default, image, PIXELS)
    for count, size, factor in (
        (batch * rows * columns, channels, factors[1]),
        (batch * rows, channels * shape[3], factors[0]),
    ):
        if factor > 1:
            result = emit(graph, origin, _aten.reshape.default, result, [count, 1, size])
            result = emit(graph, origin, _aten.cat.default, [result] * factor, 1)
    result = emit(graph, origin, _aten.reshape.default, result, [batch, *shape[2:], channels])
    return emit(graph, origin, _aten.permute.default, result, IMAGE)


def _interpolate(graph: Graph, origin: Node, factors: Sequence[int]) -> Node:
    """Linear interpolation, whose corners aren't aligned.

    By a factor of three, each result is an average of three pixels that are there three times each. By an even one its
    place is between two of them, so that they are there twice as often, and two of them are between results. Beyond the
    image are no pixels, as the outermost ones go on there.
    """
    finer = [factor if factor % 2 else 2 * factor for factor in factors]
    repeated = _repeat(graph, origin, origin.args[0], finer)
    strides = [count // factor for count, factor in zip(finer, factors, strict=True)]
    padding = [(count - stride) // 2 for count, stride in zip(finer, strides, strict=True)]
    return emit(graph, origin, _aten.avg_pool2d.default, repeated, finer, strides, padding, False, False)


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    """Of rows and of columns."""
    sizes = tree_leaves(value)
    return sizes[0], sizes[-1]


def _factors(kernel: int, stride: int) -> list[tuple[int, int]]:
    """Kernels and strides, one after another, of a dimension of a pooling; none if the NPU can't take them."""
    if stride <= _LARGEST_STRIDE:
        return [(kernel, stride)]
    if kernel != stride:
        return []
    factors = []
    for size in range(_LARGEST_STRIDE, 1, -1):
        while stride % size == 0:
            factors.append((size, size))
            stride //= size
    return factors if stride == 1 else []


def _copy_parts(program: ExportedProgram) -> None:
    """Lets parts of tensors, and tensors of parts, be tensors of their own, in place; some readers can do without.

    Vela 5.2 copies neither: a part is read from the whole tensor, and a concatenation's parts are written to where they
    belong. Of what it takes apart on the way (softmax, transposed convolutions, products of matrices, means, norms) its
    commands then compute with the whole tensor's channels, or write all parts to the first one's place. An average
    of one element is a copy that it makes.
    """
    graph, varies = program.graph, varying(program)
    for node in list(graph.nodes):
        if node not in varies or not _is_part(node) or not node.meta["val"].is_floating_point():
            continue
        readers = [user for user in node.users if user.op == "call_function" and user.target not in _READ_PARTS]
        if not readers:
            continue
        copy = _copy(graph, node)
        for reader in readers:
            reader.replace_input_with(node, copy)
    program.graph_module.recompile()


def _copy_functions(program: ExportedProgram) -> None:
    """Lets results of functions that become a part of a tensor be tensors of their own, in place.

    Vela 5.2 lets the function write the part. On Ethos-U55 and U65 it then makes a function of single elements the last
    step of a transposition in front of it, which it takes apart, and the part's place is lost; so it is with what it
    makes of several operations (softmax, maxima, products with broadcasts or of matrices).
    """
    graph, varies = program.graph, varying(program)
    sources = dict.fromkeys(source for node in graph.nodes if _writes_parts(node) for source in _sources(node))
    for source in sources:
        if source not in varies or _writes_well(source) or not source.meta["val"].is_floating_point():
            continue
        users = [user for user in source.users if user.op == "call_function"]
        copy = _copy(graph, source)
        for user in users:
            user.replace_input_with(source, copy)
    program.graph_module.recompile()


def _writes_parts(node: Node) -> bool:
    """Whether its operands are written to parts of a tensor; a pooling's are, if it counts its padding."""
    if node.op != "call_function":
        return False
    if node.target not in (_aten.avg_pool1d.default, _aten.avg_pool2d.default):
        return node.target in _WRITERS
    padding, counts_padding = node.args[3:4], node.args[5:6] or (True,)
    return any(tree_leaves(padding)) and all(counts_padding)


def _sources(node: Node) -> Iterator[Node]:
    """What computes a node's operands, without what only moves elements."""
    for source in node.all_input_nodes:
        while source.op == "call_function" and source.target in _MOVES:
            source = source.all_input_nodes[0]
        yield source


def _writes_well(node: Node) -> bool:
    """Whether Vela's commands for it are right if it writes to a part of a tensor, or it is copied anyway."""
    if node.op != "call_function" or node.target in _LAYERS or _is_part(node):
        return True
    if node.target not in _ACTIVATIONS:
        return False
    (layer,) = node.all_input_nodes
    return layer.target in _LAYERS and len(layer.users) == 1


def _copy(graph: Graph, node: Node) -> Node:
    """The same tensor, an average of single elements."""
    shape = list(node.meta["val"].shape)
    if len(shape) == 4 and shape[0] == 1:
        return _call_after(graph, node, _aten.avg_pool2d.default, [1, 1])
    rows, size = math.prod(shape[:-1]), shape[-1] if shape else 1
    # Of one row the elements are channels, which the NPU has next to each other, and Vela 5.2 too: of an image of one
    # channel that is a part of a tensor it reads beyond the end on U85.
    image = _call_after(graph, node, _aten.reshape.default, [1, size, 1, 1] if rows == 1 else [1, 1, rows, size])
    return _call_after(graph, _call_after(graph, image, _aten.avg_pool2d.default, [1, 1]), _aten.reshape.default, shape)


def _call_after(graph: Graph, node: Node, target: OpOverload, argument: list[int]) -> Node:
    with graph.inserting_after(node):
        call = graph.call_function(target, (node, argument))
    call.meta = dict(node.meta) | {"val": target(node.meta["val"], argument)}
    return call


def _is_part(node: Node) -> bool:
    """Whether it is a part of a tensor, or has parts that are tensors."""
    if node.target is operator.getitem:
        return node.args[0].target in _SPLITS
    return node.target in _PARTS


def delegate(
    program: ExportedProgram, npu: Npu, path: Path, samples: list[Sample], finish: Callable[[Lowered], _Finished]
) -> _Finished:
    """Lowers a quantized program, with the subgraphs that the NPU can compute as delegates.

    What of them ExecuTorch's passes, Vela or the TOSA reference model refuse, and what Vela compiles wrong, is left to
    the core, place by place.

    Args:
      samples: inputs in floating point, on which Vela's commands are looked into where they are wrong.
      finish: makes of a lowered program what is returned, and raises WrongCommandsError for commands that are wrong;
        it is called again then.
    """
    lower_recurrent(program)
    with_tables = write_tables(program)
    if with_tables is not None:
        # No runtime has the operator; the functions' own it has.
        with contextlib.suppress(_TableOnCore):
            return _delegate(with_tables, npu, path, samples, finish)
    return _delegate(program, npu, path, samples, finish)


class _TableOnCore(Exception):
    """A table of the NPU was left to the core."""


def _delegate(
    program: ExportedProgram, npu: Npu, path: Path, samples: list[Sample], finish: Callable[[Lowered], _Finished]
) -> _Finished:
    """Lowers a quantized program, and leaves to the core what ExecuTorch's partitioner takes and nobody can lower.

    Raises _TableOnCore if the core would have to compute a table.
    """
    refused: dict[str, str] = {}

    def lowered(more: Iterable[str] = ()) -> Lowered:
        return _lower(program, npu, path, {**refused, **dict.fromkeys(more, "")})

    def compared(more: Iterable[str]) -> None:
        found = lowered(more)
        edge, comparison = found.manager.exported_program(), Comparison(found.compiled, npu, path)
        with _naming_wrong(found.compiled):
            delegates.run(edge, found.compiled, samples, comparison)

    for count in itertools.count(1):
        attempt: Callable[[list[str]], object] = lowered
        try:
            found = lowered()
            if any(operator == TABLE for operator, _, _ in found.rejected):
                raise _TableOnCore
            attempt = compared
            with _naming_wrong(found.compiled):
                return finish(found)
        except _LoweringError as error:
            # Where more than a few places can't be lowered, each costs several attempts.
            places = error.places if count > _LARGEST_SEARCH else [_first_refused(error.places, attempt)]
            # Else it would go on for ever.
            if refused.keys() >= set(places):
                raise error.__cause__ or error from None
            refused |= dict.fromkeys(places, error.reason)
    raise AssertionError


def _first_refused(places: list[str], attempt: Callable[[list[str]], object]) -> str:
    """The first place of a subgraph that can't be lowered, up to which it can't be.

    Args:
      places: the subgraph's.
      attempt: lowers the program without some of them, and raises _LoweringError for a subgraph that can't be.
    """
    good, bad = 0, len(places)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            attempt(places[middle:])
        except _LoweringError as error:
            # Others have their turn later.
            is_bad = not set(places).isdisjoint(error.places)
        else:
            is_bad = False
        good, bad = (good, middle) if is_bad else (middle, bad)
    return places[bad - 1]


@contextlib.contextmanager
def _naming_wrong(compiled: Sequence[vela.Compiled]) -> Iterator[None]:
    """Raises _LoweringError for a subgraph whose commands are found to be wrong."""
    try:
        yield
    except WrongCommandsError as error:
        places = list(compiled[error.index].places)
        if not places:
            raise
        raise _LoweringError(places, error.reason) from error


def _lower(program: ExportedProgram, npu: Npu, path: Path, refused: Mapping[str, str]) -> Lowered:
    """Lowers a quantized program, with the subgraphs that the NPU can compute as delegates.

    Args:
      refused: places in the model that are left to the core, as `origin` has them, and why.

    Raises _LoweringError for a subgraph that can't be lowered.
    """
    with (
        delegates.rejections(path) as rejected,
        delegates.shared_history(),
        vela.compiling(npu) as compiled,
        tables_before_pools(),
        upsampling_of_sizes(),
        convolutions_to_16_bits(),
        moved_constants(),
        tables_of_functions(),
        _repeating(),
        _checking(),
        _naming_places(npu, path, compiled),
    ):
        manager = to_edge_transform_and_lower(
            program,
            partitioner=[EthosUPartitioner(vela.compile_spec(npu), [_IsNotRefused(refused, path)])],
            compile_config=_edge_config(),
        )
    named = [
        (operator, place, refused[place] if reason.endswith(_IsNotRefused.__name__) else reason)
        for operator, place, reason in rejected
    ]
    return Lowered(manager, compiled, named)


class _LoweringError(Exception):
    """A subgraph that ExecuTorch's partitioner took can't be lowered.

    Attributes:
      places: where in the model it comes from, in the order of its operators.
      reason: why, in a line.
    """

    def __init__(self, places: list[str], reason: str) -> None:
        super().__init__(reason)
        self.places = places
        self.reason = reason


class _IsNotRefused(OperatorSupportBase):
    """Leaves places in the model to the core."""

    def __init__(self, refused: Mapping[str, str], path: Path) -> None:
        self._refused = refused
        self._path = path

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        # What quantizes for the layers beside a place may be from there, too.
        return node.target in (*Q_OPS, *DQ_OPS) or origin(node, self._path) not in self._refused


@contextlib.contextmanager
def _naming_places(npu: Npu, path: Path, compiled: list[vela.Compiled]) -> Iterator[None]:
    """Lets the backend say of what is compiled where it is from, and raise _LoweringError for what can't be."""
    original = EthosUBackend.preprocess

    def preprocess(program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        computed = [node for node in nodes if node.target not in (*Q_OPS, *DQ_OPS)]
        places = list(dict.fromkeys(origin(node, path) for node in computed))
        try:
            result = original(program, specs)
        # Its passes raise what they happen to meet, as Vela does.
        except Exception as error:
            raise _LoweringError(places, _why(error, npu)) from error
        compiled[-1] = replace(compiled[-1], places=tuple(places))
        return result

    with replaced(EthosUBackend, "preprocess", staticmethod(preprocess)):
        yield


def _why(error: Exception, npu: Npu) -> str:
    """Why a subgraph can't be lowered, in a line."""
    cause = _root(error)
    # Behind an empty line torch's graph begins.
    text = " ".join(str(cause).split("\n\n")[0].split()).rstrip(".") or type(cause).__name__
    if isinstance(error, vela.VelaError):
        who = f"Vela can't compile it for {npu.accelerator}"
    elif isinstance(error, vela.UncheckedError):
        who = "the TOSA reference model, which the NPU's results are held to, can't compute it"
    else:
        who = f"ExecuTorch takes it for {npu.accelerator} and can't lower it then"
    return f"{who}: {text}"


@contextlib.contextmanager
def _repeating() -> Iterator[None]:
    """Lets Ethos-U55 and U65 repeat pixels, as far as Vela 5.2 can; ExecuTorch leaves all resampling to the core."""
    original = EthosU55NotSupported.is_node_supported

    def is_node_supported(self: EthosU55NotSupported, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        return _repeats_pixels(node) or original(self, submodules, node)

    with replaced(EthosU55NotSupported, "is_node_supported", is_node_supported):
        yield


@contextlib.contextmanager
def _checking() -> Iterator[None]:
    """Leaves to the core what ExecuTorch's checks for the NPU don't expect, such as an image without a batch."""
    original = SupportedTOSAOperatorCheck.is_node_supported

    def is_node_supported(
        self: SupportedTOSAOperatorCheck, submodules: Mapping[str, torch.nn.Module], node: Node
    ) -> bool:
        try:
            return original(self, submodules, node)
        except Exception as error:
            reason = f"ExecuTorch's check of it ended with {type(error).__name__}: {error}"
            self.reporter.report_reject(node, reason.split("\n")[0])
            return False

    with replaced(SupportedTOSAOperatorCheck, "is_node_supported", is_node_supported):
        yield


def _repeats_pixels(node: Node) -> bool:
    """Whether Vela lets Ethos-U55 and U65 read each pixel, or the only one there is, several times for it."""
    if node.target != exir_ops.edge.aten.upsample_nearest2d.vec:
        return False
    shape, results = node.args[0].meta["val"].shape, node.meta["val"].shape[2:]
    return _has_repetition(shape, [result / size for result, size in zip(results, shape[2:], strict=True)])


def _root(error: BaseException) -> BaseException:
    """What an exception was raised from first."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def use_core(lowered: Lowered, core: str, sample: Sample, path: Path) -> Lowered:
    """Lets the core's int8 operators compute what is quantized and stays beside the delegates.

    Args:
      lowered: a program of int8 activations; it is left alone.
      core: `cortex-m55` or such.
      sample: inputs in floating point, on which both programs are run and compared.

    Raises NoInt8Form if these operators can't express it.
    """
    edge = lowered.manager.exported_program()
    in_int8 = to_int8(edge, core, path)
    if lowered.rejected:
        try:
            after = delegates.run(in_int8, lowered.compiled, [sample])
        except Exception as error:
            raise NoInt8Form([ALL_BUT_LAYERS], f"{type(error).__name__}: {error}".split("\n")[0]) from error
        if not agree(delegates.run(edge, lowered.compiled, [sample])[0], after[0]):
            raise NoInt8Form([ALL_BUT_LAYERS], "with int8 operators it returns something else")
    return replace(lowered, manager=EdgeProgramManager(in_int8, compile_config=_edge_config()))


def _edge_config() -> EdgeCompileConfig:
    return EdgeCompileConfig(
        _check_ir_validity=False, _core_aten_ops_exception_list=[torch.ops.aten.max_pool2d.default]
    )
