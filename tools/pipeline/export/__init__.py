"""Exports models. Importing it keeps PyTorch's compiler out of the process until it is needed.

ExecuTorch imports torch._inductor for one function, which it calls for every program but which only acts on graphs with
higher-order operators. That import is a fifth of the import time of an export.
"""

import importlib
import os
import sys
from types import ModuleType
from typing import Any

# The compiler's import makes a folder for caches, in TMPDIR by the user's name, of which another user may have made a
# file. No compiled code is kept here, and in /proc none can be.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", "/proc")

_NAME = "torch._inductor.fx_passes.post_grad"


def _imported() -> ModuleType:
    """Imports the module in place of its stand-in."""
    if isinstance(sys.modules.get(_NAME), _Deferred):
        del sys.modules[_NAME]
    return importlib.import_module(_NAME)


class _Deferred(ModuleType):
    """Stands in for the module until an attribute other than the one function is accessed."""

    @staticmethod
    def decompose_auto_functionalized(graph: Any) -> None:
        """Decomposes higher-order operators that stand for functions which write to their arguments."""
        from torch._ops import HigherOrderOperator

        if any(isinstance(node.target, HigherOrderOperator) for node in graph.nodes):
            _imported().decompose_auto_functionalized(graph)

    def __getattr__(self, name: str) -> Any:
        # Python itself queries such attributes of modules without using them.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_imported(), name)


if _NAME not in sys.modules:
    sys.modules[_NAME] = _Deferred(_NAME)
