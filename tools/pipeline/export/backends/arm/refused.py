"""Lowers programs for ExecuTorch's Arm backends, and leaves to other kernels what these take and can't lower then."""

from __future__ import annotations

import contextlib
import itertools
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

# Places of a model that are looked for one by one, as they can't be lowered.
_LARGEST_SEARCH = 2


class LoweringError(Exception):
    """A subgraph that ExecuTorch's partitioner took can't be lowered.

    Attributes:
      places: where in the model it comes from, in the order of its operators.
      reason: why, in a line.
    """

    def __init__(self, places: list[str], reason: str) -> None:
        super().__init__(reason)
        self.places = places
        self.reason = reason


def lower_all_but_refused(
    lower: Callable[[Mapping[str, str]], _Lowered],
    finish: Callable[[_Lowered], _Finished],
    check: Callable[[_Lowered], object] = lambda found: None,
) -> _Finished:
    """Lowers a program again and again, without more and more places of the model, until nothing is refused.

    Args:
      lower: lowers the program without the places that it gets, as `origin` has them, with why, and raises
        LoweringError for a subgraph that can't be lowered.
      finish: makes of a lowered program what is returned; it may raise LoweringError, too.
      check: does of what `finish` does that which may raise LoweringError; by default that is nothing.
    """
    refused: dict[str, str] = {}

    def lowered(more: Iterable[str] = ()) -> _Lowered:
        return lower({**refused, **dict.fromkeys(more, "")})

    for count in itertools.count(1):
        attempt: Callable[[list[str]], object] = lowered
        try:
            found = lowered()
            attempt = lambda more: check(lowered(more))  # noqa: E731
            return finish(found)
        except LoweringError as error:
            # Where more than a few places can't be lowered, each costs several attempts.
            places = error.places if count > _LARGEST_SEARCH else [_first_refused(error.places, attempt)]
            # Else it would go on for ever.
            if refused.keys() >= set(places):
                raise error.__cause__ or error from None
            refused |= dict.fromkeys(places, error.reason)
    raise AssertionError


def _first_refused(places: list[str], attempt: Callable[[list[str]], object]) -> str:
    """The first place of a subgraph that can't be lowered, up to which it can't be.

    Args:
      places: the subgraph's.
      attempt: lowers the program without some of them, and raises LoweringError for a subgraph that can't be.
    """
    good, bad = 0, len(places)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            attempt(places[middle:])
        except LoweringError as error:
            # Others have their turn later.
            is_bad = not set(places).isdisjoint(error.places)
        else:
            is_bad = False
        good, bad = (good, middle) if is_bad else (middle, bad)
    return places[bad - 1]


class IsNotRefused(OperatorSupportBase):
    """Leaves places in the model to other kernels."""

    def __init__(self, refused: Mapping[str, str], path: Path) -> None:
        self._refused = refused
        self._path = path

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        # What quantizes for the layers beside a place may be from there, too.
        return node.target in (*Q_OPS, *DQ_OPS) or origin(node, self._path) not in self._refused


def with_reasons(rejected: Iterable[tuple[str, str, str]], refused: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """What partitioners left, as `delegates.rejections` has it, with the reasons of what was refused."""
    return [
        (operator, place, refused[place] if reason.endswith(IsNotRefused.__name__) else reason)
        for operator, place, reason in rejected
    ]


@contextlib.contextmanager
def naming_places(backend: Any, path: Path, why: Callable[[Exception], str]) -> Iterator[list[tuple[str, ...]]]:
    """Lets a backend raise LoweringError for a subgraph that it can't lower, and says where the others are from.

    Args:
      backend: ExecuTorch's class.
      path: the model file.
      why: the reason for an exception.

    Yields places in the model, in the order of a subgraph's operators, for each that was lowered.
    """
    done: list[tuple[str, ...]] = []
    original = backend.preprocess

    def preprocess(program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        computed = [node for node in nodes if node.target not in (*Q_OPS, *DQ_OPS)]
        places = list(dict.fromkeys(origin(node, path) for node in computed))
        try:
            result = original(program, specs)
        # Its passes raise what they happen to meet, as compilers do.
        except Exception as error:
            raise LoweringError(places, why(error)) from error
        done.append(tuple(places))
        return result

    with replaced(backend, "preprocess", staticmethod(preprocess)):
        yield done


def in_a_line(error: BaseException) -> str:
    """What an exception was raised for first, in a line."""
    while error.__cause__ is not None:
        error = error.__cause__
    # Behind an empty line torch's graph begins.
    return " ".join(str(error).split("\n\n")[0].split()).rstrip(".") or type(error).__name__


@contextlib.contextmanager
def checking(program: ExportedProgram) -> Iterator[None]:
    """Leaves to other kernels what ExecuTorch's checks for TOSA don't expect, such as an image without a batch."""
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
