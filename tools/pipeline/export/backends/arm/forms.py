"""Rewrites models into forms that ExecuTorch's Arm backends can delegate completely."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from executorch.backends.arm._passes import arm_pass_manager
from executorch.backends.arm._passes import propagate_view_copy_permute_pass as propagation
from executorch.backends.arm._passes.remove_permutes_around_elementwise_tosa_ops import (
    RemovePermutesAroundElementwiseTosaOps,
)
from executorch.backends.arm.operator_support import upsample_support
from executorch.exir.dialects._ops import ops as exir_ops
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from tools.pipeline.export.backends.arm.passes import reordered
from tools.pipeline.export.ir.operators import (
    CLAMPS,
    CONVOLUTIONS_BY_WORD,
    DEQUANTIZATIONS,
    DEQUANTIZE,
    IMAGE_POOLS,
    PADS,
    QUANTIZE,
)
from tools.pipeline.export.ir.properties import has_kernel
from tools.pipeline.export.ir.rewriting import emit, named_arguments, replace_node, rewrites, run_decompositions
from tools.pipeline.export.upstream.gaps import is_open
from tools.pipeline.export.upstream.replaced import replaced

_aten = torch.ops.aten
_RELU6 = (_aten.relu6.default, _aten.relu6_.default)
_BOUNDS = (_aten.clamp_max.default, _aten.clamp_min.default)
_PRELUS = (_aten.prelu.default, _aten._prelu_kernel.default)
# Maps operators that return extreme elements and their indices to the operators that return either.
_EXTREMES = {
    _aten.max.dim: (_aten.amax.default, _aten.argmax.default),
    _aten.min.dim: (_aten.amin.default, _aten.argmin.default),
}
_NEAREST = exir_ops.edge.aten.upsample_nearest2d.vec
_MOVES = (propagation.PropagateViewCopyPermuteUpPass, propagation.PropagateViewCopyPermuteDownPass)


def compose_layers(program: ExportedProgram) -> ExportedProgram:
    """Decomposes layers into operators that ExecuTorch's quantizers support.

    These are recurrent networks and cells, RMS and instance normalization, shuffled channels, rolled dimensions,
    windows of a dimension and differences along it, and functions of softplus.
    """
    called = {node.target for node in program.graph.nodes if node.op == "call_function"}
    if not called & _COMPOSED.keys():
        return program
    # Decomposed operators may return other strides, of which not each view is one.
    for node in program.graph.find_nodes(op="call_function", target=_aten.view.default):
        node.target = _aten.reshape.default
    return run_decompositions(program, dict(_COMPOSED))


@rewrites(*CONVOLUTIONS_BY_WORD, *PADS)
def pad_outside(node: Node) -> Node | None:
    """Moves `same` padding out of convolutions, and replaces negative padding by slices, in place."""
    if node.target in CONVOLUTIONS_BY_WORD:
        return _pad_outside(node)
    return _pad_and_cut(node) if named_arguments(node).get("mode", "constant") == "constant" else None


def part_extremes(program: ExportedProgram) -> None:
    """Computes extreme elements and their indices separately, in place: ExecuTorch's quantizers don't support indices.

    Both forms return the first of equal elements.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.target not in _EXTREMES:
            continue
        given = named_arguments(node)
        for user in list(node.users):
            with graph.inserting_before(node):
                target = _EXTREMES[node.target][user.args[1]]
                part = emit(node, target, given["self"], given["dim"], given["keepdim"])
            replace_node(program, user, part)
            graph.erase_node(user)
        graph.erase_node(node)


def write_strides(program: ExportedProgram) -> None:
    """Writes the default stride of poolings, the kernel's size, in place: ExecuTorch's checks require it."""
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target in IMAGE_POOLS and not any(node.args[2:3]):
            node.args = (*node.args[:2], node.args[1], *node.args[3:])
    program.graph_module.recompile()


def _pad_outside(node: Node) -> Node:
    """Replaces named padding of a convolution by numbers, and by an operator before it if numbers can't express it.

    ExecuTorch would decompose it after quantization, and the new operator inside the layer would not be quantized.
    """
    given = named_arguments(node)
    source, kernel = given["input"], given["weight"].meta["val"].shape[2:]
    padding = [0] * len(kernel)
    if given["padding"] == "same":
        dilation = given["dilation"] * (len(kernel) if len(given["dilation"]) == 1 else 1)
        totals = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
        padding = [total // 2 for total in totals]
        more = [value for total in reversed(totals) for value in (0, total % 2)]
        if any(more):
            source = emit(node, _aten.constant_pad_nd.default, source, more, 0.0)
    target = _aten.conv1d.default if len(kernel) == 1 else _aten.conv2d.default
    rest = (given["stride"], padding, given["dilation"], given["groups"])
    return emit(node, target, source, given["weight"], given["bias"], *rest)


def _pad_and_cut(node: Node) -> Node:
    """Replaces constant padding with negative amounts by slices and nonnegative padding.

    ExecuTorch leaves negative padding to the core, as an operator that no runtime has.
    """
    given = named_arguments(node)
    result, value, sides = given["self"], given["value"] or 0.0, list(given["pad"])
    dims = result.meta["val"].dim()
    for axis, (before, after) in enumerate(zip(sides[::2], sides[1::2], strict=True)):
        if before < 0 or after < 0:
            dim = dims - 1 - axis
            end = result.meta["val"].shape[dim] + min(after, 0)
            result = emit(node, _aten.slice.Tensor, result, dim, max(-before, 0), end)
    added = [max(size, 0) for size in sides]
    return emit(node, _aten.constant_pad_nd.default, result, added, value) if any(added) else result


def _gru_cell(
    x: Tensor, state: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor | None = None, b_h: Tensor | None = None
) -> Tensor:
    from_x, from_state, size = F.linear(x, w_x, b_x), F.linear(state, w_h, b_h), state.shape[-1]
    both = [part.narrow(-1, 0, 2 * size) for part in (from_x, from_state)]
    reset, update = torch.sigmoid(both[0] + both[1]).split(size, -1)
    new = torch.tanh(from_x.narrow(-1, 2 * size, size) + reset * from_state.narrow(-1, 2 * size, size))
    return new + update * (state - new)


def _lstm_cell(
    x: Tensor, states: Sequence[Tensor], w_x: Tensor, w_h: Tensor, b_x: Tensor | None = None, b_h: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    state, cell = states
    gates = F.linear(x, w_x, b_x) + F.linear(state, w_h, b_h)
    into, forget, new, out = gates.split(cell.shape[-1], -1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(into) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(cell), cell


def _lstm_step(x: Tensor, states: Sequence[Tensor], w_x: Tensor, w_h: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
    """Computes a step of an LSTM, whose last parameter is a projection if there is an odd number of them."""
    even = len(others) // 2 * 2
    state, cell = _lstm_cell(x, states, w_x, w_h, *others[:even])
    return F.linear(state, *others[even:]) if others[even:] else state, cell


def _rnn_cell(function: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def decomposition(
        x: Tensor, state: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor | None = None, b_h: Tensor | None = None
    ) -> Tensor:
        return function(F.linear(x, w_x, b_x) + F.linear(state, w_h, b_h))

    return decomposition


def _rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    least = torch.finfo(x.dtype).eps if eps is None else eps
    axes = list(range(-len(shape), 0))
    result = x * torch.rsqrt((x * x).mean(axes, True) + least)
    return result if weight is None else result * weight


def _instance_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    if not use_input_stats:
        return NotImplemented
    # Instance normalization has one channel per group.
    return F.group_norm(x, x.shape[1], weight, bias, eps)


def _softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Computes log(1 + exp(x)) with exp() of nonpositive numbers only, whose range fits integers."""
    scaled = x if beta == 1 else x * beta
    result = torch.relu(scaled) + torch.log1p(torch.exp(-torch.abs(scaled)))
    return result if beta == 1 else result * (1 / beta)


def _roll(x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    """Concatenates both parts in exchanged order."""
    if not dims:
        return _roll(x.reshape(-1), shifts, [0]).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        moved = shift % size if size else 0
        if moved:
            x = torch.cat([x.narrow(dim, size - moved, moved), x.narrow(dim, 0, size - moved)], dim)
    return x


def _unfold(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Returns windows of a dimension, each as a slice of the tensor."""
    count = x.shape[dimension] - size + 1
    if count > _MOST_WINDOWS * step:
        return NotImplemented
    windows = [x.narrow(dimension, start, size).movedim(dimension, -1) for start in range(0, count, step)]
    # The windows replace the dimension, and their elements are the last one.
    return torch.stack(windows, dimension % x.dim())


def _diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    parts = [part for part in (prepend, x, append) if part is not None]
    result = torch.cat(parts, dim) if len(parts) > 1 else x
    for _ in range(n):
        size = result.shape[dim] - 1
        result = result.narrow(dim, 1, size) - result.narrow(dim, 0, size)
    return result


def _clamp(x: Tensor, least: Tensor | None = None, most: Tensor | None = None) -> Tensor:
    """Bounds by tensors, each of which has a scale of its own; ExecuTorch parts the operator after its quantization."""
    x = x if least is None else torch.maximum(x, least)
    return x if most is None else torch.minimum(x, most)


def _channel_shuffle(x: Tensor, groups: int) -> Tensor:
    parts = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    return parts.transpose(1, 2).reshape(x.shape)


def _sequence(
    step: Callable[..., tuple[Tensor, ...]],
    x: Tensor,
    states: Sequence[Tensor],
    parameters: Sequence[Tensor],
    _has_biases: bool,
    layers: int,
    _dropout: float,
    _train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """Unrolls a recurrent network, whose arguments follow `step`; returns the output and each final state, for all
    layers.
    """
    directions, time = 1 + bidirectional, int(batch_first)
    count = len(parameters) // (layers * directions)
    finals: list[list[Tensor]] = [[] for _ in states]
    for layer in range(layers):
        outs = []
        for direction in range(directions):
            place = layer * directions + direction
            own = parameters[place * count : (place + 1) * count]
            current = tuple(state.select(0, place) for state in states)
            steps = []
            for part in reversed(x.unbind(time)) if direction else x.unbind(time):
                current = step(part, current, *own)
                steps.append(current[0])
            outs.append(torch.stack(steps[::-1] if direction else steps, time))
            for final, state in zip(finals, current, strict=True):
                final.append(state)
        x = outs[0] if directions == 1 else torch.cat(outs, -1)
    return x, *(torch.stack(final) for final in finals)


def _of_one_state(cell: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, ...]]:
    """Adapts a network of cells with one state, which it takes alone, to the interface of an LSTM."""

    def step(x: Tensor, states: Sequence[Tensor], *parameters: Tensor) -> tuple[Tensor, ...]:
        return (cell(x, states[0], *parameters),)

    return lambda x, state, *given: _sequence(step, x, [state], *given)


def _filled(x: Tensor, shape: Sequence[int], value: float, dtype: torch.dtype | None) -> Tensor:
    """Returns a constant tensor, which doesn't depend on the input's elements."""
    return torch.full(list(shape), value, dtype=x.dtype if dtype is None else dtype)


def _log_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """Takes the logarithm of the sum alone. ExecuTorch takes that of softmax, which loses all of less than 1/256."""
    x = x if dtype is None else x.to(dtype)
    # Without dimensions there is nothing to sum.
    if not x.dim():
        return torch.zeros_like(x)
    rest = x - x.amax(dim, keepdim=True)
    return rest - rest.exp().sum(dim, keepdim=True).log()


# Maps operators that ExecuTorch's quantizers don't support to equivalent functions of those that they do.
_COMPOSED: dict[Any, Callable[..., Any]] = {
    _aten.addcmul.default: lambda x, first, second, *, value=1: x + (first if value == 1 else first * value) * second,
    _aten.channel_shuffle.default: _channel_shuffle,
    _aten.clamp.Tensor: _clamp,
    _aten.clamp_max.Tensor: torch.minimum,
    _aten.clamp_min.Tensor: torch.maximum,
    _aten.clip.Tensor: _clamp,
    # ExecuTorch would replace detach by a copy that no quantizer supports.
    _aten.detach.default: lambda x: x.reshape(x.shape),
    _aten.diff.default: _diff,
    _aten.expand_as.default: lambda x, other: x.expand(other.shape),
    _aten.full_like.default: lambda x, value, *, dtype=None, **_: _filled(x, x.shape, value, dtype),
    _aten.gru.input: _of_one_state(_gru_cell),
    _aten.gru_cell.default: _gru_cell,
    _aten.hstack.default: lambda parts: torch.cat(parts, 0 if parts[0].dim() == 1 else 1),
    _aten.instance_norm.default: _instance_norm,
    _aten.lerp.Scalar: lambda x, end, weight: x + (end - x) * weight,
    _aten.lerp.Tensor: lambda x, end, weight: x + (end - x) * weight,
    _aten.log_sigmoid.default: lambda x: -_softplus(-x),
    _aten.log_softmax.int: _log_softmax,
    _aten.lstm.input: functools.partial(_sequence, _lstm_step),
    _aten.lstm_cell.default: _lstm_cell,
    _aten.mT.default: lambda x: x.transpose(-2, -1),
    _aten.mish.default: lambda x: x * torch.tanh(_softplus(x)),
    _aten.new_full.default: lambda x, shape, value, *, dtype=None, **_: _filled(x, shape, value, dtype),
    _aten.new_ones.default: lambda x, shape, *, dtype=None, **_: _filled(x, shape, 1, dtype),
    _aten.new_zeros.default: lambda x, shape, *, dtype=None, **_: _filled(x, shape, 0, dtype),
    _aten.numpy_T.default: lambda x: x.permute(list(range(x.dim()))[::-1]),
    _aten.ones_like.default: lambda x, *, dtype=None, **_: _filled(x, x.shape, 1, dtype),
    _aten.rms_norm.default: _rms_norm,
    _aten.rnn_relu.input: _of_one_state(_rnn_cell(torch.relu)),
    _aten.rnn_relu_cell.default: _rnn_cell(torch.relu),
    _aten.rnn_tanh.input: _of_one_state(_rnn_cell(torch.tanh)),
    _aten.rnn_tanh_cell.default: _rnn_cell(torch.tanh),
    _aten.roll.default: _roll,
    _aten.softplus.default: _softplus,
    _aten.square.default: lambda x: x * x,
    _aten.std.correction: lambda x, dim=None, *, correction=1, keepdim=False: torch.var(
        x, dim, correction=correction, keepdim=keepdim
    ).sqrt(),
    _aten.std.dim: lambda x, dim, unbiased=True, keepdim=False: torch.var(x, dim, unbiased, keepdim).sqrt(),
    _aten.swapaxes.default: torch.transpose,
    _aten.swapdims.default: torch.transpose,
    _aten.unfold.default: _unfold,
    _aten.vstack.default: lambda parts: torch.cat([torch.atleast_2d(part) for part in parts]),
    _aten.zeros_like.default: lambda x, *, dtype=None, **_: _filled(x, x.shape, 0, dtype),
}


# Layers that the core has operators for, if they have no projections.
_WHOLE = (_aten.gru.input, _aten.lstm.input)
_RECURRENT = (_aten.gru.input, _aten.lstm.input, _aten.rnn_relu.input, _aten.rnn_tanh.input)


# The largest number of windows that are written as slices.
_MOST_WINDOWS = 64

# The largest total number of steps for which a program's recurrent layers are unrolled.
MOST_STEPS = 24


def layers_of_many_steps(program: ExportedProgram) -> list[Node]:
    """Lists the LSTM and GRU layers that have too many steps to be unrolled after the preceding ones."""
    left, found = MOST_STEPS, []
    for node, steps in recurrent_steps(program):
        if node.target in _WHOLE and steps > left and has_kernel(node):
            found.append(node)
        else:
            left -= steps
    return found


def recurrent_steps(program: ExportedProgram) -> Iterator[tuple[Node, int]]:
    """Yields the recurrent layers that `compose_layers` unrolls, with their number of steps."""
    for node in program.graph.nodes:
        if node.target in _RECURRENT:
            given = named_arguments(node)
            length = given["input"].meta["val"].shape[int(given["batch_first"])]
            yield node, length * given["num_layers"] * (1 + given["bidirectional"])


def write_activations(program: ExportedProgram) -> None:
    """Writes activations and bounds that ExecuTorch's quantizers don't support with operators that they do, in place.

    PReLU is max(x, weight * x) if no weight is above 1, and max(x, 0) + weight * min(x, 0) otherwise.
    """
    graph = program.graph
    constants = {**program.graph_signature.inputs_to_parameters, **program.graph_signature.inputs_to_buffers}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in _RELU6:
            node.target, node.args = _aten.hardtanh.default, (node.args[0], 0.0, 6.0)
        if node.target in _BOUNDS:
            bounds = (None, node.args[1]) if node.target == _aten.clamp_max.default else (node.args[1], None)
            node.target, node.args = _aten.clamp.default, (node.args[0], *bounds)
        if node.target == _aten.neg.default and node.meta["val"].is_floating_point():
            # ExecuTorch quantizes a negation in a way that a following maximum reads at half the value.
            node.target, node.args = _aten.mul.Tensor, (node.args[0], -1.0)
        if node.target not in _PRELUS:
            continue
        source, weight = node.args
        values = program.state_dict.get(constants.get(weight.name, ""))
        with graph.inserting_before(node):
            # A weight per channel; channels are the second dimension.
            count, dims = weight.meta["val"].numel(), source.meta["val"].dim()
            if weight.meta["val"].dim() != dims:
                shape = [count if axis == 1 else 1 for axis in range(dims)]
                weight = emit(node, _aten.reshape.default, weight, shape)
            if values is not None and float(values.detach().max()) <= 1:
                result = emit(node, _aten.maximum.default, source, emit(node, _aten.mul.Tensor, source, weight))
            else:
                below = emit(node, _aten.clamp.default, source, None, 0.0)
                scaled = emit(node, _aten.mul.Tensor, below, weight)
                result = emit(node, _aten.add.Tensor, emit(node, _aten.relu.default, source), scaled)
        replace_node(program, node, result)
        graph.erase_node(node)
    program.graph_module.recompile()


def part_activations(module: GraphModule) -> None:
    """Quantizes between a layer and its activation if the result's zero point is not the least integer, in place.

    Only with that zero point does ExecuTorch fuse both; otherwise it leaves both to the core. For example, the
    concatenation of a ReLU with negative numbers gives the ReLU the joint scale and zero point. The result is the same:
    the bounds of the layer's integers are those of its quantization anyway.
    """
    graph = module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in CLAMPS:
            continue
        source, readers = node.args[0], list(node.users)
        if not readers or any(reader.target != QUANTIZE for reader in readers):
            continue
        parameters = readers[0].args[1:]
        zero_point, least = parameters[1], parameters[2]
        if zero_point == least or not any(operand.target in DEQUANTIZATIONS for operand in source.all_input_nodes):
            continue
        with graph.inserting_before(node):
            quantized = graph.call_function(QUANTIZE, (source, *parameters))
            restored = graph.call_function(DEQUANTIZE, (quantized, *parameters))
        for each in (quantized, restored):
            each.meta = dict(node.meta)
        node.replace_input_with(source, restored)
    module.recompile()


def tables_before_pools() -> contextlib.AbstractContextManager[None]:
    """Makes ExecuTorch's passes insert tables of functions before they rewrite average poolings.

    In the original order, a pooling after a function with floating-point results (tanh, sigmoid, exp) is refused,
    because the table that returns integers doesn't exist yet.
    """
    pools = (arm_pass_manager.RewriteAdaptiveAvgPool2dPass, arm_pass_manager.RewriteAvgPool2dPass)

    def tables_first(passes: Sequence[Any]) -> list[Any]:
        tables = [each for each in passes if isinstance(each, arm_pass_manager.InsertTableOpsPass)]
        ordered = [each for each in passes if each not in tables]
        index = min((index for index, each in enumerate(ordered) if isinstance(each, pools)), default=len(ordered))
        return [*ordered[:index], *tables, *ordered[index:]]

    return reordered(tables_first)


@contextlib.contextmanager
def upsampling_of_sizes() -> Iterator[None]:
    """Leaves resampling to the core if PyTorch and ExecuTorch's passes read different pixels.

    The passes only look at sizes, whereas PyTorch uses a given factor although the result's size is rounded down. And
    they take the pixel nearest to the center of each result, whereas PyTorch rounds down. Both agree if each pixel is
    repeated equally often.
    """
    original = upsample_support._is_upsample_node_tosa_supported

    def is_supported(check: Any, node: Node, *args: Any, **options: Any) -> bool:
        sizes, results = node.args[0].meta["val"].shape[2:], node.meta["val"].shape[2:]
        factors = node.args[-1] or [result / size for size, result in zip(sizes, results, strict=True)]
        pairs = list(zip(sizes, results, strict=True))
        reason = None
        if not all(math.isclose(factor * size, result) for factor, (size, result) in zip(factors, pairs, strict=True)):
            reason = f"Factors {list(factors)} are not those of the sizes, {list(sizes)} and {list(results)}."
        elif node.target == _NEAREST and any(result % size for size, result in pairs):
            reason = f"Sizes {list(results)} are no multiples of {list(sizes)}."
        if reason is not None:
            check.reporter.report_reject(node, reason)
        return reason is None and original(check, node, *args, **options)

    with replaced(upsample_support, "_is_upsample_node_tosa_supported", is_supported):
        yield


@contextlib.contextmanager
def convolutions_to_16_bits() -> Iterator[None]:
    """Makes 16-bit convolutions return quantized results to all readers.

    Originally, a convolution that is read in 32 bits, as additions and products do, returns its raw sums, and the
    readers apply the scale of the quantized result to them.
    """
    rewrite = arm_pass_manager.RewriteConvPass
    if not is_open(f"{rewrite.__module__}:{rewrite.__name__}._has_int32_rescale_user"):
        yield
        return
    original = rewrite._has_int32_rescale_user

    def has_int32_rescale_user(self: object, node: Node) -> bool:
        return not node.meta.get("output_qparams") and original(self, node)

    with replaced(rewrite, "_has_int32_rescale_user", has_int32_rescale_user):
        yield


@contextlib.contextmanager
def layouts_of_all_readers() -> Iterator[None]:
    """Lets ExecuTorch's passes move views and permutations only where they know the shapes, and all readers are told.

    As they are, they take a permutation from in front of a view for one of its readers, and others read the other
    layout. They move views behind sums of one dimension, which then are over several of what the view is made of: what
    writes these as TOSA takes the first.
    """
    permute = RemovePermutesAroundElementwiseTosaOps.permute_subgraph

    def permute_subgraph(self: Any, subgraph: Any) -> bool:
        has_all = all(
            user in subgraph.nodes or (node, user) in subgraph.edges_out
            for node in subgraph.nodes
            for user in node.users
        )
        return has_all and permute(self, subgraph)

    def with_one(swap: Callable[[Any, Node, Node], Any]) -> Callable[[Any, Node, Node], Any]:
        def swap_with_one(self: Any, node: Node, next_node: Node) -> Any:
            result = swap(self, node, next_node)
            # Second argument of a sum or of a part: the dimensions, or the one.
            return None if result is not None and len(tree_leaves(result[1][1])) > 1 else result

        return swap_with_one

    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(RemovePermutesAroundElementwiseTosaOps, "permute_subgraph", permute_subgraph))
        for each in _MOVES:
            stack.enter_context(replaced(each, "_maybe_swap_view_args", with_one(each._maybe_swap_view_args)))
        if is_open(f"{propagation.__name__}:PropagateViewCopyPermutePass._propagate"):
            stack.enter_context(_known_shapes())
        yield


@contextlib.contextmanager
def _known_shapes() -> Iterator[None]:
    """Lets ExecuTorch's passes move views and permutations only past nodes whose shapes they know.

    As they are, they go on from nodes that another view was moved past, whose shapes are worked out anew only when all
    are.
    """
    base = propagation.PropagateViewCopyPermutePass
    propagate, retrace = base._propagate, base._retrace
    passed = list[Node]()
    # Nodes beside moved ones, until shapes are worked out anew.
    moved = set[Node]()

    def propagate_once(self: Any, node: Node) -> bool:
        passed[:] = [node]
        has_moved = propagate(self, node)
        if has_moved:
            moved.update(passed)
        return has_moved

    def retrace_all(self: Any, module: GraphModule) -> GraphModule:
        moved.clear()
        return retrace(self, module)

    def passing(can_cross: Callable[[Any, Node, Sequence[Node]], bool]) -> Callable[[Any, Node, Sequence[Node]], bool]:
        def can_pass(self: Any, frontier: Node, next_nodes: Sequence[Node]) -> bool:
            passed.extend(next_nodes)
            beside = {frontier, *next_nodes, *(operand for node in next_nodes for operand in node.all_input_nodes)}
            return moved.isdisjoint(beside) and can_cross(self, frontier, next_nodes)

        return can_pass

    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(base, "_propagate", propagate_once))
        stack.enter_context(replaced(base, "_retrace", retrace_all))
        for each in _MOVES:
            stack.enter_context(replaced(each, "_can_cross_next_nodes", passing(each._can_cross_next_nodes)))
        yield


@rewrites(_aten.avg_pool2d.default)
def round_down(node: Node) -> Node | None:
    """Turns off ceil_mode that adds no window, in place: ExecuTorch counts one that begins in the padding."""
    given = named_arguments(node)
    if not given["ceil_mode"]:
        return None
    rounded = emit(node, node.target, *(given | {"ceil_mode": False}).values())
    return rounded if rounded.meta["val"].shape == node.meta["val"].shape else None


# The index of the operand that has the dtype of the first one, by operator.
_OF_ONE_DTYPE = {
    _aten.index_add.default: 3,
    _aten.index_copy.default: 3,
    _aten.index_put.default: 2,
    _aten.scatter.src: 3,
    _aten.scatter_add.default: 3,
}


@rewrites(*_OF_ONE_DTYPE)
def convert_integers(node: Node) -> Node | None:
    """Makes 64-bit integers 32-bit ones where an operator takes operands of one dtype, in place: ExecuTorch's passes do
    so with some operands, such as constants.
    """
    if node.meta["val"].dtype != torch.int64:
        return None
    args = list(node.args)
    for index in (0, _OF_ONE_DTYPE[node.target]):
        args[index] = emit(node, _aten._to_copy.default, args[index], dtype=torch.int32)
    return emit(node, _aten._to_copy.default, emit(node, node.target, *args, **node.kwargs), dtype=torch.int64)


@rewrites(_aten.conv_transpose2d.input)
def fill_groups(node: Node) -> Node | None:
    """Merges the groups of transposed convolutions into one, filled up with zeros, in place.

    ExecuTorch leaves groups to the core in floating point, which has no int8 form of them either, and refuses a bias,
    which it gives the scales of one group. Vela compresses zeros.
    """
    given = named_arguments(node)
    weight, groups = given["weight"], given["groups"]
    if groups == 1:
        return None
    inputs, outputs = weight.meta["val"].shape[:2]
    size = inputs // groups
    parts = []
    for group in range(groups):
        part = emit(node, _aten.slice.Tensor, weight, 0, group * size, (group + 1) * size)
        sides = [0, 0, 0, 0, group * outputs, (groups - 1 - group) * outputs]
        parts.append(emit(node, _aten.constant_pad_nd.default, part, sides, 0.0))
    given |= {"weight": emit(node, _aten.cat.default, parts, 0), "groups": 1}
    return emit(node, node.target, *given.values())
