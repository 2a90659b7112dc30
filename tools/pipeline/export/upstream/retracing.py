"""What ExecuTorch's passes do again for each operator of a graph that they write anew, done once.

For Arm that is some fifty times, and most of what an export takes, and for Cortex-M a fifth; torchao, too, does again
what it has done. Nothing that is exported depends on it.
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


@contextlib.contextmanager
def known_ranges() -> Iterator[None]:
    """Lets an observer, that has seen all, look for its scale once: torchao asks for each tensor that shares it.

    And by steps that change something: of the search's 100,000 most change nothing.
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
    """The range that HistogramObserver._non_linear_param_search finds, to the bit, without its steps that move nothing.

    It moves, step by step, the end of the range at which more bins are empty enough, the upper one if there are none,
    until the error grows. So where there are none at either end, the next step that moves anything is the first at
    which the upper quantile is in another bin.
    """
    counts = torch.cumsum(observer.histogram, dim=0).numpy()
    total = float(torch.sum(observer.histogram))
    # As the search adds them up, step by step, and compares them, in the dtype of the histogram.
    steps = numpy.full(round(1 / _STEP) + 2, _STEP)
    lower = numpy.add.accumulate(numpy.concatenate([[0.0], steps]))
    upper = numpy.subtract.accumulate(numpy.concatenate([[1.0], steps]))
    # The first bin that is not below a quantile, and the last one that is not above.
    first = numpy.searchsorted(counts, (lower * total).astype(counts.dtype), side="left").tolist()
    last = numpy.searchsorted(counts, (upper * total).astype(counts.dtype), side="right") - 1
    # Steps of the upper end after which it is in a lower bin than before.
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
            # No further step moves anything before the upper end leaves its bin.
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
