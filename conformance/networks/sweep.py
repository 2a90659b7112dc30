"""Runs many networks in float32 and in int8.

Usage: bazel run //conformance/networks:sweep [-- NAME...]

Those of networks.py; :published does the same with those of published.py.

Each is exported as `torch_program` does it and run on an emulated board, a Cortex-M4's unless told otherwise, and its
outputs are compared with the export's golden data: in float32, in int8 wherever that can be, and in the default form.
It prints a table: instructions of an inference, bytes of the programs, which are in flash, and of memory for tensors
and kernels, signal-to-noise ratio against float32 on inputs that were not used for calibration, and the operators that
stay in floating point. A program that was chosen, but is slower than the one that was not, is a failure. With --results
a sweep that was interrupted goes on, and other networks or boards are added. With --update the tables of a document are
written anew, docs/networks.md's for one.
"""

import argparse
import io
import json
import math
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy
from tqdm import tqdm

from conformance.networks import networks
from tools.artifacts.board.board import read_board
from tools.pipeline.export.backends.cortex_m.export import FEW_BYTES, WORTH
from tools.pipeline.export.export import export
from tools.pipeline.export.options import Options
from tools.quiet.console import SilentConsole, UserError, user_path
from tools.quiet.files import reading, replace_text
from tools.quiet.table import replace_table
from tools.quiet.tool import run_tool
from tools.verify.run_pte.cases import Case, run_cases
from tools.verify.run_pte.run_pte import encode_inputs, read_runners

_FLOAT32, _INT8, _DEFAULT = FORMS = "float32", "int8", "default"

# Columns of a table behind instructions: parts of what float32 takes, and what else there is to say.
_COLUMNS = ("int8 flash", "default flash", "int8 RAM", "default RAM", "SNR dB", "in floating point")

# Counts of the same program at different addresses differ by at most this.
_NOISE = 1.002
# A kernel of floating point rounds in another order than PyTorch's.
_FLOAT_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Outcome:
    """The result of a network.

    Attributes:
      problem: the reason for no other result; None if it ran and returned the export's outputs.
      is_refused: whether the problem is one that the export told its user.
      in_float: operators of an int8 program that stayed in floating point.
      snr_db: the worst output's.
      instructions: of one inference on the board.
      size: of the program, in bytes.
      memory: bytes for tensors and the kernels' work.
      right: the share of inputs that it is right on, if that is counted.
    """

    problem: str | None = None
    is_refused: bool = False
    in_float: tuple[str, ...] = ()
    snr_db: float = math.nan
    instructions: int = 0
    size: int = 0
    memory: int = 0
    right: float = math.nan

    @property
    def is_all_floating(self) -> bool:
        """Returns whether the build left the whole network in floating point."""
        return any("everything stays in floating point" in text for text in self.in_float)


@dataclass(frozen=True)
class Outcomes:
    """The results of a network in each form."""

    floating: Outcome
    int8: Outcome
    chosen: Outcome

    @property
    def all(self) -> tuple[Outcome, Outcome, Outcome]:
        """Returns the results in the order of FORMS."""
        return self.floating, self.int8, self.chosen

    @property
    def problem(self) -> str | None:
        """Returns the reason for which there is nothing to compare; None if all ran."""
        return next((outcome.problem for outcome in self.all if outcome.problem is not None), None)

    def wrong_choice(self) -> str | None:
        """Returns the error of the choice; None if the chosen form is not slower than the other."""
        floating, chosen = self.floating, self.chosen
        if chosen.instructions > _NOISE * self.int8.instructions:
            return f"chosen were {chosen.instructions:,} instructions, int8 alone takes {self.int8.instructions:,}"
        is_smaller = floating.size <= chosen.size and floating.memory < chosen.memory + FEW_BYTES
        if is_smaller and floating.instructions < WORTH * chosen.instructions:
            return f"chosen was int8, {chosen.instructions:,} instructions, float32 takes {floating.instructions:,}"
        return None


Judge = Callable[[str, list[numpy.ndarray], list[numpy.ndarray]], float]
"""Says on which share of inputs a network is right, by its name, its outputs and those in eager mode."""


def run(name: str, form: str, board: str, file: Path = Path(networks.__file__), judge: Judge | None = None) -> Outcome:
    """Exports and runs a network of a model file: in `float32`, in `int8` wherever it can be, or by `default`."""
    console = SilentConsole()
    runner = read_runners().boards[board]
    assert runner.board is not None, board
    try:
        options = Options(
            read_board(runner.board).core,
            "portable" if form == _FLOAT32 else "cortex_m",
            float_where_faster=form == _DEFAULT,
            entry=name,
        )
        exported = export(file, name, options, None, console)
    except UserError as error:
        return Outcome(f"refused: {str(error).rpartition(f'{file.name}: ')[2]}", is_refused=True)
    except Exception as error:
        traceback.print_exc()
        return Outcome(f"internal error: {type(error).__name__}: {error}")
    manifest = json.loads(exported.manifest)
    with numpy.load(io.BytesIO(exported.golden)) as arrays:
        golden = dict(arrays)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.pte"
        path.write_bytes(exported.program)
        inputs = [golden[f"input_{index}"][0] for index in range(len(manifest["inputs"]))]
        try:
            (result,) = run_cases(runner, [Case(exported.program, encode_inputs(path, inputs))])
        except UserError as error:
            # It is too large for the board's memory.
            return Outcome(f"not run, {len(exported.program):,} bytes: {error}", is_refused=True)
    if result.error != "Ok":
        return Outcome(f"refused on the device: {result.text()}")
    outputs = range(len(manifest["outputs"]))
    for index in outputs:
        expected, actual = golden[f"output_{index}"][0].astype(float), result.outputs[index].array
        # Values that int8 leaves in floating point may round to the next integer.
        span = float(numpy.abs(expected).max())
        limit = _FLOAT_TOLERANCE * (1 + span) if form == _FLOAT32 else span / 16
        if numpy.abs(expected - actual).max() > limit:
            return Outcome(f"output {index} is not what the export says")
    eager = "eager" if form != _FLOAT32 else "output"
    expected, actual = ([golden[f"{kind}_{index}"] for index in outputs] for kind in (eager, "output"))
    return Outcome(
        in_float=tuple(text for text in console.said if "stays in floating point" in text),
        snr_db=min(map(snr, expected, actual)),
        right=math.nan if judge is None else judge(name, actual, expected),
        instructions=result.execute or 0,
        size=len(exported.program),
        memory=sum(manifest["planned_buffers"]) + result.temp,
    )


def snr(expected: numpy.ndarray, actual: numpy.ndarray) -> float:
    """Returns the signal-to-noise ratio in dB of all elements; infinite if they are equal."""
    signal, noise = (expected.astype(float) ** 2).sum(), ((expected.astype(float) - actual) ** 2).sum()
    return math.inf if noise == 0 else 10 * math.log10(max(signal, 1e-30) / noise)


class Results:
    """Outcomes by board, network and form, kept in a file of JSON lines if there is one."""

    def __init__(self, path: Path | None, file: Path, judge: Judge | None = None) -> None:
        self._path = path
        self._file = file
        self._judge = judge
        self._outcomes: dict[tuple[str, str, str], Outcome] = {}
        if path is not None and path.exists():
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                try:
                    board, name, form, outcome = json.loads(line)
                    self._outcomes[board, name, form] = Outcome(**{**outcome, "in_float": (*outcome["in_float"],)})
                except (ValueError, TypeError, KeyError) as error:
                    raise UserError(f"{path}:{number} is no result of a sweep ({error}); remove the file.") from error

    def get(self, name: str, form: str, board: str) -> Outcome:
        """Returns what became of a network; it is run if that is not known."""
        key = (board, name, form)
        if key not in self._outcomes:
            self._outcomes[key] = run(name, form, board, self._file, self._judge)
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([*key, asdict(self._outcomes[key])]) + "\n")
        return self._outcomes[key]

    def all_forms(self, name: str, board: str) -> Outcomes:
        """Returns what became of a network in float32, in int8, and as is chosen by default."""
        return Outcomes(*(self.get(name, form, board) for form in FORMS))


def with_time_left(names: Sequence[str], board: str) -> Iterator[str]:
    """Yields names of networks, and says before each one how long the rest will take."""
    begin = time.monotonic()
    for index, name in enumerate(names):
        progress = tqdm.format_meter(index, len(names), time.monotonic() - begin, ncols=0, unit="network")
        print(f"{board}: {name}: {progress}", file=sys.stderr, flush=True)
        yield name


def _print_table(names: Sequence[str], board: str, results: Results) -> bool:
    """Prints a line for each network as soon as it is known; returns whether one fails by our fault."""
    print(f"| network | float32 | int8 | default | {' | '.join(_COLUMNS)} |")
    print("| --- |" + " ---: |" * (3 + len(_COLUMNS)))
    rows, has_problem = [], False
    for name in with_time_left(names, board):
        found = results.all_forms(name, board)
        for form, outcome in zip(FORMS, found.all, strict=True):
            if outcome.problem is not None:
                print(f"| {name} | {form} {' '.join(outcome.problem.split())[:200]} |", flush=True)
                has_problem |= not outcome.is_refused
        if found.problem is not None:
            continue
        rows.append(found)
        counts = " | ".join(f"{each.instructions:,}" for each in found.all)
        print(f"| {name} | {counts} | {_cells(found)} |", flush=True)
        wrong = found.wrong_choice()
        if wrong is not None:
            print(f"{name}: wrong choice on {board}: {wrong}", flush=True)
            has_problem = True
    if rows:
        print(f"{len(rows)} of {len(names)} ran in all forms\n{_summaries(board, rows)}")
    return has_problem


def _summaries(board: str, rows: Sequence[Outcomes]) -> str:
    """Returns what int8 and the default come to on a board, a line each."""
    lines = []
    for form, found in ((_INT8, [row.int8 for row in rows]), (_DEFAULT, [row.chosen for row in rows])):
        ratios = [each.instructions / row.floating.instructions for each, row in zip(found, rows, strict=True)]
        slower = sum(ratio > 1 for ratio in ratios)
        lines.append(
            f"{board}: {form} / float32 {statistics.median(ratios):.2f} in the median, {min(ratios):.2f} to "
            f"{max(ratios):.2f}; {slower or 'none'} slower, of {len(rows)}."
        )
    return "\n".join(lines)


def document_table(names: Sequence[str], boards: Sequence[str], results: Results) -> str:
    """Returns the networks as a table for a document: what int8 wherever it can be and the default take of float32's
    instructions on each board, and a summary.

    All else is of the first board: bytes of program (flash) and of memory (RAM) as a part of float32's, SNR and places
    in floating point by default.
    """
    of_boards = " | ".join(f"{board} {form}" for board in boards for form in (_INT8, _DEFAULT))
    lines = [
        f"| network | float32 instructions | {of_boards} | {' | '.join(_COLUMNS)} |",
        "| --- | ---: |" + " ---: |" * (2 * len(boards) + len(_COLUMNS)),
    ]
    ran: dict[str, list[Outcomes]] = {board: [] for board in boards}
    for name in names:
        cells = []
        for board in boards:
            found = results.all_forms(name, board)
            if found.problem is not None:
                cells += [found.problem.partition(":")[0], ""]
                continue
            ran[board].append(found)
            cells += [f"{each.instructions / found.floating.instructions:.2f}" for each in found.all[1:]]
        first = results.all_forms(name, boards[0])
        count, rest = (
            (f"{first.floating.instructions:,}", _cells(first))
            if first.problem is None
            else ("", " | " * (len(_COLUMNS) - 1))
        )
        lines.append(" ".join(f"| {name} | {count} | {' | '.join(cells)} | {rest} |".split()))
    summaries = [_summaries(board, rows) for board, rows in ran.items() if rows]
    return "".join(f"{line}\n" for line in [*lines, "", *summaries])


def _cells(found: Outcomes) -> str:
    """Returns the cells of _COLUMNS."""
    floating, chosen = found.floating, found.chosen
    sizes = [f"{each.size / floating.size:.2f}" for each in found.all[1:]]
    memory = [f"{each.memory / max(floating.memory, 1):.2f}" for each in found.all[1:]]
    signal = "" if chosen.is_all_floating else "equal" if chosen.snr_db == math.inf else f"{chosen.snr_db:.0f}"
    in_float = "all" if chosen.is_all_floating else str(len(chosen.in_float))
    return " | ".join([*sizes, *memory, signal, in_float])


def update(document: Path, tables: Mapping[str, str]) -> None:
    """Writes tables of a document anew, between the comments `table: NAME` and `end of table`."""
    with reading("document", document, "name a Markdown file with tables of networks"):
        text = document.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = replace_table(text, f"<!-- table: {name} -->\n", "<!-- end of table -->\n", table)
    replace_text(document, text)


def _sweep(file: Path, groups: Mapping[str, Sequence[str]], arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help="networks; all without")
    boards = [name for name, runner in read_runners().boards.items() if runner.board is not None]
    parser.add_argument(
        "--board", action="append", choices=boards, help="an emulated board; repeat for more (default: mps2_an386)"
    )
    parser.add_argument("--results", type=user_path, help="where outcomes are kept, and taken from")
    parser.add_argument("--update", type=user_path, help="a document whose tables of all networks to write anew")
    options = parser.parse_args(arguments)
    known = [name for names in groups.values() for name in names]
    unknown = sorted(set(options.name) - set(known))
    if unknown:
        parser.error(f"no network {', '.join(unknown)}; there are {', '.join(known)}")
    if options.name and options.update:
        parser.error("--update is for all networks; name none, and give --results to go on where a sweep ended")
    results = Results(options.results, file)
    wanted = options.board or ["mps2_an386"]
    problems = [_print_table(options.name or known, board, results) for board in wanted]
    if options.update:
        update(options.update, {group: document_table(names, wanted, results) for group, names in groups.items()})
    return 1 if any(problems) else 0


def main(file: str, groups: Mapping[str, Sequence[str]], arguments: Sequence[str]) -> int:
    """Runs the command over the networks of a model file, by table; returns the exit status."""
    return run_tool("sweep", _sweep, Path(file), groups, arguments)


if __name__ == "__main__":
    sys.exit(main(networks.__file__, {"networks": [*networks.NETWORKS]}, sys.argv[1:]))
