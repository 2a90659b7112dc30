"""What ExecuTorch's passes do again for each operator of a graph that they write anew, done once.

For Arm that is some fifty times, and most of what an export takes, and for Cortex-M a fifth; torchao, too, does again
what it has done. Nothing that is exported depends on it.
"""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from executorch.exir.delegate import executorch_call_delegate, is_lowered_module
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import Interpreter, Node

from tools.pipeline.export.upstream.replaced import replaced

_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class _NotKnownError(Exception):
    """An argument by which a result can't be known."""


@contextlib.contextmanager
def known_results() -> Iterator[None]:
    """Lets passes know the shapes of an operator's results from when it was called with the same ones before."""
    results: dict[Any, Any] = {}
    call = Interpreter.call_function

    def call_function(self: Interpreter, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # ExecuTorch's passes call operators by an interpreter of nothing. Elsewhere calls may be traced: each counts.
        if len(self.graph.nodes) > 0:
            return call(self, target, args, kwargs)
        try:
            key = _key((target, args, kwargs))
        except _NotKnownError:
            return call(self, target, args, kwargs)
        if key not in results:
            # With the arguments, as some are known by their identity.
            results[key] = call(self, target, args, kwargs), target, args
        return results[key][0]

    with (
        replaced(Interpreter, "call_function", call_function),
        # For messages, of which there are none: of tables they are long.
        replaced(Node, "format_node", lambda self, *_, **__: self.name),
    ):
        yield


def known_results_of(program: ExportedProgram) -> contextlib.AbstractContextManager[None]:
    """known_results(), but for a program with sizes that are computed: a tensor of a graph has the symbol of its number
    with it, and one that is another's, too, would have the other's.
    """
    return contextlib.nullcontext() if program.range_constraints else known_results()


@contextlib.contextmanager
def decomposed_once() -> Iterator[None]:
    """Lets a program stay as it is where a table has nothing for it, and the program nothing that works in place.

    Of one that was not decomposed yet, that is an empty table. `to_edge_transform_and_lower` has each program
    decomposed three times, which traces it anew each time.
    """
    original = ExportedProgram.run_decompositions
    done: weakref.WeakSet[ExportedProgram] = weakref.WeakSet()

    def run_decompositions(
        self: ExportedProgram, table: Mapping[Any, Any] | None = None, **options: Any
    ) -> ExportedProgram:
        if table is not None and not options and (self in done or not table) and not _is_decomposed_by(table, self):
            return self
        result = original(self, table, **options)
        done.add(result)
        return result

    with replaced(ExportedProgram, "run_decompositions", run_decompositions):
        yield


def _is_decomposed_by(table: Mapping[Any, Any], program: ExportedProgram) -> bool:
    """Whether a table has something for an operator of a program; what PyTorch has for each table is done."""
    for node in program.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem:
            continue
        if not isinstance(node.target, OpOverload) or node.target in table or node.target._schema.is_mutable:
            return True
    return False


def _key(argument: Any) -> Any:
    """Equal for arguments with which an operator's results have the same shapes, dtypes and layouts.

    Raises _NotKnownError for tensors with values and for what isn't known to be plain.
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
