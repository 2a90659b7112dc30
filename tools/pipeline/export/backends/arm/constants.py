"""Computes constants of attention before the Arm backends see them."""

from torch.export import ExportedProgram

from tools.pipeline.export.rewrite.attention import attention_for_arm, decompose_attention
from tools.pipeline.export.rewrite.constant_propagation import propagate_constants
from tools.pipeline.export.rewrite.decompositions.decompositions import decompose


def compute_constants(program: ExportedProgram) -> ExportedProgram:
    """Decomposes attention with masks or with learned queries, and computes constants, if the program has such
    attention.

    ExecuTorch's Arm passes scale the query, but refuse constant ones, and apply masks by comparisons of constants.
    Other attention stays unchanged.
    """
    found = attention_for_arm(program)
    return propagate_constants(decompose(decompose_attention(program, found, trusts_masks=True))) if found else program
