"""What a program's inputs, outputs and constants are, by its signature."""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node


def user_inputs(program: ExportedProgram) -> list[Node]:
    """The nodes of the inputs that a user gives, in order."""
    # By their places: in a copied graph torch renames a placeholder whose name is one of Python's own, such as `input`.
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    specs = program.graph_signature.input_specs
    return [node for node, spec in zip(placeholders, specs, strict=True) if spec.kind == InputKind.USER_INPUT]


def varying(program: ExportedProgram) -> set[Node]:
    """What depends on the program's inputs; all else are constants, once they are folded."""
    found = set(user_inputs(program))
    for node in program.graph.nodes:
        found |= {node} if found.intersection(node.all_input_nodes) else set()
    return found


def user_outputs(program: ExportedProgram) -> list[Node]:
    """The nodes of the outputs that a user gets, in order."""
    specs = program.graph_signature.output_specs
    results = program.graph.output_node().args[0]
    return [node for spec, node in zip(specs, results, strict=True) if spec.kind == OutputKind.USER_OUTPUT]
