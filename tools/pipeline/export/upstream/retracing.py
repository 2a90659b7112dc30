"""Avoids work that ExecuTorch's passes repeat for each operator of a graph that they rewrite.

For Arm, the graph is rewritten some fifty times, which takes most of an export, and for Cortex-M a fifth; torchao
repeats work, too. The exported bytes don't depend on this module.
"""

from __future__ import annotations

import contextlib
import math
import operator
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import numpy
import torch
from executorch.exir.delegate import executorch_call_delegate, is_lowered_module
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import Interpreter, Node
from torchao.quantization.pt2e.observer import HistogramObserver

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

    with (
        replaced(Interpreter, "call_function", call_function),
        # Only messages need this text, which is long for tables.
        replaced(Node, "format_node", lambda self, *_, **__: self.name),
    ):
        yield


def known_results_of(program: ExportedProgram) -> contextlib.AbstractContextManager[None]:
    """Returns known_results(), except for programs with computed sizes: a tensor carries the symbol of its own value,
    and a cached tensor would carry that of another one.
    """
    return contextlib.nullcontext() if program.range_constraints else known_results()


@contextlib.contextmanager
def decomposed_once() -> Iterator[None]:
    """Returns a program unchanged if the decomposition table doesn't affect it and no operator works in place.

    For a program that was not decomposed yet, the table must be empty. `to_edge_transform_and_lower` decomposes each
    program three times, and retraces it each time.
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


@contextlib.contextmanager
def known_ranges() -> Iterator[None]:
    """Makes a finished observer compute its scale once: torchao asks for it with each tensor that shares it.

    Also skips steps of the search without effect, which most of its 100,000 steps are.
    """
    found: dict[HistogramObserver, tuple[torch.Tensor, torch.Tensor]] = {}
    original = HistogramObserver.calculate_qparams

    def calculate_qparams(self: HistogramObserver) -> tuple[torch.Tensor, torch.Tensor]:
        if self not in found:
            found[self] = original(self)
        return found[self]

    with (
        replaced(HistogramObserver, "calculate_qparams", calculate_qparams),
        replaced(HistogramObserver, "_non_linear_param_search", _search_range),
    ):
        yield


# The share of all numbers by which HistogramObserver._non_linear_param_search tries to move an end of the range.
_STEP = 1e-5


def _search_range(observer: HistogramObserver) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes the range of HistogramObserver._non_linear_param_search, bit by bit, skipping steps without effect.

    The search moves, step by step, the end of the range at which more bins are empty enough, the upper one if there are
    none, until the error grows. If there are none at either end, the next step with an effect is the first one at which
    the upper quantile is in another bin.
    """
    counts = torch.cumsum(observer.histogram, dim=0).numpy()
    total = float(torch.sum(observer.histogram))
    # Sums step by step and compares in the dtype of the histogram, as the search does.
    steps = numpy.full(round(1 / _STEP) + 2, _STEP)
    lower = numpy.add.accumulate(numpy.concatenate([[0.0], steps]))
    upper = numpy.subtract.accumulate(numpy.concatenate([[1.0], steps]))
    # The first bin that is not below a quantile, and the last one that is not above.
    first = numpy.searchsorted(counts, (lower * total).astype(counts.dtype), side="left").tolist()
    last = numpy.searchsorted(counts, (upper * total).astype(counts.dtype), side="right") - 1
    # The steps of the upper end after which it is in a lower bin than before.
    moves = numpy.flatnonzero(numpy.diff(last)) + 1
    start, end = 0, observer.bins - 1
    lower_steps = upper_steps = 0
    least = math.inf
    while lower[lower_steps] < upper[upper_steps]:
        left = min(max(first[lower_steps + 1], start), end)
        right = max(min(int(last[upper_steps + 1]), end), start)
        if left - start > end - right:
            lower_steps += 1
            moved = left, end
        else:
            upper_steps += 1
            moved = start, right
        if moved == (start, end):
            # No further step has an effect before the upper end leaves its bin.
            later = moves[numpy.searchsorted(moves, upper_steps, side="right") :]
            upper_steps = int(later[0]) - 1 if len(later) else len(upper) - 1
            continue
        error = observer._compute_quantization_error(*moved)
        if error > least:
            break
        least = error
        start, end = moved
    width = (observer.max_val - observer.min_val) / observer.bins
    return observer.min_val + width * start, observer.min_val + width * (end + 1)


def _is_decomposed_by(table: Mapping[Any, Any], program: ExportedProgram) -> bool:
    """Whether a table has an entry for an operator of a program; PyTorch's own entries for every table are applied
    already.
    """
    for node in program.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem:
            continue
        if not isinstance(node.target, OpOverload) or node.target in table or node.target._schema.is_mutable:
            return True
    return False


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
