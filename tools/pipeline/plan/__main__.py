"""Command line of //tools/pipeline/plan."""

import argparse
import sys
from pathlib import Path

from tools.artifacts.core.core import POINTER_SIZES
from tools.artifacts.memory_plan.memory_plan import memory_plan_json
from tools.quiet.tool import run_tool

from .plan import make_plan


def _run(arguments: argparse.Namespace) -> None:
    plan = make_plan(arguments.program, arguments.core, arguments.method, arguments.prelinked)
    arguments.output.write_text(memory_plan_json(plan), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="plan", description="Computes the sizes of the arenas that a program needs.")
    parser.add_argument("--program", type=Path, required=True, help="the .pte file")
    parser.add_argument("--core", required=True, choices=list(POINTER_SIZES), help="the core that it will run on")
    parser.add_argument("--method", default="forward", help="the method, where the program has several")
    parser.add_argument(
        "--prelinked", action="store_true", help="the program is linked at build time, not loaded as .pte"
    )
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write, sizes in bytes")
    return run_tool("plan", _run, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
