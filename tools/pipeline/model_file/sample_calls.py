"""Makes a model that calls a user's own operator with all its sample inputs, to test its kernel like a model."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tools.pipeline.model_file.describe import describe
from tools.pipeline.model_file.model_file import brief
from tools.quiet.console import UserError


class SampleCalls:
    """The functions of the model file of such a model.

    Args:
      operator: the operator's name, `namespace::name`.
      module: path of the file that registers it with torch.library and has `sample_inputs()`: a list of tuples, the
        arguments of one call each, in the schema's order.

    Raises:
      UserError: the file or one of its functions fails or returns an invalid result, the operator is not registered, or
        its schema, eager and fake implementation contradict each other.
    """

    def __init__(self, operator: str, module: str) -> None:
        self._calls = _sample_inputs(_load(Path(module)), module)
        self._operator = find_operator(operator, module)
        for index, call in enumerate(self._calls):
            try:
                # torch.library's documentation recommends these checks; those of gradients are omitted.
                torch.library.opcheck(self._operator, call, test_utils=("test_schema", "test_faketensor"))
            except Exception as error:
                sample = f"sample {index}, {describe(call)}"
                raise UserError(f"{module}: {operator} with {sample}: {brief(error)}") from error

    def model(self) -> torch.nn.Module:
        """Takes the tensors of all calls and returns their results."""
        return _Calls(self._operator, self._calls).eval()

    def example_inputs(self) -> tuple[torch.Tensor, ...]:
        return tuple(argument for call in self._calls for argument in call if isinstance(argument, torch.Tensor))


def find_operator(name: str, where: str) -> Any:
    """Returns the only overload of an operator.

    Args:
      name: `namespace::name`.
      where: the file that should have registered it.

    Raises:
      UserError: the operator isn't registered.
    """
    space, _, base = name.partition("::")
    packet = getattr(getattr(torch.ops, space), base, None)
    if packet is None or "default" not in packet.overloads():
        raise UserError(
            f"{where} registers no operator {name}: import the file that does, and register it by "
            f'torch.library.custom_op("{name}", mutates_args=()) or torch.library.define()'
        )
    return packet.default


class _Calls(torch.nn.Module):
    def __init__(self, operator: Any, calls: list[tuple[Any, ...]]) -> None:
        super().__init__()
        self._operator = operator
        self._calls = calls

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rest = iter(tensors)
        results: list[torch.Tensor] = []
        for call in self._calls:
            result = self._operator(*[next(rest) if isinstance(arg, torch.Tensor) else arg for arg in call])
            results += [result] if isinstance(result, torch.Tensor) else result
        return tuple(results)


def _load(path: Path) -> ModuleType:
    name = f"_operator_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path}: an operator's file must be a Python file, named *.py.")
    sys.path.append(str(path.parent.absolute()))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{path}: importing it failed: {brief(error)}") from error
    return module


def _sample_inputs(module: ModuleType, where: str) -> list[tuple[Any, ...]]:
    function = getattr(module, "sample_inputs", None)
    if not callable(function):
        raise UserError(
            f"{where}: there is no function sample_inputs(); its arguments are what the kernel is tested with."
        )
    calls = function()
    if not isinstance(calls, list) or not calls or not all(isinstance(call, tuple) for call in calls):
        raise UserError(f"{where}: sample_inputs() must return a list of at least one tuple, not {describe(calls)}.")
    if not any(isinstance(argument, torch.Tensor) for call in calls for argument in call):
        raise UserError(f"{where}: sample_inputs(): no call has a tensor among its arguments, {describe(calls)}.")
    return calls
