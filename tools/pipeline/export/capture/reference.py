"""Compares what the stages of an export compute with the outputs of the user's own module."""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Interpreter
from torch.utils import _pytree as pytree

from tools.pipeline.export.capture.eager import Eager
from tools.pipeline.export.capture.golden import Sample
from tools.pipeline.export.ir.passes import Pass, Pipeline, watching
from tools.pipeline.model_file.deterministic import computing

# The number of golden samples that are compared.
SAMPLES = 4
# The largest share of an output's energy that may be noise: kernels sum in another order, but errors are larger.
_MOST_NOISE = 1e-3
# A change of the inputs within rounding, as a share of their largest number. An output that it changes as much as the
# error can't be compared.
_ROUNDING = 1e-6
# The share of integers that may differ: an index of the maximum of almost equal numbers.
_MOST_OTHERS = 0.1


class WrongReference(Exception):
    """A stage of the export doesn't compute what the user's module does."""


def check_reference(
    module: GraphModule,
    eager: Eager,
    start: Sample,
    what: str,
    make_again: Callable[[], object],
    is_allowed: Callable[[], bool] = lambda: False,
) -> None:
    """Checks that a module returns what the user's module does for its first golden samples.

    Args:
      start: the state, which the module's first inputs read and its first outputs update.
      what: names the module.
      make_again: makes the module again from the user's, to find the pass that is wrong.
      is_allowed: tells of a module with other results whether it is right all the same.

    Raises WrongReference otherwise, an error of the export.
    """
    samples, expected = eager.samples[:SAMPLES], eager.outputs[:SAMPLES]
    results = run_module(module, samples, start)
    wrong = first_other(results, expected)
    if wrong is None:
        return
    again = run_module(module, rounded(samples, _ROUNDING), start)
    if first_other(again, results) is not None or is_allowed():
        return
    makers: list[str] = []

    def watch(pipeline: Pipeline, each: Pass, program: ExportedProgram, _: float) -> None:
        if makers:
            return
        takes_state = len(program.graph_signature.user_inputs) == len(samples[0]) + len(start)
        try:
            returned = run_program(program, samples, start if takes_state else ())
        except Exception:
            # Between some passes a program can't be run.
            return
        if first_other(returned, expected) is not None:
            makers.append(f"the pass {each.name} ({pipeline.name})")

    with watching(watch):
        make_again()
    maker = makers[0] if makers else "a step behind the passes, such as the equalization of channels"
    raise WrongReference(f"output {wrong} ({eager.names[1][wrong]}) of {what} is not model()'s any more after {maker}")


def rounded(samples: Sequence[Sample], share: float) -> list[Sample]:
    """Returns samples with other rounding errors, of a share of their largest number."""
    generator = torch.Generator().manual_seed(0)

    def with_noise(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or not tensor.numel():
            return tensor
        size = tensor.abs().max() * max(share, torch.finfo(tensor.dtype).eps)
        return tensor + torch.randn(tensor.shape, generator=generator).to(tensor.dtype) * size

    return [tuple(map(with_noise, sample)) for sample in samples]


def first_other(results: Sequence[Sequence[torch.Tensor]], expected: Sequence[Sequence[torch.Tensor]]) -> int | None:
    """Returns the index of the first output that differs beyond rounding, over all samples."""
    pairs = zip(zip(*results, strict=True), zip(*expected, strict=True), strict=True)
    return next((index for index, pair in enumerate(pairs) if differs(*pair)), None)


def differs(results: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
    """Whether results of some samples are others than expected, beyond rounding, where these are finite."""
    if any(result.shape != value.shape for result, value in zip(results, expected, strict=True)):
        return True
    result, value = (torch.cat([each.flatten() for each in tensors]) for tensors in (results, expected))
    if not value.numel():
        return False
    if not value.is_floating_point():
        return float((result != value).double().mean()) > _MOST_OTHERS and value.numel() > 1
    is_number = torch.isfinite(value)
    numbers = value.double()[is_number]
    noise = (result.double()[is_number] - numbers).square().sum()
    eps = torch.finfo(value.dtype).eps
    return not bool(noise <= max(_MOST_NOISE, (16 * eps) ** 2) * numbers.square().sum() + eps)


def run_program(program: ExportedProgram, samples: Iterable[Sample], start: Sample = ()) -> list[list[Any]]:
    """Runs a captured program as run_module() does."""
    return run_module(module_of_copy(program), samples, start)


def module_of_copy(program: ExportedProgram) -> GraphModule:
    """Returns a module that runs a program: a run changes the state of the program that its module was made from."""
    return copy.deepcopy(program).module(check_guards=False)


def run_module(module: GraphModule, samples: Iterable[Sample], start: Sample = ()) -> list[list[Any]]:
    """Runs a module on samples and returns its results without the state that it carries from one sample to the next.

    Args:
      start: the state, which the first inputs read and the first outputs update.
    """
    returned = []
    with computing():
        for sample in samples:
            results = pytree.tree_leaves(Interpreter(module).run(*start, *sample))
            start = tuple(value.clone() for value in results[: len(start)])
            returned.append(results[len(start) :])
    return returned
