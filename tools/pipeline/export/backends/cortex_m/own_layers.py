"""Which layers the quantizer gave to operators of our own: what a user keeps in floating point looks the same."""

from torch.fx import Node

# What export keeps of a node's meta.
_CUSTOM, _KEY = "custom", "torch_fusion_int8"


def mark(node: Node) -> None:
    """Notes that a node of an annotated graph becomes int8."""
    node.meta[_CUSTOM] = {**node.meta.get(_CUSTOM, {}), _KEY: True}


def is_marked(node: Node) -> bool:
    """Whether mark() was called for what a node came from."""
    return _KEY in node.meta.get(_CUSTOM, {})
