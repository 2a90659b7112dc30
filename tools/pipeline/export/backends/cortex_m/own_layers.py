"""Marks the layers that the quantizer assigned to operators of our own; layers in floating point look the same
otherwise.
"""

from torch.fx import Node

# The key of a node's meta that torch.export keeps.
_CUSTOM, _KEY = "custom", "torch_fusion_int8"


def mark(node: Node) -> None:
    """Records that a node of an annotated graph becomes int8."""
    node.meta[_CUSTOM] = {**node.meta.get(_CUSTOM, {}), _KEY: True}


def is_marked(node: Node) -> bool:
    """Whether mark() was called for the origin of a node."""
    return _KEY in node.meta.get(_CUSTOM, {})
