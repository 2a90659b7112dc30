"""Defines passes, and how a pipeline runs them.

The passes themselves are functions in the subpackages; the table in pipelines.py lists them in the order in which each
backend runs them. A pass is named there and imported when it runs, so that importing the table costs nothing.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.quiet.console import note_progress

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

_PACKAGE = "tools.pipeline.export"


class Property(enum.Enum):
    """Properties of a program between passes; properties.py checks them."""

    FUNCTIONAL = "no operator changes a tensor in place"
    ATTENTION_DECOMPOSED = "attention is matrix products and a softmax, where every query sees something"
    BATCH_NORM_FOLDED = "batch normalization is part of the layer before it, or a product and a sum"
    RECURRENT_WHOLE = "each LSTM and GRU that has a kernel is one operator per layer and direction"
    DECOMPOSED = "no operator is left that has a decomposition of ours"
    RESHAPED = "views are reshapes, which copy where the order of dimensions asks for it"
    EDGE = "all operators are of ExecuTorch's edge dialect"


@dataclass(frozen=True)
class Pass:
    """A transformation of a program.

    Attributes:
      function: the module below this package and the function, `rewrite.batch_norm:fold_batch_norm`. The function takes
        the program, and arguments of the pipeline by the names of its other parameters. It returns a program, or None
        if it changes the program in place.
      needs: the properties that must hold before.
      gives: the properties that hold afterwards.
      breaks: the properties that may no longer hold afterwards.
      not_for: the NPUs for which the pass is skipped.
    """

    function: str
    needs: frozenset[Property] = frozenset()
    gives: frozenset[Property] = frozenset()
    breaks: frozenset[Property] = frozenset()
    not_for: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.function.partition(":")[2]

    def resolve(self) -> Callable[..., ExportedProgram | None]:
        """Imports and returns the function."""
        module, _, name = self.function.partition(":")
        return getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)


@dataclass(frozen=True)
class Pipeline:
    """Passes in order.

    Attributes:
      name: the backend and the stage.
      passes: the passes, in the order in which they run.
      begins: the properties that hold before the first pass.
      then: describes what happens to the program afterwards, for docs/passes.md.
      follows: what made the calls that are new when it begins.
    """

    name: str
    passes: tuple[Pass, ...]
    begins: frozenset[Property] = frozenset()
    then: str = ""
    follows: str = "to_edge"

    def __post_init__(self) -> None:
        holds = self.begins
        for each in self.passes:
            missing = sorted(item.name for item in each.needs - holds)
            if missing:
                needs = ", ".join(missing)
                raise ValueError(f"pipeline {self.name}: no pass before {each.name} gives {needs}, which it needs")
            holds = holds - each.breaks | each.gives

    def run(self, program: ExportedProgram, **given: Any) -> ExportedProgram:
        """Runs all passes and returns the result. They may change the given program in place.

        Args:
          given: arguments of the passes besides the program, by the names of their parameters.
        """
        # Imported here, because it takes seconds and the table doesn't need it.
        from tools.pipeline.export.ir.constants import mark_inputs

        npu = given.get("npu")
        note_makers(program, self.follows if any(map(made_by, program.graph.nodes)) else CAPTURED)
        for number, each in enumerate(self.passes, 1):
            if npu is not None and npu.product in each.not_for:
                continue
            note_progress(f"pass {number} of {len(self.passes)} ({self.name}): {each.name}")
            function = each.resolve()
            taken = inspect.signature(function).parameters
            mark_inputs(program)
            begin = time.perf_counter()
            result = function(program, **{name: value for name, value in given.items() if name in taken})
            if result is not None:
                program = result
            program.graph_module.recompile()
            note_makers(program, each.name)
            for watcher in _watchers:
                watcher(self, each, program, time.perf_counter() - begin)
        return program


# The maker of a node that no pass has changed.
CAPTURED = "torch.export"
# The entry of a node's meta that retracing keeps; it has the makers of nodes, with the operators that they made.
_KEPT = "custom"


def made_by(node: Node) -> str:
    """Returns the name of the pass that made a node, or CAPTURED; empty if it isn't known."""
    return str((node.meta.get(_KEPT) or {}).get("made_by", ""))


def note_makers(program: ExportedProgram, maker: str) -> None:
    """Notes who made the calls that are new, or of another operator than before."""
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        # The edge dialect's operators have the names of ATen's, or of those that copy.
        schema = getattr(node.target, "_schema", None)
        operator = schema.name.removesuffix("_copy") if schema else str(node.target)
        kept = node.meta.get(_KEPT) or {}
        if kept.get("operator") != operator:
            node.meta[_KEPT] = kept | {"made_by": maker, "operator": operator}


# Called after each pass, with the seconds that it took.
Watcher = Callable[[Pipeline, Pass, "ExportedProgram", float], None]
_watchers: list[Watcher] = []


@contextlib.contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Calls `watcher` after each pass that runs inside."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)
