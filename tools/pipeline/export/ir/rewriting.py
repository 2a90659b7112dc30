"""Helpers of passes over an exported program: arguments of calls, new nodes, and replacement of nodes."""

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Graph, Node

# The keys of a node's meta that tell its source location.
_PLACE = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node")

# PyTorch does not tag these elementwise operators as such.
_UNTAGGED = frozenset((
    torch.ops.aten.hardswish.default, torch.ops.aten.where.Scalar, torch.ops.aten.where.ScalarSelf,
    torch.ops.aten.where.ScalarOther,
))  # fmt: skip

# Functions with steps, by the names of their operators; a division may have steps, too.
_STEPS = frozenset((
    "bucketize", "ceil", "floor", "floor_divide", "fmod", "frac", "heaviside", "remainder", "round", "searchsorted",
    "sgn", "sign", "trunc",
))  # fmt: skip


def run_decompositions(program: ExportedProgram, table: dict[OpOverload, Callable[..., Any]]) -> ExportedProgram:
    """Calls program.run_decompositions(table) without checks of the inputs. The result's constants are its own: passes
    replace them, and messages about the program before have its nodes.

    PyTorch collects the conditions to check during shape inference, including conditions on intermediate tensors, which
    no check of inputs can evaluate.
    """
    program._guards_code = []
    decomposed = program.run_decompositions(table)
    decomposed._state_dict, decomposed._constants = dict(decomposed.state_dict), dict(decomposed.constants)
    return decomposed


def place_of(node: Node) -> dict[str, Any]:
    """Returns the part of a node's meta that tells its source location."""
    return {key: node.meta[key] for key in _PLACE if key in node.meta}


def unshare_notes(graph: Graph) -> None:
    """Gives each node a dictionary of its own for what quantizers note, in place.

    Passes that replace an operator by several give all of them one dictionary, and a copy of a module has those of the
    module: what a quantizer notes there about one node would become true of others.
    """
    for node in graph.nodes:
        if "custom" in node.meta:
            node.meta["custom"] = dict(node.meta["custom"])


def named_arguments(node: Node) -> dict[str, Any]:
    """Returns the arguments of a call by the names in the operator's schema, with defaults for the missing ones."""
    given = {argument.name: argument.default_value for argument in node.target._schema.arguments}
    given.update(zip(given, node.args, strict=False))
    given.update(node.kwargs)
    return given


def is_elementwise(operator: Any) -> bool:
    """Whether each element of an operator's result depends only on the operands' elements at the same index."""
    if operator in _UNTAGGED:
        return True
    is_pointwise = isinstance(operator, OpOverload) and torch.Tag.pointwise in operator.tags
    return is_pointwise and operator != torch.ops.aten.clone.default


def adds_to_elements(node: Node) -> bool:
    """Whether a call of index_put, of either dialect, adds to elements, which several of its indices may name.

    ExecuTorch's quantizers take such a call for one that moves elements, and its TOSA passes add once to each element.
    """
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.name == "aten::index_put" and len(node.args) > 3 and bool(node.args[3])


def has_steps(node: Node) -> bool:
    """Whether a call computes a function with steps, such as `round`, `remainder` or a conversion to integers, where a
    small change of an operand may change the result by a whole step. Comparisons are none of these.
    """
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    name = node.target._schema.name.split("::")[1]
    if name in ("to", "_to_copy"):
        before, after = (each.meta.get("val") for each in (node.all_input_nodes[0], node))
        # A quantizer's own operators have no value, and are of floating point.
        return after is not None and not after.is_floating_point() and (before is None or before.is_floating_point())
    return name in _STEPS or node.kwargs.get("rounding_mode") is not None


def for_each(argument: int | Sequence[int], dims: int = 2) -> list[int]:
    """Expands an argument that may be one number for all dimensions of an image into one number per dimension."""
    values = as_list(argument)
    return values * dims if len(values) == 1 else values


def as_list(argument: int | Sequence[int]) -> list[int]:
    """Returns an argument that is a number or several as a list."""
    return [argument] if isinstance(argument, int) else list(argument)


def emit(origin: Node, operator: Callable[..., Any], *args: Any, **options: Any) -> Node:
    """Adds a call with the source location of `origin`, and computes its result's shape and layout.

    Args:
      args: nodes and constants.
      options: constants that the operator takes by name.
    """
    node = origin.graph.call_function(operator, args, options)
    node.meta = place_of(origin)
    node.meta["val"] = operator(*torch.fx.node.map_arg(args, lambda argument: argument.meta["val"]), **options)
    return node


def crop(origin: Node, source: Node, place: int, before: int, after: int) -> Node:
    """Returns a tensor without the elements that negative amounts of padding remove from a dimension.

    Args:
      origin: the padding.
      place: the index of `before` among the amounts, which begin with those of the last dimension.
    """
    if min(before, after) >= 0:
        return source
    dim = source.meta["val"].dim() - 1 - place // 2
    end = after if after < 0 else sys.maxsize
    return emit(origin, torch.ops.aten.slice.Tensor, source, dim, max(-before, 0), end)


def rewrites(*operators: Any) -> Callable[[Callable[..., Node | None]], Callable[..., ExportedProgram]]:
    """Makes a pass of a function that rewrites one call of these operators.

    The function emits nodes before the call and returns its result; None leaves the call as it is. The pass works in
    place. What the function takes besides the node, the pass takes besides the program; both may take the program.
    """

    def decorate(replacement: Callable[..., Node | None]) -> Callable[..., ExportedProgram]:
        takes_program = "program" in inspect.signature(replacement).parameters

        @functools.wraps(replacement)
        def run(program: ExportedProgram, **given: Any) -> ExportedProgram:
            if takes_program:
                given["program"] = program
            for node in list(program.graph.nodes):
                if node.op == "call_function" and node.target in operators:
                    with program.graph.inserting_before(node):
                        result = replacement(node, **given)
                    if result is not None:
                        replace_node(program, node, result)
                        program.graph.erase_node(node)
            program.graph.eliminate_dead_code()
            program.graph_module.recompile()
            return program

        return run

    return decorate


def replace_node(program: ExportedProgram, node: Node, result: Node) -> None:
    """Replaces all uses of a node by another one, including program outputs, which are referred to by name.

    The node itself stays in the graph without uses.
    """
    node.replace_all_uses_with(result)
    rename_output(program, node, result)


def rename_output(program: ExportedProgram, node: Node, result: Node) -> None:
    """Makes the program outputs that refer to a node by name refer to another one."""
    for spec in program.graph_signature.output_specs:
        if spec.arg.name == node.name:
            spec.arg.name = result.name
