"""Rewrites operators that Ethos-U lacks, or that ExecuTorch or Vela compile wrongly, with operators that work.

The restrictions are those of ExecuTorch 1.4.1 and Vela 5.2, for all NPUs, or for Ethos-U55 and U65.
"""

import itertools
import math
import operator
from collections.abc import Iterator, Sequence

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from tools.artifacts.ethos_u.npu import Npu
from tools.pipeline.export.ir.constants import add_constant
from tools.pipeline.export.ir.dim_orders import IMAGE, PIXELS
from tools.pipeline.export.ir.operators import (
    CLAMPS,
    CONVOLUTIONS,
    CONVOLUTIONS_BY_WORD,
    COPIES,
    DROPOUTS,
    EXTREMES,
    IMAGE_POOLS,
    JOINS,
    PADS,
    SIZE_CHANGES,
    SPLITS,
    TRANSPOSITIONS,
)
from tools.pipeline.export.ir.rewriting import as_list, emit, for_each, named_arguments, rewrites
from tools.pipeline.export.ir.signature import varying

_aten = torch.ops.aten
# The largest stride of poolings and convolutions on Ethos-U55 and U65.
_LARGEST_STRIDE = 3
# The largest kernel of padded average poolings there; the core computes larger ones.
_LARGEST_PADDED = 8
# The factors by which they can upsample rows and columns of an image.
_REPETITIONS = frozenset((1, 2, 4, 8))
_NEAREST, _BILINEAR = _aten.upsample_nearest2d.vec, _aten.upsample_bilinear2d.vec
# The memory that an interpolation takes grows with the square of its factor.
_LARGEST_INTERPOLATION = 4
# The largest windows by Vela 5.2's constraints on rows, and by ExecuTorch's check of depthwise columns.
_LONGEST_DEPTHWISE, _LONGEST_MAXIMUM = 64, 256
# The number of elements of an image up to which a transposition, which is one small operation per channel, gains
# little.
_MOST_AVERAGED = 1024
# The largest number of planes of a convolution's result, each of which becomes a two-dimensional convolution.
_MOST_PLANES = 32
_PARTS = JOINS | {_aten.narrow.default, _aten.select.int, _aten.slice.Tensor}
_SPLITS = SPLITS | {
    _aten.chunk.default, _aten.split.sizes, _aten.tensor_split.indices, _aten.tensor_split.sections, _aten.unbind.int,
}  # fmt: skip
# Operators that Vela compiles correctly for slices that are not copied.
_READ_PARTS = CONVOLUTIONS | CONVOLUTIONS_BY_WORD | {_aten.avg_pool2d.default, _aten.cat.default, _aten.linear.default}

# Operators that write their operands to slices of a tensor, and operators that only move elements.
_WRITERS = JOINS | PADS
_MOVES = COPIES | DROPOUTS | SIZE_CHANGES | TRANSPOSITIONS | {_aten.t.default}
# Operators that Vela compiles correctly if they write to a slice: layers, with their activations.
_LAYERS = CONVOLUTIONS | CONVOLUTIONS_BY_WORD | IMAGE_POOLS | {_aten.avg_pool1d.default, _aten.linear.default}
_ACTIVATIONS = CLAMPS - {_aten.clamp.default, _aten.clamp_.default}


def repeats_pixels(node: Node) -> bool:
    """Whether Vela lets Ethos-U55 and U65 implement an upsampling by reading each pixel several times."""
    if node.target != exir_ops.edge.aten.upsample_nearest2d.vec:
        return False
    shape, results = node.args[0].meta["val"].shape, node.meta["val"].shape[2:]
    return _has_repetition(shape, [result / size for result, size in zip(results, shape[2:], strict=True)])


@rewrites(_aten.amin.default)
def write_minima(node: Node) -> Node | None:
    """Computes minima along dimensions as negated maxima of negated values, in place.

    Ethos-U55 and U65 only have maxima, and the commands that Vela 5.2 generates for minima return wrong numbers.
    """
    if not node.meta["val"].is_floating_point():
        return None
    negative = emit(node, _aten.mul.Tensor, node.args[0], -1.0)
    least = emit(node, _aten.amax.default, negative, *node.args[1:])
    return emit(node, _aten.mul.Tensor, least, -1.0)


@rewrites(_aten.sign.default)
def write_signs(node: Node, program: ExportedProgram) -> Node | None:
    """Selects signs by comparisons, in place.

    ExecuTorch adds one to zero and negates the sum, which in int8 is not always the one that a model compares with.
    """
    if not node.meta["val"].is_floating_point():
        return None
    zero, one, less = (
        add_constant(program, f"{node.name}_{name}", torch.tensor(number))
        for name, number in (("zero", 0.0), ("one", 1.0), ("less", -1.0))
    )
    below = emit(node, _aten.where.self, emit(node, _aten.lt.Tensor, node.args[0], zero), less, zero)
    return emit(node, _aten.where.self, emit(node, _aten.gt.Tensor, node.args[0], zero), one, below)


@rewrites(_aten.amax.default, _aten.mean.dim)
def reduce_images(node: Node, program: ExportedProgram, npu: Npu) -> Node | None:
    """Computes means of images as layers with equal weights, and maxima as poolings, in place.

    ExecuTorch sums rows and columns one after the other, for which Vela transposes all elements each time, and a
    pooling would return averages in the scale of the image, of whose range they use a small part. A depthwise layer as
    large as the image needs no transposition. For larger images it takes more cycles on Ethos-U55 and U65 than a layer
    whose channels are the pixels, which needs a single transposition.
    """
    if not node.meta["val"].is_floating_point():
        return None
    image, dims = node.args[0], named_arguments(node)["dim"]
    if image.meta["val"].dim() != 4 or {dim % 4 for dim in as_list(dims or [])} != {2, 3}:
        return None
    batch, channels, height, width = image.meta["val"].shape
    pixels, is_mean = height * width, node.target == _aten.mean.dim
    sides = _sides(height, width, _LONGEST_DEPTHWISE if is_mean else _LONGEST_MAXIMUM)
    is_large = is_mean and npu.product != "u85" and (sides is None or pixels * channels > _MOST_AVERAGED)
    if batch != 1 or pixels == 1 or (sides is None and not is_large):
        return None
    if sides is None or is_large:
        rows = emit(node, _aten.reshape.default, image, [1, channels, pixels])
        weight = add_constant(program, f"{node.name}_weight", torch.full((1, pixels), 1 / pixels))
        result = emit(node, _aten.linear.default, rows, weight)
    else:
        if sides != (height, width):
            image = emit(node, _aten.reshape.default, image, [1, channels, *sides])
        if is_mean:
            share = torch.full((channels, 1, *sides), 1 / pixels)
            weight = add_constant(program, f"{node.name}_weight", share)
            options = ([1, 1], [0, 0], [1, 1], channels)
            result = emit(node, _aten.conv2d.default, image, weight, None, *options)
        else:
            result = emit(node, _aten.max_pool2d.default, image, [*sides], [1, 1])
    if result.meta["val"].shape != node.meta["val"].shape:
        result = emit(node, _aten.reshape.default, result, list(node.meta["val"].shape))
    return result


def _sides(height: int, width: int, longest: int) -> tuple[int, int] | None:
    """Returns the sides of an image with the same number of pixels, its own if they are short enough; None if there are
    none.
    """
    if max(height, width) <= longest:
        return height, width
    pixels = height * width
    for each in range(longest, 0, -1):
        if pixels % each == 0 and pixels // each <= longest:
            return pixels // each, each
    return None


def reduce_strides(program: ExportedProgram) -> None:
    """Gives poolings with a single window the stride 1, in place: the NPU's stride is at most 3."""
    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in IMAGE_POOLS or tuple(node.meta["val"].shape[-2:]) != (1, 1):
            continue
        source, kernel, *rest = node.args
        kernel = [kernel] * 2 if isinstance(kernel, int) else list(kernel)
        if any(padding for padding in tree_leaves(rest[1:2])):
            continue
        # Crops the rows and columns after the window, which the stride would have skipped.
        with graph.inserting_before(node):
            for axis, size in ((-2, kernel[0]), (-1, kernel[-1])):
                if source.meta["val"].shape[axis] > size:
                    value = source.meta["val"].narrow(axis, 0, size)
                    source = graph.call_function(torch.ops.aten.slice.Tensor, (source, axis % value.dim(), 0, size))
                    source.meta = dict(node.meta) | {"val": value}
        node.args = (source, kernel, [1, 1], *rest[1:])


@rewrites(_aten.max_pool2d.default)
def pool_in_steps(node: Node) -> Node | None:
    """Splits a max pooling with adjacent windows larger than the NPU's stride into several, in place.

    Averages of averages would be rounded at each stage, and halves always in the same direction.
    """
    given = named_arguments(node)
    kernel, stride = (_pair(given[name]) for name in ("kernel_size", "stride"))
    is_plain = not any(tree_leaves(given["padding"])) and set(tree_leaves(given["dilation"])) == {1}
    if max(stride) <= _LARGEST_STRIDE or not is_plain or given["ceil_mode"]:
        return None
    factors = [_factors(*sizes) for sizes in zip(kernel, stride, strict=True)]
    if not all(factors):
        return None
    result = node.args[0]
    for step in itertools.zip_longest(*factors, fillvalue=(1, 1)):
        result = emit(node, node.target, result, *([size[i] for size in step] for i in range(2)))
    return result


@rewrites(*IMAGE_POOLS)
def choose_windows(node: Node, npu: Npu) -> Node | None:
    """Replaces poolings with a larger stride than the NPU's by a finer pooling and a selection of its windows, in
    place.

    ExecuTorch leaves them to the core for Ethos-U55 and U65. For U85, Vela 5.2 generates an operation for each element
    of the windows, and returns wrong numbers if the image is padded.
    """
    given = named_arguments(node)
    stride = _pair(given["stride"])
    if max(stride) <= _LARGEST_STRIDE:
        return None
    is_padded = any(tree_leaves(given["padding"]))
    if npu.product == "u85" and not is_padded:
        return None
    is_average = node.target == _aten.avg_pool2d.default
    if npu.product != "u85" and is_average and is_padded and max(given["kernel_size"]) > _LARGEST_PADDED:
        return None
    finer = _finer(stride)
    result = emit(node, node.target, *(given | {"stride": finer}).values())
    result = _choose(node, result, stride, finer)
    # With ceil_mode, the last window may begin between those of the finer pooling.
    return result if result.meta["val"].shape == node.meta["val"].shape else None


def _finer(stride: Sequence[int]) -> list[int]:
    """Returns the largest supported strides that divide the given ones."""
    return [next(size for size in range(_LARGEST_STRIDE, 0, -1) if each % size == 0) for each in stride]


def _choose(origin: Node, result: Node, stride: Sequence[int], finer: Sequence[int]) -> Node:
    """Selects the elements of a layer's result with its own strides from the result with finer strides."""
    sizes = origin.meta["val"].shape
    for axis, (each, size) in enumerate(zip(stride, finer, strict=True), start=len(sizes) - len(stride)):
        step = each // size
        if step > 1:
            result = emit(origin, _aten.slice.Tensor, result, axis, 0, (sizes[axis] - 1) * step + 1, step)
    return result


@rewrites(_aten.avg_pool2d.default)
def average_one_batch(node: Node) -> Node | None:
    """Turns a batch of averaged images into channels, in place: ExecuTorch only supports batches of one."""
    shape = node.meta["val"].shape
    if shape[0] == 1:
        return None
    rows = [1, -1, *node.args[0].meta["val"].shape[2:]]
    source = emit(node, _aten.reshape.default, node.args[0], rows)
    pool = emit(node, node.target, source, *node.args[1:])
    return emit(node, _aten.reshape.default, pool, list(shape))


@rewrites(*CONVOLUTIONS)
def fold_strides(node: Node) -> Node | None:
    """Folds columns that a convolution strides over, if the stride exceeds the NPU's, into channels of one column, in
    place.

    Channels are contiguous, so that no data moves. Otherwise Vela generates a convolution for each column of the
    result.
    """
    given = named_arguments(node)
    source, weight, bias = (given[name] for name in ("input", "weight", "bias"))
    axes = weight.meta["val"].dim() - 2
    stride, padding, dilation = (
        list(given[name]) * (axes // len(given[name])) for name in ("stride", "padding", "dilation")
    )
    if stride[-1] <= _LARGEST_STRIDE or given["groups"] != 1 or dilation[-1] != 1:
        return None
    columns = -(-weight.meta["val"].shape[-1] // stride[-1])
    size = (node.meta["val"].shape[-1] + columns - 1) * stride[-1]
    rows = [0, 0]
    if axes > 1 and stride[0] > _LARGEST_STRIDE:
        rows, padding[0] = [padding[0]] * 2, 0
    source = _resize_columns(node, source, padding[-1], size, rows)
    weight = _resize_columns(node, weight, 0, columns * stride[-1])
    source, weight = (_columns_to_channels(node, each, stride[-1]) for each in (source, weight))
    stride[-1], padding[-1] = 1, 0
    return emit(node, node.target, source, weight, bias, stride, padding, dilation)


def _resize_columns(origin: Node, node: Node, before: int, size: int, rows: Sequence[int] = (0, 0)) -> Node:
    """Pads columns of zeros before and after up to a size, or crops columns; and pads rows of zeros."""
    after = size - before - node.meta["val"].shape[-1]
    if after < 0:
        node = emit(origin, _aten.slice.Tensor, node, node.meta["val"].dim() - 1, 0, size - before)
    if before or after > 0 or any(rows):
        sides = [before, max(after, 0), *(rows if any(rows) else ())]
        node = emit(origin, _aten.constant_pad_nd.default, node, sides, 0.0)
    return node


def _columns_to_channels(origin: Node, node: Node, count: int) -> Node:
    """Reshapes so many adjacent columns to channels of one, in channels-last order."""
    *outer, size = range(node.meta["val"].dim())
    last = emit(origin, _aten.permute.default, node, [0, *outer[2:], size, 1])
    *shape, columns, channels = last.meta["val"].shape
    folded = emit(origin, _aten.reshape.default, last, [*shape, columns // count, count * channels])
    first = emit(origin, _aten.permute.default, folded, [0, size, *range(1, size)])
    if outer[2:]:
        return first
    # Otherwise the result of a sequence would have this order, too, which delegates do not return.
    return emit(origin, _aten.clone.default, first, memory_format=torch.contiguous_format)


@rewrites(*CONVOLUTIONS)
def choose_pixels(node: Node) -> Node | None:
    """Replaces single-channel convolutions with a larger stride than the NPU's by a finer one and a selection, in
    place.

    Vela 5.2 doesn't support them for Ethos-U55 and U65.
    """
    given = named_arguments(node)
    stride = for_each(given["stride"], node.meta["val"].dim() - 2)
    if max(stride) <= _LARGEST_STRIDE or not 1 < given["groups"] == given["input"].meta["val"].shape[1]:
        return None
    finer = _finer(stride)
    result = emit(node, node.target, *(given | {"stride": finer}).values())
    return _choose(node, result, stride, finer)


@rewrites(*CONVOLUTIONS)
def pad_strides(node: Node) -> Node | None:
    """Pads images before convolutions with a larger stride than the NPU's, in place.

    ExecuTorch leaves them to the core for Ethos-U55 and U65, and Vela 5.2 compiles some wrongly for U85 if the
    convolution pads.
    """
    given = named_arguments(node)
    axes = node.meta["val"].dim() - 2
    stride, padding = (for_each(given[name], axes) for name in ("stride", "padding"))
    if max(stride) <= _LARGEST_STRIDE or not any(padding):
        return None
    sides = [size for each in reversed(padding) for size in (each, each)]
    given["input"] = emit(node, _aten.constant_pad_nd.default, given["input"], sides, 0.0)
    return emit(node, node.target, *(given | {"padding": [0] * axes}).values())


@rewrites(_aten.conv3d.default)
def write_volumes(node: Node) -> Node | None:
    """Convolves volumes plane by plane, in place, with the planes under a window as channels of an image.

    Ethos-U55 and U65 have no volume convolutions.
    """
    if node.meta["val"].dim() != 5:
        return None
    given = named_arguments(node)
    source, weight = given["input"], given["weight"]
    stride, padding, dilation = (for_each(given[name], 3) for name in ("stride", "padding", "dilation"))
    depth = node.meta["val"].shape[2]
    if depth > _MOST_PLANES:
        return None
    if padding[0]:
        sides = [0, 0, 0, 0, padding[0], padding[0]]
        source = emit(node, _aten.constant_pad_nd.default, source, sides, 0.0)
    size = dilation[0] * (weight.meta["val"].shape[2] - 1) + 1
    kernel = emit(node, _aten.flatten.using_ints, weight, 1, 2)
    planes = []
    for start in range(0, depth * stride[0], stride[0]):
        window = emit(node, _aten.slice.Tensor, source, 2, start, start + size, dilation[0])
        image = emit(node, _aten.flatten.using_ints, window, 1, 2)
        rest = (stride[1:], padding[1:], dilation[1:], given["groups"])
        planes.append(emit(node, _aten.conv2d.default, image, kernel, given["bias"], *rest))
    return emit(node, _aten.stack.default, planes, 2)


@rewrites(_NEAREST, _BILINEAR)
def write_resampling(node: Node) -> Node | None:
    """Rewrites upsampling that Ethos-U55 and U65 lack with operators that they have, in place.

    A linear interpolation between pixels becomes an average of repeated pixels.
    """
    factors = _whole_factors(node)
    if factors is None:
        return None
    if node.target == _NEAREST:
        if _has_repetition(node.args[0].meta["val"].shape, factors):
            return None
        return _repeat(node, node.args[0], factors)
    if set(node.args[0].meta["val"].shape[2:]) == {1}:
        # The image has a single pixel, such as after a pooling over the whole image.
        return _repeat(node, node.args[0], factors)
    if not named_arguments(node)["align_corners"] and max(factors) <= _LARGEST_INTERPOLATION:
        return _interpolate(node, factors)
    return None


def _whole_factors(node: Node) -> list[int] | None:
    """Returns the integer factors by which a resampling repeats rows and columns, if they are integers."""
    given = named_arguments(node)
    sizes, results = given["input"].meta["val"].shape[2:], node.meta["val"].shape[2:]
    factors = [result // size for size, result in zip(sizes, results, strict=True)]
    if any(factor * size != result for factor, size, result in zip(factors, sizes, results, strict=True)):
        return None
    asked = given["scale_factors"]
    return factors if asked is None or list(asked) == factors else None


def _has_repetition(shape: Sequence[int], factors: Sequence[float]) -> bool:
    """Whether Vela lets Ethos-U55 and U65 read each pixel several times."""
    batch, _, *sizes = shape
    return batch == 1 and (set(sizes) == {1} or (len(set(factors)) == 1 and _REPETITIONS.issuperset(factors)))


def _repeat(origin: Node, image: Node, factors: Sequence[int]) -> Node:
    """Repeats rows and columns."""
    batch, channels, rows, columns = image.meta["val"].shape
    shape = [batch, channels, rows * factors[0], columns * factors[1]]
    if _has_repetition(image.meta["val"].shape, factors):
        return emit(origin, _NEAREST, image, shape[2:], None)
    # Channels are contiguous, so that only repeated pixels move.
    result = emit(origin, _aten.permute.default, image, PIXELS)
    for count, size, factor in (
        (batch * rows * columns, channels, factors[1]),
        (batch * rows, channels * shape[3], factors[0]),
    ):
        if factor > 1:
            result = emit(origin, _aten.reshape.default, result, [count, 1, size])
            result = emit(origin, _aten.cat.default, [result] * factor, 1)
    result = emit(origin, _aten.reshape.default, result, [batch, *shape[2:], channels])
    return emit(origin, _aten.permute.default, result, IMAGE)


def _interpolate(origin: Node, factors: Sequence[int]) -> Node:
    """Interpolates linearly, without aligned corners.

    With a factor of three, each result is an average of three pixels, each repeated three times. With an even factor,
    results are between two pixels, so that pixels are repeated twice as often, and the stride skips every second one.
    The outermost pixels extend beyond the image.
    """
    finer = [factor if factor % 2 else 2 * factor for factor in factors]
    repeated = _repeat(origin, origin.args[0], finer)
    strides = [count // factor for count, factor in zip(finer, factors, strict=True)]
    padding = [(count - stride) // 2 for count, stride in zip(finer, strides, strict=True)]
    return emit(origin, _aten.avg_pool2d.default, repeated, finer, strides, padding, False, False)


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    """Returns the values for rows and for columns."""
    sizes = tree_leaves(value)
    return sizes[0], sizes[-1]


def _factors(kernel: int, stride: int) -> list[tuple[int, int]]:
    """Returns successive kernels and strides for one dimension of a pooling, or none if the NPU can't compute them."""
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


def copy_parts(program: ExportedProgram) -> None:
    """Copies slices of tensors, and operands of concatenations, in place, unless their readers work without a copy.

    Vela 5.2 copies neither: it reads a slice from the whole tensor, and writes the operands of a concatenation to their
    slices of the result. Where it splits operators (softmax, transposed convolutions, matrix products, means, norms),
    the commands then use the whole tensor's channels, or write all operands to the first slice. An average of single
    elements is a copy that it performs.
    """
    graph, varies = program.graph, varying(program)
    for node in list(graph.nodes):
        if node not in varies or not _is_part(node) or not node.meta["val"].is_floating_point():
            continue
        readers = [user for user in node.users if user.op == "call_function" and not _reads_parts(user)]
        if not readers or not node.meta["val"].numel():
            continue
        copy = _copy(node)
        for reader in readers:
            reader.replace_input_with(node, copy)


def _reads_parts(node: Node) -> bool:
    """Whether Vela correctly compiles the readers of a slice, also if a dimension of size 1 is dropped."""
    if node.target in (_aten.squeeze.dim, _aten.squeeze.dims):
        return all(user.op == "call_function" and _reads_parts(user) for user in node.users)
    return node.target in _READ_PARTS


def copy_functions(program: ExportedProgram, npu: Npu) -> None:
    """Copies results of functions that become slices of a tensor, in place.

    Vela 5.2 makes the function write to the slice. On Ethos-U55 and U65 it fuses an elementwise function into the
    preceding transposition, which it splits, and the offset of the slice is lost. The same happens to functions of
    several operations (softmax, maxima, products with broadcasts or of matrices). On U85 only maxima and minima lose
    it.
    """
    graph, varies = program.graph, varying(program)
    sources = dict.fromkeys(source for node in graph.nodes if _writes_parts(node) for source in _sources(node))
    for source in sources:
        if source not in varies or _writes_well(source) or not source.meta["val"].is_floating_point():
            continue
        if npu.product == "u85" and source.target not in EXTREMES:
            continue
        users = [user for user in source.users if user.op == "call_function"]
        copy = _copy(source)
        for user in users:
            user.replace_input_with(source, copy)


def _writes_parts(node: Node) -> bool:
    """Whether a node's operands are written to slices of a tensor; a pooling that counts its padding does so."""
    if node.op != "call_function":
        return False
    if node.target not in (_aten.avg_pool1d.default, _aten.avg_pool2d.default):
        return node.target in _WRITERS
    padding, counts_padding = node.args[3:4], node.args[5:6] or (True,)
    return any(tree_leaves(padding)) and all(counts_padding)


def _sources(node: Node) -> Iterator[Node]:
    """Yields the nodes that compute a node's operands, looking through operators that only move elements."""
    for source in node.all_input_nodes:
        while source.op == "call_function" and source.target in _MOVES:
            source = source.all_input_nodes[0]
        yield source


def _writes_well(node: Node) -> bool:
    """Whether Vela's commands for a node are correct if it writes to a slice, or it is copied anyway."""
    if node.op != "call_function" or node.target in _LAYERS or _is_part(node):
        return True
    if node.target not in _ACTIVATIONS:
        return False
    (layer,) = node.all_input_nodes
    return layer.target in _LAYERS and len(layer.users) == 1


def _copy(node: Node) -> Node:
    """Copies a tensor by an average of single elements."""
    shape = list(node.meta["val"].shape)
    if len(shape) == 4 and shape[0] == 1:
        return _call_after(node, _aten.avg_pool2d.default, [1, 1])
    rows, size = math.prod(shape[:-1]), shape[-1] if shape else 1
    # A single row becomes channels, which are contiguous on the NPU and in Vela 5.2. On U85, Vela reads beyond the end
    # of an image of one channel that is a slice of a tensor.
    image = _call_after(node, _aten.reshape.default, [1, size, 1, 1] if rows == 1 else [1, 1, rows, size])
    return _call_after(_call_after(image, _aten.avg_pool2d.default, [1, 1]), _aten.reshape.default, shape)


def _call_after(node: Node, target: OpOverload, argument: list[int]) -> Node:
    with node.graph.inserting_after(node):
        call = node.graph.call_function(target, (node, argument))
    call.meta = dict(node.meta) | {"val": target(node.meta["val"], argument)}
    return call


def _is_part(node: Node) -> bool:
    """Whether a node returns a slice of a tensor, or concatenates tensors."""
    if node.target is operator.getitem:
        return node.args[0].target in _SPLITS
    return node.target in _PARTS
