"""Many networks in float32 and in int8: bazel run //conformance/networks:sweep [-- NAME...]

Those of networks.py; :published does the same with those of published.py.

Each is exported as `torch_program` does it and run on an emulated board, a Cortex-M4's unless told otherwise, and what
comes out is held to the golden data of the export. Printed is a table: instructions of an inference, bytes of the
programs, which lie in flash, signal-to-noise ratio of int8 against float32 on inputs that were not used for
calibration, and the places that stay in floating point. With --results a sweep that was interrupted goes on, and other
networks or boards are added. With --update the tables of a document are written anew, docs/networks.md's for one.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import statistics
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy

from conformance.networks import networks
from tools.artifacts.board.board import read_board
from tools.pipeline.export.export import Options, export
from tools.pipeline.export.testing import SilentConsole
from tools.quiet.console import UserError, user_path
from tools.quiet.files import reading, replace_text
from tools.quiet.table import replace_table
from tools.quiet.tool import run_tool
from tools.verify.run_pte.cases import Case, run_cases
from tools.verify.run_pte.run_pte import encode_inputs, read_runners

# As torch_program has it by default.
_FLOAT_GROWTH = 16384

# A kernel of floating point rounds in another order than PyTorch's.
_FLOAT_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Outcome:
    """What became of a network.

    Attributes:
      problem: why there is nothing else; None if it ran and returned what the export says.
      is_refused: whether the problem is one that the export told its user.
      in_float: places of an int8 program that stayed in floating point.
      snr_db: of the output that is worst.
      instructions: of one inference on the board.
      size: of the program, in bytes.
    """

    problem: str | None = None
    is_refused: bool = False
    in_float: tuple[str, ...] = ()
    snr_db: float = math.nan
    instructions: int = 0
    size: int = 0


def run(name: str, backend: str, board: str, file: Path = Path(networks.__file__)) -> Outcome:
    """Exports and runs a network of a model file: `portable`, or `cortex_m` with floating point where it is faster."""
    console = SilentConsole()
    runner = read_runners().boards[board]
    assert runner.board is not None, board
    try:
        options = Options(
            read_board(runner.board).core,
            backend,
            float_where_faster=backend == "cortex_m",
            float_growth=_FLOAT_GROWTH if backend == "cortex_m" else 0,
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
        # What int8 leaves in floating point may round to the next integer.
        span = float(numpy.abs(expected).max())
        limit = _FLOAT_TOLERANCE * (1 + span) if backend == "portable" else span / 16
        if numpy.abs(expected - actual).max() > limit:
            return Outcome(f"output {index} is not what the export says")
    eager = "eager" if backend != "portable" else "output"
    return Outcome(
        in_float=tuple(text for text in console.said if "stays in floating point" in text),
        snr_db=min(snr(golden[f"{eager}_{index}"], golden[f"output_{index}"]) for index in outputs),
        instructions=result.execute or 0,
        size=len(exported.program),
    )


def snr(expected: numpy.ndarray, actual: numpy.ndarray) -> float:
    """The signal-to-noise ratio in dB of all elements; infinite if they are equal."""
    signal, noise = (expected.astype(float) ** 2).sum(), ((expected.astype(float) - actual) ** 2).sum()
    return math.inf if noise == 0 else 10 * math.log10(max(signal, 1e-30) / noise)


class Results:
    """Outcomes by board, network and backend, kept in a file of JSON lines if there is one."""

    def __init__(self, path: Path | None, file: Path) -> None:
        self._path = path
        self._file = file
        self._outcomes: dict[tuple[str, str, str], Outcome] = {}
        if path is not None and path.exists():
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                try:
                    board, name, backend, outcome = json.loads(line)
                    self._outcomes[board, name, backend] = Outcome(**{**outcome, "in_float": (*outcome["in_float"],)})
                except (ValueError, TypeError, KeyError) as error:
                    raise UserError(f"{path}:{number} is no result of a sweep ({error}); remove the file.") from error

    def get(self, name: str, backend: str, board: str) -> Outcome:
        """What became of a network; it is run if that is not known."""
        key = (board, name, backend)
        if key not in self._outcomes:
            self._outcomes[key] = run(name, backend, board, self._file)
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([*key, asdict(self._outcomes[key])]) + "\n")
        return self._outcomes[key]

    def both(self, name: str, board: str) -> tuple[Outcome, Outcome]:
        """What became of a network in float32, and in int8."""
        return self.get(name, "portable", board), self.get(name, "cortex_m", board)


def _print_table(names: Sequence[str], board: str, results: Results) -> bool:
    """Prints a line for each network as soon as it is known; returns whether one fails by our fault."""
    print("| network | float32 instructions | int8 instructions | int8 / float32 | program bytes | SNR dB | in float |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    ratios, has_problem = [], False
    for index, name in enumerate(names, 1):
        print(f"{board}: {index} of {len(names)}: {name}", file=sys.stderr, flush=True)
        floating, int8 = results.both(name, board)
        for outcome, kind in ((floating, "float32"), (int8, "int8")):
            if outcome.problem is not None:
                print(f"| {name} | {kind} {' '.join(outcome.problem.split())[:200]} |", flush=True)
                has_problem |= not outcome.is_refused
        if floating.problem is not None or int8.problem is not None:
            continue
        ratio = int8.instructions / floating.instructions
        ratios.append(ratio)
        print(
            f"| {name} | {floating.instructions:,} | {int8.instructions:,} | {ratio:.2f} | "
            f"{floating.size:,} / {int8.size:,} | {int8.snr_db:.1f} | {len(int8.in_float)} |",
            flush=True,
        )
    if ratios:
        print(f"{len(ratios)} of {len(names)} ran in both; {_summary(ratios)}")
    return has_problem


def _summary(ratios: Sequence[float]) -> str:
    slower = sum(ratio > 1 for ratio in ratios)
    return (
        f"int8 / float32 {statistics.median(ratios):.2f} in the median, {min(ratios):.2f} to {max(ratios):.2f}; "
        f"{slower or 'none'} slower in int8"
    )


def document_table(names: Sequence[str], boards: Sequence[str], results: Results) -> str:
    """The networks as a table for a document: what int8 takes of float32's instructions on each board, and a summary.

    Bytes, SNR and places in floating point are those of the first board.
    """
    lines = [
        f"| network | float32 instructions | {' | '.join(boards)} | bytes | SNR dB | in floating point |",
        "| --- | ---: |" + " ---: |" * len(boards) + " ---: | ---: | ---: |",
    ]
    ratios: dict[str, list[float]] = {board: [] for board in boards}
    for name in names:
        cells = []
        for board in boards:
            floating, int8 = results.both(name, board)
            problem = floating.problem or int8.problem
            if problem is not None:
                cells.append(problem.partition(":")[0])
                continue
            ratios[board].append(int8.instructions / floating.instructions)
            cells.append(f"{ratios[board][-1]:.2f}")
        lines.append(_row(name, cells, *results.both(name, boards[0])))
    summaries = [f"{board}: {_summary(found)}, of {len(found)}." for board, found in ratios.items() if found]
    return "".join(f"{line}\n" for line in [*lines, "", *summaries])


def _row(name: str, cells: Sequence[str], floating: Outcome, int8: Outcome) -> str:
    ratios = " | ".join(cells)
    if floating.problem is not None or int8.problem is not None:
        return f"| {name} | | {ratios} | | | |"
    if any("everything stays in floating point" in text for text in int8.in_float):
        kept = "| all |"
    else:
        kept = f"{'equal' if int8.snr_db == math.inf else f'{int8.snr_db:.0f}'} | {len(int8.in_float)} |"
    return f"| {name} | {floating.instructions:,} | {ratios} | {int8.size / floating.size:.2f} | {kept}"


def update(document: Path, tables: Mapping[str, str]) -> None:
    """Writes tables of a document anew: what is between the comments `table: NAME` and `end of table`."""
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
    """The command over the networks of a model file, by table; returns the exit status."""
    return run_tool("sweep", _sweep, Path(file), groups, arguments)


if __name__ == "__main__":
    sys.exit(main(networks.__file__, {"networks": [*networks.NETWORKS]}, sys.argv[1:]))
