"""Lowers programs for ExecuTorch's Arm backends, and leaves operators that fail to be lowered to other kernels."""

import contextlib
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from executorch.backends.arm.constants import DQ_OPS, Q_OPS
from executorch.backends.arm.operator_support.tosa_supported_operators import SupportedTOSAOperatorCheck
from executorch.exir.backend.backend_details import PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.dialects._ops import ops as exir_ops
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.passes.operator_support import OperatorSupportBase

from tools.pipeline.export.plan.manifest import origin
from tools.pipeline.export.upstream.replaced import replaced

_Lowered = TypeVar("_Lowered")
_Finished = TypeVar("_Finished")

# The number of failures that are located individually.
_LARGEST_SEARCH = 2


class LoweringError(Exception):
    """A subgraph that ExecuTorch's partitioner accepted can't be lowered.

    Attributes:
      places: the source locations of its operators, in order.
      reason: the reason, in one line.
    """

    def __init__(self, places: list[str], reason: str) -> None:
        super().__init__(reason)
        self.places = places
        self.reason = reason


def lower_all_but_refused(
    program: ExportedProgram,
    lower: Callable[[Mapping[str, str]], _Lowered],
    finish: Callable[[_Lowered], _Finished],
    check: Callable[[_Lowered], object] = lambda found: None,
) -> _Finished:
    """Lowers a program repeatedly, excluding more and more locations of the model, until nothing fails.

    Args:
      program: the program; attempts may remove constants that delegates take from it.
      lower: lowers the program without the given locations, as `origin` returns them, which map to reasons, and raises
        LoweringError for a subgraph that can't be lowered.
      finish: converts a lowered program to the result; it may raise LoweringError, too.
      check: performs the part of `finish` that may raise LoweringError; by default nothing.
    """
    refused: dict[str, str] = {}
    constants = [(mapping, dict(mapping)) for mapping in (program.state_dict, program.constants)]

    def lowered(more: Iterable[str] = ()) -> _Lowered:
        for mapping, values in constants:
            mapping.update(values)
        return lower({**refused, **dict.fromkeys(more, "")})

    for count in itertools.count(1):
        attempt: Callable[[list[str]], object] = lowered
        try:
            found = lowered()
            attempt = lambda more: check(lowered(more))  # noqa: E731
            return finish(found)
        except LoweringError as error:
            # Beyond a few failures, locating each one would cost too many attempts.
            places = error.places if count > _LARGEST_SEARCH else [_first_refused(error.places, attempt)]
            # Otherwise the loop would never end.
            if refused.keys() >= set(places):
                raise error.__cause__ or error from None
            refused |= dict.fromkeys(places, error.reason)
    raise AssertionError


def _first_refused(places: list[str], attempt: Callable[[list[str]], object]) -> str:
    """Returns the first location of a subgraph that can't be lowered, by bisection.

    Args:
      places: the subgraph's locations.
      attempt: lowers the program without some of them, and raises LoweringError for a subgraph that can't be lowered.
    """
    good, bad = 0, len(places)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            attempt(places[middle:])
        except LoweringError as error:
            # Other subgraphs are handled later.
            is_bad = not set(places).isdisjoint(error.places)
        else:
            is_bad = False
        good, bad = (good, middle) if is_bad else (middle, bad)
    return places[bad - 1]


class IsNotRefused(OperatorSupportBase):
    """Leaves the refused locations to other kernels."""

    def __init__(self, refused: Mapping[str, str], path: Path) -> None:
        self._refused = refused
        self._path = path

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        # Quantization for neighbouring layers may have a refused location, too.
        return node.target in (*Q_OPS, *DQ_OPS) or origin(node, self._path) not in self._refused


def with_reasons(rejected: Iterable[tuple[str, str, str]], refused: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Adds the reasons of refused locations to the partitioners' list from `delegates.rejections`."""
    return [
        (operator, place, refused[place] if reason.endswith(IsNotRefused.__name__) else reason)
        for operator, place, reason in rejected
    ]


@contextlib.contextmanager
def naming_places(backend: Any, path: Path, why: Callable[[Exception], str]) -> Iterator[list[tuple[str, ...]]]:
    """Makes a backend raise LoweringError for a subgraph that it can't lower, and records the locations of the others.

    Args:
      backend: ExecuTorch's class.
      path: the model file.
      why: returns the reason for an exception.

    Yields a list that gets the locations of each lowered subgraph, in the order of its operators.
    """
    done: list[tuple[str, ...]] = []
    original = backend.preprocess

    def preprocess(program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        computed = [node for node in nodes if node.target not in (*Q_OPS, *DQ_OPS)]
        places = list(dict.fromkeys(origin(node, path) for node in computed))
        try:
            result = original(program, specs)
        # The backend's passes and compilers raise any kind of exception.
        except Exception as error:
            raise LoweringError(places, why(error)) from error
        done.append(tuple(places))
        return result

    with replaced(backend, "preprocess", staticmethod(preprocess)):
        yield done


def in_a_line(error: BaseException) -> str:
    """Returns the message of an exception's root cause in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    # torch's graph follows, at times after an empty line.
    return " ".join(re.split(r"\n\n|\ngraph\(", str(error))[0].split()).rstrip(".") or type(error).__name__


@contextlib.contextmanager
def checking(program: ExportedProgram) -> Iterator[None]:
    """Leaves operators to other kernels that ExecuTorch's TOSA checks don't expect, such as an image without a batch.
    """
    original = SupportedTOSAOperatorCheck.is_node_supported
    inputs = set(program.graph_signature.user_inputs)

    def is_node_supported(
        self: SupportedTOSAOperatorCheck, submodules: Mapping[str, torch.nn.Module], node: Node
    ) -> bool:
        if _has_computed_weights(node, inputs):
            self.reporter.report_reject(node, "its weights are no constants")
            return False
        try:
            return original(self, submodules, node)
        except Exception as error:
            reason = f"ExecuTorch's check of it ended with {type(error).__name__}: {error}"
            self.reporter.report_reject(node, reason.split("\n")[0])
            return False

    with replaced(SupportedTOSAOperatorCheck, "is_node_supported", is_node_supported):
        yield


def _has_computed_weights(node: Node, inputs: Collection[object]) -> bool:
    """Whether a convolution's weights depend on inputs."""
    if node.target != exir_ops.edge.aten.convolution.default:
        return False
    weight = node.args[1]
    while isinstance(weight, Node) and weight.target in (*Q_OPS, *DQ_OPS):
        weight = weight.args[0]
    return isinstance(weight, Node) and (weight.op != "placeholder" or weight.name in inputs)
