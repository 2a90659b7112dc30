"""Replaces normalization that a model's author wrote out by one operator, which the quantizer handles as a unit.

The pass finds layer normalization and RMSNorm over the last dimension, and over the channels of images, in any order of
these steps: an optional difference from the mean; a product with the reciprocal root, or a quotient by the root, of the
mean square or of the variance, or by the Euclidean norm; factors and a term per channel. Instance normalization becomes
group normalization.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.constants import is_constant
from tools.pipeline.export.ir.dim_orders import IMAGE, PIXELS
from tools.pipeline.export.ir.rewriting import as_list, emit, named_arguments

_aten = torch.ops.aten

_SQUARE_ROOTS = {0.5: False, -0.5: True}
# The limit of an epsilon that is added to a standard deviation; beyond it, one under the root would differ too much.
_MAX_EPSILON = 1e-3


@dataclass(frozen=True)
class _Root:
    """The root of a mean square, or of a variance.

    Attributes:
      values: the tensor that is squared: the original one, or its difference from the mean.
      is_variance: whether `values` is the tensor whose variance is computed.
      factor: the factor of the root of the mean square.
    """

    values: Node
    is_variance: bool
    dim: int
    epsilon: float
    factor: float = 1.0


def find_norms(program: ExportedProgram) -> ExportedProgram:
    """Replaces written-out normalization by layer_norm, rms_norm and group_norm, in place."""
    graph = program.graph
    for node in list(graph.nodes):
        if node.target == _aten.instance_norm.default:
            _group_instances(node)
    # In reverse order: a product may be a part of a larger one.
    for node in reversed(list(graph.nodes)):
        if node.target in (_aten.mul.Tensor, _aten.div.Tensor):
            _replace(node)
    graph.eliminate_dead_code()
    return program


def _group_instances(node: Node) -> None:
    x, weight, bias, mean, variance, uses_input, _, epsilon, *_ = node.args
    if not uses_input or mean is not None or variance is not None:
        return
    with node.graph.inserting_before(node):
        grouped = emit(node, _aten.group_norm.default, x, x.meta["val"].shape[1], weight, bias, epsilon)
    node.replace_all_uses_with(grouped)
    node.graph.erase_node(node)


def _replace(product: Node) -> None:
    numerators, denominators = _factors(product, True)
    roots = [(node, found) for node in numerators if (found := _root(node, True)) is not None]
    roots += [(node, found) for node in denominators if (found := _root(node, False)) is not None]
    if len(roots) != 1 or len(denominators) != (1 if roots[0][0] in denominators else 0):
        return
    node, root = roots[0]
    others = [each for each in numerators if each is not node]
    weights = [each for each in others if is_constant(each)]
    values = [each for each in others if not is_constant(each)]
    if len(values) != 1:
        return
    (x,) = values
    source = _less_mean(x, root.dim)
    if root.is_variance:
        if source is None or not _are_same(source, root.values):
            return
    elif not _are_same(x, root.values):
        return
    shape = product.meta["val"].shape
    rank, size = len(shape), shape[root.dim]
    is_image = rank == 4 and root.dim == 1
    if (not is_image and root.dim != rank - 1) or x.meta["val"].shape != shape:
        return
    last, bias = product, None
    if not all(_is_per_channel(weight, size, rank - root.dim) for weight in weights):
        return
    users = list(product.users)
    if len(users) == 1 and users[0].target == _aten.add.Tensor and not users[0].kwargs:
        terms = [each for each in users[0].args if isinstance(each, Node) and is_constant(each)]
        if len(terms) == 1 and _is_per_channel(terms[0], size, rank - root.dim):
            last, bias = users[0], terms[0]
    with last.graph.inserting_before(last):
        result = _emit(last, source or x, source is not None, size, weights, bias, root, is_image)
    last.replace_all_uses_with(result)
    last.graph.erase_node(last)
    if last is not product:
        product.graph.erase_node(product)


def _emit(
    origin: Node,
    x: Node,
    is_centered: bool,
    size: int,
    weights: list[Node],
    bias: Node | None,
    root: _Root,
    is_image: bool,
) -> Node:
    def vector(constant: Node) -> Node:
        if constant.meta["val"].numel() != 1 or size == 1:
            return emit(origin, _aten.reshape.default, constant, [size])
        one = emit(origin, _aten.reshape.default, constant, [1])
        return emit(origin, _aten.expand.default, one, [size])

    weight = None
    for each in map(vector, weights):
        weight = each if weight is None else emit(origin, _aten.mul.Tensor, weight, each)
    if root.factor != 1.0:
        if weight is None:
            weight = emit(origin, _aten.full.default, [size], 1.0 / root.factor)
        else:
            weight = emit(origin, _aten.mul.Tensor, weight, 1.0 / root.factor)
    term = None if bias is None else vector(bias)
    if is_image:
        x = emit(origin, _aten.permute.default, x, PIXELS)
    if is_centered:
        result = emit(origin, _aten.layer_norm.default, x, [size], weight, term, root.epsilon)
    else:
        result = emit(origin, _aten.rms_norm.default, x, [size], weight, root.epsilon)
        if term is not None:
            result = emit(origin, _aten.add.Tensor, result, term)
    return emit(origin, _aten.permute.default, result, IMAGE) if is_image else result


def _is_per_channel(constant: Node, size: int, dims: int) -> bool:
    """Whether a constant has one element, or one per channel of the dimension with index -`dims`."""
    shape = constant.meta["val"].shape
    if constant.meta["val"].numel() == 1:
        return len(shape) <= dims
    return constant.meta["val"].numel() == size and len(shape) >= dims and shape[len(shape) - dims] == size


def _factors(node: Any, is_last: bool = False) -> tuple[list[Node], list[Node]]:
    """Returns the numerators and denominators of a product, as far back as nothing else reads them."""
    if not isinstance(node, Node):
        return [], []
    is_product = node.target in (_aten.mul.Tensor, _aten.div.Tensor) and len(set(node.all_input_nodes)) == 2
    if is_product and (is_last or len(node.users) == 1) and not is_constant(node):
        first, second = (_factors(operand) for operand in node.args)
        if node.target == _aten.div.Tensor:
            return first[0] + second[1], first[1] + second[0]
        return first[0] + second[0], first[1] + second[1]
    if node.target == _aten.type_as.default and len(node.users) == 1 and _keeps_dtype(node):
        return _factors(node.args[0])
    return [node], []


def _keeps_dtype(node: Node) -> bool:
    return bool(node.meta["val"].dtype == node.args[0].meta["val"].dtype)


def _root(node: Node, is_reciprocal: bool) -> _Root | None:
    """Returns the root, or its reciprocal, of a mean square plus an epsilon."""
    if node.target == _aten.reciprocal.default and is_reciprocal:
        return _root(node.args[0], False)
    if node.target == (_aten.rsqrt.default if is_reciprocal else _aten.sqrt.default):
        return _mean_square(node.args[0])
    if node.target == _aten.pow.Tensor_Scalar and _SQUARE_ROOTS.get(node.args[1]) == is_reciprocal:
        return _mean_square(node.args[0])
    if is_reciprocal:
        return None
    if node.target == _aten.expand.default:
        return _euclidean(node.args[0])
    # A standard deviation plus an epsilon.
    deviation, epsilon = _with_epsilon(node)
    if deviation.target in (_aten.std.dim, _aten.std.correction) and 0.0 <= epsilon <= _MAX_EPSILON:
        found = _variance(deviation)
        if found is not None:
            return _Root(found.values, True, found.dim, epsilon**2, found.factor)
    return None


def _euclidean(node: Node) -> _Root | None:
    """Returns the Euclidean norm over a dimension, with the limit by which normalize() avoids zero."""
    if node.target != _aten.clamp_min.default or not 0.0 < node.args[1] <= _MAX_EPSILON:
        return None
    root, epsilon = node.args
    if root.target != _aten.sqrt.default or (dim := _reduced_dim(root.args[0], _aten.sum.dim_IntList)) is None:
        return None
    values = _squared(root.args[0].args[0])
    if values is None:
        return None
    size = values.meta["val"].shape[dim]
    return _Root(values, False, dim, epsilon**2 / size, size**0.5)


def _with_epsilon(node: Node) -> tuple[Node, float]:
    if node.target == _aten.add.Tensor and not node.kwargs:
        operand, epsilon = node.args
        if isinstance(operand, Node) and isinstance(epsilon, (int, float)):
            return operand, float(epsilon)
    return node, 0.0


def _mean_square(node: Any) -> _Root | None:
    if not isinstance(node, Node):
        return None
    square, epsilon = _with_epsilon(node)
    if epsilon < 0.0:
        return None
    if square.target in (_aten.var.dim, _aten.var.correction):
        found = _variance(square)
        # With an unbiased variance, the epsilon is not added to the mean square itself.
        return None if found is None else _Root(found.values, True, found.dim, epsilon / found.factor**2, found.factor)
    dim = _reduced_dim(square, _aten.mean.dim)
    values = None if dim is None else _squared(square.args[0])
    return None if dim is None or values is None else _Root(values, False, dim, epsilon)


def _squared(node: Node) -> Node | None:
    """Returns what a node is the square of; decompositions.py writes all squares as products."""
    is_square = node.target == _aten.mul.Tensor and node.args[0] is node.args[1]
    return node.args[0] if is_square else None


def _variance(node: Node) -> _Root | None:
    """Returns the variance, or the standard deviation, over one dimension that is kept."""
    given = named_arguments(node)
    x, dims = given["self"], given["dim"]
    if not given["keepdim"] or dims is None or len(dims) != 1:
        return None
    correction = given["correction"] if "correction" in given else int(given["unbiased"])
    rank = x.meta["val"].dim()
    size = x.meta["val"].shape[dims[0]]
    correction = 1 if correction is None else correction
    if size <= correction:
        return None
    return _Root(x, True, dims[0] % rank, 0.0, float((size / (size - correction)) ** 0.5))


def _reduced_dim(node: Node, reduction: Any) -> int | None:
    """Returns the single dimension, which is kept, of a mean or a sum."""
    if node.target != reduction or node.kwargs or len(node.args) < 3 or not node.args[2]:
        return None
    dims = as_list(node.args[1])
    return dims[0] % node.args[0].meta["val"].dim() if len(dims) == 1 else None


def _less_mean(node: Node, dim: int) -> Node | None:
    """Returns the tensor from which a node subtracts its mean over a dimension, or None for another node."""
    if node.target != _aten.sub.Tensor or node.kwargs:
        return None
    x, mean = node.args
    is_mean = isinstance(mean, Node) and _reduced_dim(mean, _aten.mean.dim) == dim and mean.args[0] is x
    if is_mean and isinstance(x, Node):
        return x
    return None


def _are_same(one: Any, other: Any) -> bool:
    """Whether two nodes compute the same function of the same operands, comparing the last two operators."""

    def same(a: Any, b: Any, depth: int) -> bool:
        if a is b or not isinstance(a, Node) or not isinstance(b, Node):
            return a is b or (not isinstance(a, Node) and not isinstance(b, Node) and bool(a == b))
        if depth == 0 or a.op != "call_function" or a.target != b.target or len(a.args) != len(b.args):
            return False
        return not a.kwargs and not b.kwargs and all(map(same, a.args, b.args, [depth - 1] * len(a.args)))

    return same(one, other, 2)
