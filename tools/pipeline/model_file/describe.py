"""Describes values for messages."""

import collections

import torch


def describe(value: object) -> str:
    """Describes a value briefly by its kind and shape, never by its contents."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (tuple, list, collections.deque)):
        shown = ", ".join(describe(item) for item in list(value)[:4]) + (", ..." if len(value) > 4 else "")
        return f"a {type(value).__name__} ({shown})"
    if isinstance(value, dict):
        pairs = [f"{key}: {describe(item)}" for key, item in list(value.items())[:4]]
        return f"a dict ({', '.join(pairs)}{', ...' if len(value) > 4 else ''})"
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{name} {value!r}" if isinstance(value, (int, float)) else f"a {name}"
