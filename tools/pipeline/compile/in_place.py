"""Puts inputs and outputs of a program that an NPU computes completely into the NPU's working memory.

ExecuTorch plans memory for a program's inputs and outputs, and the backend copies them to and from the memory of its
own. Where the program is compiled, its one buffer of planned memory becomes what the NPU works in, with the tensors
where its commands expect them: nothing is copied, and there is one memory instead of two. As with any program, what an
input held is gone after an execution, and an output is there until the next inputs are written.
"""

from math import prod
from typing import Any

from tools.artifacts.ethos_u.payload import BACKEND, Payload, PayloadError, TensorPlace, parse
from tools.artifacts.program.program import ELEMENT_SIZES, ProgramFile
from tools.artifacts.program.program_schema import CompileSpec, DelegateCall, Tensor

_IN_PLACE = "torch_fusion.in_place"
# The index of the only planned buffer besides that of the constants.
_MEMORY = 1


def is_in_place(delegate: Any) -> bool:
    """Whether use_in_place() has changed a method with this delegate."""
    return any(spec.key == _IN_PLACE for spec in delegate.compile_specs or [])


def use_in_place(file: ProgramFile, method: Any) -> None:
    """Replans a method's memory and tells its delegate by a compile spec, if the method consists of that delegate."""
    delegates = method.delegates or []
    instructions = [instruction for chain in method.chains or [] for instruction in chain.instructions or []]
    if len(delegates) != 1 or delegates[0].id != BACKEND or len(instructions) != 1:
        return
    call = instructions[0].instr_args
    if not isinstance(call, DelegateCall) or len(method.non_const_buffer_sizes or []) != _MEMORY + 1:
        return
    try:
        payload = parse(file.delegate(delegates[0].processed))
    except PayloadError:
        return  # The error is reported where the payload's memory is counted.
    arguments = list(call.args or [])
    places = (*payload.inputs, *payload.outputs)
    tensors = [method.values[index].val for index in arguments]
    if not _fits(method, payload, arguments, tensors, places):
        return
    for tensor, place in zip(tensors, places, strict=True):
        tensor.allocation_info.memory_offset_low = place.offset
        tensor.allocation_info.memory_offset_high = 0
    method.non_const_buffer_sizes[_MEMORY] = payload.scratch_size
    delegates[0].compile_specs = [*(delegates[0].compile_specs or []), CompileSpec(_IN_PLACE, b"")]


def _fits(
    method: Any, payload: Payload, arguments: list[int], tensors: list[Any], places: tuple[TensorPlace, ...]
) -> bool:
    """Whether the planned tensors are the delegate's arguments, each once, with matching sizes."""
    planned = {
        index
        for index, value in enumerate(method.values or [])
        if isinstance(value.val, Tensor) and value.val.allocation_info is not None
    }
    return (
        bool(arguments)
        and planned == set(arguments)
        and len(planned) == len(arguments) == len(places)
        and all(
            tensor.allocation_info.memory_id == _MEMORY
            and tensor.data_buffer_idx == 0
            and int(tensor.shape_dynamism) == 0
            and prod(tensor.sizes or []) * ELEMENT_SIZES[tensor.scalar_type.name] == place.size
            and place.region == 1
            and 0 <= place.offset <= payload.scratch_size - place.size
            for tensor, place in zip(tensors, places, strict=True)
        )
    )
