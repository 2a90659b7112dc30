"""Environments whose images communicate with a host by files, as firmware/host.h describes: an image reads its inputs
from one, writes its outputs and a report to others, and exits with a status. QEMU is one, this machine another.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from tools.abi.layouts.layouts import ERRORS, HOST_REPORT, HOST_REPORT_PASS, ExitStatus
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.quiet.console import UserError
from tools.quiet.troubleshooting import more_about


@dataclass(frozen=True)
class Report:
    """An image's measurements: HostReport of firmware/host.h, in its order."""

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
    load, execute: instructions of loading the program and of its first execution; None where they are not counted.
    report: memory use and sample count.
    """

    outputs: bytes
    console: str
    load: int | None
    execute: int | None
    report: Report


class Hosted(Protocol):
    """An environment whose images communicate with a host by files."""

    def run(self, image: Path, inputs: bytes | None = None, timeout: float = 120, model: str = "") -> Result:
        """Runs an image until it exits.

        Args:
            image: the image.
            inputs: the inputs of all samples from join_inputs(), or other input for the image; None runs the embedded
              example.
            timeout: seconds of this machine's time after which the image counts as hung.
            model: the model to run, of several; empty: the image decides.

        Raises:
            EmulationError: the image crashed, hung, had an error or did not report PASS.
            UserError: image or emulator cannot be started.
        """

    def instructions(self, ticks: int) -> int | None:
        """Returns the instructions in a number of the image's ticks; None if they are not counted."""


class EmulationError(UserError):
    """An image did not end properly.

    Attributes:
        name: `Timeout`, `Fault`, `Abort`, `Mismatch`, `Crash`, `MissingPass`, `StackOverflow`, `Host`, or the name of
          ExecuTorch's error.
        reason: one line.
        console: the image's output until then.
    """

    def __init__(self, name: str, reason: str, console: str) -> None:
        shown = "\n".join(f"  | {line}" for line in console.rstrip().splitlines()) or "  | (nothing)"
        super().__init__(f"{name}: {reason}{more_about(name)}\nconsole:\n{shown}")
        self.name = name
        self.reason = reason
        self.console = console


def error_name(code: int) -> str:
    """Returns the name of an executorch::runtime::Error that is not Ok."""
    return ERRORS.get(code, f"Error {code:#x}")


def _fault_place(elf: Path, console: str) -> str:
    """Returns the location of a fault, from the fault handler's output."""
    places = []
    image = ElfImage(elf)
    for register in ("pc", "lr"):
        match = re.search(rf"\b{register} 0x([0-9a-f]{{8}})", console)
        symbol = match and image.function_at(int(match[1], 16) & ~1)
        if symbol:
            places.append(f"{register} in {symbol}")
    return f" ({', '.join(places)})" if places else ""


def run_hosted(
    environment: Hosted,
    image: Path,
    command: Callable[[Sequence[str]], list[str]],
    inputs: bytes | None,
    timeout: float,
    model: str,
) -> Result:
    """Runs Hosted.run() of an environment that starts its images by a command line.

    Args:
        environment: the environment.
        image: the image.
        command: the command line that runs the image with words of its own, of which the first is its name.
        inputs, timeout, model: see Hosted.run().
    """
    with tempfile.TemporaryDirectory(prefix="image-") as scratch:
        folder = Path(scratch)
        # Plain names: the command line that the image parses has no quoting.
        options = ["image", "outputs=outputs.bin", "report=report.bin"]
        if inputs is not None:
            (folder / "inputs.bin").write_bytes(inputs)
            options.append("inputs=inputs.bin")
        if model:
            (folder / "model.txt").write_text(model, encoding="ascii")
            options.append("model=model.txt")
        return finish(environment, command(options), image, folder, timeout)


def finish(environment: Hosted, command: Sequence[str], image: Path, folder: Path, timeout: float) -> Result:
    """Runs an image to its end and collects its outputs.

    Args:
        environment: where it runs.
        command: the command line that runs it.
        image: the image, for messages.
        folder: the working directory, with the files outputs.bin and report.bin afterwards.
        timeout: seconds of this machine's time after which the image counts as hung.

    Raises:
        EmulationError, UserError: see Hosted.run().
    """
    try:
        process = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except OSError as error:
        raise UserError(f"{command[0]}: {error.strerror}; it must be a program of this machine") from error
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
        load=environment.instructions(report.load_ticks),
        execute=environment.instructions(report.execute_ticks),
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
    if report is None and "\nPASS\n" in console:
        reason = f"{elf.name} wrote no report: firmware/host.h has it; a simulated board needs none"
        raise EmulationError("MissingPass", reason, console)
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
    """Returns the raw bytes of inputs with a leading axis of samples, sample by sample, each padded."""
    samples = inputs[0].shape[0] if inputs else 0
    return b"".join(pad(np.ascontiguousarray(array[i]).tobytes()) for i in range(samples) for array in inputs)


def pad(data: bytes) -> bytes:
    """Returns data with zeros up to the next multiple of 16 bytes, as firmware/host.h wants inputs."""
    return data + bytes(-len(data) % 16)
