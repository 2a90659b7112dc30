"""Writes a program whose planned memory is in several memories of a board, for an image that loads it.

It does to all methods of a .pte what tools/pipeline/compile does to a compiled model: their first planned buffer is in
the last memory, and the following ones are in the others, in their order.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from executorch.exir import schema

from tools.artifacts.board.board import read_board
from tools.artifacts.manifest.manifest import read_manifest
from tools.artifacts.program.program import load
from tools.pipeline.compile.fusion import split
from tools.pipeline.compile.layout import method_layout
from tools.pipeline.compile.program import make_method
from tools.pipeline.export.plan.serialize import serialize
from tools.pipeline.link.interface import find_method
from tools.quiet.tool import option_parser, run_tool


def split_program(program: Path, manifests: Mapping[str, Path], rooms: Mapping[str, int]) -> bytes:
    """Returns the .pte with its tensors in several memories.

    Args:
        manifests: the manifest of each method.
        rooms: the bytes of each memory by its name, the fastest one first.

    Raises:
        UserError: an input is missing or of another kind, a method can't be split, or doesn't fit.
    """
    file = load(program)
    for name, manifest in manifests.items():
        plan = find_method(file, name)
        split(make_method(file, method_layout(plan), read_manifest(manifest)), None, rooms)
        for value in plan.values or []:
            value.val = _as_exported(value.val)
        for operator in plan.operators or []:
            operator.overload = operator.overload or ""
    return serialize(file.program, file.constants())


def _as_exported(value: Any) -> Any:
    """Returns a value of a program as ExecuTorch's class of the same name and fields, which the serializer knows."""
    if value is None:
        return schema.Null()
    made = object.__new__(getattr(schema, type(value).__name__))
    made.__dict__.update(vars(value))
    return made


def _run(arguments: argparse.Namespace) -> None:
    board = read_board(arguments.board)
    rooms = {name: board.room(name) for name in arguments.arena_memory}
    manifests = {method: Path(manifest) for method, manifest in arguments.method}
    arguments.output.write_bytes(split_program(arguments.program, manifests, rooms))


def main(argv: Sequence[str] | None = None) -> int:
    parser = option_parser("split", __doc__)
    parser.add_argument("--program", type=Path, required=True, help="the .pte")
    parser.add_argument(
        "--method", nargs=2, action="append", required=True, metavar=("METHOD", "MANIFEST"), help="each method; repeat"
    )
    parser.add_argument("--board", type=Path, required=True, help="board.json")
    parser.add_argument(
        "--arena-memory", action="append", required=True, help="a memory of the board, the fastest first; repeat"
    )
    parser.add_argument("--output", type=Path, required=True, help="the .pte to write")
    return run_tool("split", _run, parser.parse_args(argv))
