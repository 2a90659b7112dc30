"""Constants of attention, computed before the Arm backends read them."""

from __future__ import annotations

from torch.export import ExportedProgram

from tools.pipeline.export.rewrite.attention import attention_for_arm, decompose_attention
from tools.pipeline.export.rewrite.constant_propagation import propagate_constants
from tools.pipeline.export.rewrite.decompositions.decompositions import decompose


def compute_constants(program: ExportedProgram) -> ExportedProgram:
    """A program whose masked attention and that to learned queries is decomposed, and what reads constants computed.

    ExecuTorch's Arm passes scale a query, and take none that is a constant, and mask by comparing what they compute of
    constants. Others stay as they are.
    """
    found = attention_for_arm(program)
    return propagate_constants(decompose(decompose_attention(program, found, trusts_masks=True))) if found else program
