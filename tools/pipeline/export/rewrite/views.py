"""Turns views into reshapes."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram

_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)


def reshape_views(program: ExportedProgram) -> None:
    """Turns views into reshapes, which copy data if a view is impossible in the actual order of dimensions."""
    for node in program.graph.nodes:
        if node.target in _VIEWS:
            node.target = torch.ops.aten.reshape.default
    program.graph_module.recompile()
