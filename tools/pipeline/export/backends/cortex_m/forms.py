"""Rewrites layers into the forms that ExecuTorch's Cortex-M quantizer and the int8 kernels support.

The quantizer supports two-dimensional convolutions and poolings, and the kernels read channels-last images. Equivalent
layers in other forms would stay in floating point, or be refused on the device:

- one-dimensional convolutions and poolings become two-dimensional ones over images of height 1, with the elementwise
  operators between them, so that a chain of layers only changes its layout at its ends;
- named padding (`same`, `valid`) becomes numbers, zeros around an image the padding of the next convolution, `relu6`
  becomes `hardtanh`, and poolings round sizes down;
- rotated dimensions become an index selection;
- a product with a constant matrix becomes a linear layer, one of many matrices a batched product, the mean and the
  maximum of an image's channels poolings, and glu a product;
- sums and products with a constant per channel, such as batch normalization without a layer before it, become a 1x1
  convolution;
- masks before softmax operators become sums, see softmax.py;
- pixel_shuffle becomes a transposition, and a transposed convolution becomes convolutions whose results are moved, see
  depth_to_space.py;
- images that are one pixel wide are transposed for convolutions, see narrow_images.py;
- padding that a max pooling ignores becomes the pooling's own;
- a PReLU with one slope becomes a leaky ReLU, and a monotonic one moves behind a max pooling;
- images in another layout are copied to channels-last before a convolution or pooling;
- a number beside a tensor without dimensions becomes a constant without dimensions: the quantizer's constants have at
  least one, and would add it to the result.
"""

import math
from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils._pytree import tree_map

from tools.pipeline.export.backends.cortex_m.depth_to_space import move_channels_to_pixels, write_transposed_convolution
from tools.pipeline.export.backends.cortex_m.softmax import write_masks
from tools.pipeline.export.backends.cortex_m.transpositions import (
    drop_undone_transpositions,
    order_of,
    view_tokens_as_pixels,
)
from tools.pipeline.export.ir.constants import Constants, add_constant, is_constant
from tools.pipeline.export.ir.dim_orders import IMAGE, PIXELS
from tools.pipeline.export.ir.operators import ARITHMETIC, ARITHMETIC_WITH_ROUNDING, RESHAPES, SPLITS
from tools.pipeline.export.ir.rewriting import crop, emit, for_each
from tools.pipeline.export.rewrite.maxima import drop_unused_argmax
from tools.pipeline.export.rewrite.narrow_images import lay_down
from tools.pipeline.export.rewrite.pool_padding import drop_padding, is_positive, repeat_ends, take_padding

_aten = torch.ops.aten

# Elementwise operators of one tensor and scalars, which work on an image of height 1 unchanged.
_ELEMENTWISE = frozenset(
    operator.default
    for operator in (
        _aten.relu, _aten.hardtanh, _aten.clamp, _aten.sigmoid, _aten.tanh, _aten.silu, _aten.hardswish,
        _aten.hardsigmoid, _aten.leaky_relu, _aten.gelu, _aten.elu, _aten.mish, _aten.softplus,
        _aten.prelu,
    )
)  # fmt: skip

# Operators of two tensors of one shape.
_BINARY = (_aten.add.Tensor, _aten.sub.Tensor, _aten.mul.Tensor, _aten.maximum.default, _aten.minimum.default)

# The channels of a word: layers with more channels are packed in words, with fewer as if they had no groups.
WORD = 4


# Operators that read channels-last images on the device.
_IMAGE_OPERATORS = (
    _aten.conv2d.default,
    _aten.conv_transpose2d.input,
    _aten.max_pool2d.default,
    _aten.avg_pool2d.default,
)

# Upsampling that repeats elements, and padding with elements; zeros are constant_pad_nd.
_SELECTING = (
    _aten.pad.default, _aten.upsample_nearest1d.default, _aten.upsample_nearest1d.vec,
    _aten.upsample_nearest2d.default, _aten.upsample_nearest2d.vec, _aten._upsample_nearest_exact1d.default,
    _aten._upsample_nearest_exact1d.vec, _aten._upsample_nearest_exact2d.default,
    _aten._upsample_nearest_exact2d.vec,
)  # fmt: skip

# Maps the dimensions of a sequence to those of its image of height 1.
_OF_SEQUENCE = (0, 1, 3)

# Maps reductions of each channel of an image to poolings.
_POOLED: dict[Any, Any] = {_aten.mean.dim: _aten.avg_pool2d.default, _aten.amax.default: _aten.max_pool2d.default}


# Operators that require images in the default order; PyTorch returns images in an unspecified order.
_DEFAULT_ORDER = (_aten.grid_sampler.default, _aten.grid_sampler_2d.default)


def make_quantizable(program: ExportedProgram) -> ExportedProgram:
    """Rewrites layers as ones that the quantizer knows, in place, such as a Conv1d as a Conv2d of images of height 1.

    The module's docstring lists all.

    Args:
      program: a functional program with batch normalization folded; constants must be propagated afterwards.
    """
    graph = program.graph
    drop_unused_argmax(program.graph_module, {_aten.max.dim: _aten.amax.default}, program)
    for node in list(graph.nodes):
        if node.target == _aten.relu6.default:
            _replace(node, _aten.hardtanh.default, node.args[0], 0.0, 6.0)
        elif node.target == _aten.pad.default and _arguments(node)[2] == "constant":
            _pad_or_slice(node, _arguments(node)[3] or 0.0)
        elif node.target == _aten.constant_pad_nd.default:
            _pad_or_slice(node, _arguments(node)[2])
        elif node.target == _aten.pixel_shuffle.default and _is_image(node):
            move_channels_to_pixels(node)
        elif node.target == _aten.glu.default:
            _gate(node)
        elif node.target == _aten.prelu.default:
            _share_slope(program, node)
        elif node.target == _aten.roll.default:
            _rotate(program, node)
        elif node.target in ARITHMETIC_WITH_ROUNDING:
            _make_number_constant(program, node)
    write_masks(program)
    for node in list(graph.nodes):
        if node.target in ARITHMETIC:
            _make_channelwise(program, node)
        elif node.target == _aten.matmul.default:
            _batch(node)
    _Sequences(program).rewrite()
    for node in list(graph.nodes):
        if node.target in _SELECTING:
            _select(program, node)
        elif node.target == _aten.conv2d.padding:
            _number_padding(node)
        elif node.target == _aten.conv2d.default:
            _fold_padding(node)
        elif node.target == _aten.conv_transpose2d.input:
            write_transposed_convolution(program, node)
        elif node.target in _POOLED:
            drop_padding(node)
            _make_pooling(node)
        elif node.target == _aten.adaptive_avg_pool2d.default:
            _make_even_pooling(node)
        elif node.target == _aten.max_pool2d.default:
            _round_down(_pool_first(program, take_padding(node)))
        elif node.target == _aten.avg_pool2d.default:
            _round_down(node)
    view_tokens_as_pixels(graph)
    lay_down(graph, is_channels_last=True, activations=_ELEMENTWISE)
    graph.eliminate_dead_code()
    for node in list(graph.nodes):
        # Nodes without operands, such as random numbers, keep their layout.
        if node.op == "call_function" and "val" in node.meta and node.all_input_nodes:
            _lay_out(node)
    drop_undone_transpositions(graph)
    return program


def is_channels_last(node: Node) -> bool:
    """Whether a node is an image in channels-last memory order."""
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor) and value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last)
    )


def _is_plane(node: Node) -> bool:
    """Whether a node computes an image of one channel, which has any order, with strides of the default one.

    The results of PyTorch's operators follow the strides of their operands.
    """
    value = node.meta["val"]
    return (
        node.op == "call_function"
        and value.dim() == 4
        and value.shape[1] == 1
        and value.shape[2:].numel() > 1
        and value.stride(1) != 1
    )


def _replace(node: Node, operator: Callable[..., Any], *args: Any) -> Node:
    with node.graph.inserting_before(node):
        other = emit(node, operator, *args)
    node.replace_all_uses_with(other)
    node.graph.erase_node(node)
    return other


def _make_channelwise(program: ExportedProgram, first: Node) -> None:
    """Turns sums and products with constants per channel into a 1x1 convolution with a bias."""
    image, constant = _operands(first)
    if image is None or (_operands(image)[0] is not None and len(image.users) == 1):
        return
    steps, constants, users = [first], [constant], list(first.users)
    while len(users) == 1:
        operand, constant = _operands(users[0])
        if operand is not steps[-1]:
            break
        steps += users
        constants.append(constant)
        users = list(users[0].users)
    if all(map(_is_number, constants)):
        return
    shape, graph, last = first.meta["val"].shape, program.graph, steps[-1]
    ones = [1, shape[1], *[1] * (len(shape) - 2)]
    one = torch.ones(ones, dtype=image.meta["val"].dtype)
    factors, terms = (
        add_constant(program, f"{last.name}_{name}", each) for name, each in (("factors", one), ("terms", 0 * one))
    )
    with graph.inserting_before(last):
        for step, constant in zip(steps, constants, strict=True):
            factors, terms = _composed(step, constant, last, factors, terms)
        weight = emit(last, _aten.reshape.default, factors, [shape[1], 1, *ones[2:]])
        bias = emit(last, _aten.reshape.default, terms, [shape[1]])
    operator = _aten.conv1d.default if len(shape) == 3 else _aten.conv2d.default
    stride, padding = ones[2:], [0] * (len(shape) - 2)
    _replace(last, operator, image, weight, bias, stride, padding, stride, shape[1])


def _operands(step: Node) -> tuple[Node, Any] | tuple[None, None]:
    """Returns the varying operand of a sum or product, and its number or constant per channel; None for other nodes."""
    if step.target not in ARITHMETIC or step.kwargs:
        return None, None
    shape = step.meta["val"].shape
    if len(shape) not in (3, 4) or shape[1] == 1 or (shape[1] > WORD and shape[1] % WORD):
        return None, None
    for one, other in (step.args[:2], step.args[1::-1]):
        if not isinstance(one, Node) or is_constant(one):
            continue
        # A constant in double precision makes the result one.
        if one.meta["val"].shape != shape or any(each.meta["val"].dtype != torch.float32 for each in (one, step)):
            continue
        if shape[1] < WORD and _is_product(one):
            continue
        is_first = one is step.args[0]
        if (_is_number(other) or _is_by_channel(other, shape)) and (is_first or step.target != _aten.div.Tensor):
            return one, other
    return None, None


def _is_product(node: Node) -> bool:
    """Whether a node is a product of matrices, such as the scores of attention, which is no channels-last image."""
    source = node.args[0] if node.target in RESHAPES else node
    return source.target in (_aten.bmm.default, _aten.matmul.default)


def _is_number(operand: Any) -> bool:
    return isinstance(operand, (int, float)) or (is_constant(operand) and operand.meta["val"].numel() == 1)


def _is_by_channel(operand: Any, shape: torch.Size) -> bool:
    if not isinstance(operand, Node) or not is_constant(operand):
        return False
    numbers = list(operand.meta["val"].shape)
    return [1] * (len(shape) - len(numbers)) + numbers == [1, shape[1], *[1] * (len(shape) - 2)]


def _composed(step: Node, constant: Any, origin: Node, factors: Node, terms: Node) -> tuple[Node, Node]:
    """Returns the factors and terms after a sum or product with a constant, from those before it."""
    target: Any = step.target
    if target in (_aten.mul.Tensor, _aten.div.Tensor):
        return emit(origin, target, factors, constant), emit(origin, target, terms, constant)
    if step.args[1] is constant:
        return factors, emit(origin, target, terms, constant)
    negated = emit(origin, _aten.neg.default, factors) if target == _aten.sub.Tensor else factors
    return negated, emit(origin, target, constant, terms)


def _make_number_constant(program: ExportedProgram, node: Node) -> None:
    value = node.meta["val"]
    if value.dim() == 0 and value.is_floating_point() and not isinstance(node.args[1], Node):
        number = torch.tensor(node.args[1], dtype=value.dtype)
        node.update_arg(1, add_constant(program, f"{node.name}_number", number))


def _batch(product: Node) -> None:
    """Turns x @ y of stacks of matrices into a batched product, with all leading dimensions merged.

    A transposition of the second operand comes last, because the kernel undoes it.
    """
    one, other = product.args
    shapes = [tuple(factor.meta["val"].shape) for factor in product.args]
    if max(map(len, shapes)) < 3 or not all(isinstance(size, int) for shape in shapes for size in shape):
        return
    if len(shapes[1]) == 2:
        # One matrix for all rows.
        batch: tuple[int, ...] = (1,)
        matrices = [(1, math.prod(shapes[0][:-1]), shapes[0][-1]), (1, *shapes[1])]
    else:
        batch = tuple(torch.broadcast_shapes(shapes[0][:-2], shapes[1][:-2]))
        matrices = [(math.prod(batch), *shape[-2:]) for shape in shapes]
    is_transposed = other.target == _aten.transpose.int and {dim % len(shapes[1]) for dim in other.args[1:]} == {
        len(shapes[1]) - 2,
        len(shapes[1]) - 1,
    }
    if is_transposed:
        other = other.args[0]
        matrices[1] = (matrices[1][0], *matrices[1][:0:-1])
    with product.graph.inserting_before(product):
        given = zip((one, other), matrices, strict=True)
        factors = [_as_matrices(product, factor, batch, shape) for factor, shape in given]
        if is_transposed:
            factors[1] = emit(product, _aten.transpose.int, factors[1], 1, 2)
    result = _replace(product, _aten.bmm.default, *factors)
    out = (*batch, shapes[0][-2], shapes[1][-1]) if len(shapes[1]) > 2 else (*shapes[0][:-1], shapes[1][-1])
    if len(out) > 3 or out[0] != matrices[0][0]:
        with result.graph.inserting_after(result):
            shaped = emit(result, _aten.reshape.default, result, list(out))
        result.replace_all_uses_with(shaped, delete_user_cb=lambda user: user is not shaped)


def _as_matrices(origin: Node, factor: Node, batch: tuple[int, ...], shape: tuple[int, ...]) -> Node:
    """Reshapes a factor to one dimension of matrices, repeated where the other factor has more of them."""
    given = tuple(factor.meta["val"].shape)
    if shape[0] != 1 and given[:-2] != batch:
        factor = emit(origin, _aten.expand.default, factor, [*batch, *given[-2:]])
    if tuple(factor.meta["val"].shape) != shape:
        factor = emit(origin, _aten.reshape.default, factor, list(shape))
    return factor


def _pad_or_slice(pad: Node, value: float) -> None:
    """Splits constant padding with negative amounts, which remove elements, into a slice and nonnegative padding."""
    source, ends = pad.args[0], list(pad.args[1])
    with pad.graph.inserting_before(pad):
        for place in range(0, len(ends), 2):
            before, after = ends[place : place + 2]
            source = crop(pad, source, place, before, after)
            ends[place : place + 2] = max(before, 0), max(after, 0)
        if any(ends):
            source = emit(pad, _aten.constant_pad_nd.default, source, ends, value)
    pad.replace_all_uses_with(source)
    pad.graph.erase_node(pad)


def _gate(node: Node) -> None:
    """Replaces glu by the first half of a dimension times the sigmoid of the other one."""
    source, dim = _arguments(node)
    half = source.meta["val"].shape[dim] // 2
    with node.graph.inserting_before(node):
        first = emit(node, _aten.slice.Tensor, source, dim, 0, half)
        other = emit(node, _aten.slice.Tensor, source, dim, half, 2 * half)
        gate = emit(node, _aten.sigmoid.default, other)
    _replace(node, _aten.mul.Tensor, first, gate)


def _rotate(program: ExportedProgram, roll: Node) -> None:
    """Replaces roll, as in shifted windows, by an index selection, which int8 supports."""
    source, shifts, dims = _arguments(roll)
    if not dims:
        return
    shape = roll.meta["val"].shape
    indices = {dim % len(shape): torch.arange(shape[dim], dtype=torch.int32) for dim in dims}
    for shift, dim in zip(shifts, dims, strict=True):
        indices[dim % len(shape)] = indices[dim % len(shape)].roll(shift)
    with program.graph.inserting_before(roll):
        result = _choose_in(program, roll, source, indices, list(range(len(shape))))
    roll.replace_all_uses_with(result)
    program.graph.erase_node(roll)


def _select(program: ExportedProgram, node: Node) -> None:
    """Replaces nearest upsampling, or padding with elements, by an index selection in each dimension.

    A selection moves integers, whereas other kernels would compute these operators in floating point.
    """
    indices = _selected(node)
    if indices is not None:
        with program.graph.inserting_before(node):
            result = _choose(program, node, node.args[0], indices)
        node.replace_all_uses_with(result)
        program.graph.erase_node(node)


def _is_image(node: Node) -> bool:
    """Whether a node returns images of static sizes."""
    value = node.meta["val"]
    return value.dim() == 4 and all(isinstance(size, int) for size in value.shape)


def _selected(node: Node) -> dict[int, torch.Tensor] | None:
    """Returns the indices that a selecting operator reads per dimension, without dimensions that are read completely.

    They come from running the operator on coordinates. None if shapes are dynamic or empty.
    """
    shape = node.args[0].meta["val"].shape
    if not all(isinstance(size, int) and size > 0 for size in (*shape, *node.meta["val"].shape)):
        return None
    indices = {}
    for dim, size in enumerate(shape):
        places = torch.arange(size, dtype=torch.float32)
        places = places.reshape([-1 if each == dim else 1 for each in range(len(shape))]).expand(shape)
        found = node.target(places.contiguous(), *node.args[1:], **node.kwargs)
        index = found[tuple(slice(None) if each == dim else 0 for each in range(len(shape)))].to(torch.int32)
        if index.tolist() != list(range(size)):
            indices[dim] = index
    return indices


def _choose(program: ExportedProgram, origin: Node, source: Node, indices: dict[int, torch.Tensor]) -> Node:
    """Selects elements by dimension. Images are channels-last, so that a pixel's elements are copied together."""
    rank = source.meta["val"].dim()
    order = PIXELS if rank == 4 else list(range(rank))
    if rank == 4:
        source = emit(origin, _aten.permute.default, source, order)
    source = _choose_in(program, origin, source, indices, order)
    return emit(origin, _aten.permute.default, source, IMAGE) if rank == 4 else source


def _choose_in(
    program: ExportedProgram, origin: Node, source: Node, indices: dict[int, torch.Tensor], order: Sequence[int]
) -> Node:
    """From the last dimension on, whose parts are smaller."""
    # From the last dimension on, whose parts are smaller.
    for place in range(len(order) - 1, -1, -1):
        if order[place] in indices:
            index = add_constant(program, f"{origin.name}_index_{order[place]}", indices[order[place]])
            source = emit(origin, _aten.index_select.default, source, place, index)
    return source


def _number_padding(convolution: Node) -> None:
    """Replaces named padding of conv2d by numbers; an odd `same` padding gets an operator of its own for the extra
    element.
    """
    image, weight, bias, stride, padding, dilation, groups = _arguments(convolution)
    image, padding = _padding(convolution, image, weight.meta["val"].shape[2:], padding, dilation)
    _replace(convolution, _aten.conv2d.default, image, weight, bias, stride, padding, dilation, groups)


def _fold_padding(convolution: Node) -> None:
    """Folds zero padding of an image into the convolution after it, if both ends are padded equally."""
    image, weight, bias, stride, padding, dilation, groups = _arguments(convolution)
    if image.target != _aten.constant_pad_nd.default:
        return
    source, ends, value = _arguments(image)
    left, right, top, bottom, *others = [*ends, 0, 0, 0, 0][: max(len(ends), 4)]
    if value or any(others) or left != right or top != bottom or min(left, top) < 0:
        return
    height, width = for_each(padding)
    _replace(
        convolution, _aten.conv2d.default, source, weight, bias, stride, [height + top, width + left], dilation, groups
    )


def _make_pooling(node: Node) -> None:
    """Turns the mean or the maximum of each channel, or of its rows or columns, into a pooling of the image."""
    image, dims, keepdim, *dtype = _arguments(node)
    value = image.meta["val"]
    taken = sorted(dim % 4 for dim in dims)
    if value.dim() != 4 or any(dtype) or taken not in ([2], [3], [2, 3]):
        return
    shape = list(node.meta["val"].shape)
    pooled = _replace(node, _POOLED[node.target], image, [value.shape[d] if d in taken else 1 for d in (2, 3)])
    if not keepdim:
        with pooled.graph.inserting_after(pooled):
            view = emit(pooled, _aten.reshape.default, pooled, shape)
        pooled.replace_all_uses_with(view, delete_user_cb=lambda user: user is not view)


def _make_even_pooling(pooling: Node) -> None:
    """Turns adaptive pooling to a size that divides the image's into a pooling with equal windows."""
    image, size = pooling.args
    pairs = list(zip(image.meta["val"].shape[-2:], size, strict=True))
    if image.meta["val"].dim() == 4 and list(size) != [1, 1] and not any(whole % part for whole, part in pairs):
        window = [whole // part for whole, part in pairs]
        _replace(pooling, _aten.avg_pool2d.default, image, window, window)


def _share_slope(program: ExportedProgram, node: Node) -> None:
    """Turns a PReLU whose slopes are all equal into a leaky ReLU, a function of one tensor."""
    slopes = Constants(program).value(node.args[1])
    if slopes is not None and bool((slopes == slopes.flatten()[0]).all()):
        _replace(node, _aten.leaky_relu.default, node.args[0], float(slopes.flatten()[0]))


def _pool_first(program: ExportedProgram, pooling: Node) -> Node:
    """Moves a monotonic activation behind a max pooling."""
    activation = pooling.args[0]
    if activation.target not in (_aten.prelu.default, _aten.leaky_relu.default) or len(activation.users) > 1:
        return pooling
    source, slopes = [*activation.args, 0.01][:2]
    if isinstance(slopes, Node):
        value = Constants(program).value(slopes)
        slopes = -1 if value is None else float(value.min())
    if slopes < 0:
        return pooling
    graph, arguments = program.graph, pooling.args[1:]
    with graph.inserting_before(pooling):
        pooled = emit(pooling, pooling.target, source, *arguments)
    _replace(pooling, activation.target, pooled, *activation.args[1:])
    return pooled


def _round_down(pooling: Node) -> None:
    """Rewrites a pooling without ceil_mode, if no window exceeds the image, or if it is a max pooling.

    Maxima stay the same if the last row and column are repeated, because every window that exceeds the image contains
    them. Zeros do as well, if nothing is negative.
    """
    arguments = _arguments(pooling)
    is_max = pooling.target == _aten.max_pool2d.default
    place = 5 if is_max else 4
    image, (kernel, stride, padding) = arguments[0], (for_each(argument) for argument in arguments[1:4])
    dilation = for_each(arguments[4]) if is_max else [1, 1]
    if not arguments[place] or image.meta["val"].dim() != 4:
        return
    missing = []
    for axis in range(2):
        step = (stride or kernel)[axis]
        reach = (pooling.meta["val"].shape[2 + axis] - 1) * step + dilation[axis] * (kernel[axis] - 1) + 1
        missing.append(max(reach - image.meta["val"].shape[2 + axis] - 2 * padding[axis], 0))
    if any(missing):
        if not is_max or dilation != [1, 1]:
            return
        with pooling.graph.inserting_before(pooling):
            if is_positive(image):
                image = emit(pooling, _aten.constant_pad_nd.default, image, [0, missing[1], 0, missing[0]], 0.0)
            else:
                image = repeat_ends(pooling, image, [(0, count) for count in missing])
    arguments[place] = False
    _replace(pooling, pooling.target, image, *arguments[1:])


def _padding(node: Node, image: Node, kernel: torch.Size, name: str, dilation: list[int]) -> tuple[Node, list[int]]:
    """Returns the image, padded if its ends differ, and the numbers for a convolution's named padding."""
    dilation = for_each(dilation, len(kernel))
    total = [d * (k - 1) if name == "same" else 0 for d, k in zip(dilation, kernel, strict=True)]
    if not any(amount % 2 for amount in total):
        return image, [amount // 2 for amount in total]
    ends = [end for amount in reversed(total) for end in (amount // 2, amount - amount // 2)]
    with node.graph.inserting_before(node):
        return emit(node, _aten.constant_pad_nd.default, image, ends, 0.0), [0] * len(kernel)


def _arguments(node: Node) -> list[Any]:
    """Returns all arguments of a call, with the operator's defaults for omitted ones."""
    left = node.target._schema.arguments[len(node.args) :]
    return [*node.args, *(node.kwargs.get(argument.name, argument.default_value) for argument in left)]


def _lay_out(node: Node) -> None:
    """Copies the images of image operators, and of elementwise ones beside channels-last images, to channels-last.

    Updates the layout of the result to that in the lowered program, where views are copies in the default order.
    """
    operands = [argument for argument in node.args if isinstance(argument, Node)]
    if node.target in _DEFAULT_ORDER or (node.target in RESHAPES and not _is_view(node)):
        for operand in operands:
            if not operand.meta["val"].is_contiguous():
                with node.graph.inserting_before(node):
                    copy = emit(node, _aten.clone.default, operand, memory_format=torch.contiguous_format)
                node.replace_input_with(operand, copy)
        operands = []
    elif node.target in _IMAGE_OPERATORS or _is_padding(node):
        operands = operands[:1]
    elif node.target not in _BINARY or not any(
        # It was a view in the previous order of its operand.
        is_channels_last(operand) and operand.meta["val"].shape[1] > 1
        for operand in operands
    ):
        operands = []
    if _is_part(node):
        _take_part(node)
        return
    for operand in operands:
        if node.target in _IMAGE_OPERATORS and _is_plane(operand):
            with node.graph.inserting_before(node):
                batch, _, height, width = operand.meta["val"].shape
                plane = emit(node, _aten.reshape.default, operand, [batch, height, width, 1])
                node.replace_input_with(operand, emit(node, _aten.permute.default, plane, IMAGE))
        elif operand.meta["val"].dim() == 4 and not is_channels_last(operand) and not is_constant(operand):
            node.replace_input_with(operand, _copied(node, operand))
    if node.target in RESHAPES and not node.args[0].meta["val"].is_contiguous():
        # It was a view in the previous order of its operand.
        node.target = _aten.reshape.default
    arguments, options = torch.fx.node.map_arg((node.args, node.kwargs), lambda argument: argument.meta["val"])
    result = node.target(*arguments, **options)
    if isinstance(node.target, OpOverload) and any(returned.alias_info for returned in node.target._schema.returns):
        result = tree_map(torch.Tensor.contiguous, result)
    node.meta["val"] = result


def _is_padding(node: Node) -> bool:
    """Whether a node only pads images of image operators."""
    return node.target == _aten.constant_pad_nd.default and all(user.target in _IMAGE_OPERATORS for user in node.users)


def _copied(node: Node, image: Node) -> Node:
    """Returns an image's copy in channels-last for a node, which others may read, too."""
    layout = {"memory_format": torch.channels_last}
    for user in image.users:
        if user.target == _aten.clone.default and user.kwargs == layout and user < node:
            return user
    with node.graph.inserting_before(node):
        return emit(node, _aten.clone.default, image, **layout)


def _is_part(node: Node) -> bool:
    """Whether a node is a slice or a repetition of a channels-last image, or one of the parts that it is split into."""
    source = node
    if node.target == getitem:
        source = node.args[0]
        if source.target not in SPLITS:
            return False
    elif node.target not in (_aten.slice.Tensor, _aten.expand.default):
        return False
    image = source.args[0]
    # The strides of an empty part would be 0 in channels-last.
    return is_channels_last(image) and image.meta["val"].shape[1] > 1 and node.meta["val"].numel() > 0


def _take_part(node: Node) -> None:
    """Replaces a part of a channels-last image by one with the same layout; PyTorch's would have the default order."""
    operator: Any = _aten.slice.Tensor
    if node.target == getitem:
        parts, place = node.args
        image, _, dim = _arguments(parts)
        sizes = [part.shape[dim] for part in parts.meta["val"][: place + 1]]
        arguments = [IMAGE[dim], sum(sizes[:place]), sum(sizes)]
    elif node.target == operator:
        image, dim, *arguments = _arguments(node)
        arguments = [IMAGE[dim], *arguments]
    else:
        operator, image = node.target, node.args[0]
        arguments = [[node.meta["val"].shape[dim] for dim in PIXELS]]
    is_of_channels = operator == _aten.slice.Tensor and arguments[0] == PIXELS.index(1)
    with node.graph.inserting_before(node):
        if is_of_channels and all(_is_flat(user, image) for user in node.users):
            node.replace_all_uses_with(emit(node, operator, _flattened(node, image), 1, *arguments[1:]))
            node.graph.erase_node(node)
            return
        pixels = emit(node, _aten.permute.default, image, PIXELS)
        part = emit(node, operator, pixels, *arguments)
        # Makes sequences, [batch, channels, steps], images of height 1, [batch, channels, 1, steps].
        #
        # A convolution begins a chain of images, which continues through all operators that work on them unchanged.
        # Another operator that reads a sequence gets a view of the image.
        part.meta["val"] = part.meta["val"].contiguous()
        result = emit(node, _aten.permute.default, part, IMAGE)
        result.meta["val"] = result.meta["val"].contiguous()
        result = emit(node, _aten.clone.default, result, memory_format=torch.channels_last)
    node.replace_all_uses_with(result)
    node.graph.erase_node(node)


def _is_flat(reader: Node, image: Node) -> bool:
    """Whether a reader of a part of an image views it with its pixels as the last dimension."""
    return reader.target in RESHAPES and reader.meta["val"].shape[-1] == image.meta["val"].shape[2:].numel()


def _flattened(node: Node, image: Node) -> Node:
    """Returns the view of an image as [batch, channels, pixels] for a part, which others may take parts of, too."""
    shape = [*image.meta["val"].shape[:2], -1]
    for user in image.users:
        if user.target == _aten.reshape.default and user.args[1] == shape and user < node:
            return user
    return emit(node, _aten.reshape.default, image, shape)


def _is_view(node: Node) -> bool:
    """Whether a tensor's present memory order allows viewing it in another shape."""
    try:
        node.args[0].meta["val"].view(node.args[1])
    except (RuntimeError, ValueError):
        return False
    return True


class _Sequences:
    """Makes sequences, [batch, channels, steps], images of height 1, [batch, channels, 1, steps].

    A convolution begins a chain of images, which continues through all operators that work on them unchanged. Where
    another operator reads a sequence, the image is viewed as one.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._graph = program.graph
        # Maps sequences to the images that replace them.
        self._images: dict[Node, Node] = {}
        # Sequences whose operators compute the image instead, in order.
        self._rewritten: dict[Node, None] = {}
        # Maps the splitting of a sequence to that of its image.
        self._parts: dict[Node, Node] = {}
        self._makers: dict[Any, Callable[[Node], Node | None]] = {
            **dict.fromkeys(_BINARY, self._binary),
            **dict.fromkeys(_ELEMENTWISE, self._elementwise),
            **dict.fromkeys(_SELECTING, self._select),
            _aten.conv1d.default: self._convolution,
            _aten.conv1d.padding: self._convolution,
            _aten.conv_transpose1d.default: self._transposed_convolution,
            _aten.max_pool1d.default: self._max_pool,
            _aten.avg_pool1d.default: self._average_pool,
            _aten.adaptive_avg_pool1d.default: self._adaptive_average_pool,
            **dict.fromkeys(_POOLED, self._pooled),
            _aten.cat.default: self._cat,
            _aten.slice.Tensor: self._slice,
            _aten.expand.default: self._expand,
            getitem: self._part,
            _aten.constant_pad_nd.default: self._elementwise,
            # It works over groups of channels with any trailing dimensions.
            _aten.group_norm.default: self._elementwise,
        }

    def rewrite(self) -> None:
        """Rewrites the graph."""
        for node in list(self._graph.nodes):
            if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
                continue
            with self._graph.inserting_before(node):
                image = self._on_images(node)
            if image is None:
                continue
            if image.meta["val"].dim() == 4:
                self._images[node] = image
                self._rewritten[node] = None
            else:
                node.replace_all_uses_with(image)
        for sequence in self._rewritten:
            for user in list(sequence.users):
                if user not in self._rewritten:
                    with self._graph.inserting_before(user):
                        self._leave(sequence, self._images[sequence], user)

    def _on_images(self, node: Node) -> Node | None:
        """Returns the operator on images, or None if the node stays unchanged."""
        make = self._makers.get(node.target)
        return None if make is None else make(node)

    def _enter(self, node: Node, sequence: Node) -> Node:
        """Returns the image of a sequence that `node` reads."""
        if sequence not in self._images:
            batch, channels, steps = sequence.meta["val"].shape
            if channels == 1:
                # Has both orders; the strides mark it as channels-last.
                rows = emit(node, _aten.reshape.default, sequence, [batch, 1, steps, 1])
                self._images[sequence] = emit(node, _aten.permute.default, rows, IMAGE)
            else:
                self._images[sequence] = emit(node, _aten.unsqueeze.default, sequence, 2)
        return self._images[sequence]

    def _leave(self, sequence: Node, image: Node, user: Node) -> None:
        """Makes `user` read the image instead of the sequence."""
        batch, channels, steps = sequence.meta["val"].shape
        if order_of(user) == [0, 2, 1]:
            rows = emit(user, _aten.permute.default, image, PIXELS)
            user.replace_all_uses_with(emit(user, _aten.view.default, rows, [batch, steps, channels]))
            return
        copy = emit(user, _aten.clone.default, image, memory_format=torch.contiguous_format)
        if user.target in RESHAPES:
            user.update_arg(0, copy)
        else:
            user.replace_input_with(sequence, emit(user, _aten.view.default, copy, [batch, channels, steps]))

    def _convolution(self, node: Node) -> Node | None:
        sequence, weight, bias, stride, padding, dilation, groups = _arguments(node)
        if sequence.meta["val"].dim() != 3:
            return None
        image = self._enter(node, sequence)
        kernel = emit(node, _aten.unsqueeze.default, weight, 2)
        if isinstance(padding, str):
            shape = kernel.meta["val"].shape[2:]
            image, (_, *padding) = _padding(node, image, shape, padding, [1, *dilation])
        return emit(
            node, _aten.conv2d.default, image, kernel, bias, [1, *stride], [0, *padding], [1, *dilation], groups
        )

    def _transposed_convolution(self, node: Node) -> Node | None:
        sequence, weight, bias, stride, padding, output_padding, groups, dilation = _arguments(node)
        if sequence.meta["val"].dim() != 3:
            return None
        image = self._enter(node, sequence)
        kernel = emit(node, _aten.unsqueeze.default, weight, 2)
        windows = [1, *stride], [0, *padding], [0, *output_padding], groups, [1, *dilation]
        return emit(node, _aten.conv_transpose2d.input, image, kernel, bias, *windows)

    def _max_pool(self, node: Node) -> Node | None:
        sequence, kernel, stride, padding, dilation, ceil_mode = _arguments(node)
        if sequence not in self._images:
            return None
        windows = [1, *kernel], [1, *(stride or kernel)], [0, *padding], [1, *dilation]
        return emit(node, _aten.max_pool2d.default, self._images[sequence], *windows, ceil_mode)

    def _average_pool(self, node: Node) -> Node | None:
        sequence, kernel, stride, padding, ceil_mode, count_include_pad = _arguments(node)
        if sequence not in self._images:
            return None
        windows = [1, *kernel], [1, *(stride or kernel)], [0, *padding]
        return emit(node, _aten.avg_pool2d.default, self._images[sequence], *windows, ceil_mode, count_include_pad)

    def _adaptive_average_pool(self, node: Node) -> Node | None:
        sequence, (steps,) = node.args
        size = sequence.meta["val"].shape[-1]
        if sequence not in self._images or size % steps:
            return None
        window = [1, size // steps]
        return emit(node, _aten.avg_pool2d.default, self._images[sequence], window, window)

    def _pooled(self, node: Node) -> Node | None:
        sequence, dims, keepdim, *dtype = _arguments(node)
        if sequence not in self._images or dims not in ([-1], [2]) or any(dtype):
            return None
        return emit(node, node.target, self._images[sequence], [2, 3], keepdim)

    def _expand(self, node: Node) -> Node | None:
        sequence, shape = node.args
        if sequence not in self._images or len(shape) != 3:
            return None
        return emit(node, node.target, self._images[sequence], [*shape[:2], -1, shape[2]])

    def _cat(self, node: Node) -> Node | None:
        sequences, dim = _arguments(node)
        if not all(sequence in self._images for sequence in sequences):
            return None
        images = [self._images[sequence] for sequence in sequences]
        return emit(node, _aten.cat.default, images, _OF_SEQUENCE[dim])

    def _slice(self, node: Node) -> Node | None:
        sequence, dim, start, end, step = _arguments(node)
        if sequence not in self._images:
            return None
        image = self._images[sequence]
        steps, left = sequence.meta["val"].shape[-1], node.meta["val"].shape[-1]
        is_first = dim % 3 == 2 and not start and step == 1
        if is_first and image.target == _aten.conv2d.default and len(sequence.users) == 1:
            source, weight, bias, stride, padding, dilation, groups = _arguments(image)
            if stride == [1, 1] and steps - left <= padding[1]:
                # A causal convolution, which drops the results that overlap the padding after the sequence.
                ends = [padding[1], padding[1] - (steps - left)]
                padded = emit(image, _aten.constant_pad_nd.default, source, ends, 0.0)
                windows = stride, [0, 0], dilation, groups
                return emit(image, _aten.conv2d.default, padded, weight, bias, *windows)
        return emit(node, _aten.slice.Tensor, image, _OF_SEQUENCE[dim], start, end, step)

    def _part(self, node: Node) -> Node | None:
        parts, place = node.args
        if parts not in self._parts:
            if parts.target not in SPLITS or parts.args[0] not in self._images:
                return None
            sequence, sizes, dim = _arguments(parts)
            self._parts[parts] = emit(parts, parts.target, self._images[sequence], sizes, _OF_SEQUENCE[dim])
        return emit(node, getitem, self._parts[parts], place)

    def _select(self, node: Node) -> Node | None:
        sequence = node.args[0]
        indices = _selected(node) if sequence in self._images else None
        if indices is None:
            return None
        places = {_OF_SEQUENCE[dim]: index for dim, index in indices.items()}
        return _choose(self._program, node, self._images[sequence], places)

    def _elementwise(self, node: Node) -> Node | None:
        sequence, *rest = node.args
        # Padding of all three dimensions has six numbers, which don't match an image's dimensions.
        if sequence not in self._images or (node.target == _aten.constant_pad_nd.default and len(rest[0]) != 2):
            return None
        return emit(node, node.target, self._images[sequence], *rest, **node.kwargs)

    def _binary(self, node: Node) -> Node | None:
        one, other = node.args
        if one not in self._images and other not in self._images:
            return None
        if not isinstance(other, Node) or other.meta["val"].dim() == 0:
            return emit(node, node.target, self._images[one], other, **node.kwargs)
        if not isinstance(one, Node) or one.meta["val"].dim() != 3 or other.meta["val"].dim() != 3:
            return None
        return emit(node, node.target, self._enter(node, one), self._enter(node, other), **node.kwargs)
