"""Computes a method of a program instruction by instruction: kernels by PyTorch, delegates by the model of an NPU.

ExecuTorch's own runtime has no Ethos-U backend on this machine.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy
import numpy.typing as npt
import torch

from tools.artifacts.program import program
from tools.artifacts.program.program import ProgramFile, ScalarType, Tensor, calls_of, operator_name
from tools.artifacts.program.program_schema import DelegateCall, FreeCall, KernelCall
from tools.pipeline.pte.delegates import Delegates
from tools.quiet.console import UserError

# By the schema's name.
DTYPES: dict[str, torch.dtype] = {name: getattr(torch, dtype.pytorch) for name, dtype in program.DTYPES.items()}

_ADVICE = 'give examples = "NAME.npz" with input_0, ... and what the model computes of them, output_0, ...'
# 32-bit operands in programs, for which PyTorch's own implementation needs 64 bits.
_LONG = {"quantized_decomposed::dequantize_per_channel.out": (2,)}


def compute(file: ProgramFile, plan: Any, delegates: Delegates, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the results of a method.

    Args:
        file: the program.
        plan: the method.
        delegates: the method's delegates.
        inputs: inputs with the method's dtypes, sizes and dim orders.

    Raises:
        UserError: an instruction can't be computed here; the message names it.
    """
    # Both register operators.
    import executorch.exir  # noqa: F401
    import executorch.kernels.quantized  # noqa: F401

    memory = _Memory(file, plan)
    for index, tensor in zip(plan.inputs, inputs, strict=True):
        memory.write(index, tensor)
    for call in calls_of(plan):
        if isinstance(call, KernelCall):
            operator = plan.operators[call.op_index]
            name = operator_name(operator.name, operator.overload or "default")
            _run_kernel(file, name, call.args or [], memory)
        elif isinstance(call, DelegateCall):
            arguments = call.args or []
            count = len(arguments) - delegates.output_count(call.delegate_index)
            results = delegates.run(call.delegate_index, [memory.bytes_of(index) for index in arguments[:count]])
            for index, result in zip(arguments[count:], results, strict=True):
                memory.bytes_of(index)[:] = numpy.frombuffer(result, numpy.uint8)
        elif not isinstance(call, FreeCall):
            raise UserError(f"{file.path}: a program that jumps is not computed here; {_ADVICE}")
    return [memory.tensor(index, ordered=True) for index in plan.outputs]


class _Memory:
    """The values of a method. Tensors are at their planned addresses, which some share."""

    def __init__(self, file: ProgramFile, plan: Any) -> None:
        self._values = [value.val for value in plan.values]
        self._planned = [numpy.zeros(size, numpy.uint8) for size in plan.non_const_buffer_sizes]
        # The bytes of constants, and of tensors in the caller's memory.
        self._own: dict[int, npt.NDArray[numpy.uint8]] = {}
        for index, value in enumerate(self._values):
            if not isinstance(value, Tensor):
                continue
            if value.allocation_info is None:
                self._own[index] = numpy.zeros(self._size(value), numpy.uint8)
            if value.data_buffer_idx:
                info = value.extra_tensor_info
                if info is not None and info.fully_qualified_name:
                    raise UserError(f"{file.path}: a constant is in another file; export it with its weights inside")
                data = file.constants()[value.data_buffer_idx][: self._size(value)]
                self.bytes_of(index)[:] = numpy.frombuffer(data, numpy.uint8)

    def _size(self, tensor: Tensor) -> int:
        return math.prod(tensor.sizes or ()) * DTYPES[tensor.scalar_type.name].itemsize

    def bytes_of(self, index: int) -> npt.NDArray[numpy.uint8]:
        """Returns the bytes of a tensor, which may be modified."""
        tensor = self._values[index]
        place = tensor.allocation_info
        if place is None:
            return self._own[index]
        start = place.memory_offset_low | place.memory_offset_high << 32
        return self._planned[place.memory_id][start : start + self._size(tensor)]

    def tensor(self, index: int, ordered: bool = False) -> torch.Tensor:
        """Returns a copy of a tensor: contiguous, or `ordered` as its elements are in memory."""
        tensor = self._values[index]
        order = list(tensor.dim_order or ())
        sizes = [(tensor.sizes or ())[dim] for dim in order]
        flat = torch.from_numpy(self.bytes_of(index).copy()).view(DTYPES[tensor.scalar_type.name])
        result = flat.view(sizes).permute([order.index(dim) for dim in range(len(order))])
        return result if ordered else result.contiguous()

    def write(self, index: int, tensor: torch.Tensor) -> None:
        """Sets the elements of a tensor."""
        order = list(self._values[index].dim_order or ())
        flat = tensor.detach().permute(order).contiguous().view(-1).view(torch.uint8)
        self.bytes_of(index)[:] = flat.numpy()

    def value(self, index: int) -> Any:
        """Converts a value for PyTorch's operators."""
        if index < 0:
            return None
        value = self._values[index]
        kind = type(value).__name__
        if isinstance(value, Tensor):
            return self.tensor(index)
        if kind in ("Int", "Double", "Bool", "String"):
            return getattr(value, f"{kind.lower()}_val")
        if kind in ("TensorList", "OptionalTensorList", "IntList"):
            return [self.value(item) for item in value.items or []]
        return value.items if kind in ("BoolList", "DoubleList") else None

    def items(self, index: int) -> list[int]:
        """Returns the tensors of a value: itself, or those of a list."""
        value = self._values[index]
        return [index] if isinstance(value, Tensor) else list(value.items or [])


def _run_kernel(file: ProgramFile, name: str, indices: Sequence[int], memory: _Memory) -> None:
    """Runs an operator, which writes to some of its arguments."""
    if name == "executorch_prim::et_view.default":
        memory.write(indices[2], memory.tensor(indices[0]).view(memory.value(indices[1])))
        return
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    try:
        function = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        written: list[tuple[int, Any]] = []
        for place, (argument, index) in enumerate(zip(function._schema.arguments, indices, strict=False)):
            value = memory.value(index)
            if value is not None and "ScalarType" in str(argument.real_type):
                value = DTYPES[ScalarType(value).name]
            if place in _LONG.get(name, ()):
                value = value.long()
            if argument.alias_info is not None and argument.alias_info.is_write:
                written.append((index, value))
            if argument.kwarg_only:
                named[argument.name] = value
            else:
                positional.append(value)
        if not written:
            raise ValueError("it returns a number")
        function(*positional, **named)
        for index, value in written:
            for item, tensor in zip(memory.items(index), value if isinstance(value, list) else [value], strict=True):
                memory.write(item, tensor)
    # An operator of any library may raise anything.
    except Exception as error:
        message = str(error).strip().partition("\n")[0]
        raise UserError(f"{file.path}: operator {name} can't be computed here ({message}); {_ADVICE}") from error
