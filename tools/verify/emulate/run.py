"""Runs a firmware image in QEMU and brings back what it computed and measured.

The image talks to the host by semihosting as firmware/host.h describes: it reads its inputs from a file, writes its
outputs and a report to others, and exits with a status that says how it ended.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from tools.abi.layouts.layouts import ERRORS, HOST_REPORT, HOST_REPORT_PASS, ExitStatus
from tools.artifacts.board.board import Board
from tools.quiet.console import UserError

# With -icount shift=6 every instruction advances the emulated clock by 2**6 ns, whatever it does.
_ICOUNT_SHIFT = 6
_NANOSECONDS_PER_INSTRUCTION = 1 << _ICOUNT_SHIFT

@dataclass(frozen=True)
class Report:
    """What an image measured: HostReport of firmware/host.h, in its order."""

    passed: int
    error: int
    samples: int
    load_ticks: int
    execute_ticks: int
    method_used: int
    planned_used: int
    temp_used: int
    stack_used: int
    stack_size: int


@dataclass(frozen=True)
class Result:
    """A run that ended with PASS.

    outputs: the raw bytes of all outputs of all samples, in order.
    console: what the image printed.
    load, execute: instructions of loading the program and of its first execution.
    report: memory use and sample count.
    """

    outputs: bytes
    console: str
    load: int
    execute: int
    report: Report


class EmulationError(UserError):
    """An image that did not end as it should.

    Attributes:
        name: `Timeout`, `Fault`, `Abort`, `Mismatch`, `Crash`, `MissingPass`, `StackOverflow`, `Host`, or the name
            of ExecuTorch's error.
        reason: one line.
        console: what the image printed until then.
    """

    def __init__(self, name: str, reason: str, console: str) -> None:
        shown = "\n".join(f"  | {line}" for line in console.rstrip().splitlines()) or "  | (nothing)"
        super().__init__(f"{name}: {reason}\nconsole:\n{shown}")
        self.name = name
        self.reason = reason
        self.console = console


def instructions(board: Board, ticks: int) -> int:
    """Instructions in a number of the board's ticks, rounded to the nearest."""
    assert board.emulator is not None
    return round(ticks * 1_000_000_000 / board.emulator.clock_hz / _NANOSECONDS_PER_INSTRUCTION)


def error_name(code: int) -> str:
    """The name of an executorch::runtime::Error that is not Ok."""
    return ERRORS.get(code, f"Error {code:#x}")


def symbol_at(elf: Path, address: int) -> str | None:
    """The function of an image that holds an address, as `name + 0x12`."""
    with elf.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        for symbol in table.iter_symbols() if table else ():
            # Bit 0 of a function's address marks Thumb code.
            start = symbol["st_value"] & ~1
            if symbol["st_info"]["type"] == "STT_FUNC" and start <= address < start + symbol["st_size"]:
                return f"{symbol.name} + {address - start:#x}"
    return None


def _fault_place(elf: Path, console: str) -> str:
    """Where a fault happened, from the fault handler's output."""
    places = []
    for register in ("pc", "lr"):
        match = re.search(rf"\b{register} 0x([0-9a-f]{{8}})", console)
        symbol = match and symbol_at(elf, int(match[1], 16) & ~1)
        if symbol:
            places.append(f"{register} in {symbol}")
    return f" ({', '.join(places)})" if places else ""


def command_line(elf: Path, board: Board, qemu: Path, options: Sequence[str]) -> list[str]:
    """The command line that runs an image on its board's machine.

    Args:
        elf: the image.
        board: the board it was linked for.
        qemu: qemu-system-arm.
        options: words of the image's own command line (firmware/host.h); the first is its name.

    Raises:
        UserError: the board has no emulator.
    """
    if board.emulator is None:
        raise UserError(f"board {board.name} has no emulator; use one whose definition sets emulator_machine")
    semihosting = ",".join(["enable=on", "target=native", *(f"arg={option}" for option in options)])
    arguments = board.emulator.arguments
    if any("{entry}" in argument for argument in arguments):
        with elf.open("rb") as file:
            entry = f"{ELFFile(file)['e_entry']:#x}"
        arguments = tuple(argument.replace("{entry}", entry) for argument in arguments)
    return [
        str(qemu.absolute()),
        *("-machine", board.emulator.machine),
        *("-display", "none", "-monitor", "none", "-serial", "stdio"),
        *("-icount", f"shift={_ICOUNT_SHIFT}"),
        *("-semihosting-config", semihosting),
        *arguments,
        *("-kernel", str(elf.absolute())),
    ]


def _check_elf(elf: Path) -> None:
    try:
        with elf.open("rb") as file:
            ELFFile(file)
    except OSError as error:
        raise UserError(f"image {elf}: {error.strerror}; build it first") from error
    except ELFError as error:
        raise UserError(f"image {elf} is no ELF file ({error}); pass the .elf of a torch_firmware target") from error


def emulate(
    elf: Path,
    board: Board,
    qemu: Path,
    inputs: bytes | None = None,
    timeout: float = 120,
) -> Result:
    """Runs an image until it exits.

    Args:
        elf: the image.
        board: the board it was linked for.
        qemu: qemu-system-arm.
        inputs: what join_inputs() made of the inputs of all samples, or what else the image takes; None runs the
            example that it embeds.
        timeout: seconds of the host's time after which the image counts as hung.

    Raises:
        EmulationError: the image crashed, hung, met an error or did not report PASS.
        UserError: image or emulator cannot be started.
    """
    _check_elf(elf)
    with tempfile.TemporaryDirectory(prefix="emulate-") as scratch:
        folder = Path(scratch)
        # Plain names: the command line that the image parses has no quoting.
        options = ["image", "outputs=outputs.bin", "report=report.bin"]
        if inputs is not None:
            (folder / "inputs.bin").write_bytes(inputs)
            options.append("inputs=inputs.bin")
        return finish(command_line(elf, board, qemu, options), elf, board, folder, timeout)


def finish(command: Sequence[str], image: Path, board: Board | None, folder: Path, timeout: float) -> Result:
    """Runs an image to its end and collects what it wrote.

    Args:
        command: the command line that runs it.
        image: the image, for messages.
        board: the emulated board; None if the image is a program of this machine, which counts no instructions.
        folder: the working directory, with the files outputs.bin and report.bin afterwards.
        timeout: seconds of the host's time after which the image counts as hung.

    Raises:
        EmulationError, UserError: see emulate().
    """
    try:
        process = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except OSError as error:
        raise UserError(f"{command[0]}: {error.strerror}; it must be QEMU's qemu-system-arm") from error
    except subprocess.TimeoutExpired as error:
        raise EmulationError(
            "Timeout", f"{image.name} did not end within {timeout:g} s", _text(error.stdout)
        ) from error
    console = _text(process.stdout)
    report = _read_report(folder / "report.bin")
    _check_ending(image, process.returncode, report, console, _text(process.stderr))
    assert report is not None
    outputs = folder / "outputs.bin"
    return Result(
        outputs=outputs.read_bytes() if outputs.exists() else b"",
        console=console,
        load=instructions(board, report.load_ticks) if board else 0,
        execute=instructions(board, report.execute_ticks) if board else 0,
        report=report,
    )


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", errors="replace").replace("\r\n", "\n")


def _read_report(path: Path) -> Report | None:
    words = HOST_REPORT.words()
    if not path.exists() or path.stat().st_size != words.size:
        return None
    return Report(*words.unpack(path.read_bytes()))


def _check_ending(elf: Path, status: int, report: Report | None, console: str, messages: str) -> None:
    """Raises EmulationError unless the image ended with PASS."""
    if status == ExitStatus.FAULT:
        raise EmulationError("Fault", f"{elf.name} took a fault{_fault_place(elf, console)}", console)
    if status == ExitStatus.ABORT:
        raise EmulationError("Abort", f"a check of the runtime failed in {elf.name}", console)
    if status == ExitStatus.HOST:
        raise EmulationError("Host", f"{elf.name} could not read its inputs or write its outputs", console)
    if status == ExitStatus.ERROR and report is not None and report.error:
        raise EmulationError(error_name(report.error), f"{elf.name} could not run the program", console)
    if status == ExitStatus.MISMATCH and report is not None and report.passed != HOST_REPORT_PASS:
        raise EmulationError("Mismatch", f"the outputs of {elf.name} differ from PyTorch's", console)
    if status != 0:
        reason = f"{elf.name} ended with status {status}" + (f": {messages.strip()}" if messages.strip() else "")
        raise EmulationError("Crash", reason, console)
    if report is None or report.passed != HOST_REPORT_PASS or (console and "\nPASS\n" not in console):
        raise EmulationError("MissingPass", f"{elf.name} exited without PASS", console)
    if report.stack_used >= report.stack_size > 0:
        raise EmulationError(
            "StackOverflow",
            f"{elf.name} used all {report.stack_size} bytes of its stack; raise stack_size of the board",
            console,
        )


def split_outputs(data: bytes, like: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Splits the outputs of a run into one array per output, with a leading axis of samples.

    Args:
        data: Result.outputs.
        like: per output an array with the dtype and shape of one sample and a leading axis of samples.

    Raises:
        UserError: the size does not fit.
    """
    samples = like[0].shape[0] if like else 0
    sizes = [array[0].nbytes for array in like]
    if len(data) != samples * sum(sizes):
        raise UserError(
            f"the image wrote {len(data)} bytes of outputs where {samples} samples of {sum(sizes)} bytes were "
            "expected; is the golden file that of the model in the image?"
        )
    table = np.frombuffer(data, dtype=np.uint8).reshape(samples, -1)
    starts = np.cumsum([0, *sizes])
    return [
        np.ascontiguousarray(table[:, start : start + size]).view(array.dtype).reshape(array.shape)
        for start, size, array in zip(starts, sizes, like, strict=False)
    ]


def join_inputs(inputs: Sequence[np.ndarray]) -> bytes:
    """The raw bytes of inputs with a leading axis of samples, sample by sample, each padded."""
    samples = inputs[0].shape[0] if inputs else 0
    return b"".join(pad(np.ascontiguousarray(array[i]).tobytes()) for i in range(samples) for array in inputs)


def pad(data: bytes) -> bytes:
    """Data with zeros up to the next multiple of 16 bytes, as firmware/host.h wants inputs."""
    return data + bytes(-len(data) % 16)
