"""Captures assignments to buffers, `self.h = self.cell(x, self.h)`, as state for the next call.

torch.export records those in the module that is exported, drops those in its layers without a word, and lets a result
that was read before an assignment change with it.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import _trace
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from tools.pipeline.export.capture.attributes import HELD
from tools.pipeline.export.upstream.replaced import replaced


@contextlib.contextmanager
def assignments_written(model: torch.nn.Module) -> Iterator[None]:
    """Makes calls of a model end with writes to the buffers that its layers have assigned to."""
    empty = [(module, name) for module in model.modules() for name, value in module._buffers.items() if value is None]
    held = [
        (module, name, vars(module)[name], buffers)
        for module in model.modules()
        for name, buffers in getattr(module, HELD, {}).items()
    ]
    first: dict[tuple[torch.nn.Module, str], Tensor] = {}

    def remember(*_: Any) -> None:
        for module, name, original, buffers in held:
            leaves, structure = pytree.tree_flatten(original)
            values = (module._buffers.get(each, leaf) for each, leaf in zip(buffers, leaves, strict=True))
            vars(module)[name] = pytree.tree_unflatten(values, structure)
        for module in model.modules():
            first.update(((module, name), value) for name, value in module._buffers.items() if value is not None)

    def write(_module: torch.nn.Module, _arguments: Any, result: Any) -> Any:
        assigned = {}
        for module, name, original, buffers in held:
            leaves = zip(buffers, pytree.tree_leaves(vars(module)[name]), strict=True)
            module._buffers.update((each, leaf) for each, leaf in leaves if each)
            vars(module)[name] = original
        for (module, name), buffer in first.items():
            value = module._buffers[name]
            if value is not buffer and value is not None and value.shape == buffer.shape:
                assigned[module, name] = value
            module._buffers[name] = buffer
        memory = {_memory(first[each]) for each in assigned}

        def kept(value: Any) -> Any:
            return value.clone() if isinstance(value, Tensor) and _memory(value) in memory else value

        result = pytree.tree_map(kept, result)
        for each, value in pytree.tree_map(kept, assigned).items():
            first[each].copy_(value)
        return result

    hooks = model.register_forward_pre_hook(remember, prepend=True), model.register_forward_hook(write)
    try:
        with replaced(_trace, "register_buffer_assignment_hook", lambda *_: None), _DataWritten():
            yield
    finally:
        for hook in hooks:
            hook.remove()
        for module, name in empty:
            module._buffers[name] = None


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


class _DataWritten(TorchFunctionMode):
    """Writes what a model assigns to `.data` of a tensor, which no graph can hold otherwise."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if args and isinstance(args[0], FakeTensor):
            if func == Tensor.data.__get__:
                return args[0].detach()
            if func == Tensor.data.__set__ and args[0].shape == args[1].shape and not args[0]._is_view():
                return args[0].copy_(args[1])
        return func(*args, **(kwargs or {}))
