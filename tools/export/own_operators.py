"""Operators of our own, `torch_fusion::*`, where ATen's need memory or time for what a program does not use.

Each has a functional variant, which stands in graphs and computes what PyTorch computes, and an out variant, which
stands in programs and is implemented in kernels/.
"""

from __future__ import annotations

import operator

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from torch import Tensor
from torch.export import ExportedProgram

_library = torch.library.Library("torch_fusion", "FRAGMENT")

_POOL = "Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode"
_library.define(f"max_pool2d({_POOL}) -> Tensor")
_library.define(f"max_pool2d.out({_POOL}, *, Tensor(a!) out) -> Tensor(a!)")


@torch.library.impl(_library, "max_pool2d", "CompositeExplicitAutograd")
def _max_pool2d(
    self: Tensor, kernel_size: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil_mode: bool
) -> Tensor:
    return torch.ops.aten.max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]


@torch.library.impl(_library, "max_pool2d.out", "CompositeExplicitAutograd")
def _max_pool2d_out(
    self: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    *,
    out: Tensor,
) -> Tensor:
    return out.copy_(_max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode))


def drop_pool_indices(program: ExportedProgram) -> ExportedProgram:
    """Replaces max_pool2d_with_indices where nothing reads the indices: they would take twice the result's memory."""
    graph = program.graph
    for node in list(graph.nodes):
        if node.target != exir_ops.edge.aten.max_pool2d_with_indices.default:
            continue
        if any(user.target is not operator.getitem or user.args[1] != 0 for user in node.users):
            continue
        x, kernel_size, *rest = node.args
        defaults = [[], [0, 0], [1, 1], False]
        arguments = [*rest, *defaults[len(rest) :]]
        with graph.inserting_before(node):
            pool = graph.call_function(exir_ops.edge.torch_fusion.max_pool2d.default, (x, kernel_size, *arguments))
        for user in list(node.users):
            pool.meta = dict(user.meta)
            for key in ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node"):
                if key in node.meta:
                    pool.meta[key] = node.meta[key]
            user.replace_all_uses_with(pool)
            for spec in program.graph_signature.output_specs:
                if spec.arg.name == user.name:
                    spec.arg.name = pool.name
            graph.erase_node(user)
        graph.erase_node(node)
    program.graph_module.recompile()
    return program
