"""Lets a model's Python code read values that are the same in each run: `if self.is_ready`, `range(int(self.n))`.

torch.export gives tensors shapes but no values, other than those that are made of one number. A model that checks its
own constants, such as the times of an ODE solver, then seems to depend on data.
"""

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorConverter, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from tools.pipeline.export.upstream.replaced import replaced

_MOST_ELEMENTS = 4096
_FACTORIES = (torch.arange, torch.eye, torch.full, torch.linspace, torch.logspace, torch.ones, torch.zeros)


@contextlib.contextmanager
def known_values(unknown: Collection[torch.Tensor]) -> Iterator[None]:
    """Gives all small tensors of a capture their values. PyTorch follows them through operators, and drops those that
    an operator with unknown operands writes to.

    Args:
      unknown: tensors with other values in other runs: the inputs, and buffers that the model changes.
    """
    make = FakeTensorConverter.from_real_tensor

    def with_value(self: Any, mode: FakeTensorMode, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> FakeTensor:
        made = make(self, mode, tensor, *args, **kwargs)
        if made.constant is None and _is_small(tensor) and all(tensor is not each for each in unknown):
            made.constant = tensor.detach().clone()
            self.add_constant_storage_mapping(made)
        return made

    with (
        replaced(FakeTensorConverter, "from_real_tensor", with_value),
        replaced(fake_tensor, "CONSTANT_NUMEL_LIMIT", _MOST_ELEMENTS),
        _FactoriesKnown(),
    ):
        yield


def _is_small(tensor: torch.Tensor) -> bool:
    size = tensor.numel()
    return tensor.layout == torch.strided and isinstance(size, int) and size <= _MOST_ELEMENTS


class _FactoriesKnown(TorchFunctionMode):
    """Gives tensors that are made of numbers alone their values."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in _FACTORIES and isinstance(made, FakeTensor) and _is_small(made):
            with _disable_current_modes():
                made.constant = func(*args, **(kwargs or {}))
            made.fake_mode.fake_tensor_converter.add_constant_storage_mapping(made)
        return made
