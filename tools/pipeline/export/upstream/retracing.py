"""Avoids work that ExecuTorch's passes repeat for each operator of a graph that they rewrite.

For Arm, the graph is rewritten some fifty times, which takes most of an export, and for Cortex-M a fifth. The exported
bytes don't depend on this module.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from executorch.exir.delegate import executorch_call_delegate, is_lowered_module
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import Interpreter

from tools.pipeline.export.upstream.replaced import replaced

_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class _NotKnownError(Exception):
    """An argument for which no result can be cached."""


@contextlib.contextmanager
def known_results() -> Iterator[None]:
    """Caches the shapes of operators' results for passes."""
    results: dict[Any, Any] = {}
    call = Interpreter.call_function

    def call_function(self: Interpreter, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # ExecuTorch's passes call operators by an interpreter with an empty graph. Other calls may be traced, and each
        # counts.
        if len(self.graph.nodes) > 0:
            return call(self, target, args, kwargs)
        try:
            key = _key((target, args, kwargs))
        except _NotKnownError:
            return call(self, target, args, kwargs)
        if key not in results:
            # Keeps the arguments alive, because some are identified by their address.
            results[key] = call(self, target, args, kwargs), target, args
        return results[key][0]

    # Some operators refuse operands that have gradients, which known results would pass on from parameters to buffers.
    with torch.no_grad(), replaced(Interpreter, "call_function", call_function):
        yield


def known_results_of(program: ExportedProgram) -> contextlib.AbstractContextManager[None]:
    """Returns known_results(), except for programs with computed sizes: a tensor carries the symbol of its own value,
    and a cached tensor would carry that of another one.
    """
    return contextlib.nullcontext() if program.range_constraints else known_results()


def _key(argument: Any) -> Any:
    """Returns a key that is equal for arguments with the same shapes, dtypes and layouts of results.

    Raises _NotKnownError for tensors with values and for arguments that may not be plain.
    """
    kind = type(argument)
    if kind is FakeTensor:
        if argument.constant is not None:
            raise _NotKnownError
        shape, strides = tuple(argument.shape), tuple(argument.stride())
        if any(type(size) is not int for size in (*shape, *strides)):
            raise _NotKnownError
        return id(argument.fake_mode), argument.dtype, shape, strides
    if isinstance(argument, (list, tuple)):
        return tuple, tuple(map(_key, argument))
    if isinstance(argument, dict):
        return dict, tuple((name, _key(value)) for name, value in argument.items())
    if isinstance(argument, _PLAIN):
        return kind, argument
    is_operator = isinstance(argument, (OpOverload, EdgeOpOverload)) and not argument._schema.is_mutable
    if is_operator or argument is executorch_call_delegate or is_lowered_module(argument):
        return kind, id(argument)
    raise _NotKnownError
