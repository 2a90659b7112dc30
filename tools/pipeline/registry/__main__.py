"""Writes the table of the kernels that programs use: exactly their operators, dtypes and variants."""

import argparse
import functools
import operator
from pathlib import Path

from tools.artifacts.manifest.manifest import read_manifest
from tools.artifacts.program import read
from tools.pipeline.registry.calls import operator_uses
from tools.pipeline.registry.catalog import read_catalog
from tools.pipeline.registry.parts import ALL_PARTS, Part, needed_parts
from tools.pipeline.registry.registry import origins_of, registry_source, select, select_all, select_backends
from tools.quiet.tool import run_tool


def _run(options: argparse.Namespace) -> None:
    catalog = read_catalog(own=options.catalog)
    if options.all:
        selected = select_all(catalog)
        parts = ALL_PARTS
    else:
        programs = [read(path) for path in options.program]
        parts = functools.reduce(operator.or_, map(needed_parts, programs), Part(0))
        origins = origins_of(map(read_manifest, options.manifest))
        selected = select(map(operator_uses, programs), catalog, origins)
        needed = sorted(
            {str(entry.id) for program in programs for plan in program.execution_plan for entry in plan.delegates or []}
        )
    backends = None if options.all else select_backends(needed, options.backend)
    options.output.write_text(registry_source(selected, parts, backends))


def main(arguments: list[str] | None = None) -> int:
    """Parses the command line, writes the registry, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="registry", description=__doc__)
    parser.add_argument("--program", type=Path, action="append", default=[], help="a program (.pte); repeatable")
    parser.add_argument("--manifest", type=Path, action="append", default=[], help="a program's manifest (.json)")
    parser.add_argument("--all", action="store_true", help="every kernel with every dtype")
    parser.add_argument(
        "--catalog", type=Path, action="append", default=[], help="kernels of users' own operators (.yaml); repeatable"
    )
    parser.add_argument(
        "--backend",
        nargs=3,
        action="append",
        default=[],
        metavar=("ID", "HEADER", "OBJECT"),
        help="a backend for delegates: its name in programs, its header and its object; repeatable",
    )
    parser.add_argument("--output", type=Path, required=True, help="where the C++ source goes")
    options = parser.parse_args(arguments)
    if options.all == bool(options.program):
        parser.error("give either --all or --program")

    return run_tool("registry", _run, options)
