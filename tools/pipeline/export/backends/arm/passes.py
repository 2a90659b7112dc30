"""Inserts passes of our own into the pass pipeline of ExecuTorch's Arm backends."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from executorch.backends.arm._passes import arm_pass_manager
from torch.export import ExportedProgram

from tools.pipeline.export.upstream.replaced import replaced


@contextlib.contextmanager
def reordered(order: Callable[[Sequence[Any]], Sequence[Any]]) -> Iterator[None]:
    """Replaces the list of passes in the backends' pass manager by the result of `order`."""
    manager = arm_pass_manager.ArmPassManager
    original = manager.add_passes

    def add_passes(self: object, passes: Sequence[Any]) -> None:
        original(self, order(passes))

    with replaced(manager, "add_passes", add_passes):
        yield


def inserted(
    passes_before: Mapping[type, Callable[[ExportedProgram], object]],
) -> contextlib.AbstractContextManager[None]:
    """Inserts passes before others.

    Args:
      passes_before: maps a class of ExecuTorch's passes to a function that makes the pass to insert before it for a
        subgraph, whose program the pass manager only passes on when it calls them.
    """

    def with_inserted(passes: Sequence[Any]) -> list[Any]:
        ordered = []
        for each in passes:
            make = passes_before.get(type(each))
            if make is not None:
                (ranks,) = (one for one in passes if isinstance(one, arm_pass_manager.MatchArgRanksPass))
                ordered.append(make(ranks.exported_program))
            ordered.append(each)
        return ordered

    return reordered(with_inserted)
