"""Gives all calls of a layer that a model calls several times the same ranges, so that the program has its integers
once.

A packed layer contains constants that depend on its operand's zero point and on both scales. If it is called on tensors
of different ranges (the steps of an unrolled recurrent network or of an equation's solver, towers with the same
weights), each call would have its own packed layer, weights included. Equal constants are stored once in a program.
"""

import operator
from collections.abc import Iterator

import torch
from torch.fx import GraphModule, Node

from tools.pipeline.export.ir.operators import CLAMPS
from tools.pipeline.export.quantize.nodes import is_product
from tools.pipeline.export.quantize.ranges import RangeObserver

# The largest ratio of a shared range to the tensor's own; it costs one bit of resolution.
_WIDEST = 2


# Observers that must have the same parameters.
_Group = frozenset[RangeObserver]


def share_ranges(prepared: GraphModule) -> None:
    """Gives the calls of each layer in a calibrated module common ranges, where these are not much wider, in place."""
    groups: dict[RangeObserver, _Group] = {}
    for calls in _repeated(prepared):
        # The first call of each set that shares its ranges.
        firsts: list[tuple[RangeObserver, ...]] = []
        for call in calls:
            for first in firsts:
                if _join(groups, list(zip(first, call, strict=True))):
                    break
            else:
                firsts.append(call)
    for observer, group in groups.items():
        observer.group = tuple(sorted(group, key=lambda member: member.own_range()))


def _repeated(prepared: GraphModule) -> Iterator[list[tuple[RangeObserver, ...]]]:
    """Yields the observers of operand and result of each call, for each layer that is called several times."""
    calls: dict[tuple[object, ...], list[tuple[RangeObserver, ...]]] = {}
    for node in prepared.graph.nodes:
        if node.op != "call_function" or not is_product(node) or len(node.args) < 2:
            continue
        operand, weight = node.args[:2]
        data = _data(prepared, weight)
        observers = (_observer(prepared, operand), _observer(prepared, _result(node)))
        if data is not None and all(isinstance(observer, RangeObserver) for observer in observers):
            calls.setdefault((node.target, *data), []).append(observers)  # type: ignore[arg-type]
    yield from (each for each in calls.values() if len(each) > 1)


def _data(prepared: GraphModule, weight: object) -> tuple[torch.Size, int] | None:
    """Returns the shape and address of an observed weight, or None for a computed one.

    A parameter has several names, one for each time that the graph reads it. Its bytes can't identify a layer: layers
    that begin as copies of one another differ once they are trained.
    """
    while isinstance(weight, Node) and weight.op == "call_module":
        weight = weight.args[0]
    if not isinstance(weight, Node) or weight.op != "get_attr":
        return None
    value = operator.attrgetter(str(weight.target))(prepared)
    return value.shape, value.data_ptr()


def _result(node: Node) -> Node | None:
    """Returns the observer of a layer's result, after the activation that is fused into it."""
    (user, *others) = node.users or [None]
    if user is None or others:
        return None
    return _result(user) if user.target in CLAMPS else user


def _observer(prepared: GraphModule, node: object) -> torch.nn.Module | None:
    is_observer = isinstance(node, Node) and node.op == "call_module"
    return prepared.get_submodule(str(node.target)) if is_observer else None  # type: ignore[attr-defined]


def _join(groups: dict[RangeObserver, _Group], pairs: list[tuple[RangeObserver, RangeObserver]]) -> bool:
    """Joins the groups of both observers of each pair, unless a range became too wide."""
    joined = dict(groups)
    for pair in pairs:
        group = frozenset().union(*(joined.get(observer, {observer}) for observer in pair))
        ranges = [observer.own_range() for observer in group]
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        if any(high - low > _WIDEST * (own_high - own_low) for own_low, own_high in ranges):
            return False
        joined.update(dict.fromkeys(group, group))
    groups.update(joined)
    return True
