"""Names in generated C++: of tensors and weights, from the modules that the user wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence

# The constant of a packed int8 layer.
PACKED = "packed"

# What an operator's constant arguments are called in the modules that have them, by position.
_ROLES = {
    "aten::linear": {1: "weight", 2: "bias"},
    "aten::convolution": {1: "weight", 2: "bias"},
    "aten::addmm": {0: "bias", 2: "weight"},
    "aten::mm": {1: "weight"},
    "aten::embedding": {0: "weight"},
    "aten::native_layer_norm": {2: "weight", 3: "bias"},
    "aten::native_group_norm": {1: "weight", 2: "bias"},
    "torch_fusion::convolution": {1: PACKED},
    "torch_fusion::depthwise_convolution": {1: PACKED},
    "torch_fusion::linear": {1: PACKED},
    "torch_fusion::linear_int4": {1: PACKED},
    "torch_fusion::pointwise_int4": {1: PACKED},
    "torch_fusion::winograd_convolution": {1: PACKED},
    "torch_fusion::quantized_group_norm": {1: "weight", 2: "bias"},
    "torch_fusion::quantized_gru": {2: "weights", 3: "factors"},
    "torch_fusion::quantized_layer_norm": {1: "weight", 2: "bias"},
    "torch_fusion::quantized_lstm": {3: "weights", 4: "factors"},
}


class Names:
    """Unique identifiers."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, wanted: str) -> str:
        """The wanted identifier, or that with a number if another thing has it."""
        name, number = wanted, 2
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name


def module_of(origin: str) -> str:
    """The path of the module in an origin of the manifest, `path (Class) at file:line`; empty if it has none."""
    match = re.match(r"(\S+) \(", origin)
    return match[1] if match else ""


def snake(text: str) -> str:
    """A C identifier of a module's path or an operator's name."""
    identifier = re.sub(r"\W+", "_", text).strip("_") or "value"
    return f"layer_{identifier}" if identifier[0].isdigit() else identifier


def camel(text: str) -> str:
    """The same as part of a constant's name."""
    return "".join(part[:1].upper() + part[1:] for part in snake(text).split("_"))


def role_of(operator: str, position: int, positions: Sequence[int]) -> str:
    """What a constant argument of an operator is called.

    Args:
        positions: of all its constant tensors.
    """
    known = _ROLES.get(operator, {}).get(position)
    if known:
        return known
    return "constant" if len(positions) == 1 else f"constant_{positions.index(position)}"


def operator_base(operator: str) -> str:
    """An operator's name without its namespace and overload."""
    return operator.partition("::")[2].partition(".")[0]
