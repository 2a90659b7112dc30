"""Turns views into reshapes."""

import torch
from torch.export import ExportedProgram

from tools.pipeline.export.ir.operators import VIEWS


def reshape_views(program: ExportedProgram) -> None:
    """Turns views into reshapes, which copy data if a view is impossible in the actual order of dimensions."""
    for node in program.graph.nodes:
        if node.target in VIEWS:
            node.target = torch.ops.aten.reshape.default
    program.graph_module.recompile()
