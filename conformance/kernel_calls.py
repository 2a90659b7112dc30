"""Calls of operators as calls of their kernels alone, without a program around them."""

from typing import Any

import torch
from executorch.exir.tensor import layout_enum, memory_format_enum, scalar_type_enum
from torch.utils._pytree import tree_map_only

from conformance.calls import Call, inputs_of
from conformance.operators import find_overload
from kernels.tests.case_file import Case, Out, dim_order


def kernel_case(call: Call) -> Case:
    """Returns a call as kernels/tests/case_runner.cpp makes it, with outputs of the results' shapes."""
    overload = find_overload(call.operator)
    assert overload is not None
    schema = overload._schema
    arguments = [_argument(call.arguments[a.name], str(a.type)) for a in inputs_of(schema)]
    outs = [Out(value.dtype, tuple(value.shape), dim_order(value)) for value in call.expected]
    out_arguments = [argument for argument in schema.arguments if argument.is_out]
    if out_arguments:
        arguments += [tuple(outs)] if "List" in str(out_arguments[0].type) else outs
    elif isinstance(schema.returns[0].type, torch.TensorType):
        # The operator works in place.
        arguments[0] = Out(outs[0].dtype, outs[0].sizes, outs[0].dim_order, initial=call.arguments["self"])
    else:
        arguments.append(0)
    return Case(call.operator, arguments, list(call.expected))


def _argument(value: Any, kind: str) -> Any:
    """Returns an argument of the schema's type `kind`: tuples are lists, lists those of tensors or None."""
    if isinstance(value, torch.dtype):
        return int(scalar_type_enum(value))
    if isinstance(value, torch.layout):
        return layout_enum(value)
    if isinstance(value, torch.memory_format):
        return memory_format_enum(value)
    if isinstance(value, (list, tuple)):
        return list(value) if "Optional[Tensor]" in kind or "Tensor?" in kind else tuple(value)
    return tree_map_only(int, float, value) if kind == "float" else value
