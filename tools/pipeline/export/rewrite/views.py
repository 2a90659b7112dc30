"""Views as reshapes."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram

_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)


def reshape_views(program: ExportedProgram) -> None:
    """Makes views reshapes, which copy what is no view in the order of dimensions that it comes in."""
    for node in program.graph.nodes:
        if node.target in _VIEWS:
            node.target = torch.ops.aten.reshape.default
    program.graph_module.recompile()
