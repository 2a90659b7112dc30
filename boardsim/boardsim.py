"""Runs the very image that gets flashed on a simulated board, and compares its outputs with PyTorch's."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from boardsim.boards import simulated
from boardsim.bus import Access
from boardsim.cpu import Stop
from tools.abi.layouts.layouts import ExitStatus
from tools.artifacts.board.board import Board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.artifacts.golden.golden import Golden
from tools.artifacts.memory_plan.memory_plan import read_memory_plan
from tools.quiet.console import UserError
from tools.verify.environment.environment import Run as EnvironmentRun
from tools.verify.environment.environment import SampleRun, spread, verify_main

# firmware/cortex_m/stack.c fills the stack with this word.
_STACK_PAINT = (0xC5A5C5A5).to_bytes(4, "little")
# An image that runs for so many instructions counts as hung.
_LIMIT = 1_000_000_000
# After so many instructions no further sample of a golden file is started.
_SAMPLES_BUDGET = 50_000_000
# So many samples of a golden file are run by default.
_SAMPLES = 20


@dataclass(frozen=True)
class Run:
    """The result of one run of an image.

    Attributes:
        stop: why it ended.
        console: what the terminal received.
        instructions, cycles, milliseconds: from reset to the end.
        stack_used, stack_size: bytes at the deepest point, and all that there are.
        status: the image's exit status (firmware/host.h) where it ended, None where it did not.
        outputs: the program's outputs, read from memory like a debugger does; empty without a program.
        notes: mistakes of the firmware that the simulated hardware noticed.
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
        """Returns whether the image ended well: with PASS on its console, or with status 0 where it prints nothing."""
        return "\nPASS\n" in self.console if self.console else self.status == ExitStatus.PASS


@dataclass(frozen=True)
class Outputs:
    """Tells where a program leaves its outputs: offset in the planned arena, dtype and shape of each."""

    places: tuple[tuple[int, np.dtype, tuple[int, ...]], ...]


def find_outputs(plan: Path, golden: Golden) -> Outputs:
    """Finds the outputs of a program's method by its memory plan.

    Args:
        plan: plan.json of the image.
        golden: for dtypes and shapes.

    Raises:
        UserError: an output is outside the planned memory.
    """
    places = []
    known = read_memory_plan(plan).outputs
    for index, (place, expected) in enumerate(zip(known, golden.outputs_in_memory(), strict=True)):
        if place is None:
            raise UserError(f"{plan}: output {index} is no tensor in planned memory, so it cannot be read from there")
        places.append((place, expected.dtype, expected.shape[1:]))
    return Outputs(tuple(places))


class Simulation:
    """An image on a board.

    Args:
        image: the image.
        board: a board with a simulator.
        trace: whether accesses to peripherals are recorded.
        outputs: where the program's outputs are, to be read after a run.
    """

    def __init__(self, image: ElfImage, board: Board, *, trace: bool = False, outputs: Outputs | None = None) -> None:
        self.image = image
        self.machine = simulated(board)
        self.machine.bus.trace = trace
        self._outputs = outputs
        self.machine.load_elf(image)

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

    def set_example(self, inputs: Sequence[np.ndarray], model: str = "") -> bool:
        """Replaces the embedded example in flash by other inputs of the same size; `model` names one of several.

        Returns:
            Whether there is one: an application that doesn't use it is linked without.
        """
        for index, array in enumerate(inputs):
            end = f"_pte_example_input_{index}"
            found = [
                symbol
                for name, symbol in self.image.symbols.items()
                if name == model + end or (not model and name.endswith(end))
            ]
            if len(found) != 1 or found[0].size != array.nbytes:
                return False
            self.machine.debugger.write(found[0].address, np.ascontiguousarray(array).tobytes())
        return True

    @property
    def is_own(self) -> bool:
        """Returns whether the image is linked by a linker script of this project."""
        return self.image.address("__stack_start") is not None

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
        # A compiled model begins with its arena, firmware/compiled_application.cpp.
        arena = self.image.address("planned_arena") or self.image.address("compiled_instance")
        if self._outputs is None or arena is None:
            return ()
        read = self.machine.debugger.read
        return tuple(
            np.frombuffer(read(arena + offset, int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)
            for offset, dtype, shape in self._outputs.places
        )

    def where(self) -> str:
        """Returns the function that the core is in."""
        pc = self.machine.cpu.get("pc")
        return f"pc {pc:#010x} in {self.image.function_at(pc & ~1) or 'no function of the image'}"

    def problems(self, run: Run) -> list[str]:
        """Returns what went wrong in a run, one sentence each; empty for a good one."""
        problems = [self._with_symbols(note) for note in run.notes]
        if not self.is_own:
            # Nobody knows here how it is to end and what it is to print.
            return problems
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
        symbol = self.image.function_at(int(rest[:8], 16) & ~1)
        return f"{head}{mark}{rest[:8]}{f' in {symbol}' if symbol else ''}{rest[8:]}"


def trace_lines(image: ElfImage, accesses: Sequence[Access]) -> Iterator[str]:
    """Yields a line per access to a peripheral: instructions so far, direction, register, value, function. Repetitions
    are counted.
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
        function = (image.function_at(access.pc) or f"{access.pc:#010x}").partition(" +")[0]
        direction = "write" if access.write else "read "
        yield f"{access.instructions:>12} {direction} {access.name:<16} {access.value:#010x}  {function}"
    if repeated:
        yield f"{'':>12}   ... {repeated} more times"


class SimulatedImage:
    """An image on the simulator of its board, as an Environment; each sample is run from reset on.

    Args:
        simulation: the image on its board.
        typed: a line that is typed on the console when the image waits for one; None for none.
        limit: instructions until a run counts as hung.
        model: which of several models it runs, chosen by its name at the console; empty for the only one.
    """

    kind = "simulated"

    def __init__(self, simulation: Simulation, typed: str | None, limit: int, model: str = "") -> None:
        self._simulation = simulation
        self._chosen = f"{model}\n".encode() if model else b""
        self._typed = self._chosen + (b"" if typed is None else f"{typed}\n".encode())
        self._limit = limit
        self._model = model

    def run_example(self) -> EnvironmentRun:
        """Runs the example, see Environment.run_example()."""
        simulation = self._simulation
        run = simulation.run(self._typed, self._limit)
        lines = [
            *trace_lines(simulation.image, run.accesses),
            f"{run.instructions:,} instructions, {run.milliseconds:.2f} ms; then {run.stop.value}",
            f"stack: {run.stack_used:,} of {run.stack_size:,} bytes" if simulation.is_own else simulation.where(),
        ]
        return EnvironmentRun(
            run.console, tuple(lines), tuple(simulation.problems(run)), run.stop in (Stop.IDLE, Stop.SLEEP)
        )

    def run_samples(self, golden: Golden, most: int | None) -> SampleRun:
        """Runs samples, see Environment.run_samples(): 20 by default, fewer of a slow program, and one of a stream."""
        simulation = self._simulation
        inputs = golden.inputs_in_memory()
        runs: list[Run] = []
        # A run begins with a reset, which a stream has before its first sample alone.
        samples = spread(golden, 1 if golden.is_stream else _SAMPLES if most is None else most)
        for sample in samples:
            if runs and sum(run.instructions for run in runs) + runs[-1].instructions > _SAMPLES_BUDGET:
                break
            if not simulation.set_example([array[sample] for array in inputs], self._model):
                return SampleRun((), ())
            run = simulation.run(self._chosen, self._limit)
            if run.stop not in (Stop.IDLE, Stop.SLEEP) or not run.outputs:
                problems = tuple(f"sample {sample}: {problem}" for problem in simulation.problems(run))
                return SampleRun((), (), problems=problems)
            runs.append(run)
        outputs = tuple(np.stack([run.outputs[i] for run in runs]) for i in range(len(golden.outputs)))
        return SampleRun(tuple(samples[: len(runs)]), outputs)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trace-peripherals", action="store_true", help="show every access to a peripheral register")
    parser.add_argument("--input", metavar="TEXT", help="type a line on the console when the image waits for one")
    parser.add_argument("--instructions", type=int, default=_LIMIT, help="instructions until an image counts as hung")


def _make(arguments: argparse.Namespace, board: Board, golden: Golden | None) -> SimulatedImage:
    outputs = None
    if golden is not None:
        if not arguments.plan:
            raise UserError("--golden needs --plan, which says where the outputs are")
        outputs = find_outputs(arguments.plan, golden)
    image = ElfImage(arguments.elf)
    simulation = Simulation(image, board, trace=arguments.trace_peripherals, outputs=outputs)
    return SimulatedImage(simulation, arguments.input, arguments.instructions, arguments.model)


def main(argv: Sequence[str] | None = None) -> int:
    return verify_main("boardsim", __doc__, _add_options, _make, argv)
