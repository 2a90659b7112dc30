"""Embeds a program in an image: what memory it takes there, and its bytes, in one step.

For each method NAME it writes NAME.plan.json, the arenas for loading and running on the core; NAME_pte.h, the header
for applications; and NAME_pte.S, which contains the program, or for a further method only its example.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.artifacts.core.core import POINTER_SIZES
from tools.artifacts.memory_plan.memory_plan import memory_plan_json
from tools.artifacts.program.program import load
from tools.pipeline.link.backends import Backend, arena_alignment
from tools.pipeline.link.header import ALIGNMENT, Embedded, header
from tools.pipeline.link.interface import find_method, interface_of, read_example, read_program_manifest
from tools.pipeline.link.plan import make_plan
from tools.pipeline.link.source import source
from tools.quiet.console import UserError
from tools.quiet.tool import option_parser, run_tool


@dataclass(frozen=True)
class Method:
    """A method to link.

    Attributes:
        method: its name in the program.
        name: the name of its files, a C identifier.
        manifest: its manifest.json.
        golden: the golden file with its example; None: the image has none.
    """

    method: str
    name: str
    manifest: Path
    golden: Path | None = None


def link(
    program: Path, core: str, methods: Sequence[Method], backends: Sequence[Backend] = (), memories: Sequence[str] = ()
) -> dict[str, str]:
    """Links methods of a program for a core.

    Args:
        program: the .pte.
        core: the core of the image.
        methods: forward() first, whose source has the program.
        backends: what runs the program's delegates.
        memories: the board's memories besides the arena's that the program was split over.

    Returns:
        file name -> text.

    Raises:
        UserError: an input is missing, of another kind or does not fit the others, or the runtime can't run the
          program.
    """
    for method in methods:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", method.name):
            raise UserError(f"name '{method.name}' is no C identifier; use letters, digits and underscores")
    file = load(program)
    name = methods[0].name
    tables = [find_method(file, method.method) for method in methods]
    plans = [make_plan(file, table, core, backends, memories) for table in tables]

    texts: dict[str, str] = {}
    for method, table, plan in zip(methods, tables, plans, strict=True):
        interface = interface_of(program, table)
        manifest = read_program_manifest(method.manifest, core, interface)
        example = read_example(method.golden, interface) if method.golden else None
        embedded = Embedded(
            method.name,
            method.method,
            name,
            file.data,
            plan,
            interface,
            manifest,
            example is not None,
            arena_alignment(table, ALIGNMENT),
        )
        texts[f"{method.name}.plan.json"] = memory_plan_json(plan)
        texts[f"{method.name}_pte.h"] = header(embedded)
        texts[f"{method.name}_pte.S"] = source(
            method.name, program if method is methods[0] else None, example, plan.memories
        )
    return texts


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("link", __doc__)
    parser.add_argument("--program", type=Path, required=True, help="the .pte")
    parser.add_argument("--core", required=True, choices=list(POINTER_SIZES), help="the core of the image")
    parser.add_argument(
        "--method",
        nargs=3,
        action="append",
        required=True,
        metavar=("METHOD", "NAME", "MANIFEST"),
        help="a method to link, a C identifier for it, and its manifest.json; the first one's source has the program",
    )
    parser.add_argument(
        "--golden",
        nargs=2,
        action="append",
        default=[],
        metavar=("METHOD", "FILE"),
        help="inputs of a method and eager outputs (.npz): the first sample is embedded as an example",
    )
    parser.add_argument(
        "--backend",
        nargs=3,
        action="append",
        default=[],
        metavar=("ID", "METHOD", "TEMP"),
        help="a backend of the image, and the bytes of the method and temporary arena that a delegate of it takes",
    )
    parser.add_argument(
        "--arena-memory", action="append", default=[], help="a memory of one of the last planned buffers; repeat"
    )
    parser.add_argument("--output", type=Path, required=True, help="folder of what is written")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> None:
    goldens = {method: Path(file) for method, file in arguments.golden}
    methods = [Method(method, name, Path(manifest), goldens.get(method)) for method, name, manifest in arguments.method]
    backends = [Backend(name, int(method), int(temp)) for name, method, temp in arguments.backend]
    texts = link(arguments.program, arguments.core, methods, backends, arguments.arena_memory)
    for name, text in texts.items():
        (arguments.output / name).write_text(text, encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("link", _run, _parse(argv))
