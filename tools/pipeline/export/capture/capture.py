"""Captures a model with torch.export, and refuses what a backend cannot take."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch._functorch import predispatch
from torch.export import ExportedProgram, _trace
from torch.fx import Graph, GraphModule
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from tools.pipeline.export.capture.assigned_buffers import assignments_written
from tools.pipeline.export.capture.diagnosis import (
    changed_buffers,
    check_captured,
    check_memory,
    explain_capture,
    random_operators,
    sizes_of_values,
    slow_dtypes,
    some_of,
    takes_derivatives,
)
from tools.pipeline.export.capture.dynamic_shapes import checked_shapes
from tools.pipeline.export.capture.eager import Eager
from tools.pipeline.export.capture.known_values import known_values
from tools.pipeline.export.capture.tensor_indices import AssignmentsKept
from tools.pipeline.export.capture.tensor_numbers import NumberConvertedError, NumbersKept
from tools.pipeline.export.ir import rewriting
from tools.pipeline.export.ir.operators import EMPTY
from tools.pipeline.export.ir.origins import origin, user_place
from tools.pipeline.export.pipelines import CAPTURE, STRAIGHT
from tools.pipeline.export.rewrite import derivatives
from tools.pipeline.export.rewrite.batch_norm import fold_batch_norm
from tools.pipeline.export.rewrite.branches import MOST_OPERATORS
from tools.pipeline.export.rewrite.spectra.spectra import remove_complex_numbers
from tools.pipeline.export.upstream.repeated_work import do_once
from tools.pipeline.export.upstream.replaced import replaced
from tools.pipeline.model_file.call import CALLED
from tools.pipeline.model_file.model_file import MADE_AT, ModelFile, has_user_code
from tools.quiet.console import UserError

# The names that users know for operators with graphs of their own.
_BRANCHES = {
    "cond": "torch.cond()",
    "map_impl": "map of a function",
    "scan": "scan of a function",
    "while_loop": "while_loop()",
}


def capture_model(file: ModelFile, eager: Eager, note: Callable[[str], None]) -> ExportedProgram:
    """Captures a model.

    Args:
      note: prints a note about the model.
    """
    shapes = checked_shapes(file, eager)
    try:
        captured = capture(eager.module, eager.inputs, shapes)
    except Exception as error:
        raise explain_capture(file, error) from error
    _name_lines(captured, eager.written, file.path)
    check_memory(captured, file.path)
    captured = remove_complex_numbers(captured, file.path)
    check_captured(captured, file.path)
    for place in random_operators(captured, file.path):
        note(f"random numbers on a device are not PyTorch's, in {place}")
    for dtype, places in slow_dtypes(captured, file.path).items():
        note(
            f"the model computes in {dtype}, which takes many times the instructions of float32 and is never int8: "
            f"{some_of(places)}; call .float() on the model, and give it float32."
        )
    return captured


def _name_lines(program: ExportedProgram, module: torch.nn.Module, path: Path) -> None:
    """Gives operators whose module no line of the user's calls, as those in an nn.Sequential, the line that made it."""
    for node in program.graph.nodes:
        trace = node.meta.get("stack_trace") or ""
        stack = [of.removeprefix(CALLED).lstrip(".") for of, _ in node.meta.get("nn_module_stack", {}).values()]
        if node.op != "call_function" or not stack:
            continue
        with contextlib.suppress(AttributeError):
            called = [module.get_submodule(of) for of in stack[-2:]]
            # One that a container calls has the line that calls the container.
            is_far = len(called) == 2 and not any(has_user_code(path, part) for part in called)
            if is_far or not user_place(trace, path):
                node.meta["stack_trace"] = f"{trace}\n{vars(called[-1]).get(MADE_AT, '')}"


def capture(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], dynamic_shapes: Any = None) -> ExportedProgram:
    """Runs torch.export, which runs the model's code once with tensors that have shapes but no values.

    Args:
      dynamic_shapes: which sizes of the inputs vary, as torch.export takes it.
    """
    do_once()
    # Kernels, and ExecuTorch's passes, expect weights in the default order; a transposed weight may be returned, too.
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.layout == torch.strided and not tensor.is_contiguous():
            tensor.data = tensor.data.contiguous()
    with torch.no_grad(), _functions_compiled(), _masks_unread(), AssignmentsKept(), assignments_written(model):
        captured = _export(model, inputs, dynamic_shapes)
        if derivatives.are_in(captured):
            captured = _write_derivatives(captured, inputs, dynamic_shapes)
    return CAPTURE.run(captured)


def _export(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], dynamic_shapes: Any) -> ExportedProgram:
    """Runs torch.export; if the model takes derivatives, again below the level of layers, where they are recorded."""
    options = {"dynamic_shapes": dynamic_shapes, "strict": False}
    try:
        return _with_values(model, inputs, lambda: torch.export.export(model, inputs, **options))
    except Exception as error:
        if not takes_derivatives(error):
            raise
        first = error

    def detached(_module: torch.nn.Module, _inputs: Any, results: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, results)

    # PyTorch would compute derivatives of the results, too.
    hook = model.register_forward_hook(detached)
    try:
        program = _with_values(model, inputs, lambda: _trace._export(model, inputs, **options, pre_dispatch=False))
    except Exception as again:
        raise again from first
    finally:
        hook.remove()
    return _write_derivatives(program, inputs, dynamic_shapes)


def _with_values(
    model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], export: Callable[[], ExportedProgram]
) -> ExportedProgram:
    """Exports the model, again with the values of constants if its code or sizes depend on values."""
    numbers = NumbersKept()
    try:
        with numbers:
            captured = export()
        if not numbers.are_read and not sizes_of_values(captured):
            return captured
    except (GuardOnDataDependentSymNode, NumberConvertedError):
        pass
    buffers, changed = dict(model.named_buffers()), set[str]()
    while True:
        with known_values([*inputs, *(buffers[name] for name in changed)]), NumbersKept():
            captured = export()
        more = changed_buffers(captured) - changed
        if not more:
            return captured
        changed |= more


def _write_derivatives(
    program: ExportedProgram, inputs: tuple[torch.Tensor, ...], dynamic_shapes: Any
) -> ExportedProgram:
    """Writes the operators that compute derivatives of others as further ones, and captures the result again."""
    # State is written in place, as in other captures.
    module = derivatives.write(program).module(check_guards=False)
    return torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes, strict=False)


@contextlib.contextmanager
def _functions_compiled() -> Iterator[None]:
    """Lets PyTorch compile the functions of control flow, which makes their weights operands, for fixed sizes. With
    sizes that may vary, it can't tell that two branches return the same strides.
    """
    static = dataclasses.replace(_trace.DEFAULT_EXPORT_DYNAMO_CONFIG, assume_static_by_default=True)
    with torch.compiler.set_stance("default"), replaced(_trace, "DEFAULT_EXPORT_DYNAMO_CONFIG", static):
        yield


def _masks_unread() -> contextlib.AbstractContextManager[None]:
    """Makes PyTorch's transformer layers accept masks without checking whether their values are causal.

    torch.export has no values, and the result of the check only helps kernels that then need no mask.
    """

    def is_causal_by_name(mask: torch.Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
        return is_causal is True

    return replaced(torch.nn.modules.transformer, "_detect_is_causal_mask", is_causal_by_name)


def list_readers(program: ExportedProgram) -> ExportedProgram:
    """Adds missing readers to the lists of nodes, in place: where a model turns derivatives on, as distributions do,
    PyTorch forgets some.
    """
    for node in program.graph.nodes:
        for operand in node.all_input_nodes:
            operand.users.setdefault(node)
    return program


def batch_functions(program: ExportedProgram) -> ExportedProgram:
    """Writes the operators of functions that torch.vmap() batches with the batch as a dimension."""
    calls = (node.target for node in program.graph.nodes if node.op == "call_function")
    if all(getattr(target, "__module__", None) != predispatch.__name__ for target in calls):
        return program
    return rewriting.run_decompositions(fold_batch_norm(program), {})


def rename_inputs(program: ExportedProgram) -> ExportedProgram:
    """Renames inputs that share a name with a builtin of Python or torch, such as `input`, in place. Copies of the
    graph would rename them, and the program's signature refers to them by name.
    """
    signature = program.graph_signature
    for node in program.graph.find_nodes(op="placeholder"):
        before, kept = node.name, Graph().placeholder(node.name).name
        if before == kept:
            continue
        node._rename(kept)
        node.target = node.name
        signature.replace_all_uses(before, node.name)
    return program


def rename_constants(program: ExportedProgram) -> ExportedProgram:
    """Renames parameters and buffers that a module of the graph can't hold, such as `code` and `graph`, in place."""
    renamed, module = dict[str, str](), GraphModule({}, Graph())
    for held in (program.state_dict, program.constants):
        for name in [name for name in held if hasattr(module, name.partition(".")[0])]:
            renamed[name] = f"own_{name}"
            while renamed[name] in {*program.state_dict, *program.constants}:
                renamed[name] = f"own_{renamed[name]}"
            held[renamed[name]] = held.pop(name)
    signature = program.graph_signature
    for spec in (*signature.input_specs, *signature.output_specs):
        spec.target = renamed.get(spec.target or "", spec.target)
    return program


def fill_memory(program: ExportedProgram) -> ExportedProgram:
    """Fills memory that the model allocates without values with zeros, in place. Arbitrary values, which may be NaN or
    infinity, would spoil the ranges of the calibration.
    """
    for node in list(program.graph.nodes):
        value = node.meta.get("val")
        if node.target in EMPTY and all(isinstance(size, int) for size in value.shape):
            with program.graph.inserting_before(node):
                zeros = program.graph.call_function(
                    torch.ops.aten.full.default, (list(value.shape), 0), {"dtype": value.dtype}
                )
            zeros.meta = {**rewriting.place_of(node), "val": value.new_zeros(value.shape)}
            rewriting.replace_node(program, node, zeros)
            program.graph.erase_node(node)
    return program


def branches(program: ExportedProgram, path: Path) -> dict[str, str]:
    """Returns the conditions and loops of a captured model, the inner ones first: by their names with source locations,
    the kinds.
    """
    found: dict[str, str] = {}

    def add(module: torch.fx.GraphModule) -> None:
        for node in module.graph.nodes:
            if isinstance(node.target, torch._ops.HigherOrderOperator) and node.target.__name__ in _BRANCHES:
                for inner in node.all_input_nodes:
                    if inner.op == "get_attr" and isinstance(
                        part := getattr(module, inner.target), torch.fx.GraphModule
                    ):
                        add(part)
                found[f"{_BRANCHES[node.target.__name__]} ({origin(node, path)})"] = node.target.__name__

    add(program.graph_module)
    return found


def without_branches(
    program: ExportedProgram, path: Path, backend: str, note: Callable[[str], None]
) -> ExportedProgram:
    """Returns the program with its conditions and loops written as operators.

    Args:
      note: prints a note about the model.

    Raises UserError for a loop on a condition, or one that is too long for that.
    """
    before = branches(program, path)
    program = STRAIGHT.run(program)
    if left := list(branches(program, path)):
        raise UserError(
            f'{path}: backend "{backend}" takes no {left[-1]}; it takes torch.cond(), and loops over a bounded number '
            f"of steps with at most {MOST_OPERATORS} operators in all of them."
        )
    for name, kind in before.items():
        written = "both branches, and chooses a result" if kind == "cond" else "all steps one after another"
        note(f'{name}: the program computes {written}; backend "portable" has it as it is.')
    return program


def check_no_state(buffers: Iterable[str], path: Path, backend: str) -> None:
    names = ", ".join(buffers)
    if names:
        raise UserError(
            f'{path}: backend "{backend}" takes no model that changes its buffers ({names}); '
            "make them inputs and outputs of the model."
        )
