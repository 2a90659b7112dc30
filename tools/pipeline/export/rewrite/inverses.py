"""Multiplies by inverses where a model solves for constant matrices, as controllers and Gaussian processes do.

Elimination would be a program of hundreds of operators for each such solution, and has a form for small matrices alone.
"""

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir import rewriting
from tools.pipeline.export.ir.constants import Constants, add_constant

_aten = torch.ops.aten
# Maps operators to the places of the matrix and of what it is solved for.
_SOLVED = {
    _aten.cholesky_solve.default: (1, 0),
    _aten.linalg_solve.default: (0, 1),
    _aten.linalg_solve_triangular.default: (0, 1),
}


def invert_constants(program: ExportedProgram) -> ExportedProgram:
    """Replaces solutions for constant matrices by products with their inverses, in place."""
    graph, constants = program.graph, Constants(program)
    inverses: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node.target not in _SOLVED:
            continue
        places = _SOLVED[node.target]
        matrix, right = (node.args[place] for place in places)
        options = {**node.kwargs, **dict(zip(("upper",), node.args[2:], strict=False))}
        is_left = options.pop("left", True)
        value = constants.value(matrix)
        if value is None or value.dim() != 2 or not value.is_floating_point():
            continue
        key = node.target, matrix, *options.items()
        if key not in inverses:
            given = value.double(), torch.eye(len(value), dtype=torch.float64)
            inverse = node.target(*(given[places.index(place)] for place in (0, 1)), **options)
            inverses[key] = add_constant(program, f"{matrix.name}_inverse_{len(inverses)}", inverse.to(value.dtype))
        with graph.inserting_before(node):
            factors = (inverses[key], right) if is_left else (right, inverses[key])
            rewriting.replace_node(program, node, rewriting.emit(node, _aten.matmul.default, *factors))
        graph.erase_node(node)
    return program
