"""Runs graphs with the same results on all processors.

Processors round sums in their own ways. Last bits matter: of a number between two integers they make another integer,
which changes many more in the layers behind it, and with them what an export chooses.
"""

from typing import Any

import torch
from torch import Tensor
from torch.fx import Interpreter
from torch.utils._pytree import tree_leaves, tree_map_only


class Float64Interpreter(Interpreter):
    """Computes each operator of PyTorch in float64, and rounds its results to float32."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs an operator. One that returns or changes its operands' memory only moves or maps elements."""
        schema = getattr(target, "_schema", None)
        leaves = tree_leaves((args, kwargs))
        if (
            schema is None
            or target.namespace != "aten"
            or not schema.returns
            or any(each.alias_info for each in schema.arguments)
            # The model itself asks for it.
            or any(torch.float64 in (each, getattr(each, "dtype", None)) for each in leaves)
        ):
            return super().call_function(target, args, kwargs)
        args, kwargs = tree_map_only(Tensor, lambda value: _to(value, torch.float32, torch.float64), (args, kwargs))
        results = super().call_function(target, args, kwargs)
        return tree_map_only(Tensor, lambda value: _to(value, torch.float64, torch.float32), results)


def _to(value: Tensor, before: torch.dtype, after: torch.dtype) -> Tensor:
    """Converts a tensor of one dtype to another."""
    return value.to(after) if value.dtype == before else value
