"""Brings a module's weights into the form that torch.export captures: dense tensors of numbers."""

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from tools.quiet.console import UserError


def write_dense_weights(module: torch.nn.Module, what: str) -> None:
    """Replaces parameters and buffers that are sparse, or that torchao quantized, by the numbers that they stand for.

    Args:
      what: what returned the module, for messages.

    Raises:
      UserError: a layer has no weights yet, or weights in a form of torch.ao.quantization that nothing captures.
    """
    written: dict[torch.Tensor, torch.Tensor] = {}
    for name, part in module.named_modules():
        if type(part).__module__.startswith(("torch.ao.nn.intrinsic.quantized", "torch.ao.nn.quantized")):
            raise UserError(
                f"{what} returned a module whose {name or 'whole'} torch.ao.quantization converted, which can't be "
                "captured; return the one that it was made of, and let the build quantize it (docs/quantize.md)."
            )
        for tensors in (part._parameters, part._buffers):
            for key, tensor in tensors.items():
                if tensor is None:
                    continue
                if is_lazy(tensor):
                    path = f"{name}.{key}".removeprefix(".")
                    raise UserError(
                        f"{what} returned a lazy module: {path} has no shape yet. Call the module once on its inputs, "
                        "such as module(*example_inputs()), before returning it."
                    )
                if tensor not in written and (dense := _dense(tensor)) is not None:
                    is_parameter = isinstance(tensor, torch.nn.Parameter)
                    written[tensor] = torch.nn.Parameter(dense, requires_grad=False) if is_parameter else dense
                tensors[key] = written.get(tensor, tensor)


def _dense(tensor: torch.Tensor) -> torch.Tensor | None:
    """Returns the numbers that a tensor of another form stands for, or None if it is one of numbers."""
    if tensor.layout != torch.strided:
        return tensor.detach().to_dense()
    return tensor.detach().dequantize() if is_traceable_wrapper_subclass(tensor) else None
