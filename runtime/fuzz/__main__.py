"""Fuzzes the runtime with programs made of the models', for minutes or hours, or runs one program again."""

import argparse
import os
from pathlib import Path

from tools.quiet.console import user_path
from tools.quiet.tool import run_tool

from .fuzz import explain, fuzz, replay, table


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, help="how long (default: 10, if --runs is not given)")
    parser.add_argument("--runs", type=int, help="how many programs")
    parser.add_argument("--seed", type=int, default=1, help="other numbers give other programs (default: 1)")
    parser.add_argument(
        "--output",
        type=user_path,
        default=user_path("fuzz_faults"),
        help="folder for programs that give a fault (default: %(default)s)",
    )
    parser.add_argument(
        "--replay", type=user_path, metavar="FILE", help="run this program, with what the sanitizers say of it"
    )
    return run_tool("fuzz", _run, parser.parse_args(arguments))


def _run(options: argparse.Namespace) -> int:
    fuzzer, seeds = Path(os.environ["FUZZER"]), Path(os.environ["SEEDS"])
    if options.replay is not None:
        return replay(fuzzer, seeds, options.replay)
    minutes = options.minutes if options.minutes is not None else 0 if options.runs is not None else 10
    outcome = fuzz(
        fuzzer,
        seeds,
        options.output,
        runs=options.runs if options.runs is not None else -1,
        seconds=round(60 * minutes),
        random_seed=options.seed,
        say=lambda line: print(line, flush=True),
    )
    print(table(outcome))
    if outcome.interrupted:
        # Prints the counts so far; then behaves like every tool.
        raise KeyboardInterrupt
    if outcome.reproducer is not None:
        print(explain(outcome, seeds))
        return 1
    return 0
