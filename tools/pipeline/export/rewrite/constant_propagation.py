"""Computes what depends on constants only."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from executorch.exir import (
    memory,
)
from torch.export import ExportedProgram

from tools.pipeline.export.ir import rewriting
from tools.pipeline.export.ir.constants import Constants
from tools.pipeline.export.upstream.replaced import replace

_propagation: Any = importlib.import_module("executorch.exir.passes.constant_prop_pass")


# It takes operators whose arguments it does not know for ones that depend on an input: a mask begins as zeros_like().
replace(_propagation, "_PRIMITIVE_TYPES", (*_propagation._PRIMITIVE_TYPES, torch.memory_format))


def propagate_constants(program: ExportedProgram) -> ExportedProgram:
    """Computes what depends on constants only, in place.

    Left are random numbers, which are new ones in every inference, and memory to work in.
    """
    kept = {memory.alloc} | {
        node.target
        for node in program.graph.nodes
        if node.op == "call_function" and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    }
    return _propagation.constant_prop_pass(program, custom_skip_targets=kept, _skip_dim_order=False)


def fold_without_kernel(program: ExportedProgram) -> ExportedProgram:
    """The program with its constants computed, if that takes operators outside the core ATen ones, for which a device
    may have no kernels: positions that a model resizes to its image, for one. Else the same program.
    """
    constants = Constants(program)
    for node in program.graph.nodes:
        is_outside = isinstance(node.target, torch._ops.OpOverload) and torch.Tag.core not in node.target.tags
        if is_outside and constants.value(node) is not None:
            return propagate_constants(rewriting.run_decompositions(program, {}))
    return program
