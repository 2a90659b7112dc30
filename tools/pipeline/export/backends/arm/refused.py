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

from tools.pipeline.export.ir.edge import COPIES_TO_ORDER
from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.ir.rewriting import adds_to_elements
from tools.pipeline.export.upstream.replaced import replaced

_COPIES = (*COPIES_TO_ORDER, exir_ops.edge.aten.alias_copy.default)

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
        _merge_copies(program)
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


def _merge_copies(program: ExportedProgram) -> None:
    """Merges a subgraph's copies of a constant, in place. ExecuTorch copies what other subgraphs read, too, for each
    reader, and its passes then drop the constant once for each copy.
    """
    first: dict[str, Node] = {}
    specs = program.graph_signature.input_specs
    placeholders = program.graph.find_nodes(op="placeholder")
    for node, spec in list(zip(placeholders, specs, strict=True)):
        if spec.target is not None and (kept := first.setdefault(spec.target, node)) is not node:
            node.replace_all_uses_with(kept)
            program.graph.erase_node(node)
            specs.remove(spec)
    program.graph_module.recompile()


def in_a_line(error: BaseException) -> str:
    """Returns the message of an exception's root cause in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    # torch's graph follows, at times after an empty line.
    return " ".join(re.split(r"\n\n|\ngraph\(", str(error))[0].split()).rstrip(".") or type(error).__name__


@contextlib.contextmanager
def checking(program: ExportedProgram) -> Iterator[None]:
    """Leaves operators that ExecuTorch's TOSA checks don't expect to other kernels, such as images without a batch."""
    original = SupportedTOSAOperatorCheck.is_node_supported
    inputs = set(program.graph_signature.user_inputs)

    def is_node_supported(
        self: SupportedTOSAOperatorCheck, submodules: Mapping[str, torch.nn.Module], node: Node
    ) -> bool:
        if _has_computed_weights(node, inputs):
            self.reporter.report_reject(node, "its weights are no constants")
            return False
        if adds_to_elements(node):
            self.reporter.report_reject(node, "several indices may name one element")
            return False
        try:
            if not original(self, submodules, node):
                return False
        except Exception as error:
            reason = f"ExecuTorch's check of it ended with {type(error).__name__}: {error}"
            self.reporter.report_reject(node, reason.split("\n")[0])
            return False
        # ExecuTorch's passes drop copies, and each output of a subgraph has to be computed in it.
        source = _copied_to_output(node)
        if source is not None and not (source.op == "call_function" and is_node_supported(self, submodules, source)):
            self.reporter.report_reject(node, "it only copies what is not computed there")
            return False
        return True

    with replaced(SupportedTOSAOperatorCheck, "is_node_supported", is_node_supported):
        yield


def _copied_to_output(node: Node) -> Node | None:
    """Returns what a node copies to an output; None if it doesn't, or casts it."""
    if node.target not in _COPIES or node.meta["val"].dtype != node.args[0].meta["val"].dtype:
        return None
    source, readers = node.args[0], list(node.users)
    while source.target in (*Q_OPS, *DQ_OPS):
        source = source.args[0]
    # The loop adds the readers behind quantization.
    for reader in readers:
        readers += reader.users if reader.target in (*Q_OPS, *DQ_OPS) else ()
    return source if any(reader.op == "output" for reader in readers) else None


def _has_computed_weights(node: Node, inputs: Collection[object]) -> bool:
    """Whether a convolution's weights depend on inputs."""
    if node.target != exir_ops.edge.aten.convolution.default:
        return False
    weight = node.args[1]
    while isinstance(weight, Node) and weight.target in (*Q_OPS, *DQ_OPS):
        weight = weight.args[0]
    return isinstance(weight, Node) and (weight.op != "placeholder" or weight.name in inputs)
