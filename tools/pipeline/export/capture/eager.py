"""Runs the user's module in eager mode."""

import contextlib
import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils import parametrize

from tools.pipeline.export.capture import golden
from tools.pipeline.export.upstream.replaced import replaced
from tools.pipeline.model_file.call import CALLED, called, check_names
from tools.pipeline.model_file.explain_forward import explain_forward
from tools.pipeline.model_file.model_file import ModelFile
from tools.quiet.console import Console, UserError


@dataclass(frozen=True)
class Eager:
    """A method of the user's module, with its results in eager mode.

    Attributes:
      module: takes tensors as positional arguments.
      names: the names of the inputs and of the outputs.
      inputs: the example inputs.
      samples: the golden inputs.
      outputs: the results for the samples.
      labels: the labels of the evaluation set, if there is one.
    """

    module: torch.nn.Module
    names: tuple[list[str], list[str]]
    inputs: golden.Sample
    samples: list[golden.Sample]
    outputs: list[list[torch.Tensor]]
    labels: torch.Tensor | None

    @property
    def written(self) -> torch.nn.Module:
        """Returns the module as the user wrote it."""
        return getattr(self.module, CALLED, self.module)


@contextlib.contextmanager
def without_autocast(path: Path, console: Console) -> Iterator[None]:
    """Makes torch.autocast() for this machine's processor change no dtypes. It is there for the instructions of large
    processors, and most cores have none for its dtypes.
    """
    enter = torch.autocast.__enter__

    def enter_disabled(self: torch.autocast) -> Any:
        if self.device == "cpu" and self._enabled:
            self._enabled = False
            text = "torch.autocast() is left out: the program computes in the model's own dtypes"
            console.say(f"export: note: {path}: {text}.")
        return enter(self)

    with replaced(torch.autocast, "__enter__", enter_disabled):
        yield


def load_weights(model: torch.nn.Module, weights: Path, path: Path) -> None:
    try:
        model.load_state_dict(torch.load(io.BytesIO(weights.read_bytes()), weights_only=True))
    except RuntimeError as error:
        raise UserError(f"{weights} does not fit model() of {path}; train it again: {error}") from error


def keep_weights(model: torch.nn.Module) -> None:
    """Replaces parametrized weights (spectral or weight normalization, orthogonal ones) by their computed values."""
    for module in list(model.modules()):
        if parametrize.is_parametrized(module):
            for name in list(module.parametrizations):
                parametrize.remove_parametrizations(module, name, leave_parametrized=True)


def run_eager(file: ModelFile, model: torch.nn.Module, method: str = "") -> Eager:
    """Runs forward() of the user's module, or another method of it, on the user's inputs.

    Raises UserError for a method that a program can't have, or that fails.
    """
    path = file.path
    place = f"{path}: {method}()" if method else str(path)
    call = file.example_call(method) if method else file.example_call()
    input_names = call.names(getattr(model, method) if method else model.forward)
    check_names(input_names, f"{path}: method_inputs(): {method!r}" if method else f"{path}: example_inputs()")
    if method:
        module = called(model, call, input_names, method)
    elif not call.is_flat:
        if file.has("dynamic_shapes"):
            raise UserError(f"{path}: dynamic_shapes() are of a model that takes a tuple of tensors alone.")
        module = called(model, call, input_names)
    else:
        module = model
    inputs = call.tensors
    golden.check_dtypes(inputs, f"{place}: example input")
    samples, labels = file.evaluation_set() if not method and file.has("evaluation_set") else ([inputs], None)
    try:
        outputs, output_names, is_plain = golden.run_eager(module, samples)
    except UserError as error:
        raise UserError(f"{place}: {error}") from error
    except Exception as error:
        origin = "method_inputs()" if method else "example_inputs()"
        raise explain_forward(file, module, inputs, error, origin) from error
    golden.check_dtypes(outputs[0], f"{place}: the model's output")
    if module is model and not is_plain:
        module = called(model, call, input_names)
    return Eager(module, (input_names, output_names), inputs, samples, outputs, labels)


def parameter_names(constants: dict[str, str], eager: Eager) -> dict[str, str]:
    """Maps the nodes of parameters and buffers to the names in the user's model.

    Args:
      constants: maps nodes to the names of constants in the captured program.
    """
    own = dict(itertools.chain(eager.module.named_parameters(), eager.module.named_buffers()))
    return {node: name.removeprefix(f"{CALLED}.") for node, name in constants.items() if name in own}
