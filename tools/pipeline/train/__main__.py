"""Trains the model of a model file and writes its weights."""

import argparse
import sys
from pathlib import Path

from tools.pipeline.declared_reads.declared_reads import confine_process, declared_reads
from tools.quiet.console import Console, end_process, run_quietly


def main(arguments: list[str] | None = None) -> int:
    """Parses the command line, trains, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="train", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="the model file (Python)")
    parser.add_argument(
        "--data", type=Path, action="append", default=[], help="what else the model file may read; may be repeated"
    )
    parser.add_argument("--entry", default="", help="which of the models that the file describes, if it has several")
    parser.add_argument("--output", type=Path, required=True, help="where the weights go")
    parser.add_argument("--log", type=Path, help="what torch prints on import goes here (default: OUTPUT.log)")
    parser.add_argument(
        "--path", type=Path, action="append", default=[], help="a folder that the model file imports from; repeatable"
    )
    parser.add_argument(
        "--packages", type=Path, action="append", default=[], help="a folder of installed packages; repeatable"
    )
    options = parser.parse_args(arguments)
    # They are part of the environment, like this tool's own packages, which they must not shadow.
    sys.path += [str(folder.absolute()) for folder in options.packages]

    def step(console: Console) -> None:
        # Imported here: torch prints warnings on import.
        from tools.pipeline.train.train import train

        declared = [options.model, *options.data]
        # When called with arguments, the process belongs to another program.
        if arguments is None:
            confine_process(declared)
        with declared_reads(declared):
            weights = train(options.model, console, options.path, options.entry)
        options.output.write_bytes(weights)

    return run_quietly(step, options.log or options.output.with_name(options.output.name + ".log"), "train")


if __name__ == "__main__":
    end_process(main())
