"""Evaluates the nodes of a captured program that don't depend on its inputs, and adds constants."""

import torch
from executorch.backends.transforms.utils import create_constant_placeholder
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from tools.pipeline.export.ir.memory import changed_memory, memory_of, writes


class Constants:
    """The constants of a program, which are computed on demand."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._changed = changed_memory(program.graph)
        self._values: dict[Node, torch.Tensor | None] = {}

    def value(self, node: Node) -> torch.Tensor | None:
        """Returns a node's constant value, or None if it depends on an input, on random numbers, or on state."""
        if node not in self._values:
            read = self._placeholder if node.op == "placeholder" else self._call
            # The readers of memory that is written to see the values before or after that.
            self._values[node] = None if memory_of(node) in self._changed else read(node)
        return self._values[node]

    def _placeholder(self, node: Node) -> torch.Tensor | None:
        signature = self._program.graph_signature
        names = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        name = names.get(node.name)
        if name is None or name in signature.buffers_to_mutate.values():
            return None
        found = self._program.state_dict.get(name, self._program.constants.get(name))
        return found.detach() if isinstance(found, torch.Tensor) else None

    def _call(self, node: Node) -> torch.Tensor | None:
        schema = getattr(node.target, "_schema", None)
        is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if schema is None or writes(node) or is_random or not isinstance(node.meta.get("val"), torch.Tensor):
            return None
        values = {}
        for operand in node.all_input_nodes:
            value = self.value(operand)
            if value is None:
                return None
            values[operand] = value
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        with torch.no_grad():
            return node.target(*args, **kwargs)


# Key in a placeholder's meta: True for user inputs and state.
_VARIES = "varies"


def mark_inputs(program: ExportedProgram) -> None:
    """Marks the placeholders that vary, by the program's signature and regardless of their names, in place. All others,
    and those that passes add, are constants.
    """
    signature = program.graph_signature
    changed, written = set(signature.buffers_to_mutate.values()), changed_memory(program.graph)
    placeholders = program.graph.find_nodes(op="placeholder")
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        node.meta[_VARIES] = spec.kind == InputKind.USER_INPUT or spec.target in changed or node in written


def is_constant(node: Node) -> bool:
    """Whether a node is a constant, or computed from constants only, according to the marks of mark_inputs()."""
    if node.op == "placeholder":
        return not node.meta.get(_VARIES, False)
    if node.op != "call_function" or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return False
    return all(is_constant(operand) for operand in node.all_input_nodes)


def add_constant(program: ExportedProgram, name: str, value: torch.Tensor) -> Node:
    """Adds a constant to a program, before its inputs."""
    first_input = next(node for node in program.graph.nodes if node.op == "placeholder")
    with program.graph.inserting_before(first_input):
        return create_constant_placeholder(program, program.graph, name, InputKind.PARAMETER, value)
