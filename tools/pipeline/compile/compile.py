"""Compiles a method of a program to C++: NAME.h for C and C++, NAME.hpp for C++, and NAME.cpp.

What they call of the kernels is what the runtime would call, with the same memory, so that they compute the same to the
bit. Beside them are what images need: NAME.plan.json, the memory that the method takes; NAME_pte.h,
which describes its inputs and outputs; and NAME_pte.S with an example of both.
"""

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.artifacts.board.board import read_board
from tools.artifacts.core.core import POINTER_SIZES
from tools.artifacts.memory_plan.memory_plan import MemoryPlan, memory_plan_json
from tools.artifacts.program.program import load, output_places, unwritten_bytes
from tools.pipeline.compile.chain import LAYERS, MEMORY, STREAMED
from tools.pipeline.compile.checks import check_method
from tools.pipeline.compile.fusion import arena_and_inputs, fusion_of, split
from tools.pipeline.compile.header import c_header, cpp_header
from tools.pipeline.compile.in_place import use_in_place
from tools.pipeline.compile.layout import kind_of, method_layout
from tools.pipeline.compile.model import Model
from tools.pipeline.compile.names import name_problem
from tools.pipeline.compile.program import Method, make_method
from tools.pipeline.compile.source import source
from tools.pipeline.compile.stream import check_streamed, stream_rows
from tools.pipeline.link.header import Embedded
from tools.pipeline.link.header import header as image_header
from tools.pipeline.link.interface import find_method, interface_of, read_example, read_program_manifest
from tools.pipeline.link.source import source as image_source
from tools.pipeline.registry.calls import operator_uses
from tools.pipeline.registry.catalog import read_catalog
from tools.pipeline.registry.registry import origins_of, select
from tools.quiet.console import UserError
from tools.quiet.tool import option_parser, run_tool

_HASH_DIGITS = 16


def compile_method(
    program: Path,
    core: str,
    method: str,
    name: str,
    manifest: Path,
    catalogs: Sequence[Path] = (),
    golden: Path | None = None,
    memory: str = LAYERS,
    room: int | None = None,
    rooms: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """Compiles a method of a program for a core.

    Args:
        program: the .pte.
        core: a key of tools.artifacts.core.core.POINTER_SIZES.
        method: the method.
        name: a C identifier: prefix of the functions, and the C++ namespace, see cpp_namespace().
        manifest: the method's manifest.json.
        catalogs: files with kernels of users' own operators.
        golden: the golden file with an example; None for no example.
        memory: one of MEMORY.
        room: the bytes of memory for the arena and the inputs; None if they aren't known.
        rooms: the bytes of several memories by their names, the fastest one first, over which the arena is split.

    Returns:
        file name -> text.

    Raises:
        UserError: an input is missing, of another kind or does not fit the others; or the program needs features that
          compiled models lack.
    """
    if problem := name_problem(name):
        raise UserError(f"name '{name}' {problem}")
    file = load(program)
    plan = find_method(file, method)
    interface = interface_of(program, plan, returns_numbers=True)
    read = read_program_manifest(manifest, core, interface)
    use_in_place(file, plan)
    layout = method_layout(plan)
    selected = select([operator_uses(file.program)], read_catalog(own=catalogs), origins_of([read]))
    kernels = {entry.kernel.operator: entry for entry in selected}
    check_method(file, layout, {name: entry.kernel for name, entry in kernels.items()})
    if memory == STREAMED:
        stream_rows(file, plan)
        layout = method_layout(plan)
    made = make_method(file, layout, read)
    whole = arena_and_inputs(made)
    fusion = split(made, memory, rooms) if rooms else fusion_of(made, memory, room)
    if memory == STREAMED:
        check_streamed(file, fusion)
    if fusion.chains or fusion.memories:
        made = make_method(file, method_layout(plan), read, fusion)
        if memory == LAYERS and not rooms:
            # Bazel shows the standard output of a build action.
            print(
                f"{name}: its arena and inputs would take {whole:,} bytes, and the board has {room:,}; so layers pass "
                f'each other rows of images, as with memory = "smallest": {arena_and_inputs(made):,} bytes'
            )
    arenas = _memory_plan(core, made)
    example = read_example(golden, interface) if golden else None
    embedded = Embedded(name, method, name, file.data, arenas, interface, read, example is not None)
    bounds = [border.bounds for border in read.inputs]
    model = Model(name, core, read.core, read.keeps_state, made, kernels, bounds)
    return {
        f"{name}.plan.json": memory_plan_json(arenas),
        f"{name}_pte.h": image_header(embedded),
        f"{name}_pte.S": image_source(name, None, example),
        f"{name}.h": c_header(name, core, made, read, hashlib.sha256(file.data).hexdigest()[:_HASH_DIGITS]),
        f"{name}.hpp": cpp_header(name, made, read),
        f"{name}.cpp": source(model),
    }


def _memory_plan(core: str, method: Method) -> MemoryPlan:
    """Returns the memory of an instance; its tensors and numbers correspond to those in a loaded method's arena."""
    values = method.plan.values or []
    has_more = len(method.planned) >= len(method.plan.non_const_buffer_sizes or [])
    return MemoryPlan(
        core=core,
        method=method.kept_size(POINTER_SIZES[core]),
        planned=method.planned,
        temp=method.scratch_size,
        operators=len(method.plan.operators or []),
        values=len(values),
        tensors=sum(kind_of(value) == "Tensor" for value in values),
        instructions=len(method.layout.code),
        outputs=output_places(method.plan),
        # Inputs and outputs without planned memory follow the planned memory.
        unwritten=0 if has_more else unwritten_bytes(method.plan, len(method.planned)),
        memories=dict(method.fusion.memories),
    )


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("compile", __doc__)
    parser.add_argument("--program", type=Path, required=True, help="the .pte")
    parser.add_argument("--core", required=True, choices=list(POINTER_SIZES), help="the core to compile for")
    parser.add_argument("--method", default="forward", help="the method of the program")
    parser.add_argument("--name", required=True, help="a C identifier: prefix of the functions")
    parser.add_argument("--manifest", type=Path, required=True, help="the method's manifest.json")
    parser.add_argument(
        "--catalog", type=Path, action="append", default=[], help="kernels of users' own operators (.yaml); repeatable"
    )
    parser.add_argument("--golden", type=Path, help="inputs and eager outputs (.npz): the first sample is the example")
    parser.add_argument("--memory", choices=MEMORY, default=LAYERS, help="what layers pass to each other")
    parser.add_argument("--board", type=Path, help="board.json: --memory is `smallest` if the arena doesn't fit there")
    parser.add_argument(
        "--arena-memory",
        action="append",
        default=[],
        help="one of several memories of the board for the arena, the fastest first; repeat",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder of what is written")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> None:
    board = read_board(arguments.board) if arguments.board else None
    texts = compile_method(
        arguments.program,
        arguments.core,
        arguments.method,
        arguments.name,
        arguments.manifest,
        arguments.catalog,
        arguments.golden,
        arguments.memory,
        board.room() if board else None,
        {name: board.room(name) for name in arguments.arena_memory} if board else None,
    )
    for name, text in texts.items():
        (arguments.output / name).write_text(text, encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("compile", _run, _parse(argv))
