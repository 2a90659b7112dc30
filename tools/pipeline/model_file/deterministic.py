"""Makes torch compute the same numbers on every x86-64 processor, with any number of cores.

torch and the libraries below it select code by the processor they run on, and different code rounds differently. The
launcher of `py_tool` fixes the environment variables that they read when they are loaded (rules/py_tool.bzl explains
each); this module fixes the rest:

* oneDNN and NNPACK are disabled, because their convolutions sum in an order that depends on instruction sets and the
  sizes of caches. torch's own code with MKL's matrix products replaces them. Results keep oneDNN's memory order;
* a single thread is used, because threads would split sums;
* topk, kthvalue and sorting find equal elements in the order that they have, as the kernels of a device do;
* functions from MKL's vector mathematics that start from the processor's approximation of 1/x or 1/sqrt(x) (rcpps,
  rsqrtps) are replaced by NumPy's functions in float64. The approximations of Intel and AMD differ, and MKL uses them
  for these functions even with MKL_CBWR=COMPATIBLE, contrary to its documentation.

docs/models.md says what is guaranteed and what isn't.
"""

import contextlib
import functools
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch

_SEED = 0

# By name of the operator in aten. MKL's kernels of these for processors with SSE2 contain rcpps or rsqrtps.
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


# Operators that PyTorch considers nondeterministic, because threads may write to the same address: one thread writes in
# order.
_DETERMINISTIC = ("max_unpool2d", "max_unpool3d", "put_")


def make_deterministic() -> None:
    """Fixes seeds, the order of sums, and the selection of code by processor in torch."""
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
    """Prepares tracing with tensors that have no values: results of convolutions get oneDNN's memory order.

    PyTorch refuses to trace some operators as nondeterministic; computing values is deterministic.
    """
    with _onednn(True), _deterministic(False):
        yield


@contextlib.contextmanager
def computing() -> Iterator[None]:
    """Prepares computing values, without gradients, within tracing()."""
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
    """Registers the functions for tensors in memory; they exist as long as the library, which the cache keeps."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        # The warning says that a kernel is replaced.
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
        original = torch.library.get_kernel("aten::topk", "CPU")
        library.impl("topk", functools.partial(_topk, original), "CPU")
        original = torch.library.get_kernel("aten::kthvalue.values", "CPU")
        library.impl("kthvalue.values", functools.partial(_kthvalue, original), "CPU")
        original = torch.library.get_kernel("aten::sort.stable", "CPU")
        library.impl("sort.stable", functools.partial(_sort, original), "CPU")
    return library


_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def _functional(function: Callable[..., Any], original: Any, x: torch.Tensor) -> torch.Tensor:
    if x.dtype in (torch.float32, torch.float64):
        values = x
    elif x.is_floating_point() or x.is_complex():
        # MKL has no code for these dtypes.
        return original.call_boxed(_CPU, x)
    else:
        values = x.to(torch.get_default_dtype())
    result = torch.empty_like(values)
    with numpy.errstate(all="ignore"):
        # float64 hides the rounding of the C library in a float32 result.
        function(values.detach().numpy(), out=result.numpy(), dtype=numpy.float64, casting="same_kind")
    return result


def _topk(
    original: Any, x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, in_order: bool = True
) -> tuple[torch.Tensor, ...]:
    if x.dim() == 0 or not 0 <= k <= x.shape[dim]:
        results: tuple[torch.Tensor, ...] = original.call_boxed(_CPU, x, k, dim, largest, in_order)
        return results
    found = torch.sort(x, dim=dim, descending=largest, stable=True)
    return tuple(part.narrow(dim, 0, k).contiguous() for part in found)


def _kthvalue(
    original: Any,
    x: torch.Tensor,
    k: int,
    dim: int = -1,
    keepdim: bool = False,
    *,
    values: torch.Tensor,
    indices: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    original.call_boxed(_CPU, x, k, dim, keepdim, values=values, indices=indices)
    if x.dim():
        found = torch.sort(x, dim=dim, stable=True)[1].select(dim, k - 1)
        indices.copy_(found.unsqueeze(dim) if keepdim else found)
    return values, indices


def _sort(
    original: Any, x: torch.Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[torch.Tensor, ...]:
    found: tuple[torch.Tensor, ...] = original.call_boxed(_CPU, x, stable=True, dim=dim, descending=descending)
    return found


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
    # Views of the result, in a model that was written for PyTorch and in a traced graph, rely on its memory order.
    with _onednn(True):
        backend = torch._C._select_conv_backend(x, weight, *arguments)
        order = torch._C._conv_determine_backend_memory_format(x, weight, backend)
    return result.contiguous(memory_format=order)


def _in_place(functional: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return _into(functional, x, out=x)


def _into(functional: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    result = functional(x)
    if not torch.can_cast(result.dtype, out.dtype):
        raise RuntimeError(f"result type {result.dtype} can't be cast to the desired output type {out.dtype}")
    return out.resize_(result.shape).copy_(result)
