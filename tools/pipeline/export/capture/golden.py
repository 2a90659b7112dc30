"""Writes golden data: inputs, and the outputs of the original model in eager mode."""

from collections.abc import Sequence

import numpy
import torch

from tools.artifacts.golden.golden import Golden, golden_npz
from tools.pipeline.export.capture.attributes import check_repeatable, copy_of, hold_attributes
from tools.pipeline.export.ir.scalar_types import is_supported, supported_names
from tools.pipeline.model_file.call import check_names, output_names, read_result
from tools.quiet.console import UserError

Sample = tuple[torch.Tensor, ...]


def run_eager(model: torch.nn.Module, samples: list[Sample]) -> tuple[list[list[torch.Tensor]], list[str], bool]:
    """Returns the outputs of each sample as flat lists of tensors, their names, and whether the model returned them
    flat. Tensors among the model's attributes that it changes become buffers of it.

    Raises UserError if the model returns anything but tensors, or has state that is no tensor.
    """
    # Running the model may change its state, but the export must contain the initial state.
    used = copy_of(model)
    outputs = []
    names: list[str] = []
    is_plain = True
    with torch.no_grad():
        for sample in samples:
            returned = used(*(tensor.clone() for tensor in sample))
            result, flat = read_result(returned)
            is_plain = is_plain and result is returned
            names = output_names(result)
            # A model may return its state, which the next sample changes.
            outputs.append([output.clone() for output in flat])
    check_names(names, "the model's outputs")
    check_repeatable(model, samples[0], outputs[0])
    hold_attributes(model, used, samples)
    return outputs, names, is_plain


def check_dtypes(tensors: Sequence[torch.Tensor], what: str) -> None:
    """Raises UserError for a dtype that a program or a golden file cannot hold."""
    for index, tensor in enumerate(tensors):
        if not is_supported(tensor.dtype):
            name = str(tensor.dtype).removeprefix("torch.")
            if tensor.is_complex():
                raise UserError(
                    f"{what} {index} has dtype {name}, which a program cannot hold; use torch.view_as_real(...) of it, "
                    "whose last dimension has real and imaginary part."
                )
            raise UserError(
                f"{what} {index} has dtype {name}, which a program cannot hold; use one of {supported_names()}."
            )


def non_finite_outputs(outputs: list[list[torch.Tensor]]) -> list[int]:
    """Indices of the outputs that hold NaN or infinity for some sample."""
    return [
        index
        for index in range(len(outputs[0]))
        if any(o[index].is_floating_point() and not torch.isfinite(o[index]).all() for o in outputs)
    ]


def serialize(
    samples: list[Sample],
    outputs: list[list[torch.Tensor]],
    labels: torch.Tensor | None,
    eager: list[list[torch.Tensor]] | None = None,
    dim_orders: tuple[list[list[int]], list[list[int]]] = ([], []),
    is_stream: bool = False,
) -> bytes:
    """Writes the golden file of a program.

    Args:
      outputs: the expected outputs of the program.
      eager: the outputs of the user's module, where they differ from the expected ones.
      dim_orders: the dim orders of inputs and outputs.
      is_stream: whether the program keeps state from sample to sample.
    """

    def stacked(lists: list[Sample] | list[list[torch.Tensor]]) -> tuple[numpy.ndarray, ...]:
        return tuple(_stack(list(tensors)) for tensors in zip(*lists, strict=True))

    input_orders, output_orders = (tuple(map(tuple, orders)) for orders in dim_orders)
    return golden_npz(
        Golden(
            inputs=stacked(samples),
            outputs=stacked(outputs),
            labels=None if labels is None else labels.numpy(),
            eager=() if eager is None else stacked(eager),
            input_orders=input_orders,
            output_orders=output_orders,
            is_stream=is_stream,
        )
    )


def _stack(tensors: list[torch.Tensor]) -> numpy.ndarray:
    stacked = torch.stack([tensor.detach().contiguous() for tensor in tensors])
    # numpy has no bfloat16, so its bits are stored.
    return (stacked.view(torch.uint16) if stacked.dtype == torch.bfloat16 else stacked).numpy()
