"""Implements functions of one int8 tensor as tables of the NPU.

ExecuTorch's passes make tables of single operators that they know. A function of several operators (softplus, a GELU by
hand, a product with a number) loses precision and takes the NPU's time at each of them, and the core would compute
those that the passes don't know (hardshrink) or an NPU can't compute (comparisons). A table has the exact results of
any function.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from executorch.backends.arm._passes.insert_table_ops import TableOps
from executorch.backends.arm.common.annotation_meta import ArmAnnotationInfo
from executorch.backends.arm.operator_support import tosa_supported_operators
from executorch.exir.dialects._ops import ops as exir_ops
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from tools.pipeline.export.backends.cortex_m.tables import function_of, results_of
from tools.pipeline.export.ir.operators import DEQUANTIZE, QUANTIZE
from tools.pipeline.export.ir.rewriting import emit
from tools.pipeline.export.quantize.nodes import attribute
from tools.pipeline.export.upstream.replaced import replaced

_library = torch.library.Library("torch_fusion", "FRAGMENT")
_library.define(
    "table(Tensor self, float scale, int zero_point, int[] integers, float result_scale, int result_zero_point) "
    "-> Tensor",
    tags=torch.Tag.pointwise,
)


@torch.library.impl(_library, "table", "CompositeExplicitAutograd")
def _table(
    self: Tensor, scale: float, zero_point: int, integers: list[int], result_scale: float, result_zero_point: int
) -> Tensor:
    """Maps floating point to floating point by way of int8: `integers` are the results for -128 to 127."""
    places = torch.round(self / scale).add(zero_point).clamp(-128, 127).add(128).long()
    return ((torch.tensor(integers)[places] - result_zero_point) * result_scale).to(self.dtype)


@torch.library.register_fake("torch_fusion::table", lib=_library)
def _table_like(self: Tensor, *_: object) -> Tensor:
    return torch.empty_like(self)


_TABLE = exir_ops.edge.torch_fusion.table.default
# The name of the operator in reports of unsupported operators.
NAME = "torch_fusion::table"


def fold_numbers(module: GraphModule) -> None:
    """Computes numbers that only depend on numbers, in place: parts of functions are attributes."""
    graph, known = module.graph, {}
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if not isinstance(value, Tensor) or value.numel() != 1:
            continue
        if node.op == "get_attr":
            known[node] = attribute(module, str(node.target))
        elif node.op == "call_function" and known.keys() >= set(node.all_input_nodes):
            args, kwargs = map_arg((node.args, node.kwargs), known.__getitem__)
            name = f"{node.name}_number"
            module.register_buffer(name, node.target(*args, **kwargs).detach())
            with graph.inserting_before(node):
                number = graph.get_attr(name)
            number.meta = dict(node.meta)
            known[number] = attribute(module, name)
            node.replace_all_uses_with(number)
    graph.eliminate_dead_code()
    module.recompile()


def write_tables(program: ExportedProgram) -> ExportedProgram | None:
    """Returns the program with tables for functions that ExecuTorch's passes don't handle, or None if it has none.

    Args:
      program: with quantize and dequantize operators; it is not modified.
    """
    if not any(_is_written(program, node) for node in program.graph.nodes):
        return None
    # The copy shares the tensors.
    original, program = program.graph_module, copy.copy(program)
    program._graph_module = GraphModule(original, copy.deepcopy(original.graph))
    program.graph_module.meta.update(original.meta)
    graph = program.graph
    for node in list(graph.nodes):
        if not _is_written(program, node):
            continue
        result = node.args[0]
        function = function_of(program, result, DEQUANTIZE)
        assert function is not None
        results = results_of(program, function)
        if results.isnan().all():
            continue
        integers = node.target(_with_numbers(results), *node.args[1:]).tolist()
        operand = function.operands[0]
        with graph.inserting_before(node):
            table = emit(
                result, torch.ops.torch_fusion.table.default, operand, *operand.args[1:3], integers,
                *node.args[1:3],
            )  # fmt: skip
        table.meta["custom"] = {ArmAnnotationInfo.CUSTOM_META_KEY: ArmAnnotationInfo(quantized=True)}
        node.replace_input_with(result, table)
    graph.eliminate_dead_code()
    program.graph_module.recompile()
    return program


def _is_written(program: ExportedProgram, node: Node) -> bool:
    """Whether a quantization follows a function that ExecuTorch's passes make no table of."""
    if node.target != QUANTIZE or node.args[5] != torch.int8:
        return False
    function = function_of(program, node.args[0], DEQUANTIZE)
    # ExecuTorch quantizes between operators.
    return function is not None and (len(function.nodes) > 1 or any(_is_left(each) for each in function.nodes))


def _is_left(node: Node) -> bool:
    """Whether ExecuTorch's quantizer skipped an operator that it doesn't know."""
    info = node.meta.get("custom", {}).get(ArmAnnotationInfo.CUSTOM_META_KEY)
    return info is not None and not info["quantized"]


def _with_numbers(results: Tensor) -> Tensor:
    """Replaces NaN, such as the root of a negative number, by the nearest integer's result.

    Calibration has not seen such operands, which are just within the range of the scale.
    """
    (known,) = torch.nonzero(~results.isnan(), as_tuple=True)
    nearest = (known - torch.arange(len(results))[:, None]).abs().argmin(1)
    return results[known[nearest]]


@contextlib.contextmanager
def tables_of_functions() -> Iterator[None]:
    """Makes ExecuTorch's partitioner and passes accept the operator that `write_tables` inserts."""
    original = TableOps.__getitem__

    def getitem(self: TableOps, node: Node) -> Callable[[Tensor], Tensor]:
        if node.target != _TABLE:
            return original(self, node)
        arguments: Any = node.args[1:]
        return lambda values: torch.ops.torch_fusion.table.default(values, *arguments)

    checks = tosa_supported_operators
    with (
        replaced(TableOps, "__getitem__", getitem),
        replaced(TableOps, "special_table_ops", TableOps.special_table_ops | {_TABLE}),
        replaced(checks, "TOSA_PRO_INT_SupportList", checks.TOSA_PRO_INT_SupportList | {_TABLE}),
        replaced(
            checks.CheckProperQuantization, "targeted_ops", (*checks.CheckProperQuantization.targeted_ops, _TABLE)
        ),
    ):
        yield
