"""Inserts observers into a model for quantization, whatever its tensors share their ranges with.

torchao joins tensors with a common range in trees (a disjoint set), and resolves a shared range at the root of the
other tensor's tree. If parts of a tensor are joined with other parts of it, roots may share their ranges with each
other, and the recursion never ends (RecursionError, with torchao 0.18). So the root of a tree here is a tensor with a
range of its own, if the tree has one.
"""

from typing import Any

from torchao.quantization.pt2e import prepare
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e as prepare_pt2e
from torchao.quantization.pt2e.quantizer import SharedQuantizationSpec

from tools.pipeline.export.upstream.replaced import replace


def _union(parent: Any, child: Any, parents: dict[Any, Any], specs: dict[Any, Any]) -> None:
    """Joins the trees of two tensors, whose roots are their own parents.

    Args:
      parents: maps each tensor to the one that it is joined with.
      specs: the quantization specification of each tensor.
    """
    root, other = (prepare._find_root_edge_or_node(tensor, parents) for tensor in (parent, child))
    spec = specs[root]
    if isinstance(spec, SharedQuantizationSpec) and (
        spec.edge_or_node == other or not isinstance(specs[other], SharedQuantizationSpec)
    ):
        root, other = other, root
    parents[other] = root


replace(prepare, "_union", _union)
