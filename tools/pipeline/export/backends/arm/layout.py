"""How tensors lie in memory inside a delegate of ExecuTorch's Arm backends, so that little is transposed.

ExecuTorch 1.4.1 gives each convolution and pooling a transposition before it and one behind it. Its passes take both
away around operators between them, if all that these read and all that reads them is transposed: one reader that is
not, such as a mean over an image, brings back each transposition of a whole residual network. What is left, Vela 5.2
takes apart into several of two dimensions each.
"""

from __future__ import annotations

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
# Whose other operands don't lie as the image does.
_OF_ONE = (_tosa.RESCALE.default, _tosa.TABLE.default)
# Of an element that an operator of Ethos-U55 and U65 computes, where moving one is 1: several are one of the NPU's.
_COST_OF_OPERATION = 2
_REDUCTIONS = (_aten.sum.dim_IntList, _aten.mean.dim, _aten.amax.default, _aten.amin.default)


def fewer_transpositions() -> AbstractContextManager[None]:
    """Lets ExecuTorch's passes choose the layout of operators between convolutions by what it takes to transpose."""
    return inserted(
        {
            # Convolutions are TOSA's then, and paddings still PyTorch's.
            arm_pass_manager.RewritePadPass: _KeepChannelsLast,
            arm_pass_manager.RewriteHighRankSingletonPermutePass: lambda _: _MergePermutations(),
        }
    )


class _KeepChannelsLast(ArmPass):
    """Moves operators on images to channels-last where that leaves fewer elements to transpose."""

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
    """Takes away sums and maxima along dimensions of size 1, which Vela computes as others; whether there were any."""
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
    """Lets what reads an image in the order in which it was computed read that; whether there was any."""
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
    """Operators on images that can lie either way, in groups of those that read one another."""
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
    """Whether an operator can work on images either way."""
    if node.op != "call_function" or not _is_image(node):
        return False
    operands = _operands(node)
    if node.target in _OF_ONE:
        scales = node.args[2] if node.target == _tosa.RESCALE.default else 0
        # Those of channels are those of the last dimension.
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
    """Whether it is one number for a whole tensor."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.numel() == 1 and is_param_node(program, node)


def _is_permutation(node: Node, order: Sequence[int]) -> bool:
    return node.target == _PERMUTE and [dim % 4 for dim in node.args[1]] == list(order)


def _whole_bricks(size: int) -> int:
    """Elements of a last dimension that an NPU computes, with those that fill up a brick of 16."""
    return -(-size // 16) * 16


def _moved_elements(node: Node) -> int:
    """How many elements another layout moves; images of one channel or one pixel lie both ways."""
    value = node.meta["val"]
    _, channels, height, width = value.shape
    return value.numel() if channels > 1 and height * width > 1 else 0


class _Group:
    """Operators that lie one way."""

    def __init__(self, program: ExportedProgram, nodes: Iterable[Node]) -> None:
        self._program = program
        self._nodes = dict.fromkeys(nodes)

    def gain(self) -> int:
        """How many elements fewer are transposed if the operators work channels-last."""
        operands = {each for node in self._nodes for each in _operands(node)} - self._nodes.keys()
        gain = 0
        for each in operands:
            if _is_permutation(each, IMAGE):
                # What else reads it needs it as it is.
                gain += _moved_elements(each) if self._nodes.keys() >= each.users.keys() else 0
            elif _is_image(each) and not is_param_node(self._program, each) and self._last(each) is None:
                gain -= _moved_elements(each)
        for node in self._nodes:
            if node.target in _REDUCTIONS:
                # Vela transposes what is not reduced along its last dimension.
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
        """The node with its channels last, where some other operator reads it so."""
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
        # Of constants later passes take the elements in this order.
        return self._last(node) or _permuted(node, PIXELS)

    def _arguments(self, node: Node) -> list[Any]:
        """The arguments of an operator for images with their channels last."""
        arguments = list(node.args)
        if node.target == _aten.constant_pad_nd.default:
            # From the last dimension on, two numbers for each.
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
    """Transposes dimensions that stay beside each other as one."""

    _passes_required_after: set[type] = set()

    def call(self, graph_module: GraphModule) -> PassResult:
        graph, is_changed = graph_module.graph, False
        for node in list(graph.nodes):
            if node.target != _PERMUTE:
                continue
            shape = node.args[0].meta["val"].shape
            sizes, order = _merged(shape, node.args[1])
            if len(order) == len(shape) or (_is_permutation(node, PIXELS) and 1 in shape[2:]):
                # For rows as images Vela has a better form.
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
    """A shape and an order of fewer dimensions that move the same elements to the same places."""
    # Runs of dimensions in the order of the result; those of size 1 may lie between.
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
    """A view or a permutation of a tensor, said to come from where `origin` does."""
    result = source.graph.call_function(target, (source, argument))
    value = source.meta["val"]
    result.meta = dict(origin.meta)
    result.meta["val"] = value.permute(argument) if target == _PERMUTE else value.reshape(argument)
    return result
