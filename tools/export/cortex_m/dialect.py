"""ExecuTorch's Cortex-M backend: import this module before any other part of `executorch.backends.cortex_m`.

In the wheel, `ops.operators`, which registers the operators, imports a module of the package `passes`, and the package
`passes` looks the registered operators up while it is imported. Neither can be imported first. Here the operators come
first, with an empty package in place of `passes`, and then `passes` itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

_BACKEND = "executorch.backends.cortex_m"
_PASSES = f"{_BACKEND}.passes"


def _import_backend() -> None:
    if _PASSES in sys.modules:
        return
    found = importlib.util.find_spec(_PASSES)
    assert found is not None and found.submodule_search_locations is not None, f"the executorch wheel has no {_PASSES}"
    bare = ModuleType(_PASSES)
    bare.__path__ = list(found.submodule_search_locations)
    sys.modules[_PASSES] = bare
    try:
        importlib.import_module(f"{_BACKEND}.ops.operators")
    finally:
        del sys.modules[_PASSES]
    importlib.import_module(_PASSES)


_import_backend()
