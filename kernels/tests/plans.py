"""Tensors and execution plans of programs that tests put together by hand."""

from collections.abc import Sequence
from typing import Any

from executorch.exir.schema import (
    AllocationDetails,
    Chain,
    ContainerMetadata,
    EValue,
    ExecutionPlan,
    Instruction,
    Operator,
    Tensor,
    TensorShapeDynamism,
)


def make_tensor(
    scalar_type: Any,
    sizes: Sequence[int],
    place: tuple[int, int] | None,
    order: Sequence[int] = (),
    constant: int = 0,
    is_dynamic: bool = False,
) -> Tensor:
    """Returns a dense tensor.

    Args:
      scalar_type: ExecuTorch's ScalarType or its number.
      sizes: those that it is planned with.
      place: the planned buffer and the offset in it; None without one.
      order: the dim order; contiguous if empty.
      constant: the index of the constant's bytes; 0 for none.
      is_dynamic: whether smaller sizes are possible.
    """
    return Tensor(
        scalar_type=scalar_type,
        storage_offset=0,
        sizes=list(sizes),
        dim_order=list(order or range(len(sizes))),  # type: ignore[arg-type]  # the schema's bytes, as in the exporter
        requires_grad=False,
        layout=0,
        data_buffer_idx=constant,
        allocation_info=AllocationDetails(*place, 0) if place else None,
        shape_dynamism=TensorShapeDynamism.DYNAMIC_BOUND if is_dynamic else TensorShapeDynamism.STATIC,
    )


def make_plan(
    values: Sequence[Any],
    inputs: Sequence[int],
    outputs: Sequence[int],
    instructions: Sequence[Any],
    operators: Sequence[Operator],
    memories: Sequence[int],
) -> ExecutionPlan:
    """Returns the plan of a method `forward` with one chain; `memories` are the sizes of planned buffers, from 1 on."""
    return ExecutionPlan(
        name="forward",
        container_meta_type=ContainerMetadata("", ""),
        values=[EValue(value) for value in values],
        inputs=list(inputs),
        outputs=list(outputs),
        chains=[Chain([], [], [Instruction(instruction) for instruction in instructions], None)],
        operators=list(operators),
        delegates=[],
        non_const_buffer_sizes=[0, *memories],
    )
