"""Finds a program's inputs, outputs and constants by its signature."""

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node


def user_inputs(program: ExportedProgram) -> list[Node]:
    """Returns the nodes of the user's inputs, in order."""
    # The names of specs may differ: torch renames a placeholder of a copied graph if its name is a Python builtin, such
    # as `input`.
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    specs = program.graph_signature.input_specs
    return [node for node, spec in zip(placeholders, specs, strict=True) if spec.kind == InputKind.USER_INPUT]


def varying(program: ExportedProgram) -> set[Node]:
    """Returns the nodes that depend on the program's inputs. Constant folding makes all others constants."""
    found = set(user_inputs(program))
    for node in program.graph.nodes:
        found |= {node} if found.intersection(node.all_input_nodes) else set()
    return found


def user_outputs(program: ExportedProgram) -> list[Node]:
    """Returns the nodes of the user's outputs, in order."""
    specs = program.graph_signature.output_specs
    results = program.graph.output_node().args[0]
    return [node for spec, node in zip(specs, results, strict=True) if spec.kind == OutputKind.USER_OUTPUT]
