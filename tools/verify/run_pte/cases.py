"""Runs many programs in one run of the runner image (firmware/runner.cpp): cases, and their results."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.abi.layouts.layouts import RUNNER_CASE, RUNNER_RESULT, RUNNER_STEPS
from tools.artifacts.board.board import read_board
from tools.verify.environment.host import Host
from tools.verify.environment.hosted import EmulationError, Hosted, error_name, pad
from tools.verify.environment.qemu import Qemu
from tools.verify.run_pte.values import Value, read_value

_CASE = RUNNER_CASE.words()
_RESULT = RUNNER_RESULT.words()
# The limit for the emulated boards' memory of cases, their output and results in one run; they have 16 MB for both.
_EMULATED_BYTES = 6 << 20


@dataclass(frozen=True)
class Runner:
    """A runner image: its file, the definition of its board (None: a program of this machine), and the emulator."""

    image: Path
    board: Path | None
    qemu: Path

    def environment(self) -> Hosted:
        """Returns the image's environment.

        Raises:
            UserError: the board's definition cannot be read.
        """
        return Qemu(read_board(self.board), self.qemu) if self.board else Host()


@dataclass(frozen=True)
class Case:
    """A program and its inputs.

    Attributes:
      program: the .pte.
      inputs: one value per input, encoded by tools.verify.run_pte.values.
    """

    program: bytes
    inputs: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class CaseResult:
    """The result of a case.

    Attributes:
      error: `Ok`, the name of ExecuTorch's error, or how the case ended the image: `Crash`, `Fault`, `Abort`,
        `Timeout`, ...
      step: the runner's step then: load, input, execute or output.
      messages: the log, and the meaning of the error.
      outputs: after an error empty, or what a failed execution on an emulated board has left.
      load, execute: instructions; None where they are not counted, on this machine.
      method, planned, temp: bytes of the arenas.
    """

    error: str
    step: str = ""
    messages: tuple[str, ...] = ()
    outputs: tuple[Value, ...] = ()
    load: int | None = None
    execute: int | None = None
    method: int = 0
    planned: int = 0
    temp: int = 0

    def text(self) -> str:
        """Returns the error's name and what is known about it, in one line."""
        return ": ".join([self.error, "; ".join(self.messages)]) if self.messages else self.error


@dataclass
class _Batch:
    """Cases of one run, by their index among all."""

    indices: list[int] = field(default_factory=list)
    size: int = 0


def _encode(case: Case) -> bytes:
    inputs = b"".join(map(pad, case.inputs))
    header = _CASE.pack(len(case.program), len(inputs), len(case.inputs))
    return pad(header) + pad(case.program) + inputs


def run_cases(runner: Runner, cases: Sequence[Case], timeout: float = 300) -> list[CaseResult]:
    """Runs cases, many in one process or emulator; a case that ends it costs no other its result.

    Args:
      timeout: seconds that a run may take, of a part of the cases as large as the emulator's memory.

    Raises:
      UserError: the runner cannot be started.
      EmulationError: it doesn't work at all.
    """
    environment = runner.environment()
    results: list[CaseResult | None] = [None] * len(cases)
    encoded = [_encode(case) for case in cases]
    pending = list(_batches(encoded, runner.board is not None))
    while pending:
        indices = pending.pop()
        try:
            result = environment.run(runner.image, b"".join(encoded[index] for index in indices), timeout)
        except EmulationError as error:
            sections = _sections(error.console)
            if not sections:
                raise
            # The last case that began is the one that ended the image.
            last = len(sections) - 1
            logged = _messages(sections[last])
            results[indices[last]] = CaseResult(error.name, "", (*logged, _crash_text(error)))
            pending += [part for part in (indices[:last], indices[last + 1 :]) if part]
            continue
        outcomes = _decode(result.outputs, environment)
        for index, section, outcome in zip(indices, _sections(result.console), outcomes, strict=True):
            code, step, outputs, load, execute, method, planned, temp = outcome
            results[index] = CaseResult(
                error_name(code) if code else "Ok",
                RUNNER_STEPS[step],
                _messages(section),
                outputs,
                load,
                execute,
                method,
                planned,
                temp,
            )
    return [result for result in results if result is not None]


def _batches(encoded: Sequence[bytes], is_emulated: bool) -> Iterator[list[int]]:
    batch = _Batch()
    for index, case in enumerate(encoded):
        if is_emulated and batch.indices and batch.size + len(case) > _EMULATED_BYTES:
            yield batch.indices
            batch = _Batch()
        batch.indices.append(index)
        batch.size += len(case)
    if batch.indices:
        yield batch.indices


def _sections(console: str) -> list[str]:
    """Returns what was printed during each case."""
    return re.split(r"^CASE \d+\n", console, flags=re.MULTILINE)[1:]


def _messages(section: str) -> tuple[str, ...]:
    logged = re.findall(r"^[EF] [^\]\n]*\] (.*)$", section, flags=re.MULTILINE)
    meaning = re.findall(r"^ERROR \w+: \w+ \(0x[0-9a-f]+\): (.*)$", section, flags=re.MULTILINE)
    return tuple(logged or meaning)


def _crash_text(error: EmulationError) -> str:
    """Returns what a sanitizer says, or how the image ended."""
    found = re.search(r"runtime error: .*|(?<=ERROR: )AddressSanitizer: [^\n(]*", error.reason)
    place = re.search(r"#\d+ 0x\w+ in ((?:torch|executorch)\S*)", error.reason)
    return (found[0] if found else error.reason.splitlines()[0]) + (f" in {place[1]}" if place else "")


def _decode(
    data: bytes, environment: Hosted
) -> Iterator[tuple[int, int, tuple[Value, ...], int | None, int | None, int, int, int]]:
    """Yields error and step, outputs, and the counts in CaseResult's order, of each case."""
    position = 0
    while position < len(data):
        error, step, count, load, execute, method, planned, temp = _RESULT.unpack_from(data, position)
        position += _RESULT.size
        outputs = []
        for _ in range(count):
            value, position = read_value(data, position)
            outputs.append(value)
        loading, execution = (environment.instructions(ticks) for ticks in (load, execute))
        yield error, step, tuple(outputs), loading, execution, method, planned, temp
