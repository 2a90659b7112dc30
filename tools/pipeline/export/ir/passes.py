"""What a pass is, and how a pipeline of passes runs.

The passes themselves are functions in the rooms of this package; pipelines.py is the table that says in which order
each backend runs them. A pass is named there and imported when it runs: the table costs nothing to import.
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

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_PACKAGE = "tools.pipeline.export"


class Property(enum.Enum):
    """What can hold of a program between passes; properties.py has the check of each."""

    FUNCTIONAL = "no operator changes a tensor in place"
    ATTENTION_DECOMPOSED = "attention is matrix products and a softmax, where every query sees something"
    BATCH_NORM_FOLDED = "batch normalization is part of the layer before it, or a product and a sum"
    RECURRENT_WHOLE = "each LSTM and GRU that has a kernel is one operator per layer and direction"
    DECOMPOSED = "no operator is left that has a decomposition of ours"
    RESHAPED = "views are reshapes, which copy where the order of dimensions asks for it"
    EDGE = "all operators are of ExecuTorch's edge dialect"


@dataclass(frozen=True)
class Pass:
    """A step from one program to the next.

    Attributes:
      function: the module below this package and the function, `rewrite.batch_norm:fold_batch_norm`. It takes the
        program, and what else its parameters name from what the pipeline is given; it returns the program, or None if
        it changes it in place.
      needs: what must hold before.
      gives: what holds afterwards.
      breaks: what need not hold any more afterwards.
      not_for: the NPUs that a program goes without this pass for.
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
        """The function."""
        module, _, name = self.function.partition(":")
        return getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)


@dataclass(frozen=True)
class Pipeline:
    """Passes in order.

    Attributes:
      name: the backend and the part of its way.
      passes: in the order in which they run.
      begins: what holds before the first one.
      then: what happens to the program afterwards, for readers.
    """

    name: str
    passes: tuple[Pass, ...]
    begins: frozenset[Property] = frozenset()
    then: str = ""

    def __post_init__(self) -> None:
        holds = self.begins
        for each in self.passes:
            missing = sorted(item.name for item in each.needs - holds)
            if missing:
                needs = ", ".join(missing)
                raise ValueError(f"pipeline {self.name}: no pass before {each.name} gives {needs}, which it needs")
            holds = holds - each.breaks | each.gives

    def run(self, program: ExportedProgram, **given: Any) -> ExportedProgram:
        """The program that all passes make of this one, which may be changed in place.

        Args:
          given: what passes take besides the program, by the names of their parameters.
        """
        # Imported here: it costs seconds, and the table alone needs none.
        from tools.pipeline.export.ir.constants import mark_inputs

        npu = given.get("npu")
        for each in self.passes:
            if npu is not None and npu.product in each.not_for:
                continue
            function = each.resolve()
            taken = inspect.signature(function).parameters
            mark_inputs(program)
            begin = time.perf_counter()
            result = function(program, **{name: value for name, value in given.items() if name in taken})
            if result is not None:
                program = result
            program.graph_module.recompile()
            for watcher in _watchers:
                watcher(self, each, program, time.perf_counter() - begin)
        return program


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
