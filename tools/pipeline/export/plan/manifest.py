"""Makes the manifest of a program; tools/artifacts/manifest defines its format."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import executorch.version
import torch
from executorch.exir.schema import ExecutionPlan, KernelCall, OptionalTensorList, Tensor, TensorList
from torch.fx import Node

from tools.pipeline.export.capture.eager import Eager, parameter_names
from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.ir.passes import made_by
from tools.pipeline.export.ir.rewriting import named_arguments
from tools.pipeline.export.ir.scalar_types import itemsize, type_name
from tools.pipeline.export.options import Options
from tools.pipeline.export.plan.emission import EmittedProgram
from tools.pipeline.export.plan.plan_passes import is_constant
from tools.pipeline.placement.placement import MemoryPlan
from tools.quiet.console import UserError

# Key in a node's meta: its multiply-accumulates, if they don't follow from the operator's arguments.
MACS = "multiply_accumulates"

TORCH_FUSION_VERSION = "0.1.0"


@dataclass(frozen=True)
class Parameters:
    """The quantization parameters of a tensor: number = (element - zero_point) * scale."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class Quantization:
    """The quantization of a program.

    Attributes:
      io: the dtype of the program's inputs and outputs, `float32` or `int8`.
      inputs, outputs: the parameters of each one that is or was quantized; None for others.
    """

    io: str
    inputs: list[Parameters | None]
    outputs: list[Parameters | None]


def make_manifest(
    name: str,
    emitted: EmittedProgram,
    nodes: Sequence[Node | None],
    memory: MemoryPlan | None,
    eager: Eager,
    options: Options,
    model_file: Path,
    quantization: Quantization | None = None,
) -> dict[str, Any]:
    """Returns the manifest as a JSON object.

    `instructions` are in the plan's order, each with the index of its operator, its origin in the user's model, its
    multiply-accumulates and the pass that made it. `operators` are in the plan's order, too. An operator has every
    dtype and dim order of its tensor operands and results, the number of its calls and where in the user's model these
    come from, and its multiply-accumulates per inference.

    Args:
      nodes: the graph node of each instruction, or None if it is unknown; or empty.
      memory: the memory plan; None if it is ExecuTorch's.
      model_file: the path of the model file as given by the user.
      quantization: the quantization of a quantized program.
    """
    plan = emitted.program.execution_plan[0]
    names_of_values = _parameters(plan, nodes, parameter_names(emitted.constants, eager))
    manifest: dict[str, Any] = {
        "name": name,
        "core": options.core,
        "backend": options.backend,
        "versions": {
            "torch": torch.__version__.partition("+")[0],
            "executorch": executorch.version.__version__.partition("+")[0],
            "torch_fusion": TORCH_FUSION_VERSION,
        },
        "operators": _operators(plan, nodes, model_file),
        "instructions": _instructions(plan, nodes, model_file),
        "inputs": _border(plan, plan.inputs, eager.names[0], quantization.inputs if quantization else None),
        "outputs": _border(plan, plan.outputs, eager.names[1], quantization.outputs if quantization else None),
        "tensors": [
            _tensor(value.val)
            | {"constant": is_constant(value.val)}
            | ({"parameter": names_of_values[index]} if index in names_of_values else {})
            for index, value in enumerate(plan.values)
            if isinstance(value.val, Tensor)
        ],
        "keeps_state": emitted.keeps_state,
        "planned_buffers": plan.non_const_buffer_sizes[1:],
        "constants_bytes": sum(len(buffer.storage) for buffer in emitted.program.constant_buffer),
    }
    for place, sizes in emitted.bounds.items():
        manifest["inputs"][place]["bounds"] = [list(bound) for bound in sizes]
    if quantization is not None:
        manifest["io"] = quantization.io
    if memory is not None:
        # No plan of these tensors is smaller than the most bytes that are live at once.
        manifest["live_bytes_lower_bound"] = memory.lower_bound
    return manifest


def check_labels(labels: Sequence[str], outputs: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Checks that some output has an element per class name; one number may distinguish two classes.

    Args:
      outputs: the outputs in a manifest.
      path: the model file.
    """
    shapes = [entry["shape"] for entry in outputs]
    if not any(len(labels) in shape or (len(labels) == 2 and math.prod(shape) == 1) for shape in shapes):
        raise UserError(
            f"{path}: labels() names {len(labels)} classes, and no output has a dimension of that size: their shapes "
            f"are {', '.join(map(str, shapes))}. Name each class of an output, or remove labels()."
        )


def _parameters(plan: ExecutionPlan, nodes: Sequence[Node | None], names: Mapping[str, str]) -> dict[int, str]:
    """Maps values that are parameters and buffers to their names."""
    found: dict[int, str] = {}
    for instruction, node in zip(plan.chains[0].instructions, nodes, strict=bool(nodes)):
        if node is None or not isinstance(instruction.instr_args, KernelCall):
            continue
        arguments = named_arguments(node)
        for value, argument in zip(instruction.instr_args.args, arguments.values(), strict=False):
            content = plan.values[value].val
            pairs = [(value, argument)]
            if isinstance(content, (TensorList, OptionalTensorList)) and isinstance(argument, (list, tuple)):
                pairs = list(zip(content.items, argument, strict=False))
            for index, item in pairs:
                if isinstance(item, Node) and item.name in names and isinstance(plan.values[index].val, Tensor):
                    found.setdefault(index, names[item.name])
    return found


def _operators(plan: ExecutionPlan, nodes: Sequence[Node | None], model_file: Path) -> list[dict[str, Any]]:
    operators: list[dict[str, Any]] = [
        {"name": op.name, "overload": op.overload, "dtypes": [], "dim_orders": [], "calls": 0, "origin": [], "macs": 0}
        for op in plan.operators
    ]
    for index, instruction in enumerate(plan.chains[0].instructions):
        if not hasattr(instruction.instr_args, "op_index"):
            continue
        entry = operators[instruction.instr_args.op_index]
        entry["calls"] += 1
        for value in instruction.instr_args.args:
            for tensor in _tensors(plan, value):
                _add(entry["dtypes"], type_name(tensor.scalar_type))
                _add(entry["dim_orders"], list(tensor.dim_order))
        if node := _node_of(nodes, index):
            _add(entry["origin"], origin(node, model_file))
        entry["macs"] += _work(plan, nodes, index)
    return operators


def _node_of(nodes: Sequence[Node | None], index: int) -> Node | None:
    return nodes[index] if nodes else None


def _instructions(plan: ExecutionPlan, nodes: Sequence[Node | None], model_file: Path) -> list[dict[str, Any]]:
    return [
        {
            "operator": instruction.instr_args.op_index,
            "origin": origin(node, model_file) if (node := _node_of(nodes, index)) else "",
            "macs": _work(plan, nodes, index),
            "made_by": made_by(node) if node else "",
        }
        for index, instruction in enumerate(plan.chains[0].instructions)
        if hasattr(instruction.instr_args, "op_index")
    ]


def _border(
    plan: ExecutionPlan, indices: list[int], names: list[str], parameters: list[Parameters | None] | None
) -> list[dict[str, Any]]:
    entries = [{"name": name} | _tensor(plan.values[index].val) for name, index in zip(names, indices, strict=True)]
    for entry, found in zip(entries, parameters or [], strict=bool(parameters)):
        if found is not None:
            entry |= {"scale": found.scale, "zero_point": found.zero_point}
    return entries


def _work(plan: ExecutionPlan, nodes: Sequence[Node | None], index: int) -> int:
    node = _node_of(nodes, index)
    known = node.meta.get(MACS) if node else None
    return _multiply_accumulates(plan, index) if known is None else known


def _multiply_accumulates(plan: ExecutionPlan, index: int) -> int:
    """Returns the multiply-accumulates of a layer with weights, or 0 for other instructions."""
    instruction = plan.chains[0].instructions[index]
    name = plan.operators[instruction.instr_args.op_index].name
    arguments = [plan.values[value].val for value in instruction.instr_args.args]
    if name == "aten::convolution":
        weight, transposed = arguments[1], arguments[6].bool_val
        # Each element of the output (of the input, if transposed) is multiplied with the weight's elements of one
        # channel.
        elements = arguments[0] if transposed else arguments[9]
        return math.prod(elements.sizes) * math.prod(weight.sizes) // weight.sizes[0]
    if name == "aten::linear":
        return math.prod(arguments[3].sizes) * arguments[1].sizes[-1]
    if name in ("aten::mm", "aten::bmm"):
        return math.prod(arguments[2].sizes) * arguments[0].sizes[-1]
    if name == "aten::addmm":
        return math.prod(arguments[5].sizes) * arguments[1].sizes[-1]
    return 0


def _tensors(plan: ExecutionPlan, value: int) -> list[Tensor]:
    content = plan.values[value].val
    if isinstance(content, Tensor):
        return [content]
    if isinstance(content, TensorList):
        return [plan.values[item].val for item in content.items]
    return []


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {
        "dtype": type_name(tensor.scalar_type),
        "shape": list(tensor.sizes),
        "dim_order": list(tensor.dim_order),
        "nbytes": math.prod(tensor.sizes) * itemsize(tensor.scalar_type),
    }


def _add(items: list[Any], item: Any) -> None:
    if item not in items:
        items.append(item)
