"""Decomposes operators that ExecuTorch has no kernel interface for into those that it has.

Three-dimensional pooling becomes a two-dimensional one and a one-dimensional one. Sorting uses topk, which keeps the
order of equal elements and treats NaN as the largest value.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir import rewriting
from tools.pipeline.export.ir.control_flow import graphs_inside
from tools.pipeline.export.ir.rewriting import for_each
from tools.pipeline.export.rewrite.decompositions import small_matrices

_aten = torch.ops.aten
_functional = torch.nn.functional

# Operators of another name in place, and views that others may write to: what functionalization makes of them.
_SCATTERED = {
    _aten.as_strided.default: _aten.as_strided_scatter.default,
    _aten.diagonal.default: _aten.diagonal_scatter.default,
    _aten.fill_diagonal_.default: _aten.as_strided_scatter.default,
    _aten.bernoulli_.float: _aten.bernoulli.p,
    _aten.normal_.default: _aten.normal_functional.default,
}


def decompose(program: ExportedProgram) -> ExportedProgram:
    """Decomposes the operators of this module; returns a program without them unchanged."""
    graphs = [program.graph, *(inner.graph for _, inner in graphs_inside(program.graph_module))]
    called = {_functional_form(node.target) for graph in graphs for node in graph.nodes if node.op == "call_function"}
    table = dict(DECOMPOSITIONS)
    if any(_is_mixed_norm(node) for node in program.graph.nodes):
        table[_aten.layer_norm.default] = _layer_norm
    defaults = torch.export.default_decompositions()
    table |= {target: defaults[target] for target in _COMPOSITES}
    return rewriting.run_decompositions(program, table) if called & table.keys() else program


def decompose_all(program: ExportedProgram) -> ExportedProgram:
    """Decomposes the operators of this module, and functionalizes operators that work in place."""
    return rewriting.run_decompositions(program, DECOMPOSITIONS)


def functionalize(program: ExportedProgram) -> ExportedProgram:
    """Functionalizes operators that work in place."""
    return rewriting.run_decompositions(program, {})


def has_decomposition(node: Node) -> bool:
    """Whether a node calls an operator that this module decomposes."""
    return _functional_form(node.target) in DECOMPOSITIONS


def _functional_form(target: Any) -> Any:
    """Returns the functional form of an in-place operator: `aten.exp2.default` for `aten.exp2_.default`.

    Writing to a view becomes an operator that scatters.
    """
    if target in _SCATTERED:
        return _SCATTERED[target]
    name = getattr(target, "_opname", "")
    if not name.endswith("_") or name.startswith("_"):
        return target
    return getattr(getattr(_aten, name[:-1], None), target._overloadname, target)


def _is_static(x: Tensor) -> bool:
    return all(isinstance(size, int) for size in x.shape)


def _of_static_shape(function: Callable[..., Any]) -> Callable[..., Any]:
    """Leaves an operator unchanged whose first operand has a dynamic shape."""
    return lambda x, *args, **kwargs: function(x, *args, **kwargs) if _is_static(x) else NotImplemented


def _is_mixed_norm(node: Node) -> bool:
    """Whether a node is a layer normalization with weights of another dtype, which the edge dialect refuses."""
    if node.target != _aten.layer_norm.default:
        return False
    return len({tensor.meta["val"].dtype for tensor in node.all_input_nodes}) > 1


def _layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    if all(parameter is None or parameter.dtype == x.dtype for parameter in (weight, bias)):
        return NotImplemented
    # Eager mode also computes 16-bit floats in float32 and rounds once.
    return _functional.layer_norm(x.float(), normalized_shape, weight, bias, eps).to(x.dtype)


def _planes(x: Tensor) -> Tensor:
    """Reshapes an image [(N,) C, depth, height, width] to [planes, depth, height, width]."""
    return x.reshape(-1, *x.shape[-3:])


def _max_pool3d_with_indices(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    kernel = for_each(kernel, 3)
    stride, padding, dilation = for_each(stride or kernel, 3), for_each(padding, 3), for_each(dilation, 3)
    depth, height, width = x.shape[-3:]
    rows = (kernel[1:], stride[1:], padding[1:], dilation[1:], ceil_mode)
    flat, flat_indices = _aten.max_pool2d_with_indices(_planes(x), *rows)
    plane = math.prod(flat.shape[-2:])
    deep = (kernel[0], 1), (stride[0], 1), (padding[0], 0), (dilation[0], 1)
    out, indices = _aten.max_pool2d_with_indices(flat.reshape(-1, depth, plane), *deep, ceil_mode)
    # The index refers to pooled planes, whose elements have indices of their own.
    among = indices.reshape(indices.shape[0], -1)
    inside = flat_indices.reshape(-1, depth * plane).gather(1, among)
    positions = among // plane * (height * width) + inside
    shape = (*x.shape[:-3], out.shape[-2], *flat.shape[-2:])
    return out.reshape(shape), positions.reshape(shape)


def _max_pool3d(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return _max_pool3d_with_indices(x, *args, **kwargs)[0]


def _avg_pool3d(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    if not x.is_floating_point():
        return NotImplemented
    kernel = for_each(kernel, 3)
    stride, padding = for_each(stride or kernel, 3), for_each(padding, 3)
    # The first pooling computes sums if the divisor is overridden.
    first = None if divisor_override is None else 1
    options = (ceil_mode, count_include_pad)
    flat = _planes(x)
    if (*kernel[1:], *stride[1:], *padding[1:]) != (1, 1, 1, 1, 0, 0):
        flat = _functional.avg_pool2d(flat, kernel[1:], stride[1:], padding[1:], *options, first)
    deep = (kernel[0], 1), (stride[0], 1), (padding[0], 0)
    planes = flat.reshape(-1, x.shape[-3], math.prod(flat.shape[-2:]))
    out = _functional.avg_pool2d(planes, *deep, *options, divisor_override)
    return out.reshape(*x.shape[:-3], out.shape[-2], *flat.shape[-2:])


def _max_unpool(x: Tensor, indices: Tensor, output_size: Sequence[int], *_: Any) -> Tensor:
    """Scatters elements to their indices among zeros; the last one wins where several have the same index."""
    outer, size = x.shape[: -len(output_size)], math.prod(output_size)
    empty = torch.zeros(*outer, size, dtype=x.dtype)
    return empty.scatter(-1, indices.reshape(*outer, -1), x.reshape(*outer, -1)).reshape(*outer, *output_size)


def _adaptive_avg_pool3d(x: Tensor, output_size: Sequence[int]) -> Tensor:
    depth, height, width = output_size
    if depth == height == width == 1:
        return x.mean((-3, -2, -1), True)
    flat = _functional.adaptive_avg_pool2d(_planes(x), (height, width))
    out = _functional.adaptive_avg_pool2d(flat.reshape(-1, x.shape[-3], height * width), (depth, height * width))
    return out.reshape(*x.shape[:-3], depth, height, width)


def _adaptive_max_pool(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Computes maxima over windows that divide dimensions evenly: floor(i in / out) to ceil((i + 1) in / out)."""
    if 0 in output_size:
        return NotImplemented
    rank = len(output_size)
    sizes = x.shape[-rank:]
    if not any(size % count for size, count in zip(sizes, output_size, strict=True)):
        kernel = [size // count for size, count in zip(sizes, output_size, strict=True)]
        pool = _aten.max_pool2d_with_indices if rank == 2 else _max_pool3d_with_indices
        return pool(x, kernel, kernel)
    values, positions = x, None
    for axis in reversed(range(rank)):
        dim = x.dim() - rank + axis
        size, count = sizes[axis], output_size[axis]
        windows = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        parts = [values.narrow(dim, begin, end - begin) for begin, end in windows]
        # Dead code elimination removes the indices if no operator reads them.
        found = [part.argmax(dim, True) + begin for part, (begin, _) in zip(parts, windows, strict=True)]
        at = torch.cat(found, dim)
        values = torch.cat([part.amax(dim, True) for part in parts], dim)
        inner = math.prod(sizes[axis + 1 :])
        positions = at if positions is None else at * inner + positions.gather(dim, at)
    return values, positions


def _sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    if x.dtype == torch.bool:
        return NotImplemented
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    return torch.topk(x, x.shape[dim], dim, largest=descending, sorted=True)


def _stable_sort(x: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    return _sort(x, dim, descending)


def _argsort(x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    found = _sort(x, dim, descending)
    return found if found is NotImplemented else found[1]


def _stable_argsort(x: Tensor, *, stable: bool, dim: int = -1, descending: bool = False) -> Tensor:
    return _argsort(x, dim, descending)


def _kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return NotImplemented
    found = torch.topk(x, k, dim, largest=False, sorted=True)
    values, positions = (part.narrow(dim, k - 1, 1) for part in found)
    return (values, positions) if keepdim else (values.squeeze(dim), positions.squeeze(dim))


def _median(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return NotImplemented
    # The median is the lower of the two middle elements; NaN, if there is one, replaces it.
    values, positions = _kthvalue(x, (x.shape[dim] - 1) // 2 + 1, dim, True)
    if x.is_floating_point():
        highest = x.amax(dim, True)
        is_nan = highest.isnan()
        values = torch.where(is_nan, highest, values)
        positions = torch.where(is_nan, x.argmax(dim, True), positions)
    return (values, positions) if keepdim else (values.squeeze(dim), positions.squeeze(dim))


def _median_of_all(x: Tensor) -> Tensor:
    return _median(x.reshape(-1), 0)[0]


def _mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, ...]:
    if x.dim() == 0 or x.dtype == torch.bool:
        return NotImplemented
    values, places = _sort(x.movedim(dim, -1))
    most, first = (values.unsqueeze(-1) == values.unsqueeze(-2)).sum(-1).max(-1, True)
    # The least of the values that occur most, and where it is last.
    found = (part.gather(-1, first + most - 1).movedim(-1, dim) for part in (values, places))
    return tuple(part if keepdim else part.squeeze(dim) for part in found)


def _nanmedian(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return NotImplemented
    found = torch.topk(x, x.shape[dim], dim, largest=False, sorted=True)
    count = x.isnan().logical_not().sum(dim, True)
    rank = (count - 1).clamp(min=0) // 2
    values, positions = (part.gather(dim, rank) for part in found)
    return (values, positions) if keepdim else (values.squeeze(dim), positions.squeeze(dim))


def _nanmedian_of_all(x: Tensor) -> Tensor:
    return _nanmedian(x.reshape(-1), 0)[0]


def _scan(parts: tuple[Tensor, ...], dim: int, combine: Callable[..., tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Computes an inclusive scan with combine(), which takes the parts of the preceding elements and of the following
    ones.
    """
    length, step = parts[0].shape[dim] if parts[0].dim() else 1, 1
    while step < length:
        # Each round doubles the number of elements that are combined.
        before = [part.narrow(dim, 0, length - step) for part in parts]
        combined = combine(*before, *(part.narrow(dim, step, length - step) for part in parts))
        heads = (part.narrow(dim, 0, step) for part in parts)
        parts = tuple(torch.cat([head, part], dim) for head, part in zip(heads, combined, strict=True))
        step *= 2
    return parts


def _cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    factors = x.to(dtype or (x.dtype if x.is_floating_point() else torch.int64))
    return _scan((factors,), dim, lambda before, after: (after * before,))[0]


def _logcumsumexp(x: Tensor, dim: int) -> Tensor:
    return _scan((x,), dim, lambda before, after: (torch.logaddexp(before, after),))[0]


def _cumulative(is_further: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Computes cumulative extrema and the index of their last occurrence; NaN exceeds all other values."""

    def combine(value: Tensor, place: Tensor, other: Tensor, other_place: Tensor) -> tuple[Tensor, Tensor]:
        is_taken = (other != other) | ((value == value) & is_further(other, value))
        return torch.where(is_taken, other, value), torch.where(is_taken, other_place, place)

    def cumulative(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        shape = [1] * x.dim()
        if x.dim():
            shape[dim] = x.shape[dim]
        places = torch.arange(x.shape[dim] if x.dim() else 1).reshape(shape).expand(x.shape)
        values, found = _scan((x, places), dim, combine)
        return values.clone(), found.clone()

    return cumulative


def _is_negative(x: Tensor) -> Tensor:
    """Whether the sign bit is set; false for NaN."""
    # The reciprocal of a negative zero is negative.
    return (x < 0) | ((x == 0) & (x.reciprocal() < 0)) if x.is_floating_point() else x < 0


def _copysign(magnitude: Tensor, sign: Tensor) -> Tensor:
    magnitude = magnitude if magnitude.is_floating_point() else magnitude.float()
    return torch.where(_is_negative(sign), -magnitude.abs(), magnitude.abs())


def _hypot(one: Tensor, other: Tensor) -> Tensor:
    # Squares of large numbers would overflow to infinity.
    large, small = torch.maximum(one.abs(), other.abs()), torch.minimum(one.abs(), other.abs())
    ratio = small / torch.where(large == 0, torch.ones_like(large), large)
    return torch.where(large == torch.inf, large, large * (1 + ratio * ratio).sqrt())


def _sinc(x: Tensor) -> Tensor:
    angle = math.pi * (x if x.is_floating_point() else x.float())
    return torch.where(angle == 0, 1.0, angle.sin() / angle)


def _fftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    places = torch.arange(n, dtype=dtype or torch.get_default_dtype())
    return torch.where(places < (n + 1) // 2, places, places - n) / (n * d)


def _rfftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return torch.arange(n // 2 + 1, dtype=dtype or torch.get_default_dtype()) / (n * d)


def _logaddexp2(one: Tensor, other: Tensor) -> Tensor:
    larger, distance = torch.maximum(one, other), (one - other).abs()
    # The difference of equal infinities would be NaN.
    return larger + torch.where(one == other, torch.ones_like(larger), torch.log2(1 + torch.exp2(-distance)))


def _present(combine: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Returns the other number if one is NaN, and combine() of both otherwise."""

    def present(one: Tensor, other: Tensor) -> Tensor:
        return torch.where(one != one, other, torch.where(other != other, one, combine(one, other)))

    return present


def _bucketize(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return _searchsorted(boundaries, x, out_int32=out_int32, right=right)


def _searchsorted(
    ordered: Tensor,
    x: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    if sorter is not None:
        ordered = ordered.gather(-1, sorter)
    # Either each row of x has its own boundaries, or all rows share them.
    ordered = ordered if ordered.dim() == 1 else ordered.unsqueeze(-2)
    values = x.unsqueeze(-1)
    # NaN is above all boundaries.
    is_behind = ~(ordered > values) if right or side == "right" else ~(ordered >= values)
    return is_behind.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def _scatter_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if x.dim() == 0 or x.dtype == torch.bool:
        return NotImplemented
    dim %= x.dim()
    if any(index.shape[axis] != x.shape[axis] for axis in range(x.dim()) if axis != dim):
        return NotImplemented
    source = source[tuple(slice(size) for size in index.shape)]
    # [..., indices, elements]: whether an element is scattered to an index.
    goes = index.movedim(dim, -1).unsqueeze(-2) == torch.arange(x.shape[dim]).unsqueeze(-1)
    is_reached = goes.any(-1).movedim(-1, dim)
    if reduce in ("sum", "mean"):
        start = x if include_self else torch.where(is_reached, torch.zeros_like(x), x)
        total = start.scatter_add(dim, index, source)
        if reduce == "sum":
            return total
        count = (goes.sum(-1).movedim(-1, dim) + include_self).clamp(min=1).to(x.dtype)
        return total / count if x.is_floating_point() else torch.div(total, count, rounding_mode="floor")
    limits: Any = torch.finfo(x.dtype) if x.is_floating_point() else torch.iinfo(x.dtype)
    infinity = math.inf if x.is_floating_point() else limits.max
    neutral = {"amax": -infinity if x.is_floating_point() else limits.min, "amin": infinity, "prod": 1}[reduce]
    elements = torch.where(goes, source.movedim(dim, -1).unsqueeze(-2), neutral)
    combined = {"amax": torch.amax, "amin": torch.amin, "prod": torch.prod}[reduce](elements, -1)
    parts = combined.to(x.dtype).movedim(-1, dim)
    if not include_self:
        return torch.where(is_reached, parts, x)
    return {"amax": torch.maximum, "amin": torch.minimum, "prod": torch.mul}[reduce](x, parts)


def _histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    if not x.is_floating_point() or min == max:
        return NotImplemented
    values = x.reshape(-1, 1)
    # The last bin includes its upper bound, as in PyTorch.
    place = ((values - min) * bins / (max - min)).floor().clamp(max=bins - 1)
    is_inside = (values >= min) & (values <= max)
    return (is_inside & (place == torch.arange(bins))).sum(0).to(x.dtype)


def _bilinear(one: Tensor, other: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    # weight is [out, in of one, in of other].
    out, _, inputs = weight.shape
    rows = _functional.linear(one, weight.transpose(1, 2).flatten(0, 1)).unflatten(-1, (out, inputs))
    result = (rows * other.unsqueeze(-2)).sum(-1)
    return result if bias is None else result + bias


def _baddbmm(term: Tensor, one: Tensor, other: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    product = torch.bmm(one, other)
    # Skipping factors of one keeps the operators quantizable: a mask of minus infinity needs no product, and an int8
    # product without the mask has a range.
    return (product if alpha == 1 else product * alpha) + (term if beta == 1 else term * beta)


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if not _is_static(indices) or not _is_static(offsets):
        return NotImplemented
    starts = offsets[:-1] if include_last_offset else offsets
    bags = torch.arange(starts.shape[0]).unsqueeze(1)
    places = torch.arange(indices.shape[0])
    # [bags, indices]: whether an index belongs to a bag.
    belongs = ((places.unsqueeze(1) >= starts).sum(1) - 1) == bags
    if padding_idx is not None and padding_idx >= 0:
        belongs = belongs & (indices != padding_idx)
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    members = belongs.to(weight.dtype)
    if mode == 2:
        lowest = torch.where(belongs.unsqueeze(2), rows, -math.inf).amax(1)
        out = torch.where(belongs.any(1, True), lowest, 0.0)
    else:
        out = members @ rows
        if mode == 1:
            out = out / members.sum(1, True).clamp(min=1)
    unused = offsets.new_empty(0)
    return out, unused, unused, unused


def _windows(size: int, kernel: int, dilation: int, padding: int, stride: int) -> int:
    """Returns the number of windows of a kernel along a dimension, by the documentation of torch.nn.Unfold."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _im2col(
    x: Tensor, kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Tensor:
    # PyTorch's own decomposition gathers element by element.
    *batch, channels, height, width = x.shape
    rows, columns = (
        _windows(size, *axis) for size, *axis in zip((height, width), kernel, dilation, padding, stride, strict=True)
    )
    if any(padding):
        x = _functional.pad(x, [padding[1], padding[1], padding[0], padding[0]])
    if [*kernel] == [*stride] and [*dilation] == [1, 1]:
        # The windows are patches that don't overlap.
        x = x[..., : rows * kernel[0], : columns * kernel[1]]
        patches = x.reshape(*batch, channels, rows, kernel[0], columns, kernel[1])
        elements = patches.permute(*range(len(batch) + 1), *(len(batch) + place for place in (2, 4, 1, 3)))
    else:
        elements = torch.stack(
            [
                x[
                    ...,
                    row * dilation[0] : row * dilation[0] + (rows - 1) * stride[0] + 1 : stride[0],
                    column * dilation[1] : column * dilation[1] + (columns - 1) * stride[1] + 1 : stride[1],
                ]
                for row in range(kernel[0])
                for column in range(kernel[1])
            ],
            -3,
        )
    return elements.reshape(*batch, channels * kernel[0] * kernel[1], rows * columns)


def _col2im(
    x: Tensor,
    size: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    batch = x.shape[:-2]
    channels = x.shape[-2] // (kernel[0] * kernel[1])
    axes = [*zip(size, kernel, dilation, padding, stride, strict=True)]
    rows, columns = (_windows(*axis) for axis in axes)
    elements = x.reshape(*batch, channels, kernel[0], kernel[1], rows, columns)
    if [*kernel] == [*stride] and [*dilation] == [1, 1]:
        patches = elements.permute(*range(len(batch) + 1), *(len(batch) + place for place in (3, 1, 4, 2)))
        image = patches.reshape(*batch, channels, rows * kernel[0], columns * kernel[1])
        return _placed(image, axes, (0, 0))
    total: Tensor | None = None
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            # Spreads the elements that all windows have at one offset by the stride of the windows.
            spread = elements[..., row, column, :, :]
            if [*stride] != [1, 1]:
                spread = spread.unsqueeze(-2).unsqueeze(-1)
                spread = _functional.pad(spread, [0, stride[1] - 1, 0, 0, 0, stride[0] - 1])
                spread = spread.reshape(*batch, channels, rows * stride[0], columns * stride[1])
            spread = _placed(spread, axes, (row, column))
            total = spread if total is None else total + spread
    assert total is not None
    return total


def _placed(elements: Tensor, axes: Sequence[Sequence[int]], place: Sequence[int]) -> Tensor:
    """Pads the elements that windows have at one offset to their positions in the image, and crops the padding."""
    for dim, (size, _, dilation, padding, _), number in zip((-2, -1), axes, place, strict=True):
        begin = number * dilation - padding
        kept = elements[(..., slice(max(-begin, 0), max(size - begin, 0)), *[slice(None)] * (-1 - dim))]
        before = min(max(begin, 0), size)
        ends = [before, size - before - kept.shape[dim]]
        elements = _functional.pad(kept, [*[0, 0] * (-1 - dim), *ends]) if any(ends) else kept
    return elements


# Rows of up to so many pixels are interpolated by a dense matrix. Beyond that it costs more than gathering four pixels
# for each result.
_DENSE = 64


def _cubic(distance: Tensor, a: float) -> Tensor:
    """Returns the weight at a distance: R. Keys, Cubic Convolution Interpolation for Digital Image Processing, equation
    4.
    """
    x = distance.abs()
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return torch.where(x <= 1, near, torch.where(x < 2, far, 0.0))


def _interpolated(x: Tensor, places: Tensor, _: float) -> Tensor:
    size = x.shape[-1]
    if size == 1:
        return x.expand(*x.shape[:-1], places.shape[0])
    if size <= _DENSE:
        weights = _cubic(torch.arange(-2, size + 2) - places.unsqueeze(1), -0.75)
        # Indices beyond the image are clamped to its edge pixels.
        first, last = weights[:, :3].sum(1, True), weights[:, -3:].sum(1, True)
        return _functional.linear(x, torch.cat([first, weights[:, 3:-3], last], 1).to(x.dtype))
    total: Tensor | None = None
    for step in range(-1, 3):
        pixels = places.floor() + step
        chosen = x.index_select(-1, pixels.clamp(0, size - 1).to(torch.int64))
        part = chosen * _cubic(pixels - places, -0.75).to(x.dtype)
        total = part if total is None else total + part
    assert total is not None
    return total


def _smoothed(x: Tensor, places: Tensor, step: float) -> Tensor:
    weights = _cubic((torch.arange(x.shape[-1]) - places.unsqueeze(1)) / max(step, 1.0), -0.5)
    return _functional.linear(x, (weights / weights.sum(1, True)).to(x.dtype))


def _bicubic(resample: Callable[[Tensor, Tensor, float], Tensor], is_cornered: bool) -> Callable[..., Tensor]:
    """Resamples images along rows, then along columns, at the positions of torch.nn.functional.interpolate.

    Args:
      resample: resamples the last dimension at positions in pixels, which are a constant distance apart.
      is_cornered: whether aligned corners put the first position on the first pixel.
    """

    def resample_both(
        x: Tensor,
        size: Sequence[int] | None,
        align_corners: bool,
        scales_h: Sequence[float] | float | None = None,
        scales_w: float | None = None,
    ) -> Tensor:
        # The scales are one list, or two arguments.
        scales = scales_h if isinstance(scales_h, Sequence) else (scales_h, scales_w)
        for dim in (3, 2):
            scale = scales[dim - 2]
            pixels = x.shape[dim]
            results = size[dim - 2] if size is not None else math.floor(pixels * (scale or 1.0))
            step = 1 / scale if scale else pixels / results
            if align_corners:
                step = (pixels - 1) / (results - 1) if results > 1 else 0.0
            places = torch.arange(results, dtype=torch.float32)
            places = places * step if align_corners and is_cornered else (places + 0.5) * step - 0.5
            x = resample(x.transpose(dim, 3), places, step).transpose(dim, 3)
        return x

    return resample_both


def _affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """Multiplies the positions of pixels by matrices; PyTorch decomposes it to products and sums for each pixel."""
    batch, _, *sides = size
    axes = [torch.linspace(-1, 1, side) if side > 1 else torch.zeros(1) for side in sides]
    if not align_corners:
        axes = [axis * ((side - 1) / side) for axis, side in zip(axes, sides, strict=True)]
    places = torch.meshgrid(*axes, indexing="ij")
    base = torch.stack([*reversed(places), torch.ones(sides)], -1).reshape(-1, len(sides) + 1).to(theta.dtype)
    # Layers whose weights are computed stay in floating point, as a grid has to.
    grids = [_functional.linear(base, matrix) for matrix in theta.unbind()]
    return (torch.stack(grids) if batch > 1 else grids[0]).reshape(batch, *sides, len(sides))


# PyTorch itself decomposes these to operators of the table.
_COMPOSITES = (
    _aten.adaptive_max_pool1d.default,
    _aten.msort.default,
    _aten.nanquantile.default,
    _aten.nanquantile.scalar,
    _aten.quantile.default,
    _aten.quantile.scalar,
    *small_matrices.COMPOSITES,
)


def _one_hot(indices: Tensor, classes: int) -> Tensor:
    return (indices.unsqueeze(-1) == torch.arange(classes)).to(torch.int64)


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    return (loss, loss.mean(), loss.sum())[reduction]


def _cosine_embedding_loss(
    one: Tensor, other: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    dim = target.dim()
    lengths = ((one * one).sum(dim) + 1e-12) * ((other * other).sum(dim) + 1e-12)
    cosine = (one * other).sum(dim) / lengths.sqrt()
    apart = torch.where(target == -1, (cosine - margin).clamp(min=0), 0)
    return _reduced(torch.where(target == 1, 1 - cosine, 0) + apart, reduction)


def _hinge_embedding_loss(x: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    apart = torch.where(target == 1, 0, (margin - x).clamp(min=0))
    return _reduced(torch.where(target == -1, 0, x) + apart, reduction)


def _multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    # PyTorch's own decomposition counts classes behind the first -1 as targets.
    is_listed = (target < 0).cumsum(-1) == 0
    places = torch.where(is_listed, target, 0)
    is_target = (is_listed.unsqueeze(-1) & (places.unsqueeze(-1) == torch.arange(x.shape[-1]))).any(-2)
    # [..., targets, classes]
    margins = (1 - x.gather(-1, places).unsqueeze(-1) + x.unsqueeze(-2)).clamp(min=0)
    counted = is_listed.unsqueeze(-1) & ~is_target.unsqueeze(-2)
    return _reduced((margins * counted.to(x.dtype)).sum((-2, -1)) / x.shape[-1], reduction)


def _vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    count = x.shape[0] if N is None else N
    factors = x.unsqueeze(-1).expand(-1, max(count - 1, 0))
    powers = torch.cat([x.new_ones(x.shape[0], min(count, 1)), *([_cumprod(factors, -1)] if count > 1 else [])], -1)
    return powers if increasing else powers.flip(-1)


def _uniform(x: Tensor, begin: float = 0.0, end: float = 1.0, **_: Any) -> Tensor:
    return torch.rand(x.shape, dtype=x.dtype) * (end - begin) + begin


def _exponential(x: Tensor, rate: float = 1.0, **_: Any) -> Tensor:
    # A device's rand() may return 0, and PyTorch's exponential numbers are finite.
    return torch.rand(x.shape, dtype=x.dtype).clamp(min=2**-25).log() / -rate


def _normal(mean: Tensor | float, deviation: Tensor | float = 1.0, **_: Any) -> Tensor:
    shape = torch.broadcast_shapes(*(each.shape for each in (mean, deviation) if isinstance(each, Tensor)))
    return torch.randn(shape) * deviation + mean


def _normal_like(x: Tensor, mean: float = 0.0, deviation: float = 1.0, **_: Any) -> Tensor:
    return torch.randn(x.shape, dtype=x.dtype) * deviation + mean


def _randint(low: int, high: int, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return ((torch.rand(size) * (high - low)).floor() + low).to(dtype or torch.int64)


def _multinomial(x: Tensor, samples: int, replacement: bool = False, **_: Any) -> Tensor:
    """Draws by exponential races: P. Efraimidis and P. Spirakis, Weighted Random Sampling with a Reservoir, 2006."""
    if samples == 1 or not replacement:
        return torch.topk(x / _exponential(x), samples, -1)[1]
    weights = x.unsqueeze(-2).expand(*x.shape[:-1], samples, x.shape[-1])
    return (weights / _exponential(weights)).argmax(-1)


def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    return x.reshape(-1).index_put((index.reshape(-1),), source.reshape(-1), accumulate).reshape(x.shape)


def _pow(x: Tensor, exponent: float) -> Tensor:
    """Replaces powers by the operations that PyTorch computes them with, so that a program needs no pow() for them."""
    if x.dtype == torch.bool or (isinstance(exponent, float) and not x.is_floating_point()):
        return NotImplemented
    if exponent == 2:
        return x * x
    if x.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    if exponent == 3:
        return x * x * x
    if exponent == -2:
        return (x * x).reciprocal()
    root = {0.5: torch.sqrt, -0.5: torch.rsqrt, -1.0: torch.reciprocal}.get(exponent)
    return NotImplemented if root is None else root(x)


def _vector_norm(
    x: Tensor,
    order: float = 2,
    dim: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """A Euclidean norm without pow()."""
    if order != 2 or x.dtype not in (torch.float32, torch.float64) or dtype not in (None, x.dtype):
        return NotImplemented
    return (x * x).sum(dim or list(range(x.dim())), keepdim).sqrt()


def _rrelu(x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, _: object = None) -> Tensor:
    return NotImplemented if training else _functional.leaky_relu(x, (lower + upper) / 2)


# Maps operators to equivalent functions. A function returns NotImplemented for cases that it leaves unchanged.
def _as_strided_scatter(
    x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    if not x.is_contiguous():
        return NotImplemented
    indices = torch.full((1,), x.storage_offset() if storage_offset is None else storage_offset)
    for count, distance in zip(size, stride, strict=True):
        indices = (indices[:, None] + torch.arange(count) * distance).reshape(-1)
    return x.reshape(-1).index_put((indices,), src.reshape(-1)).reshape(x.shape)


def _diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    indices = torch.arange(x.numel()).reshape(x.shape).diagonal(offset, dim1, dim2).reshape(-1)
    return x.reshape(-1).index_put((indices,), src.reshape(-1)).reshape(x.shape)


def _fake_quantized(x: Tensor, scale: Tensor | float, zero_point: Tensor | float, least: int, most: int) -> Tensor:
    steps = torch.round(x * (1 / scale)) + zero_point
    return (steps.clamp(least, most) - zero_point) * scale


def _fake_quantized_channels(x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, least: int, most: int) -> Tensor:
    sizes = [-1 if dim == axis % x.dim() else 1 for dim in range(x.dim())]
    return _fake_quantized(x, scale.reshape(sizes), zero_point.reshape(sizes), least, most)


# They replace calls whose first operand has a static shape.
_OF_STATIC_SHAPES: dict[torch._ops.OpOverload, Callable[..., Any]] = {
    _aten._adaptive_avg_pool3d.default: _adaptive_avg_pool3d,
    _aten._upsample_bicubic2d_aa.default: _bicubic(_smoothed, is_cornered=False),
    _aten._upsample_bicubic2d_aa.vec: _bicubic(_smoothed, is_cornered=False),
    _aten.adaptive_avg_pool3d.default: _adaptive_avg_pool3d,
    _aten.adaptive_max_pool2d.default: _adaptive_max_pool,
    _aten.adaptive_max_pool3d.default: _adaptive_max_pool,
    _aten.affine_grid_generator.default: _affine_grid,
    _aten.argsort.default: _argsort,
    _aten.argsort.stable: _stable_argsort,
    _aten.as_strided_scatter.default: _as_strided_scatter,
    _aten.avg_pool3d.default: _avg_pool3d,
    _aten.col2im.default: _col2im,
    _aten.cummax.default: _cumulative(torch.ge),
    _aten.cummin.default: _cumulative(torch.le),
    _aten.cumprod.default: _cumprod,
    _aten.diagonal_scatter.default: _diagonal_scatter,
    _aten.histc.default: _histc,
    _aten.im2col.default: _im2col,
    _aten.kthvalue.default: _kthvalue,
    _aten.logcumsumexp.default: _logcumsumexp,
    _aten.max_pool3d.default: _max_pool3d,
    _aten.max_pool3d_with_indices.default: _max_pool3d_with_indices,
    _aten.max_unpool2d.default: _max_unpool,
    _aten.max_unpool3d.default: _max_unpool,
    _aten.median.default: _median_of_all,
    _aten.median.dim: _median,
    _aten.mode.default: _mode,
    _aten.multilabel_margin_loss.default: _multilabel_margin_loss,
    _aten.nanmedian.default: _nanmedian_of_all,
    _aten.nanmedian.dim: _nanmedian,
    _aten.scatter_reduce.two: _scatter_reduce,
    _aten.sort.default: _sort,
    _aten.sort.stable: _stable_sort,
    _aten.upsample_bicubic2d.default: _bicubic(_interpolated, is_cornered=True),
    _aten.upsample_bicubic2d.vec: _bicubic(_interpolated, is_cornered=True),
}

DECOMPOSITIONS: dict[torch._ops.OpOverload, Callable[..., Any]] = {
    **dict.fromkeys((_aten.__lshift__.Scalar, _aten.__lshift__.Tensor), torch.bitwise_left_shift),
    **dict.fromkeys((_aten.__rshift__.Scalar, _aten.__rshift__.Tensor), torch.bitwise_right_shift),
    _aten._embedding_bag.default: _embedding_bag,
    _aten._embedding_bag_forward_only.default: _embedding_bag,
    _aten._sparse_addmm.default: torch.addmm,
    _aten._sparse_mm.default: torch.mm,
    _aten.baddbmm.default: _baddbmm,
    _aten.bilinear.default: _bilinear,
    _aten.bucketize.Tensor: _bucketize,
    _aten.copysign.Tensor: _copysign,
    _aten.cosine_embedding_loss.default: _cosine_embedding_loss,
    _aten.dist.default: lambda one, other, p=2: torch.linalg.vector_norm(one - other, p),
    _aten.embedding_bag.padding_idx: _embedding_bag,
    _aten.exp2.default: lambda operand: torch.pow(2.0, operand),
    _aten.fake_quantize_per_channel_affine.default: _fake_quantized_channels,
    _aten.fake_quantize_per_tensor_affine.default: _fake_quantized,
    _aten.fake_quantize_per_tensor_affine.tensor_qparams: _fake_quantized,
    _aten.fft_fftfreq.default: _fftfreq,
    _aten.fft_rfftfreq.default: _rfftfreq,
    _aten.fmax.default: _present(torch.maximum),
    _aten.fmin.default: _present(torch.minimum),
    _aten.hinge_embedding_loss.default: _hinge_embedding_loss,
    _aten.hypot.default: _hypot,
    _aten.ldexp.Tensor: lambda operand, exponent: operand * torch.pow(2.0, exponent),
    _aten.linalg_vector_norm.default: _vector_norm,
    _aten.logaddexp2.default: _logaddexp2,
    _aten.one_hot.default: _one_hot,
    _aten.pow.Tensor_Scalar: _pow,
    _aten.put.default: _put,
    _aten.rrelu.default: _rrelu,
    _aten.searchsorted.Tensor: _searchsorted,
    _aten.signbit.default: _is_negative,
    _aten.sinc.default: _sinc,
    _aten.square.default: lambda operand: _pow(operand, 2),
    _aten.vander.default: _vander,
    _aten.var_mean.dim: lambda operand, dim, unbiased=True, keepdim=False: torch.var_mean(
        operand, dim, correction=int(unbiased), keepdim=keepdim
    ),
    **{target: _of_static_shape(function) for target, function in _OF_STATIC_SHAPES.items()},
    **small_matrices.DECOMPOSITIONS,
    # Draws, made of those of rand() and randn(), which have kernels.
    **dict.fromkeys(
        (_aten.bernoulli.p, _aten.bernoulli.Tensor), lambda x, p=0.5, **_: (torch.rand(x.shape) < p).to(x.dtype)
    ),
    _aten.exponential.default: _exponential,
    _aten.geometric.default: lambda x, p, **_: _exponential(x, -math.log1p(-p)).ceil(),
    _aten.log_normal.default: lambda x, mean=1.0, deviation=2.0, **_: _normal_like(x, mean, deviation).exp(),
    _aten.multinomial.default: _multinomial,
    _aten.normal.Tensor_Tensor: _normal,
    _aten.normal.Tensor_float: _normal,
    _aten.normal.float_Tensor: _normal,
    _aten.normal.float_float: lambda mean, deviation, size, **_: torch.randn(size) * deviation + mean,
    _aten.normal_functional.default: _normal_like,
    _aten.rand_like.default: _uniform,
    _aten.randint.default: lambda high, size, **options: _randint(0, high, size, **options),
    _aten.randint.low: _randint,
    _aten.randint_like.default: lambda x, high, **_: _randint(0, high, x.shape, dtype=x.dtype),
    _aten.randint_like.low_dtype: lambda x, low, high, **_: _randint(low, high, x.shape, dtype=x.dtype),
    _aten.randn_like.default: _normal_like,
    _aten.randperm.default: lambda count, **_: torch.rand(count).argsort(),
    _aten.uniform.default: _uniform,
}
