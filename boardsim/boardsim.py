"""Runs the very image that gets flashed on a simulated board, and compares its outputs with PyTorch's."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile

from boardsim.boards import simulated
from boardsim.bus import Access
from boardsim.cpu import Stop
from tools.abi.layouts.layouts import ExitStatus
from tools.artifacts.board.board import Board, read_board
from tools.artifacts.golden.golden import Golden, read_golden
from tools.artifacts.memory_plan.memory_plan import read_memory_plan
from tools.artifacts.program import program
from tools.quiet.console import UserError, user_path
from tools.quiet.tool import run_tool
from tools.verify.emulate.emulate import (
    accuracy,
    check_accuracy,
    compare,
    differences,
)
from tools.verify.emulate.run import symbol_at

# What firmware/cortex_m/stack.c fills the stack with.
_STACK_PAINT = (0xC5A5C5A5).to_bytes(4, "little")
# Instructions after which an image counts as hung.
_LIMIT = 1_000_000_000
# Instructions after which no further sample of a golden file is started.
_SAMPLES_BUDGET = 50_000_000
_ALIGNMENT = 16


@dataclass(frozen=True)
class Run:
    """What one run of an image was like.

    Attributes:
        stop: why it ended.
        console: what the terminal received.
        instructions, cycles, milliseconds: from reset to the end.
        stack_used, stack_size: bytes at the deepest point, of those there are.
        status: the image's exit status (firmware/host.h) where it ended, None where it did not.
        outputs: the program's outputs, read from memory like a debugger does; empty without a program.
        notes: what the simulated hardware has to say against what the firmware did.
        accesses: every access to a peripheral, if asked for.
    """

    stop: Stop
    console: str
    instructions: int
    cycles: int
    milliseconds: float
    stack_used: int
    stack_size: int
    status: int | None
    outputs: tuple[np.ndarray, ...]
    notes: tuple[str, ...]
    accesses: tuple[Access, ...]

    @property
    def passed(self) -> bool:
        """Whether the image ended well: with PASS on its console, or with status 0 where it prints nothing."""
        return "\nPASS\n" in self.console if self.console else self.status == ExitStatus.PASS


class Image:
    """An ELF file: what is loaded, and its symbols.

    Args:
        path: the .elf of a torch_firmware.

    Raises:
        UserError: the file is missing or no ELF.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.symbols: dict[str, tuple[int, int]] = {}
        try:
            with path.open("rb") as file:
                table = ELFFile(file).get_section_by_name(".symtab")
                for symbol in table.iter_symbols() if table else ():
                    self.symbols[symbol.name] = (symbol["st_value"], symbol["st_size"])
        except OSError as error:
            raise UserError(f"image {path}: {error.strerror}; build it first") from error
        except Exception as error:
            # pyelftools has no one class for what is wrong with a file.
            raise UserError(
                f"image {path} is no ELF file ({error}); pass the .elf of a torch_firmware target"
            ) from error

    def address(self, name: str) -> int | None:
        """The address of a symbol, by its whole name or the end of a mangled one."""
        if name in self.symbols:
            return self.symbols[name][0]
        return next(
            (address for symbol, (address, _) in self.symbols.items() if symbol.endswith(f"{len(name)}{name}E")), None
        )


@dataclass(frozen=True)
class Outputs:
    """Where a program leaves its outputs: offset in the planned arena, dtype and shape of each."""

    places: tuple[tuple[int, np.dtype, tuple[int, ...]], ...]


def output_places(pte: Path, plan: Path, golden: Golden, name: str = "forward") -> Outputs:
    """Finds the outputs of a program's method by its memory plan; a program with a single method needs no name.

    Args:
        pte: the program.
        plan: plan.json of the image, for the sizes of the planned buffers.
        golden: for dtypes and shapes.

    Raises:
        UserError: an output lies outside the planned memory.
    """
    methods = program.load(pte).program.execution_plan
    method = methods[0] if len(methods) == 1 else next(method for method in methods if method.name == name)
    starts = np.cumsum([0, *(-(-size // _ALIGNMENT) * _ALIGNMENT for size in read_memory_plan(plan).planned)])
    places = []
    for index, (value, expected) in enumerate(zip(method.outputs, golden.outputs_in_memory(), strict=True)):
        allocation = method.values[value].val.allocation_info
        if allocation is None:
            raise UserError(
                f"{pte.name}: output {index} is no tensor in planned memory, so it cannot be read from there"
            )
        offset = int(starts[allocation.memory_id - 1]) + allocation.memory_offset_low
        places.append((offset, expected.dtype, expected.shape[1:]))
    return Outputs(tuple(places))


class Simulation:
    """An image on a board.

    Args:
        image: the image.
        board: a board with a simulator.
        trace: whether accesses to peripherals are recorded.
        outputs: where the program's outputs are, to be read after a run.
    """

    def __init__(self, image: Image, board: Board, *, trace: bool = False, outputs: Outputs | None = None) -> None:
        self.image = image
        self.machine = simulated(board)
        self.machine.bus.trace = trace
        self._outputs = outputs
        self.machine.load_elf(image.path)

    def run(self, typed: bytes = b"", limit: int = _LIMIT) -> Run:
        """Resets the board and runs until the image waits for input, sleeps or fails.

        Args:
            typed: what is typed on the console.
            limit: the most instructions.
        """
        machine = self.machine
        machine.notes.clear()
        machine.bus.accesses.clear()
        machine.console.output.clear()
        machine.reset()
        instructions, cycles, since = machine.cpu.instructions, machine.clock.cycles, machine.clock.nanoseconds
        stop = machine.run(limit)
        if typed and stop is Stop.IDLE:
            machine.console.feed(typed)
            stop = machine.run(limit)
        used, size = self._stack()
        return Run(
            stop=stop,
            console=machine.console.text,
            instructions=machine.cpu.instructions - instructions,
            cycles=machine.clock.cycles - cycles,
            milliseconds=(machine.clock.nanoseconds - since) / 1e6,
            stack_used=used,
            stack_size=size,
            status=machine.cpu.get("r0") if stop is Stop.SLEEP else None,
            outputs=self._read_outputs(),
            notes=tuple(machine.notes),
            accesses=tuple(machine.bus.accesses),
        )

    def set_example(self, inputs: Sequence[np.ndarray]) -> None:
        """Replaces the embedded example in flash by other inputs of the same size."""
        for index, array in enumerate(inputs):
            (symbol,) = [name for name in self.image.symbols if name.endswith(f"_example_input_{index}")] or [None]
            if symbol is None:
                raise UserError(f"image {self.image.path} embeds no example; build it with example = True")
            self.machine.debugger.write(self.image.symbols[symbol][0], np.ascontiguousarray(array).tobytes())

    def _stack(self) -> tuple[int, int]:
        start, end = self.image.address("__stack_start"), self.image.address("__stack_end")
        if start is None or end is None:
            return 0, 0
        content = self.machine.debugger.read(start, end - start)
        untouched = 0
        while content[untouched : untouched + 4] == _STACK_PAINT:
            untouched += 4
        return end - start - untouched, end - start

    def _read_outputs(self) -> tuple[np.ndarray, ...]:
        arena = self.image.address("planned_arena")
        if self._outputs is None or arena is None:
            return ()
        return tuple(
            np.frombuffer(self.machine.debugger.read(arena + offset, int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)
            for offset, dtype, shape in self._outputs.places
        )

    def where(self) -> str:
        """The function that the core is in."""
        pc = self.machine.cpu.get("pc")
        return f"pc {pc:#010x} in {symbol_at(self.image.path, pc & ~1) or 'no function of the image'}"

    def problems(self, run: Run) -> list[str]:
        """What went wrong in a run, one sentence each; empty for a good one."""
        problems = [self._with_symbols(note) for note in run.notes]
        if run.stop is Stop.INSTRUCTIONS:
            problems.append(
                f"{self.image.path.name} did not end within {run.instructions:,} instructions: {self.where()}"
            )
        elif run.stop is Stop.IDLE and not run.passed and "PASS" not in run.console:
            problems.append(
                f"{self.image.path.name} waits for something that never comes: {self.where()}{self._polled()}"
            )
        elif not run.passed and run.stop is not Stop.LOCKUP:
            status = f" with status {run.status}" if run.status is not None else ""
            problems.append(f"{self.image.path.name} ended{status} without PASS: {self.where()}")
        if run.stack_used >= run.stack_size > 0:
            problems.append(f"all {run.stack_size} bytes of the stack were used; raise stack_size of the board")
        return problems

    def _polled(self) -> str:
        name = self.machine.bus.last_polled
        return f", which reads {name} again and again" if name else ""

    def _with_symbols(self, note: str) -> str:
        head, mark, rest = note.partition("pc 0x")
        if not mark:
            return note
        symbol = symbol_at(self.image.path, int(rest[:8], 16) & ~1)
        return f"{head}{mark}{rest[:8]}{f' in {symbol}' if symbol else ''}{rest[8:]}"


def trace_lines(image: Path, accesses: Sequence[Access]) -> Iterator[str]:
    """A line per access to a peripheral: instructions so far, direction, register, value, function. Repetitions are
    counted.
    """
    previous: tuple[bool, str, int] | None = None
    repeated = 0
    for access in accesses:
        key = (access.write, access.name, access.value)
        if key == previous:
            repeated += 1
            continue
        if repeated:
            yield f"{'':>12}   ... {repeated} more times"
        previous, repeated = key, 0
        function = (symbol_at(image, access.pc) or f"{access.pc:#010x}").partition(" +")[0]
        direction = "write" if access.write else "read "
        yield f"{access.instructions:>12} {direction} {access.name:<16} {access.value:#010x}  {function}"
    if repeated:
        yield f"{'':>12}   ... {repeated} more times"


def _boards() -> dict[str, Path]:
    """The boards of this workspace, by name: BOARDS of the environment names their board.json files."""
    return {path.parent.name: path for path in map(Path, os.environ.get("BOARDS", "").split())}


def find_board(text: str) -> Board:
    """A board by its name, or by the path of its board.json.

    Raises:
        UserError: there is no such board.
    """
    boards = _boards()
    if text in boards:
        return read_board(boards[text])
    path = user_path(text)
    if path.exists():
        return read_board(path)
    raise UserError(f"board '{text}' is unknown; give a board.json or one of: {', '.join(sorted(boards)) or '(none)'}")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="boardsim", description=__doc__)
    parser.add_argument("--elf", type=user_path, required=True, help="the image")
    parser.add_argument("--board", required=True, help="name or board.json of the board it is for")
    parser.add_argument("--trace-peripherals", action="store_true", help="show every access to a peripheral register")
    parser.add_argument("--input", metavar="TEXT", help="type a line on the console when the image waits for one")
    parser.add_argument("--instructions", type=int, default=_LIMIT, help="instructions until an image counts as hung")
    parser.add_argument("--golden", type=Path, help="inputs and eager outputs (.npz) to compare with")
    parser.add_argument("--program", type=Path, help="the .pte in the image; with --golden")
    parser.add_argument("--plan", type=Path, help="plan.json of the image; with --golden")
    parser.add_argument("--method", default="forward", help="the method that the image runs; with --golden")
    parser.add_argument(
        "--samples", type=int, default=20, help="the most samples of --golden to run, each from reset on"
    )
    parser.add_argument("--atol", type=float, default=1e-5, help="absolute tolerance of an output element")
    parser.add_argument("--rtol", type=float, default=1e-5, help="relative tolerance of an output element")
    parser.add_argument(
        "--min-accuracy", type=float, help="least share of the samples that is classified right, 0 to 1"
    )
    parser.add_argument(
        "--max-accuracy-drop", type=float, default=1.0, help="how far their accuracy may be below the user's module's"
    )
    parser.add_argument("--test", action="store_true", help="exit with 1 if anything is wrong")
    arguments = parser.parse_args(argv)
    if arguments.golden and not (arguments.program and arguments.plan):
        parser.error("--golden needs --program and --plan")
    if arguments.min_accuracy is not None and not arguments.golden:
        parser.error("--min-accuracy needs --golden")
    for option in ("instructions", "samples"):
        if getattr(arguments, option) < 1:
            parser.error(f"--{option} {getattr(arguments, option)}: give how many")
    return arguments


def _compare_samples(
    simulation: Simulation, golden: Golden, arguments: argparse.Namespace
) -> tuple[list[str], list[str]]:
    """Runs golden samples, each from reset on. Returns problems and lines to show."""
    # Spread over the set: of an evaluation set sorted by label, the first ones are no sample.
    wanted = np.linspace(0, golden.samples - 1, min(arguments.samples, golden.samples)).astype(int)
    inputs = golden.inputs_in_memory()
    runs: list[Run] = []
    for sample in wanted:
        if runs and sum(run.instructions for run in runs) + runs[-1].instructions > _SAMPLES_BUDGET:
            break
        simulation.set_example([array[sample] for array in inputs])
        run = simulation.run(limit=arguments.instructions)
        if run.stop not in (Stop.IDLE, Stop.SLEEP) or not run.outputs:
            return [f"sample {sample}: {problem}" for problem in simulation.problems(run)], []
        runs.append(run)
    chosen = wanted[: len(runs)]
    part = replace(
        golden,
        inputs=tuple(array[chosen] for array in golden.inputs),
        outputs=tuple(array[chosen] for array in golden.outputs),
        labels=None if golden.labels is None else golden.labels[chosen],
        eager=tuple(array[chosen] for array in golden.eager),
    )
    outputs = part.outputs_from_memory([np.stack([run.outputs[i] for run in runs]) for i in range(len(part.outputs))])
    problems = compare(outputs, part, arguments.atol, arguments.rtol)
    largest = max(float(differences(a, b).max(initial=0.0)) for a, b in zip(outputs, part.outputs, strict=True))
    lines = [f"{len(runs)} of {golden.samples} samples: the largest difference from PyTorch is {largest:.3g}"]
    if part.labels is not None:
        device, expected = accuracy(outputs[0], part.labels), accuracy(part.outputs[0], part.labels)
        eager = accuracy(part.eager[0], part.labels) if part.eager else expected
        lines.append(f"accuracy over them: device {device:.4f}, PyTorch {eager:.4f}")
        problems += check_accuracy(device, expected, eager, arguments.min_accuracy, arguments.max_accuracy_drop)
    elif arguments.min_accuracy is not None:
        raise UserError(
            f"golden file {arguments.golden} has no labels; --min-accuracy needs a model with evaluation_set()"
        )
    return problems, lines


def _run(arguments: argparse.Namespace) -> int:
    board = find_board(arguments.board)
    image = Image(arguments.elf)
    golden = read_golden(arguments.golden) if arguments.golden else None
    outputs = output_places(arguments.program, arguments.plan, golden, arguments.method) if golden else None
    simulation = Simulation(image, board, trace=arguments.trace_peripherals, outputs=outputs)
    run = simulation.run(
        (arguments.input + "\n").encode() if arguments.input is not None else b"", arguments.instructions
    )
    print(f"{image.path.name} on {board.description}, simulated")
    if arguments.trace_peripherals:
        print("\n".join(trace_lines(image.path, run.accesses)))
    if run.console:
        print("console:\n" + "\n".join(f"  | {line}" for line in run.console.rstrip().splitlines()))
    print(f"{run.instructions:,} instructions, {run.milliseconds:.2f} ms; then {run.stop.value}")
    print(f"stack: {run.stack_used:,} of {run.stack_size:,} bytes")
    problems = simulation.problems(run)
    if golden and run.stop in (Stop.IDLE, Stop.SLEEP):
        more, lines = _compare_samples(simulation, golden, arguments)
        print("\n".join(lines))
        problems += more
    for problem in problems:
        print(f"boardsim: {'error' if arguments.test else 'warning'}: {problem}", file=sys.stderr)
    if not problems:
        print("PASS")
    return 1 if problems and arguments.test else 0


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("boardsim", _run, _parse(argv))
