"""Programs of one instruction: a call of an operator on inputs."""

from typing import Any

import torch
from executorch.exir.schema import (
    Bool,
    BoolList,
    Double,
    DoubleList,
    ExecutionPlan,
    Int,
    IntList,
    KernelCall,
    Null,
    OptionalTensorList,
    Program,
    String,
    SubsegmentOffsets,
    TensorList,
)
from executorch.exir.schema import Operator as ProgramOperator
from executorch.exir.tensor import layout_enum, memory_format_enum, scalar_type_enum

from conformance.calls import Call, inputs_of
from conformance.operators import find_overload
from kernels.tests import plans
from tools.pipeline.export.plan.serialize import serialize

# Data-dependent shapes: outputs have room for as many elements as their inputs, at least.
_DATA_DEPENDENT = ("aten::nonzero.out", "aten::masked_select.out", "aten::repeat_interleave.Tensor_out")


def dim_order(tensor: torch.Tensor) -> list[int]:
    """Returns ExecuTorch's order of a dense tensor's dimensions."""
    if tensor.is_contiguous():
        return list(range(tensor.dim()))
    return [int(dim) for dim in tensor.dim_order()]


class _Builder:
    """Values of a plan, with a planned buffer of its own for every tensor, so that each access outside is seen."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.memories: list[int] = []
        self.inputs: list[int] = []
        self.tensors: list[torch.Tensor] = []

    def add(self, value: Any) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def tensor(self, like: torch.Tensor, sizes: list[int], is_dynamic: bool) -> int:
        count = torch.Size(sizes).numel()
        self.memories.append(count * like.dtype.itemsize)
        place, order = (len(self.memories), 0), dim_order(like)
        return self.add(plans.make_tensor(scalar_type_enum(like.dtype), sizes, place, order, is_dynamic=is_dynamic))

    def input_tensor(self, tensor: torch.Tensor) -> int:
        index = self.tensor(tensor, list(tensor.shape), False)
        self.inputs.append(index)
        self.tensors.append(tensor)
        return index

    def argument(self, value: Any, kind: str) -> int:
        """Returns a value for an argument of the schema's type `kind`."""
        if value is None:
            return self.add(Null())
        if isinstance(value, torch.Tensor):
            return self.input_tensor(value)
        if isinstance(value, bool):
            return self.add(Bool(value))
        if isinstance(value, int):
            return self.add(Double(float(value)) if kind == "float" else Int(value))
        if isinstance(value, float):
            return self.add(Double(value))
        if isinstance(value, str):
            return self.add(String(value))
        if isinstance(value, torch.dtype):
            return self.add(Int(int(scalar_type_enum(value))))
        if isinstance(value, torch.layout):
            return self.add(Int(layout_enum(value)))
        if isinstance(value, torch.memory_format):
            return self.add(Int(memory_format_enum(value)))
        if isinstance(value, (list, tuple)):
            return self._list(list(value), kind)
        raise TypeError(f"no value of type {type(value).__name__}")

    def _list(self, items: list[Any], kind: str) -> int:
        if "Tensor?" in kind or "Optional[Tensor]" in kind:
            return self.add(OptionalTensorList([-1 if item is None else self.input_tensor(item) for item in items]))
        if any(isinstance(item, torch.Tensor) for item in items) or "Tensor" in kind:
            return self.add(TensorList([self.input_tensor(item) for item in items]))
        if "float" in kind:
            return self.add(DoubleList([float(item) for item in items]))
        if "bool" in kind:
            return self.add(BoolList(items))
        return self.add(IntList([self.add(Int(item)) for item in items]))


def _bounds(call: Call, output: torch.Tensor) -> list[int]:
    """Returns the sizes that an output is planned with."""
    sizes = list(output.shape)
    if call.operator in _DATA_DEPENDENT:
        count = max(value.numel() for value in call.arguments.values() if isinstance(value, torch.Tensor))
        sizes[0] = max(sizes[0], count)
    return [size + 1 for size in sizes] if call.is_dynamic else sizes


def make_plan(call: Call) -> tuple[ExecutionPlan, list[torch.Tensor]]:
    """Returns the plan of a call, and its inputs: all tensors that it takes. Its outputs are those of the call.

    Raises:
      TypeError, KeyError: an argument has no place in a program.
    """
    schema = find_overload(call.operator)._schema
    builder = _Builder()
    arguments = [builder.argument(call.arguments[a.name], str(a.type)) for a in inputs_of(schema)]
    is_dynamic = call.is_dynamic or call.operator in _DATA_DEPENDENT
    out_arguments = [argument for argument in schema.arguments if argument.is_out]
    if out_arguments:
        outputs = [builder.tensor(value, _bounds(call, value), is_dynamic) for value in call.expected]
        is_list = "List" in str(out_arguments[0].type)
        arguments += [builder.add(TensorList(outputs))] if is_list else outputs
        arguments.append(builder.add(TensorList(outputs)) if is_list or len(outputs) > 1 else outputs[0])
    elif not isinstance(schema.returns[0].type, torch.TensorType):
        outputs = [builder.argument(call.expected[0].item(), "Scalar")]
        # Any other number: the operator writes it.
        builder.values[outputs[0]] = type(builder.values[outputs[0]])(0)
        arguments += outputs
    else:
        # The operator works in place: it returns its first argument.
        outputs = [arguments[0]]
        arguments.append(arguments[0])
    name, _, overload = call.operator.partition(".")
    call_of_kernel, operator = KernelCall(0, arguments), ProgramOperator(name, overload)
    plan = plans.make_plan(builder.values, builder.inputs, outputs, [call_of_kernel], [operator], builder.memories)
    return plan, builder.tensors


def to_bytes(plan: ExecutionPlan) -> bytes:
    """Returns the .pte of a plan without constants."""
    return serialize(Program(0, [plan], [], [], [], SubsegmentOffsets(0, [])), [b""])


def make_program(call: Call) -> tuple[bytes, list[torch.Tensor]]:
    """Returns the .pte of a call, and its inputs; see make_plan()."""
    plan, tensors = make_plan(call)
    return to_bytes(plan), tensors
