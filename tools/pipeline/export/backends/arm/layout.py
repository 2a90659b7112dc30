"""Chooses the layout of tensors inside delegates of ExecuTorch's Arm backends to minimize transpositions.

ExecuTorch 1.4.1 inserts a transposition before and after each convolution and pooling. Its passes remove both around
the operators in between if all of their operands and readers are transposed. A single other reader, such as a mean over
an image, brings back all transpositions of a residual network. Vela 5.2 splits those that remain into several
two-dimensional ones.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from executorch.backends.arm._passes import arm_pass_manager
from executorch.backends.arm._passes.arm_pass import ArmPass
from executorch.backends.arm._passes.arm_pass_utils import is_param_node
from executorch.backends.arm.tosa.specification import get_context_spec
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import PassResult
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from tools.pipeline.export.backends.arm.passes import inserted
from tools.pipeline.export.ir.dim_orders import IMAGE, PIXELS
from tools.pipeline.export.ir.rewriting import as_list

_aten, _tosa = exir_ops.edge.aten, exir_ops.backend.tosa
_PERMUTE = _aten.permute_copy.default
# Operators whose other operands don't have the image's layout.
_OF_ONE = (_tosa.RESCALE.default, _tosa.TABLE.default)
# The cost per element of an operation of Ethos-U55 and U65, relative to moving one: the NPU runs several for each.
_COST_OF_OPERATION = 2
_REDUCTIONS = (_aten.sum.dim_IntList, _aten.mean.dim, _aten.amax.default, _aten.amin.default)


def fewer_transpositions() -> AbstractContextManager[None]:
    """Makes ExecuTorch's passes choose the layout of operators between convolutions by the cost of transpositions."""
    return inserted(
        {
            # At this point convolutions are TOSA's, and paddings still PyTorch's.
            arm_pass_manager.RewritePadPass: _KeepChannelsLast,
            arm_pass_manager.RewriteHighRankSingletonPermutePass: lambda _: _MergePermutations(),
        }
    )


class _KeepChannelsLast(ArmPass):
    """Moves operators on images to channels-last where that transposes fewer elements."""

    _passes_required_after: set[type] = set()

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        self._program = program

    def call(self, graph_module: GraphModule) -> PassResult:
        is_changed = _drop_reductions_of_one(graph_module.graph)
        is_changed |= _join_permutations(graph_module.graph)
        groups = [_Group(self._program, nodes) for nodes in _groups(graph_module.graph, self._program)]
        groups = [group for group in groups if group.gain() > 0]
        for group in groups:
            group.move()
        if not groups and not is_changed:
            return PassResult(graph_module, False)
        graph_module.graph.eliminate_dead_code()
        graph_module.recompile()
        return PassResult(super().call(graph_module).graph_module, True)


def _drop_reductions_of_one(graph: Graph) -> bool:
    """Removes sums and maxima along dimensions of size 1, which Vela would compute; returns whether there were any."""
    found = False
    for node in list(graph.nodes):
        if node.target in _REDUCTIONS and _keeps_dims(node):
            operand = node.args[0]
            shape = operand.meta["val"].shape
            if (
                all(shape[dim] == 1 for dim in as_list(node.args[1]))
                and node.meta["val"].dtype == operand.meta["val"].dtype
            ):
                node.replace_all_uses_with(operand)
                found = True
    return found


def _join_permutations(graph: Graph) -> bool:
    """Removes pairs of inverse permutations; returns whether there were any."""
    found = False
    for node in list(graph.nodes):
        if _is_permutation(node, PIXELS) and _is_permutation(node.args[0], IMAGE):
            node.replace_all_uses_with(node.args[0].args[0])
            graph.erase_node(node)
            found = True
    return found


def _keeps_dims(node: Node) -> bool:
    return bool(node.args[1]) and bool((node.args[2:3] or (node.kwargs.get("keepdim", False),))[0])


def _groups(graph: Graph, program: ExportedProgram) -> list[list[Node]]:
    """Groups connected operators on images that support both layouts."""
    able = dict.fromkeys(node for node in graph.nodes if _is_able(node, program))
    groups = []
    while able:
        found = [able.popitem()[0]]
        for node in found:
            beside = dict.fromkeys(each for each in (*_operands(node), *node.users) if each in able)
            found += beside
            for each in beside:
                del able[each]
        groups.append(found)
    return groups


def _is_able(node: Node, program: ExportedProgram) -> bool:
    """Whether an operator supports both image layouts."""
    if node.op != "call_function" or not _is_image(node):
        return False
    operands = _operands(node)
    if node.target in _OF_ONE:
        scales = node.args[2] if node.target == _tosa.RESCALE.default else 0
        # Scales per channel apply to the last dimension.
        if isinstance(scales, Sequence) and len(scales) > 1:
            return False
    elif set(operands) != set(node.all_input_nodes):
        return False
    elif node.target in _REDUCTIONS:
        if not _keeps_dims(node):
            return False
    elif node.target not in (_aten.cat.default, _aten.slice_copy.Tensor, _aten.constant_pad_nd.default):
        operator = getattr(node.target, "_op", None)
        if operator is None or torch.Tag.pointwise not in getattr(operator, "tags", ()):
            return False
    return all(_is_image(each) or _is_one(each, program) for each in operands)


def _operands(node: Node) -> list[Node]:
    if node.op != "call_function":
        return []
    if node.target in _OF_ONE:
        return node.args[:1]
    return node.all_input_nodes


def _is_image(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dim() == 4 and all(isinstance(n, int) for n in value.shape)


def _is_one(node: Node, program: ExportedProgram) -> bool:
    """Whether a node is a constant of one element for a whole tensor."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.numel() == 1 and is_param_node(program, node)


def _is_permutation(node: Node, order: Sequence[int]) -> bool:
    return node.target == _PERMUTE and [dim % 4 for dim in node.args[1]] == list(order)


def _whole_bricks(size: int) -> int:
    """Rounds the size of a last dimension up to the NPU's bricks of 16."""
    return -(-size // 16) * 16


def _moved_elements(node: Node) -> int:
    """Returns the number of elements that a change of layout moves; images of one channel or one pixel have both
    layouts.
    """
    value = node.meta["val"]
    _, channels, height, width = value.shape
    return value.numel() if channels > 1 and height * width > 1 else 0


class _Group:
    """Operators that share a layout."""

    def __init__(self, program: ExportedProgram, nodes: Iterable[Node]) -> None:
        self._program = program
        self._nodes = dict.fromkeys(nodes)

    def gain(self) -> int:
        """Returns how many fewer elements are transposed if the operators work channels-last."""
        operands = {each for node in self._nodes for each in _operands(node)} - self._nodes.keys()
        gain = 0
        for each in operands:
            if _is_permutation(each, IMAGE):
                # Other readers need it in the original layout.
                gain += _moved_elements(each) if self._nodes.keys() >= each.users.keys() else 0
            elif _is_image(each) and not is_param_node(self._program, each) and self._last(each) is None:
                gain -= _moved_elements(each)
        for node in self._nodes:
            if node.target in _REDUCTIONS:
                # Vela transposes for reductions over other dimensions than the last one.
                dims = [dim % 4 for dim in as_list(node.args[1])]
                gain += _moved_elements(_operands(node)[0]) * ((dims != [3]) - (dims != [1]))
            elif get_context_spec().is_U55_subset:
                batch, channels, height, width = node.meta["val"].shape
                rows, pixels = batch * channels * height, batch * height * width
                gain += _COST_OF_OPERATION * (rows * _whole_bricks(width) - pixels * _whole_bricks(channels))
            others = [user for user in node.users if user not in self._nodes]
            last = [user for user in others if _is_permutation(user, PIXELS)]
            gain += _moved_elements(node) * (bool(last) - (len(others) > len(last)))
        return gain

    def _last(self, node: Node) -> Node | None:
        """Returns the channels-last version of the node, if another operator reads one."""
        return next((user for user in node.users if _is_permutation(user, PIXELS)), None)

    def move(self) -> None:
        images = {node: node.meta["val"] for node in self._nodes}
        for node in self._nodes:
            node.args = (*self._arguments(node),)
            for operand in _operands(node):
                if operand not in self._nodes and not _is_one(operand, self._program):
                    node.replace_input_with(operand, self._channels_last(operand))
        for node, value in images.items():
            node.meta["val"] = value.permute(PIXELS)
        for node in self._nodes:
            others = [user for user in node.users if user not in self._nodes]
            image = None
            for user in others:
                if _is_permutation(user, PIXELS):
                    user.replace_all_uses_with(node)
                    continue
                if image is None:
                    image = _permuted(node, IMAGE)
                user.replace_input_with(node, image)

    def _channels_last(self, node: Node) -> Node:
        if _is_permutation(node, IMAGE):
            return node.args[0]
        # Later passes fold this permutation into constants.
        return self._last(node) or _permuted(node, PIXELS)

    def _arguments(self, node: Node) -> list[Any]:
        """Returns the arguments of an operator for channels-last images."""
        arguments = list(node.args)
        if node.target == _aten.constant_pad_nd.default:
            # Two numbers per dimension, from the last dimension on.
            width, height, channels, batch = ([*arguments[1], *[0] * 8][i : i + 2] for i in range(0, 8, 2))
            arguments[1] = [*channels, *width, *height, *batch]
        elif node.target in _REDUCTIONS:
            moved = [PIXELS.index(dim % 4) for dim in as_list(arguments[1])]
            arguments[1] = moved[0] if isinstance(arguments[1], int) else moved
        elif node.target in (_aten.cat.default, _aten.slice_copy.Tensor):
            dim = arguments[1] if len(arguments) > 1 else node.kwargs.get("dim", 0)
            arguments[1:2] = [PIXELS.index(dim % 4)]
        return arguments


class _MergePermutations(ArmPass):
    """Merges adjacent dimensions that a permutation keeps together."""

    _passes_required_after: set[type] = set()

    def call(self, graph_module: GraphModule) -> PassResult:
        graph, is_changed = graph_module.graph, False
        for node in list(graph.nodes):
            if node.target != _PERMUTE:
                continue
            shape = node.args[0].meta["val"].shape
            sizes, order = _merged(shape, node.args[1])
            if len(order) == len(shape) or (_is_permutation(node, PIXELS) and 1 in shape[2:]):
                # Vela has a better form for rows as images.
                continue
            with graph.inserting_before(node):
                result = node.args[0]
                if order != sorted(order):
                    rows = _called(node, _aten.view_copy.default, result, sizes)
                    result = _called(node, _PERMUTE, rows, order)
                node.replace_all_uses_with(_called(node, _aten.view_copy.default, result, list(node.meta["val"].shape)))
            is_changed = True
        if not is_changed:
            return PassResult(graph_module, False)
        graph.eliminate_dead_code()
        graph_module.recompile()
        return PassResult(super().call(graph_module).graph_module, True)


def _merged(shape: Sequence[int], dims: Sequence[int]) -> tuple[list[int], list[int]]:
    """Returns a shape and a permutation with fewer dimensions that move elements in the same way."""
    # Runs of consecutive dimensions in the order of the result, ignoring dimensions of size 1.
    runs = list[list[int]]()
    for dim in (dim % len(shape) for dim in dims):
        if shape[dim] == 1:
            continue
        if runs and runs[-1][-1] < dim and all(shape[each] == 1 for each in range(runs[-1][-1] + 1, dim)):
            runs[-1].append(dim)
        else:
            runs.append([dim])
    before = sorted(runs)
    return [math.prod(shape[dim] for dim in run) for run in before], [before.index(run) for run in runs]


def _permuted(node: Node, order: Sequence[int]) -> Node:
    with node.graph.inserting_after(node):
        return _called(node, _PERMUTE, node, list(order))


def _called(origin: Node, target: Any, source: Node, argument: list[int]) -> Node:
    """Emits a view or a permutation of a tensor with the source location of `origin`."""
    result = source.graph.call_function(target, (source, argument))
    value = source.meta["val"]
    result.meta = dict(origin.meta)
    result.meta["val"] = value.permute(argument) if target == _PERMUTE else value.reshape(argument)
    return result
