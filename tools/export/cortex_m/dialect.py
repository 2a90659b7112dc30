"""ExecuTorch's Cortex-M backend: import this module before any other part of `executorch.backends.cortex_m`.

In the wheel, `ops.operators`, which registers the operators, imports a module of the package `passes`, and the package
`passes` looks the registered operators up while it is imported. Neither can be imported first. Here the operators come
first, with an empty package in place of `passes`, and then `passes` itself.

The operators' Python implementation says which integers a program must return. Where it convolves int32 tensors, which
PyTorch cannot do with dilation, or takes float32 for them, which rounds sums over 2**24, it is given float64.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional

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


class _ExactFunctional:
    """torch.nn.functional whose convolutions compute exact integers, as long as they are below 2**53."""

    def __getattr__(self, name: str) -> Any:
        return getattr(functional, name)

    @staticmethod
    def conv2d(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, **options: Any) -> torch.Tensor:
        return functional.conv2d(x.double(), weight.double(), bias.double(), **options).to(x.dtype)

    @staticmethod
    def conv_transpose2d(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, **options: Any) -> torch.Tensor:
        return functional.conv_transpose2d(x.double(), weight.double(), bias.double(), **options)


_import_backend()
sys.modules[f"{_BACKEND}.ops.operators"].__dict__["F"] = _ExactFunctional()
