"""Folds layers: a captured program computes what reaches its results, and no more."""

from __future__ import annotations

from torch.export import ExportedProgram

from tools.pipeline.export.rewrite.attention import decompose_attention
from tools.pipeline.export.rewrite.batch_norm import fold_batch_norm
from tools.pipeline.export.rewrite.dead_channels import remove_dead_channels
from tools.pipeline.export.rewrite.kernel_reach import leave_out_what_is_over_padding


def fold_layers(program: ExportedProgram) -> ExportedProgram:
    """A captured program whose layers compute what reaches its results, and no more.

    Attention becomes matrix products, and batch normalization part of the layers before it; weights that lie over
    padding only and dead channels are left out.
    """
    return remove_dead_channels(leave_out_what_is_over_padding(fold_batch_norm(decompose_attention(program))))
