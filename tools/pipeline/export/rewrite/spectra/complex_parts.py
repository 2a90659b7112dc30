"""Rewrites operators on complex tensors as operators on real and imaginary parts, by PyTorch's decompositions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.complex_tensor import ComplexTensor
from torch._subclasses.complex_tensor._ops.common import COMPLEX_OPS_TABLE, register_complex
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map

from tools.pipeline.export.ir.operators import COPIES, VIEWS

_aten = torch.ops.aten
# ComplexTensor requires parts in the default order of dimensions, which only matters to views.


def _on_parts(packet: Any) -> Callable[..., Any]:
    """Returns an implementation that applies an operator to each part of complex tensors."""

    def compute(*args: Any, **options: Any) -> Any:
        def parts(name: str) -> Any:
            given = tree_map(lambda each: getattr(each, name) if isinstance(each, ComplexTensor) else each, args)
            return packet(*given, **options)

        real, imaginary = parts("re"), parts("im")
        return tree_map(ComplexTensor, real, imaginary)

    return compute


# ComplexTensor lacks these operators.
for _packet in (_aten.index_copy, _aten.roll, _aten.tril, _aten.triu, _aten.unbind, _aten.unfold):
    if _packet not in COMPLEX_OPS_TABLE:
        register_complex(_packet, _on_parts(_packet))


def real_graph(node: Node, operands: Mapping[Node, Sequence[Tensor]]) -> GraphModule | None:
    """Returns the real form of a call, or None if PyTorch has none.

    Args:
      operands: maps the operands, in order, to real and imaginary part if complex, or to the real tensor itself; they
        need no data.

    Returns a module that takes the operands' tensors as positional arguments and returns those of the results.
    """

    def compute(*given: Tensor) -> list[Tensor]:
        tensors = iter(given)
        values = {each: [next(tensors) for _ in parts] for each, parts in operands.items()}
        whole: dict[Node, Any] = {
            each: ComplexTensor(*parts) if len(parts) == 2 else parts[0] for each, parts in values.items()
        }
        args, options = torch.fx.node.map_arg((node.args, node.kwargs), whole.__getitem__)
        found = node.target(*args, **options)
        results = found if isinstance(found, (list, tuple)) else [found]
        parts = [[each.re, each.im] if isinstance(each, ComplexTensor) else [each] for each in results]
        return [part for each in parts for part in each]

    try:
        module: GraphModule = make_fx(compute)(*(value for parts in operands.values() for value in parts))
    except (AssertionError, NotImplementedError, RuntimeError, TypeError):
        return None
    for each in list(module.graph.nodes):
        value = getattr(module, each.target) if each.op == "get_attr" else each.meta.get("val")
        if isinstance(value, Tensor) and value.is_complex():
            return None
        if each.target in COPIES:
            each.replace_all_uses_with(each.args[0])
            module.graph.erase_node(each)
        elif each.target in VIEWS:
            each.target = _aten.reshape.default
    module.graph.eliminate_dead_code()
    return module
