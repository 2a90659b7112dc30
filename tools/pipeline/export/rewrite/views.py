"""Views as reshapes."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram

from tools.pipeline.export.ir.operators import VIEWS


def reshape_views(program: ExportedProgram) -> None:
    """Makes views reshapes, which copy what is no view in the order of dimensions that it comes in."""
    for node in program.graph.nodes:
        if node.target in VIEWS:
            node.target = torch.ops.aten.reshape.default
    program.graph_module.recompile()
