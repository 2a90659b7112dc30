"""Explains in the user's terms why a model fails on its inputs."""

from typing import Any

import torch

from tools.pipeline.model_file.call import CALLED
from tools.pipeline.model_file.describe import describe
from tools.pipeline.model_file.model_file import ModelFile, brief, hint_of
from tools.quiet.console import UserError


def explain_forward(
    file: ModelFile,
    model: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    error: Exception,
    origin: str = "example_inputs()",
) -> UserError:
    """Explains why the model fails in eager mode: names the innermost module that fails, and its inputs.

    Args:
      origin: the function of the model file that returned the inputs.
    """
    place = file.place_of(error)
    where = _failing_module(model, inputs)
    shown = ", ".join(describe(tensor) for tensor in inputs)
    layer = f" in {where[0]}, which got {where[1]}" if where else ""
    hint = hint_of(error) or _hint_of_weights(model, inputs)
    if not hint and isinstance(error, (IndexError, RuntimeError, TypeError, ValueError)):
        hint = f". {origin} must return what the model takes: a tensor for each argument, in its shape and dtype."
    return UserError(f"{place}: the model fails on its {origin} {shown}{layer}: {brief(error).rstrip('.')}{hint}")


def _hint_of_weights(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> str:
    """Returns what to do about weights on a device or in a dtype that no inputs have, or nothing."""
    weights = [*model.parameters(), *model.buffers()]
    if any(weight.is_meta for weight in weights):
        return (
            ". Weights on the device meta hold no values: leave out torch.device('meta'), or load the weights by "
            "load_state_dict(weights, assign=True)."
        )
    dtypes, given = (
        {tensor.dtype for tensor in tensors if tensor.is_floating_point()} for tensors in (weights, inputs)
    )
    if given and len(dtypes) == 1 and dtypes.isdisjoint(given):
        return f". The weights are {str(*dtypes).removeprefix('torch.')}: call .float() on the model."
    return ""


def _failing_module(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[str, str] | None:
    """Returns the name and inputs of the innermost module that raises, or None if that is the model itself."""
    running: list[tuple[str, str]] = []
    named = ((name.removeprefix(f"{CALLED}."), module) for name, module in model.named_modules() if name != CALLED)
    names = {module: f"{name} ({type(module).__name__})" for name, module in named if name}

    def enter(module: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
        running.append((names.get(module, ""), ", ".join(describe(argument) for argument in arguments)))

    def leave(_module: torch.nn.Module, _arguments: tuple[Any, ...], _result: Any) -> None:
        running.pop()

    handles = []
    for module in model.modules():
        handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    try:
        with torch.no_grad():
            model(*inputs)
    except Exception:
        return running[-1] if running and running[-1][0] else None
    finally:
        for handle in handles:
            handle.remove()
    return None
