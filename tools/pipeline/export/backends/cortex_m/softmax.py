"""Implements int8 softmax by a table of exponentials: torch_fusion::quantized_softmax and quantized_masked_softmax.

They compute the integers that softmax_by_table() and masked_softmax_by_table() of kernels/cortex_m/softmax.cpp compute.
An int8 value has one of 256 distances to the maximum, so that there are 256 exponentials; the dialect's operator
computes one for each value.

A mask that is added to scores before a softmax, as in causal attention, can't be quantized: numbers and minus infinity,
or a number of that effect, have no common scale. The operator omits the excluded elements from the sum instead.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.library import Library, impl, register_fake

from tools.pipeline.export.backends.cortex_m.own_layers import emit_int8, is_marked
from tools.pipeline.export.ir.constants import Constants, add_constant
from tools.pipeline.export.ir.operators import DEQUANTIZE, QUANTIZE, SOFTMAX
from tools.pipeline.export.ir.rewriting import emit, named_arguments, replace_node, rewrites
from tools.pipeline.export.rewrite.masks import EXCLUDED, before_views, find_step

_aten = torch.ops.aten

# The table's value for e^0.
_ONE = 32767
# The number of results for which the 512 bytes of a table pay off.
_MIN_RESULTS = 256
# Values below half a unit of the table add up to less than a hundredth of the sum of that many values.
_MAX_COUNT = 512
# The ops of constants in a module's graph, and in a program's.
_CONSTANT = ("get_attr", "placeholder")
# e^-10 is less than a tenth of half an integer of an int8 softmax.
_LEFT_OUT = 10.0

_library = Library("torch_fusion", "FRAGMENT")
_ARGUMENTS = "Tensor input, Tensor exponentials, int dim"
_library.define(f"quantized_softmax({_ARGUMENTS}) -> Tensor")
_library.define(f"quantized_softmax.out({_ARGUMENTS}, *, Tensor(a!) out) -> Tensor(a!)")
_MASKED = "Tensor input, Tensor exponentials, Tensor mask, int repeats"
_library.define(f"quantized_masked_softmax({_MASKED}) -> Tensor")
_library.define(f"quantized_masked_softmax.out({_MASKED}, *, Tensor(a!) out) -> Tensor(a!)")


def has_table(node: Node) -> bool:
    """Whether an int8 table of a softmax is worth its size, and exact enough."""
    if node.target not in SOFTMAX:
        return False
    shape = node.meta["val"].shape
    return math.prod(shape) >= _MIN_RESULTS and shape[named_arguments(node)["dim"]] <= _MAX_COUNT


@dataclass(frozen=True)
class Scores:
    """The operand of a softmax over the last dimension by a table: `source`, with an optional factor and mask.

    Attributes:
      factor: a constant of one element that multiplies or divides the source.
      divides: whether it divides.
      mask: a constant that is added.
      between: the operators that do so.
    """

    source: Node
    factor: Node | None
    divides: bool
    mask: Node | None
    between: tuple[Node, ...]

    def scale(self, value: Callable[[Node], Tensor | None]) -> float | None:
        """Returns the factor of the source, or None if the constants are not a positive number and a mask.

        Args:
          value: returns the constant value of a node.
        """
        mask = None if self.mask is None else value(self.mask)
        if self.mask is not None and (mask is None or not is_mask(mask)):
            return None
        factor = torch.ones(1) if self.factor is None else value(self.factor)
        if factor is None or not float(factor) > 0 or not math.isfinite(float(factor)):
            return None
        return 1 / float(factor) if self.divides else float(factor)


def scores_of(node: Node) -> Scores | None:
    """Returns the operand of a softmax that is worth a table, with the operators that are computed with it; None
    otherwise.
    """
    if not _is_of_rows(node):
        return None
    (source, mask), between = _operands(node.args[0], (_aten.add.Tensor,), node.meta["val"].shape), []
    if mask is not None:
        between.append(node.args[0])
    target = source.target
    (source, factor), scaled = _operands(source, (_aten.mul.Tensor, _aten.div.Tensor), node.meta["val"].shape), source
    if factor is not None and factor.meta["val"].numel() == 1:
        between.insert(0, scaled)
    else:
        source, factor = scaled, None
    if not between:
        return None
    return Scores(source, factor, target == _aten.div.Tensor, mask, tuple(between))


def _is_of_rows(node: Node) -> bool:
    """Whether a softmax is worth a table, and over the last dimension."""
    return has_table(node) and named_arguments(node)["dim"] in (-1, node.meta["val"].dim() - 1)


def _operands(node: Any, targets: Sequence[Any], shape: torch.Size) -> tuple[Node, Node | None]:
    """Returns the varying operand of one of these operators, of the result's shape, and the one that may be a constant.

    Other nodes, and nodes with several readers, are returned themselves.
    """
    if node.target not in targets or len(node.users) != 1 or node.kwargs or len(node.args) != 2:
        return node, None
    one, other = node.args
    pairs = [(one, other)] if node.target == _aten.div.Tensor else [(one, other), (other, one)]
    for varying, constant in pairs:
        if not isinstance(varying, Node) or not isinstance(constant, Node):
            continue
        if constant.op in _CONSTANT and varying.op != "get_attr" and varying.meta["val"].shape == shape:
            return varying, constant
    return node, None


def is_mask(value: Tensor) -> bool:
    """Whether a constant excludes some elements, but not all elements of a row, and adds zero to the others."""
    if not value.is_floating_point() or value.dim() == 0 or value.numel() == 0:
        return False
    is_excluded = value <= EXCLUDED
    return bool((is_excluded | (value == 0)).all() and is_excluded.any() and not is_excluded.all(-1).any())


def exponentials(scale: float) -> Tensor:
    """Returns e^-d for values d = 255, ... 0 units of `scale` below the maximum, int16 in 1 / 32767."""
    return (torch.exp(-scale * torch.arange(255, -1, -1, dtype=torch.float64)) * _ONE).round().to(torch.int16)


@impl(_library, "quantized_softmax", "CompositeExplicitAutograd")
def quantized_softmax(input: Tensor, exponentials: Tensor, dim: int) -> Tensor:
    """Computes softmax of int8 values with a result of scale 1 / 256 and zero point -128."""
    if input.numel() == 0:
        return torch.empty_like(input)
    values = input.to(torch.int64)
    values = exponentials.to(torch.int64)[255 - values.amax(dim, True) + values]
    factors = 2**30 // values.sum(dim, True)
    result = ((values * factors + 2**21) >> 22).clamp(max=255) - 128
    return torch.empty_like(input).copy_(result)


register_fake("torch_fusion::quantized_softmax")(lambda input, *_: torch.empty_like(input))


@impl(_library, "quantized_masked_softmax", "CompositeExplicitAutograd")
def quantized_masked_softmax(input: Tensor, exponentials: Tensor, mask: Tensor, repeats: int) -> Tensor:
    """Computes softmax of rows [..., outer, repeats, inner, count], without elements that are 0 in [outer, inner,
    count].
    """
    outer, inner, count = mask.shape
    rows = input.to(torch.int64).reshape(-1, outer, repeats, inner, count)
    is_read = (mask != 0).reshape(1, outer, 1, inner, count)
    most = torch.where(is_read, rows, -128).amax(-1, True)
    places = torch.where(is_read, 255 - most + rows, 0)
    values = torch.where(is_read, exponentials.to(torch.int64)[places], 0)
    factors = 2**30 // values.sum(-1, True)
    result = ((values * factors + 2**21) >> 22).clamp(max=255) - 128
    return result.to(torch.int8).reshape(input.shape)


register_fake("torch_fusion::quantized_masked_softmax")(lambda input, *_: torch.empty_like(input))


def arranged_mask(mask: Tensor, shape: torch.Size) -> tuple[Tensor, int]:
    """Returns a mask for scores of a shape in the format of quantized_masked_softmax(), with 0 and -1, and its
    `repeats`.
    """
    count, sizes = shape[-1], list(shape[:-1])
    own = [*[1] * (len(shape) - mask.dim()), *mask.shape[:-1]]
    rows = (mask > EXCLUDED).to(torch.int8).neg().reshape(*own, mask.shape[-1]).expand(*own, count)
    # Leading dimensions in which all rows repeat, dimensions of the mask, dimensions in which these repeat, and the
    # rest.
    first = next((dim for dim, size in enumerate(own) if size != 1), len(own))
    split = next((dim for dim in range(first, len(own)) if own[dim] != sizes[dim]), len(own))
    end = next((dim for dim in range(split, len(own)) if own[dim] != 1), len(own))
    if split == len(own) or own[end:] != sizes[end:]:
        # All of them form one group.
        rows = rows.expand(*own[:first], *sizes[first:], count)
        split = end = first
    arranged = rows.reshape(math.prod(sizes[first:split]), math.prod(sizes[end:]), count)
    return arranged.contiguous(), math.prod(sizes[split:end])


def write_masks(program: ExportedProgram) -> None:
    """Rewrites any form of masks before softmax operators as one sum of scores and a constant, in place.

    Views in between, such as of windows and their heads, move behind the softmax.
    """
    graph, constants = program.graph, Constants(program)
    for node in list(graph.nodes):
        if not _is_of_rows(node):
            continue
        masked = before_views(node)
        scores, mask = masked, torch.zeros(())
        while (step := find_step(scores, constants, _is_no_mask)) is not None and step.added is not None:
            if not (_changes_nothing(step.added) or is_mask(step.added)):
                break
            scores, mask = step.scores, mask + step.added
        is_sum = masked is node.args[0] and masked.target == _aten.add.Tensor and scores in masked.args
        is_written = scores is masked or is_sum
        if is_written or not (_changes_nothing(mask) or is_mask(mask)):
            continue
        with graph.inserting_before(node):
            if not _changes_nothing(mask):
                added = add_constant(program, f"{masked.name}_mask", mask)
                scores = emit(masked, _aten.add.Tensor, scores, added)
            result = emit(node, _aten.softmax.int, scores, -1)
            if scores.meta["val"].shape != node.meta["val"].shape:
                result = emit(node, _aten.reshape.default, result, list(node.meta["val"].shape))
        replace_node(program, node, result)
        graph.erase_node(node)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _changes_nothing(mask: Tensor) -> bool:
    return not bool((mask != 0).any())


def _is_no_mask(node: Node, is_subtracted: bool) -> bool:
    """Leaves out tensors that are no constants."""
    return False


@rewrites(QUANTIZE)
def lower_softmaxes(node: Node, program: ExportedProgram) -> Node | None:
    """Replaces each softmax that the quantizer annotated by the operators, in place."""
    layer = node.args[0]
    if not isinstance(layer, Node) or not is_marked(layer) or not has_table(layer):
        return None
    scores, constants = scores_of(layer), Constants(program)
    factor = None if scores is None else scores.scale(constants.value)
    if scores is None or factor is None:
        source, factor, mask = layer.args[0], 1.0, None
    else:
        source, mask = scores.source, None if scores.mask is None else constants.value(scores.mask)
    # The result has this scale, unless it shares that of another operator.
    if node.args[1:3] != (1 / 256, -128) or source.target != DEQUANTIZE or source.args[5] != torch.int8:
        return None
    operand, scale = source.args[0], source.args[1] * factor
    if mask is not None and float(mask[mask < 0].max()) + 255 * scale > -_LEFT_OUT:
        return None
    operator, arguments = torch.ops.torch_fusion.quantized_softmax.default, [named_arguments(layer)["dim"]]
    if mask is not None:
        arranged, repeats = arranged_mask(mask, layer.meta["val"].shape)
        operator = torch.ops.torch_fusion.quantized_masked_softmax.default
        arguments = [add_constant(program, f"{layer.name}_mask", arranged), repeats]
    table = add_constant(program, f"{layer.name}_exponentials", exponentials(scale))
    return emit_int8(node, layer, operator, operand, table, *arguments)
