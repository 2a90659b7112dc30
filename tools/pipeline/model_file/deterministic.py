"""The same numbers from torch on every x86-64 processor, with any number of cores.

torch and the libraries below it choose code by the processor they run on, and different code rounds differently. What
they read from the environment when they are loaded is fixed by the launcher of `py_tool` (rules/py_tool.bzl,
which says what each variable does); the rest, here:

* oneDNN and NNPACK, which compute convolutions in an order of additions that depends on instruction sets and the sizes
  of caches, are off: torch's own code on top of MKL's matrix products takes their place. Results lie in memory as
  oneDNN's would;
* one thread: sums are split among threads;
* functions that torch takes from MKL's vector mathematics and that start from the processor's approximation of 1/x or
  1/sqrt(x) (rcpps, rsqrtps). Intel's and AMD's differ, and MKL uses them for these functions even with
  MKL_CBWR=COMPATIBLE, contrary to its documentation. NumPy's functions, in float64, take their place.

docs/models.md says what is promised and what isn't.
"""

from __future__ import annotations

import contextlib
import functools
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch

_SEED = 0

# By name of the operator in aten. Of MKL's kernels for processors with SSE2 these contain rcpps or rsqrtps.
_APPROXIMATED: dict[str, Callable[..., Any]] = {
    "acos": numpy.arccos,
    "asin": numpy.arcsin,
    "atan": numpy.arctan,
    "log": numpy.log,
    "log10": numpy.log10,
    "log2": numpy.log2,
    "sqrt": numpy.sqrt,
    "tan": numpy.tan,
}


# What PyTorch takes for nondeterministic, as threads may write to the same place: one thread writes in order.
_DETERMINISTIC = ("max_unpool2d", "max_unpool3d")


def make_deterministic() -> None:
    """Fixes what torch computes: its seeds, its order of additions, its choice of code by processor."""
    _replace_functions()
    torch._C._set_mkldnn_enabled(False)
    torch.backends.nnpack.set_flags(False)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(_SEED)
    random.seed(_SEED)
    numpy.random.seed(_SEED)


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """For tracing with tensors that have no values: results of convolutions lie in memory as oneDNN's do.

    PyTorch refuses some operators as nondeterministic where it traces them; what computes values doesn't.
    """
    with _onednn(True), _deterministic(False):
        yield


@contextlib.contextmanager
def computing() -> Iterator[None]:
    """For computing values, without gradients, within tracing()."""
    with torch.no_grad(), _onednn(False), _deterministic(True):
        yield


@contextlib.contextmanager
def _onednn(enabled: bool) -> Iterator[None]:
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(enabled)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


@functools.cache
def _replace_functions() -> torch.library.Library:
    """Registers the functions for tensors in memory; they stay as long as the library, which the cache keeps."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        # That a kernel is replaced.
        warnings.simplefilter("ignore", UserWarning)
        for name, function in _APPROXIMATED.items():
            original = torch.library.get_kernel(f"aten::{name}", "CPU")
            functional = functools.partial(_functional, function, original)
            library.impl(name, functional, "CPU")
            library.impl(f"{name}_", functools.partial(_in_place, functional), "CPU")
            library.impl(f"{name}.out", functools.partial(_into, functional), "CPU")
        original = torch.library.get_kernel("aten::convolution", "CPU")
        library.impl("convolution", functools.partial(_convolution, original), "CPU")
        for name in _DETERMINISTIC:
            original = torch.library.get_kernel(f"aten::{name}", "CPU")
            library.impl(name, functools.partial(_in_order, original), "CPU")
    return library


_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def _functional(function: Callable[..., Any], original: Any, x: torch.Tensor) -> torch.Tensor:
    if x.dtype in (torch.float32, torch.float64):
        values = x
    elif x.is_floating_point() or x.is_complex():
        # No code of MKL's.
        return original.call_boxed(_CPU, x)
    else:
        values = x.to(torch.get_default_dtype())
    result = torch.empty_like(values)
    with numpy.errstate(all="ignore"):
        # In float64: what is left of the C library's rounding doesn't reach a float32.
        function(values.detach().numpy(), out=result.numpy(), dtype=numpy.float64, casting="same_kind")
    return result


def _in_order(original: Any, *arguments: Any) -> torch.Tensor:
    with _deterministic(False):
        return original.call_boxed(_CPU, *arguments)


@contextlib.contextmanager
def _deterministic(enabled: bool) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(enabled)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _convolution(original: Any, x: torch.Tensor, weight: torch.Tensor, *arguments: Any) -> torch.Tensor:
    result = original.call_boxed(_CPU, x, weight, *arguments)
    if x.dim() not in (4, 5):
        return result
    # Views of it in a model that was written for PyTorch, and in a traced graph, rely on where the elements lie.
    with _onednn(True):
        backend = torch._C._select_conv_backend(x, weight, *arguments)
        order = torch._C._conv_determine_backend_memory_format(x, weight, backend)
    return result.contiguous(memory_format=order)


def _in_place(functional: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return _into(functional, x, out=x)


def _into(
    functional: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, *, out: torch.Tensor
) -> torch.Tensor:
    result = functional(x)
    if not torch.can_cast(result.dtype, out.dtype):
        raise RuntimeError(f"result type {result.dtype} can't be cast to the desired output type {out.dtype}")
    return out.resize_(result.shape).copy_(result)
