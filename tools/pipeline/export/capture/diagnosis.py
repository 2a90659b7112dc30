"""Explains in the user's terms why torch refuses a model."""

import re
import traceback
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.schema import Program
from executorch.extension.pybindings.portable_lib import _get_operator_names
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
    free_unbacked_symbols,
)
from torch.nn.utils.rnn import PackedSequence
from torch.utils._sympy.value_ranges import bound_sympy

from tools.pipeline.export.capture.tensor_numbers import NumberConvertedError
from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.ir.rewriting import named_arguments, run_decompositions
from tools.pipeline.export.ir.scalar_types import is_supported, supported_names
from tools.pipeline.model_file.model_file import ModelFile, brief
from tools.quiet.console import UserError
from tools.quiet.troubleshooting import more_about

# The largest size of a dimension: ExecuTorch's SizesType is an int32.
_LARGEST_SIZE = 2**31 - 1
_OBSERVED = (
    "a module with observers or fake quantization can't be captured{}; return the one that it was prepared from, with "
    "the trained weights, or train an exported one (docs/quantize.md)."
)
_aten = torch.ops.aten
_ON_DATA = (
    "use torch.where or torch.cond, and |, & and ~ of tensors, which are part of the model, instead of Python's if, "
    "or, and and not"
)
_OF_VALUES = (
    "the size of a tensor here depends on the values in another one; a device needs sizes that are known at build time."
)


def explain_capture(file: ModelFile, error: Exception) -> UserError:
    """Explains why torch.export cannot capture the model."""
    place = file.place_of(error)
    line = source_line(place)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    called = [frame.f_globals.get("__name__", "") for frame in frames]
    if isinstance(error, (GuardOnDataDependentSymNode, DataDependentOutputException)):
        if any(name.startswith("torch.ao.quantization.") for name in called):
            return UserError(f"{place}: {_OBSERVED.format(line)}")
        return UserError(
            f"{place}: what the model does here depends on the values in a tensor{line}; {_ON_DATA}"
            f"{more_about('DependsOnValues')}."
        )
    if isinstance(error, (DynamicOutputShapeException, PendingUnbackedSymbolNotFound)):
        if advice := _instead(str(getattr(error, "func", ""))):
            return UserError(f"{place}{line}: there is no form for a device of what the model does here. {advice}")
        return UserError(f"{place}{line}: {_OF_VALUES}")
    if isinstance(error, NumberConvertedError):
        return UserError(
            f"{place}: the model converts what a tensor holds to a number of Python's or an array{line}, and only the "
            "device will know it: no size or loop can depend on it. Elsewhere leave out float() or int(), as a tensor "
            "or its .item() takes the place of a number, and use torch's functions in place of math's and numpy's"
            f"{more_about('ConvertedNumber')}."
        )
    if "data-dependent expression" in str(error):
        return UserError(
            f"{place}: a branch or loop indexes a tensor by a number that only the device will know{line}; use "
            "x.index_select(0, i.reshape(1)) in place of x[i]."
        )
    if type(error).__name__ == "TorchRuntimeError" and "cond" in str(error) and "stride" in str(error):
        return UserError(
            f"{place}: the branches of torch.cond() return tensors whose elements lie in memory in different "
            f"orders{line}; return .contiguous() of both."
        )
    if type(error).__name__ == "UncapturedHigherOrderOpError":
        found = re.search(r"Explanation: (.*?)(?: Found in .*)?\n", str(error))
        reason = f" ({found[1].rstrip('. ')})" if found else ""
        return UserError(
            f"{place}: PyTorch can't capture all that a branch or loop calls{reason}{line}; write it of other layers, "
            "such as cells in place of nn.LSTM and nn.GRU, and return what it would assign to attributes, or compute "
            "both branches and choose by torch.where()."
        )
    if any(isinstance(value, PackedSequence) for frame in frames for value in frame.f_locals.values()):
        return UserError(
            f"{place}: a packed sequence has a length that only the device will know{line}; run the layer on the "
            "padded sequence, and take the result at the last step by gather() of its index."
        )
    if takes_derivatives(error):
        return UserError(
            f"{place}: PyTorch can't capture this derivative{line}; use torch.autograd.grad() of what forward() "
            "computes, or torch.func.grad(), in place of backward(), or write it as a formula."
        )
    if "Constraints violated" in str(error):
        fixes = str(error).partition("Suggested fixes:")[2].partition("\n\n")[0].split("\n")
        return UserError(
            f"{file.path}: dynamic_shapes() allows sizes that the model does not take; PyTorch finds that it takes "
            f"{', '.join(filter(None, map(str.strip, fixes))) or 'one size'}. A recurrent layer takes one number of "
            "steps."
        )
    reason = brief(error).replace("FakeTensor", "Tensor")
    return UserError(f"{place}: torch.export cannot capture the model{line}: {reason}")


def takes_derivatives(error: Exception) -> bool:
    """Returns whether an error of a capture is one of a model that takes derivatives."""
    frames = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__))
    # PyTorch says this of a tensor of a derivative that it takes for a constant.
    is_left = re.search("fake tensor in the exported program constant|functorch tensor", str(error)) is not None
    if is_left or "torch._functorch.eager_transforms" in frames:
        return True
    return isinstance(error.__cause__, Exception) and takes_derivatives(error.__cause__)


def places_behind(error: BaseException, path: Path) -> Iterator[str]:
    """Yields the source locations of the operators that were being processed when the error was raised, innermost
    first.
    """
    behind: BaseException | None = error
    while behind is not None:
        frames = [frame for frame, _ in traceback.walk_tb(behind.__traceback__)]
        for frame in reversed(frames):
            for value in frame.f_locals.values():
                if isinstance(value, Node) and value.op == "call_function":
                    place = origin(value, path)
                    if place != value.name:
                        yield place
        behind = behind.__cause__


def random_operators(program: ExportedProgram, path: Path) -> list[str]:
    """Lists the source locations where the model draws random numbers."""
    return list(dict.fromkeys(written(node, path) for node in program.graph.nodes if _draws(node)))


def _draws(node: Node) -> bool:
    """Whether a node draws random numbers. Nodes that only do so in training don't count."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    given = named_arguments(node)
    infers = any(given.get(name) is False for name in ("train", "training"))
    return not infers and not any(given.get(name) == 0 for name in ("p", "dropout", "dropout_p"))


# Most cores have no instructions for these dtypes, and quantizers don't take them.
SLOW = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float64: "float64"}


def is_slow(node: Node) -> bool:
    """Whether an operator computes with floating point other than float32."""
    values = (each.meta.get("val") for each in (node, *node.all_input_nodes))
    return any(isinstance(value, torch.Tensor) and value.dtype in SLOW for value in values)


def slow_dtypes(program: ExportedProgram, path: Path) -> dict[str, list[str]]:
    """Finds floating-point dtypes other than float32 that the model computes in, with their source locations."""
    found: dict[str, list[str]] = {}
    for node, value in _values(program):
        if node.op == "call_function" and isinstance(value, torch.Tensor) and value.dtype in SLOW:
            place, places = written(node, path), found.setdefault(SLOW[value.dtype], [])
            if place not in places:
                places.append(place)
    return found


def check_captured(program: ExportedProgram, path: Path) -> None:
    """Raises UserError for dtypes and sizes that a program cannot have."""
    for node in program.graph.find_nodes(op="call_function", target=_aten.fused_moving_avg_obs_fake_quant.default)[:1]:
        raise UserError(f"{written(node, path)}: {_OBSERVED.format('')}")
    for node in sizes_of_values(program)[:1]:
        raise UserError(f"{written(node, path)}: {_OF_VALUES}")
    for node, value in _values(program):
        if not isinstance(value, torch.Tensor):
            continue
        if not is_supported(value.dtype):
            dtype = str(value.dtype).removeprefix("torch.")
            raise UserError(
                f"{written(node, path)}: the model computes in {dtype} here, which a program cannot hold; use one of "
                f"{supported_names()}."
            )
        for size in value.shape:
            if isinstance(size, int):
                continue
            if not bound_sympy(size.node.expr, program.range_constraints).upper <= _LARGEST_SIZE:
                raise UserError(
                    f"{path}: dynamic_shapes() gives a size no upper bound, which the device's memory needs; "
                    'write torch.export.Dim("name", max=...).'
                )


def check_memory(program: ExportedProgram, path: Path) -> None:
    """Raises UserError for buffers that are parts of each other's memory if the model changes one: a program keeps each
    by itself.
    """
    held = {**program.state_dict, **program.constants}
    for one in sorted(changed_buffers(program)):
        for other in program.graph_signature.inputs_to_buffers.values():
            if other != one and _overlap(held[one], held[other]):
                raise UserError(
                    f"{path}: the buffers {one!r} and {other!r} share memory, and the model changes {one!r}, which a "
                    f"program can't hold: keep the larger of them, and take the other from it in forward()."
                )


def changed_buffers(program: ExportedProgram) -> set[str]:
    """Returns the names of the buffers that a captured model writes to, directly or through a view."""
    names, owners, changed = program.graph_signature.inputs_to_buffers, dict[Node, str](), set[str]()
    for node in program.graph.nodes:
        source = node.args[0] if node.args else None
        if node.op == "placeholder" and node.name in names:
            owners[node] = names[node.name]
        elif isinstance(source, Node) and source in owners and isinstance(node.target, OpOverload):
            # A view of a buffer, or what was written to one.
            if any(each.alias_info is not None for each in node.target._schema.returns):
                owners[node] = owners[source]
            if node.target._schema.is_mutable:
                changed.add(owners[source])
    return changed


def sizes_of_values(program: ExportedProgram) -> list[Node]:
    """Lists the nodes of a captured program that have a size which depends on the values in a tensor."""
    return [
        node
        for node, value in _values(program)
        if isinstance(value, torch.Tensor) and any(map(free_unbacked_symbols, value.shape))
    ]


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have elements in the same memory."""
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr() or not one.numel() or not other.numel():
        return False
    begins, ends = zip(*((each.data_ptr(), each.data_ptr() + each.nbytes) for each in (one, other)), strict=True)
    return bool(max(begins) < min(ends))


def check_examples(inputs: Sequence[torch.Tensor], program: Program, path: Path) -> None:
    """Raises UserError for example inputs whose shapes are not the largest ones of a program with dynamic shapes."""
    plan = program.execution_plan[0]
    for index, (tensor, value) in enumerate(zip(inputs, plan.inputs, strict=True)):
        largest = list(plan.values[value].val.sizes)
        if list(tensor.shape) != largest:
            raise UserError(
                f"{path}: example_inputs() gives input {index} the shape {list(tensor.shape)}; with dynamic_shapes() "
                f"it must be the largest one, {largest}."
            )


def explain_lowering(program: ExportedProgram, path: Path, error: Exception) -> Exception:
    """Names operators without an ExecuTorch form as the reason of a lowering error; returns other errors unchanged."""
    names = {f"{space}::{name}" for space, name in re.findall(r"torch\._ops\.(\w+)\.(\w+)\.\w+ is not in", str(error))}
    decomposed = run_decompositions(program, torch.export.default_decompositions())
    nodes = [node for node in decomposed.graph.nodes if _operator(node) in names]
    return _unsupported(nodes, path) if nodes else error


def check_out_variants(program: ExportedProgram, path: Path) -> None:
    """Raises UserError for operators without a variant that writes into given memory, and for those of PyTorch's that
    ExecuTorch has no kernel of, and that are not made of others: there are kernels here of some that are.
    """
    missing = []
    known, made_of_others = set(_get_operator_names()), torch.export.default_decompositions()
    for node in program.graph.nodes:
        if not isinstance(node.target, EdgeOpOverload):
            continue
        try:
            out = node.target.to_out_variant()
        except RuntimeError:
            missing.append(node)
            continue
        if out.namespace == "aten" and out.name() not in known and node.target._op not in made_of_others:
            missing.append(node)
    if missing:
        raise _unsupported(missing, path)


def check_upstream_kernels(program: ExportedProgram, missing: Collection[str], path: Path) -> None:
    """Raises UserError if the runtime of ExecuTorch's wheel, which programs for this machine run on, lacks kernels.

    Args:
      program: as it was emitted.
      missing: the names of the operators that the runtime lacks.
    """
    if missing:
        calls = [node for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
        nodes = [node for node in calls if node.target.name() in missing]
        raise _unsupported(
            nodes,
            path,
            "ExecuTorch's runtime has no kernel for",
            'Express it by other functions of torch, or leave it to a core with backend = "portable".',
        )


def _unsupported(
    nodes: list[Node],
    path: Path,
    missing: str = "there is no kernel for",
    advice: str = "Express it by other functions of torch, or make it an operator of your own with a kernel: "
    "docs/own_operator.md.",
) -> UserError:
    advice = next(filter(None, (_instead(_operator(node)) for node in nodes)), advice)
    found = sorted({f"  {_named(node)}{written(node, path)}" for node in nodes})
    return UserError("\n".join([f"{path}: {missing} what the model does here:", *found, f"  {advice}"]))


# The advice about operators that have no form, by words of their names.
_INSTEAD = {
    "loss": "A loss is for training: leave it out of forward(), and return what it is computed from.",
    "qr|lu|svd|svdvals|eigh?|pinv|lstsq": (
        "Matrices of up to 16 rows have torch.linalg.inv(), solve(), cholesky() and det(): the least squares solution "
        "of A x = b is solve(A.mT @ A, A.mT @ b). Decompositions of constants are computed in the build. "
        "An operator of your own with a kernel is another way: docs/own_operator.md."
    ),
}


def _instead(operator: str) -> str:
    """Returns the advice about an operator that has no form, if there is one that suits it."""
    words = re.split(r"\W|_", operator)
    return next((text for names, text in _INSTEAD.items() if any(re.fullmatch(names, word) for word in words)), "")


def written(node: Node, path: Path) -> str:
    """Returns where a node comes from, with the source line: `layer (Class) at file:line (the line's text)`."""
    place = origin(node, path)
    name = place.rpartition(" at ")[2]
    # origin() reports only the file name of an absolute path.
    return place + (source_line(name) or source_line(str(path.parent / name)))


_PLACE = re.compile(r"(?P<layer>\S+) \((?P<kind>[^)]*)\)(?: at (?P<line>.*))?")
_LINE = re.compile(r"(?P<file>.+):(?P<number>\d+)")
# The number of lines or layers that a message names for each class.
_NAMED = 3


def in_floating_point(places: Iterable[str], reasons: Mapping[str, str], model: str = "the model") -> list[str]:
    """Lists the layers of a model that stay in floating point, one line for each class of layers in the user's code.

    Args:
      places: source locations, as origin() returns them.
      reasons: maps a location to the reason why an operator with an int8 form stays in floating point: `for fewer
        instructions`.
      model: the class of the model itself, whose own lines belong to none of its layers.
    """
    found: dict[str, list[str]] = {}
    unwritten = 0
    for place in dict.fromkeys(places):
        layer = _PLACE.fullmatch(place)
        if layer is None and _LINE.fullmatch(place) is None:
            unwritten += 1
        else:
            found.setdefault(layer["kind"] if layer else model, []).append(place)
    lines = []
    for kind, written_there in found.items():
        matches = [_PLACE.fullmatch(place) for place in written_there]
        names = list(dict.fromkeys(match["layer"] for match in matches if match))
        at = [match["line"] if match else place for match, place in zip(matches, written_there, strict=True)]
        shown = f"{names[0]} ({kind})" if len(names) == 1 else kind
        shown += _at(list(dict.fromkeys(line for line in at if line)))
        counts = Counter(reasons[place] for place in written_there if place in reasons)
        parts = [("partly " if count < len(written_there) else "") + why for why, count in counts.items()]
        reason = ", " + ", ".join(parts) if parts else ""
        which = ": " + some_of(names) if len(names) > 1 else ""
        lines.append(f"{shown} stays in floating point{reason}{which}")
    if unwritten:
        lines.append(f"in floating point are operators that no line of the model has written, too: {unwritten}")
    return lines


def _at(lines: list[str]) -> str:
    """Formats source lines as ` at file:line, line`."""
    numbers: dict[str, list[str]] = {}
    for line in lines[:_NAMED]:
        file, _, number = line.rpartition(":")
        numbers.setdefault(file, []).append(number)
    shown = ", ".join(f"{file}:{', '.join(found)}" for file, found in numbers.items())
    more = len(lines) - _NAMED
    return f" at {shown}" + (f" and {more} more lines" if more > 0 else "") if lines else ""


def some_of(names: Sequence[str]) -> str:
    """Returns the first names of a list, and the number of the others."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


# Namespaces of operators that users don't write by name.
_INSIDE = ("aten", "dim_order_ops", "prims", "quantized_decomposed", "torch_fusion")


def _named(node: Node) -> str:
    """Returns `name from `: the name of an operator that isn't PyTorch's, or of the function that the model called, as
    far as torch knows it. Several functions on one line have the same place.
    """
    name = _operator(node)
    if name.partition("::")[0] in _INSIDE or "::" not in name:
        kind, _, name = node.meta.get("torch_fn", ("", ""))[1].rpartition(".")
        if not name or name.startswith("_"):
            return ""
        name = re.sub(r"^(fft|linalg|special)_", r"\1.", name)
        name = {"method_descriptor": "Tensor.", "builtin_function_or_method": "torch."}.get(kind, "") + name
    return f"{name} from "


def _values(program: ExportedProgram) -> Iterator[tuple[Node, Any]]:
    for node in program.graph.nodes:
        value = node.meta.get("val")
        for item in value if isinstance(value, (tuple, list)) else [value]:
            yield node, item


def _operator(node: Node) -> str:
    """Returns the name of the called operator, such as `aten::add`, or the name of a node that calls none."""
    schema = getattr(node.target, "_schema", None)
    return schema.name if schema is not None else node.name


def source_line(place: str) -> str:
    """Returns ` (the line's text)` for `file:line`, or an empty string if the file doesn't exist here."""
    name, _, number = place.rpartition(":")
    if not number.isdigit() or not Path(name).is_file():
        return ""
    lines = Path(name).read_text(encoding="utf-8", errors="replace").splitlines()
    return f" (`{lines[int(number) - 1].strip()}`)" if int(number) <= len(lines) else ""
