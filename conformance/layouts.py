"""Calls on tensors that are channels-last in memory, made of calls on contiguous ones."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map_only

from conformance.calls import CHANNELS_LAST, Call, Refused, make_call

# The limit of calls of one operator.
_MAX_CALLS = 3
# The limit of calls of one operator that are tried.
_MAX_ATTEMPTS = 16
# A tensor of fewer dims gets these before its own.
_LEADING = (1, 2, 3)


def channels_last_calls(calls: Iterable[Call], function: torch._ops.OpOverload) -> list[Call]:
    """Calls of one operator whose tensors of four and five dims are channels-last, with what eager makes of them.

    Args:
      calls: calls of the operator with contiguous tensors.
      function: the functional operator.
    """
    calls = list(calls)
    attempts = [arguments for call in calls for arguments in _variants(call.arguments)]
    if not attempts:
        attempts = [arguments for call in calls for arguments in _variants(_widen(call.arguments))]
    found: dict[Any, Call] = {}
    for arguments in itertools.islice(attempts, _MAX_ATTEMPTS):
        try:
            call = make_call(calls[0].operator, function, arguments, "channels-last")
        except Refused:
            continue
        strides = tuple(value.stride() for value in _tensors(call.arguments))
        found.setdefault((call.signature(), strides), call)
        if len(found) == _MAX_CALLS:
            break
    return list(found.values())


def _tensors(arguments: dict[str, Any]) -> list[torch.Tensor]:
    return [value for value in tree_flatten(arguments)[0] if isinstance(value, torch.Tensor)]


def _variants(arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the arguments with all images channels-last, and with the first alone."""
    images = [tensor for tensor in _tensors(arguments) if _is_image(tensor)]
    if images:
        yield tree_map_only(torch.Tensor, _channels_last, arguments)
    if len(images) > 1:
        yield tree_map_only(
            torch.Tensor, lambda tensor: _channels_last(tensor) if tensor is images[0] else tensor, arguments
        )


def _is_image(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor has another order of elements if it is channels-last."""
    planes = tensor.shape[:2].numel()
    return tensor.dim() in CHANNELS_LAST and tensor.shape[1] > 1 and tensor.numel() > planes


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=CHANNELS_LAST[tensor.dim()]) if _is_image(tensor) else tensor


def _widen(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments with tensors of one to three dims repeated to four."""

    def widen(tensor: torch.Tensor) -> torch.Tensor:
        missing = 4 - tensor.dim() if 1 <= tensor.dim() < 4 else 0
        return tensor.expand((*_LEADING[:missing], *tensor.shape)).clone()

    return tree_map_only(torch.Tensor, widen, arguments)
