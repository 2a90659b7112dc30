"""Describes a method of a program as a graph: its operator calls, and where its tensors are in an image's memory."""

import argparse
import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from tools.artifacts.board.board import read_board
from tools.artifacts.graph.graph import Graph, Step, Value, graph_json
from tools.artifacts.manifest.manifest import Manifest, read_manifest
from tools.artifacts.program.program import DTYPES, ELEMENT_SIZES, ProgramFile, Tensor, aligned, calls_of, load
from tools.artifacts.program.program_schema import DelegateCall, KernelCall, OptionalTensorList, TensorList
from tools.pipeline.compile.chain import LAYERS, MEMORY, STREAMED, Fusion
from tools.pipeline.compile.fusion import fusion_of, split
from tools.pipeline.compile.in_place import use_in_place
from tools.pipeline.compile.layout import method_layout
from tools.pipeline.compile.program import make_method
from tools.pipeline.compile.stream import stream_rows
from tools.pipeline.link.interface import find_method
from tools.quiet.console import UserError
from tools.quiet.tool import run_tool

# Operators in these namespaces take their scratch memory as tensors of bytes.
_WITH_SCRATCH = ("cortex_m::", "torch_fusion::")


def make_graph(
    file: ProgramFile,
    method: str,
    manifest: Manifest,
    memory: str = LAYERS,
    room: int | None = None,
    rooms: Mapping[str, int] | None = None,
) -> Graph:
    """The graph of a method.

    Args:
        memory, room, rooms: those of compile_method(). Of several memories one follows the other, the last one first.

    Raises:
        UserError: there is no such method, or the manifest is another program's.
    """
    plan = find_method(file, method)
    use_in_place(file, plan)
    fusion, is_streamed = Fusion(), memory == STREAMED
    if is_streamed:
        stream_rows(file, plan)
    if memory != LAYERS or room is not None or rooms:
        made = make_method(file, method_layout(plan), manifest)
        fusion = split(made, memory, rooms) if rooms else fusion_of(made, memory, room)
    if is_streamed:
        plan.chains[0].instructions.pop(0)
    calls = [call for call in calls_of(plan) if isinstance(call, KernelCall | DelegateCall)]
    kernel_calls = sum(isinstance(call, KernelCall) for call in calls)
    if kernel_calls != len(manifest.calls):
        raise UserError(
            f"{file.path} has {kernel_calls} operator calls and its manifest {len(manifest.calls)}; pass the files of "
            "one program"
        )
    sizes = (plan.non_const_buffer_sizes or [])[1:]
    starts = list(accumulate(map(aligned, sizes), initial=0))
    tensors = _tensors(file, plan, starts, manifest, fusion)
    written = {*(plan.inputs or [])}
    steps: list[Step] = []
    rows = iter(range(kernel_calls))
    for call in calls:
        is_kernel = isinstance(call, KernelCall)
        row = next(rows) if is_kernel else None
        arguments = [[index for index in _indices(plan, value) if index in tensors] for value in call.args or []]
        every = list(dict.fromkeys(index for found in arguments for index in found))
        # An operator's call names what it returns after its arguments; a delegate's has its outputs there.
        variable = [index for index in every if tensors[index].data is None]
        writes = list(arguments[-1] if arguments else []) if is_kernel else [i for i in variable if i not in written]
        name = plan.operators[call.op_index].name if is_kernel else plan.delegates[call.delegate_index].id
        scratch = [
            index
            for index in variable
            if name.startswith(_WITH_SCRATCH) and tensors[index].dtype == "uint8" and index not in writes
        ]
        reads = [
            index
            for index in every
            if index not in scratch and (index not in writes or _reads_result(arguments, index))
        ]
        written.update(writes)
        of_manifest = manifest.calls[row] if row is not None else None
        steps.append(
            Step(
                operator=name,
                place=of_manifest.place if of_manifest else "",
                macs=of_manifest.macs if of_manifest else 0,
                row=row,
                reads=tuple(reads),
                writes=tuple(writes),
                scratch=tuple(scratch),
                made_by=of_manifest.made_by if of_manifest else "",
            )
        )
    return Graph(
        name=manifest.name,
        core=manifest.core,
        planned=starts[-1],
        inputs=tuple(index for index in plan.inputs or [] if index in tensors),
        outputs=tuple(index for index in plan.outputs or [] if index in tensors),
        tensors=tensors,
        steps=tuple(steps),
        # The rows that an application hands over are no step.
        chains=tuple(
            (max(chain.first - is_streamed, 0), chain.last - is_streamed)
            for chain in fusion.chains
            if chain.last >= is_streamed
        ),
    )


def _reads_result(arguments: Sequence[Sequence[int]], index: int) -> bool:
    """Whether a call's result is among its operands, too: besides as what it writes to and as what it returns."""
    return sum(index in found for found in arguments) > 2


def _indices(plan: Any, value: int) -> list[int]:
    """The tensors of an argument."""
    content = plan.values[value].val
    if isinstance(content, TensorList | OptionalTensorList):
        return [index for index in content.items or [] if index >= 0]
    return [value] if isinstance(content, Tensor) else []


def _tensors(
    file: ProgramFile, plan: Any, starts: Sequence[int], manifest: Manifest, fusion: Fusion
) -> dict[int, Value]:
    constants = file.constants()
    found = {}
    indices = [index for index, value in enumerate(plan.values or []) if isinstance(value.val, Tensor)]
    parameters = dict(zip(indices, manifest.parameters, strict=False))
    for index in indices:
        tensor = plan.values[index].val
        place = tensor.allocation_info
        dtype = tensor.scalar_type.name
        is_constant = tensor.data_buffer_idx > 0 and place is None
        has_offset = place is not None and 0 < place.memory_id < len(starts)
        shape = tuple(tensor.sizes or ())
        nbytes = math.prod(shape) * ELEMENT_SIZES.get(dtype, 0)
        lines = fusion.sizes.get(index)
        found[index] = Value(
            dtype=DTYPES[dtype].pytorch if dtype in DTYPES else dtype.lower(),
            shape=shape,
            nbytes=lines[0] if lines else nbytes,
            offset=starts[place.memory_id - 1] + place.memory_offset_low if has_offset else None,
            data=tensor.data_buffer_idx if is_constant else None,
            stored=len(constants[tensor.data_buffer_idx]) if is_constant else 0,
            parameter=parameters.get(index, ""),
            kept=lines[1] if lines else None,
        )
    return found


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="graph", description=__doc__)
    parser.add_argument("--program", type=Path, required=True, help="the .pte")
    parser.add_argument("--method", default="forward", help="the method of the program")
    parser.add_argument("--manifest", type=Path, required=True, help="the method's manifest.json")
    parser.add_argument("--memory", choices=MEMORY, default=LAYERS, help="what layers pass to each other")
    parser.add_argument("--board", type=Path, help="board.json of the image")
    parser.add_argument(
        "--arena-memory", action="append", default=[], help="one of several memories of the image's arena; repeat"
    )
    parser.add_argument("--output", type=Path, required=True, help="NAME.graph.json to write")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> None:
    manifest = read_manifest(arguments.manifest)
    board = read_board(arguments.board) if arguments.board else None
    room = board.room() if board else None
    rooms = {name: board.room(name) for name in arguments.arena_memory} if board else {}
    graph = make_graph(load(arguments.program), arguments.method, manifest, arguments.memory, room, rooms)
    arguments.output.write_text(graph_json(graph), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("graph", _run, _parse(argv))
