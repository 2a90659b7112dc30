"""Makes the programs of the runtime's tests."""

import argparse
from pathlib import Path

from tools.quiet.console import Console, run_quietly


def main() -> int:
    parser = argparse.ArgumentParser(prog="make_programs", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="the folder to write them into")
    parser.add_argument("--log", type=Path, required=True, help="what torch prints on import and export goes here")
    options = parser.parse_args()

    def step(_: Console) -> None:
        # Imported here: torch and ExecuTorch print warnings when they are imported.
        from runtime.tests.make_programs import make_programs

        make_programs(options.output)

    return run_quietly(step, options.log, "make_programs")
