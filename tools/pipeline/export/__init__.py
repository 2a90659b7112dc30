"""Exports models. Importing it keeps PyTorch's compiler out of the process until it is needed.

ExecuTorch imports torch._inductor for one function, which it calls for every program and which finds something to do
only where a graph has higher-order operators. That is a fifth of the time that all imports of an export take.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_NAME = "torch._inductor.fx_passes.post_grad"


def _imported() -> ModuleType:
    """The module itself, in the place of what stood for it."""
    if isinstance(sys.modules.get(_NAME), _Deferred):
        del sys.modules[_NAME]
    return importlib.import_module(_NAME)


class _Deferred(ModuleType):
    """Stands for the module until anything but the one function is asked of it."""

    @staticmethod
    def decompose_auto_functionalized(graph: Any) -> None:
        """Decomposes higher-order operators that stand for functions which write to their arguments."""
        from torch._ops import HigherOrderOperator

        if any(isinstance(node.target, HigherOrderOperator) for node in graph.nodes):
            _imported().decompose_auto_functionalized(graph)

    def __getattr__(self, name: str) -> Any:
        # Python's own questions about a module are no use of it.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_imported(), name)


if _NAME not in sys.modules:
    sys.modules[_NAME] = _Deferred(_NAME)
