"""Defines execution environments: where an image runs, so that its outputs can be compared with PyTorch's.

QEMU and the board simulator are environments; verify_main() provides the command line of one. All have the same
options, messages and exit status: 0 if the image ran and, with --test, there are no problems.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from tools.artifacts.board.board import Board, read_board
from tools.artifacts.golden.golden import Golden, read_golden
from tools.quiet.console import UserError, printable, user_path
from tools.quiet.tool import option_parser, run_tool
from tools.verify.environment.comparison import accuracy, check_accuracy, compare, table


@dataclass(frozen=True)
class Run:
    """One run of an image.

    Attributes:
        console: its output.
        lines: measurements, for the user to read.
        problems: problems, one sentence each.
        comparable: whether it ended in a way that further runs make sense.
    """

    console: str
    lines: tuple[str, ...]
    problems: tuple[str, ...]
    comparable: bool = True


@dataclass(frozen=True)
class SampleRun:
    """The results of an image for samples of a golden file.

    Attributes:
        samples: their indices among all samples.
        outputs: an array per output with a leading axis of these samples, as from Golden.outputs_in_memory(); empty if
          the image failed, or does not run on them.
        lines, problems: see Run.
    """

    samples: tuple[int, ...]
    outputs: tuple[np.ndarray, ...]
    lines: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Environment(Protocol):
    """Somewhere one image runs."""

    @property
    def kind(self) -> str:
        """Returns how the board runs there: `emulated`, `simulated`."""

    def run_example(self) -> Run:
        """Runs the image on its embedded example: it compares the results itself, and prints its output.

        Raises:
            UserError: it cannot be run, or it failed so that there is nothing to show.
        """

    def run_samples(self, golden: Golden, most: int | None) -> SampleRun:
        """Runs the image on samples of a golden file.

        Args:
            golden: all samples.
            most: how many to run at the most; None: as many as the environment has time for.

        Raises:
            UserError: as run_example().
        """


# Makes an environment from the options, the board, and the golden data, if there is any.
MakeEnvironment = Callable[[argparse.Namespace, Board, Golden | None], Environment]


def spread(golden: Golden, most: int | None) -> list[int]:
    """Indices of at most `most` samples, spread over all: of an evaluation set sorted by label, the first ones are no
    sample. Of a stream they are the first ones, since each continues the one before.
    """
    count = golden.samples if most is None else min(most, golden.samples)
    if golden.is_stream:
        return list(range(count))
    return [int(index) for index in np.linspace(0, golden.samples - 1, count).astype(int)]


def boards() -> dict[str, Path]:
    """Returns the boards of this workspace, by name: BOARDS of the environment names their board.json files."""
    return {path.parent.name: path for path in map(Path, os.environ.get("BOARDS", "").split())}


def find_board(text: str) -> Board:
    """Returns a board by its name, or by the path of its board.json.

    Raises:
        UserError: there is no such board.
    """
    known = boards()
    if text in known:
        return read_board(known[text])
    path = user_path(text)
    if path.exists():
        return read_board(path)
    raise UserError(f"board '{text}' is unknown; give a board.json or one of: {', '.join(sorted(known)) or '(none)'}")


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of all environments."""
    image = parser.add_mutually_exclusive_group(required=True)
    image.add_argument("image", nargs="?", type=user_path, metavar="ELF", help="the image")
    image.add_argument("--elf", type=user_path, help="the same")
    parser.add_argument("--board", required=True, help="name or board.json of the board it is for")
    parser.add_argument("--golden", type=user_path, help="inputs and eager outputs (.npz) to compare with")
    parser.add_argument("--program", type=user_path, help="the .pte in the image")
    parser.add_argument("--plan", type=user_path, help="plan.json of the image")
    parser.add_argument("--method", default="forward", help="the method that the image runs")
    parser.add_argument(
        "--one-of",
        nargs=5,
        action="append",
        default=[],
        metavar=("NAME", "GOLDEN", "PLAN", "PROGRAM", "METHOD"),
        help="of an image with several models: one of them, in place of the four options before; repeat for all",
    )
    parser.add_argument("--model", default="", help="which of several models to run; default: all, one after the other")
    parser.add_argument("--samples", type=int, help="the most samples of --golden to run")
    parser.add_argument("--atol", type=float, default=1e-5, help="absolute tolerance of an output element")
    parser.add_argument("--rtol", type=float, default=1e-5, help="relative tolerance of an output element")
    parser.add_argument(
        "--min-accuracy",
        type=float,
        help="least share of the samples that is classified right, 0 to 1, on the device and in eager PyTorch",
    )
    parser.add_argument(
        "--max-accuracy-drop",
        type=float,
        default=1.0,
        help="how far the accuracy of a quantized program may be below that of the module in floating point",
    )
    parser.add_argument("--test", action="store_true", help="exit with 1 if anything is wrong")


def _compare(result: SampleRun, golden: Golden, arguments: argparse.Namespace) -> list[str]:
    """Compares outputs with PyTorch's and prints them. Returns problems."""
    part = golden.part(result.samples)
    outputs = part.outputs_from_memory(result.outputs)
    for i, (actual, expected) in enumerate(zip(outputs, part.outputs, strict=True)):
        print("\n".join(table(f"output {i}", actual, expected)))
    if golden.is_stream and part.samples < golden.samples:
        print(f"{part.samples} of {golden.samples} samples of a stream, each of which continues the one before")
    problems = compare(outputs, part, arguments.atol, arguments.rtol)
    if part.labels is not None:
        device, expected_share = (accuracy(array, part.labels) for array in (outputs[0], part.outputs[0]))
        eager = accuracy(part.eager[0], part.labels) if part.eager else expected_share
        of_all = "" if part.samples == golden.samples else f" of {golden.samples}"
        print(f"accuracy over {part.samples}{of_all} samples: device {device:.4f}, PyTorch {eager:.4f}")
        problems += check_accuracy(device, expected_share, eager, arguments.min_accuracy, arguments.max_accuracy_drop)
    elif arguments.min_accuracy is not None:
        raise UserError(
            f"golden file {arguments.golden} has no labels; --min-accuracy needs a model with evaluation_set()"
        )
    return problems


def _models(arguments: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """Yields the arguments for each model to run; unchanged for an image with one model."""
    names = [entry[0] for entry in arguments.one_of]
    if arguments.model and arguments.model not in names:
        known = f"there are {', '.join(names)}" if names else "it has one"
        raise UserError(f"--model {arguments.model}: {arguments.elf.stem} has no such model; {known}")
    if not names:
        yield arguments
    for name, golden, plan, program, method in arguments.one_of:
        if arguments.model in ("", name):
            chosen = {"model": name, "golden": Path(golden), "plan": Path(plan), "program": Path(program)}
            yield argparse.Namespace(**{**vars(arguments), **chosen, "method": method})


def _verify(prog: str, arguments: argparse.Namespace, make: MakeEnvironment) -> int:
    return max([_verify_model(prog, chosen, make) for chosen in _models(arguments)])


def _verify_model(prog: str, arguments: argparse.Namespace, make: MakeEnvironment) -> int:
    board = find_board(arguments.board)
    golden = read_golden(arguments.golden) if arguments.golden else None
    environment = make(arguments, board, golden)
    run = environment.run_example()
    which = f", model {arguments.model}" if arguments.model else ""
    print(f"{arguments.elf.stem} on {board.description}, {environment.kind}{which}")
    if run.console:
        print("console:\n" + "\n".join(f"  | {line}" for line in printable(run.console).rstrip().splitlines()))
    problems = list(run.problems)
    lines = run.lines
    if golden and run.comparable:
        result = environment.run_samples(golden, arguments.samples)
        if result.outputs:
            problems += _compare(result, golden, arguments)
        elif not result.problems:
            print("nothing is compared with PyTorch: the application doesn't run on the model's example alone")
        problems += [problem for problem in result.problems if problem not in problems]
        lines = result.lines or lines
    if lines:
        print("\n".join(lines))
    for problem in problems:
        print(f"{prog}: {'error' if arguments.test else 'warning'}: {problem}", file=sys.stderr)
    if not problems:
        print("PASS")
    return 1 if problems and arguments.test else 0


def verify_main(
    prog: str,
    description: str | None,
    add_options: Callable[[argparse.ArgumentParser], None],
    make: MakeEnvironment,
    argv: Sequence[str] | None,
) -> int:
    """Runs the command line of an environment.

    Args:
        prog: the command's name.
        description: its description.
        add_options: adds the environment's own options.
        make: makes the environment.
        argv: the arguments; None for the process's.

    Returns:
        The exit status.
    """
    parser = option_parser(prog, description)
    _add_options(parser)
    add_options(parser)
    arguments = parser.parse_args(argv)
    arguments.elf = arguments.elf or arguments.image
    if arguments.min_accuracy is not None and not arguments.golden:
        parser.error("--min-accuracy needs --golden")
    for option in ("samples", "instructions"):
        count = getattr(arguments, option, None)
        if count is not None and count < 1:
            parser.error(f"--{option} {count}: give how many")
    return run_tool(prog, _verify, prog, arguments, make)
