"""Joins terms of a sum that are functions of one tensor, since a function of one int8 tensor is one table.

The divergence of a variational autoencoder, `1 + log - mean**2 - log.exp()`, has terms of two tensors.
"""

from collections.abc import Iterator

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.rewriting import emit, is_elementwise, replace_node

_aten = torch.ops.aten

_SIGNS = {_aten.add.Tensor: 1, _aten.sub.Tensor: -1}
# A number, or a tensor, and its sign in a sum.
_Term = tuple[int, Node | float]


def join_terms(program: ExportedProgram) -> None:
    """Adds those terms of a sum that are functions of one tensor, and numbers, before the others, in place."""
    sources: dict[Node, Node] = {}
    for node in list(program.graph.nodes):
        found = {sources[operand] for operand in node.all_input_nodes}
        is_function = node.op == "call_function" and is_elementwise(node.target) and len(found) == 1
        source = found.pop() if is_function else node
        sources[node] = source if _is_alike(source, node) else node
        if not _is_sum(node) or _is_part(node):
            continue
        sums: set[Node] = set()
        groups: dict[Node, list[_Term]] = {}
        numbers: list[_Term] = []
        for part in _parts(node, 1):
            if isinstance(part, Node):
                sums.add(part)
            elif isinstance(part[1], Node):
                groups.setdefault(sources[part[1]], []).append(part)
            else:
                numbers.append(part)
        function = next((group for key, group in groups.items() if len(group) > 1 or group[0][1] != key), None)
        if function is not None:
            function += numbers
            numbers = []
        if len(groups) + len(numbers) - 1 < sum(sources[each] in sums for each in sums):
            with program.graph.inserting_before(node):
                sign, result = _added(node, [*(_added(node, group) for group in groups.values()), *numbers])
                if sign < 0:
                    result = emit(node, _aten.neg.default, result)
            replace_node(program, node, result)
            sources[result] = result
    program.graph.eliminate_dead_code()


def _is_alike(first: Node, second: Node) -> bool:
    """Whether two nodes are tensors of float32 and of one shape."""
    values = [node.meta.get("val") for node in (first, second)]
    return all(isinstance(each, torch.Tensor) and each.dtype == torch.float32 for each in values) and (
        values[0].shape == values[1].shape
    )


def _is_sum(node: Node) -> bool:
    return node.target in _SIGNS and not node.kwargs and _is_alike(node, node)


def _is_part(node: Node | float) -> bool:
    """Whether a term is a sum that only another one of its shape reads."""
    if not isinstance(node, Node) or not _is_sum(node) or len(node.users) != 1:
        return False
    (user,) = node.users
    return _is_sum(user) and _is_alike(node, user)


def _parts(node: Node, sign: int) -> Iterator[Node | _Term]:
    """Yields a sum, the sums that are its parts, and their terms."""
    yield node
    for each, term in zip((sign, sign * _SIGNS[node.target]), node.args, strict=True):
        if _is_part(term):
            yield from _parts(term, each)
        else:
            yield each, term


def _added(origin: Node, terms: list[_Term]) -> _Term:
    """Emits the sum of terms, and returns it with its sign."""
    (sign, result), *rest = sorted(terms, key=lambda term: (not isinstance(term[1], Node), -term[0]))
    for each, term in rest:
        result = emit(origin, _aten.add.Tensor if each == sign else _aten.sub.Tensor, result, term)
    return sign, result
