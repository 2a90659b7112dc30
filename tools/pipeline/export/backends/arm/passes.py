"""Passes of our own among those that ExecuTorch's Arm backends lower a subgraph by."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from executorch.backends.arm._passes import arm_pass_manager
from torch.export import ExportedProgram

from tools.pipeline.export.upstream.replaced import replaced


@contextlib.contextmanager
def reordered(order: Callable[[Sequence[Any]], Sequence[Any]]) -> Iterator[None]:
    """Gives the backends' pass manager what `order` makes of its passes."""
    manager = arm_pass_manager.ArmPassManager
    original = manager.add_passes

    def add_passes(self: object, passes: Sequence[Any]) -> None:
        original(self, order(passes))

    with replaced(manager, "add_passes", add_passes):
        yield


def inserted(
    passes_before: Mapping[type, Callable[[ExportedProgram], object]],
) -> contextlib.AbstractContextManager[None]:
    """Runs passes before others.

    Args:
      passes_before: by the class of a pass of ExecuTorch's what makes that which comes before it, for a subgraph: the
        pass manager gives passes another one while it calls them.
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
