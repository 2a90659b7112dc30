"""Runs an image on a board behind a debug probe, and compares its outputs with PyTorch's.

It programs the board, reads the console, and gives it samples of the golden file. One run at a time uses a probe: of
several probes for the board it takes one that is free, or waits until one is.
"""

import argparse
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np

from tools.artifacts.board.board import Board
from tools.artifacts.golden.golden import Golden
from tools.commands.console.channel import Channel, MachineChannel
from tools.commands.flash.flash import add_arguments, program_with_console
from tools.commands.flash.pyocd_tool import list_probes
from tools.commands.infer.protocol import Client
from tools.quiet.console import UserError, printable
from tools.verify.environment.environment import Run, SampleRun, spread, verify_main

# The probe of a simulated board, and any probe that this machine has.
SIMULATED, ANY = "simulated", "any"
# So many samples of a golden file are run by default.
_SAMPLES = 100
_BANNER = "Torch Fusion: "
# How an image's run of its example ends.
VERDICT = re.compile(r"^(PASS|FAIL.*)$", re.MULTILINE)


def read_start(channel: Channel, patience: float, *, model: str = "") -> str:
    """Reads what an image prints from its start until it has run its example and asks for input.

    Args:
        channel: the board's console.
        patience: seconds without a byte until the image counts as stuck.
        model: which of several models runs its example: the image asks for the name first. Empty: it has one.

    Raises:
        UserError: it doesn't get that far.
    """
    text, last = "", time.monotonic()
    while True:
        try:
            data = channel.read(min(0.5, patience))
        except UserError as error:
            raise UserError(f"the board was lost before its image asked for input: {error}") from error
        text += printable(data.decode("utf-8", "replace").replace("\r", ""))
        # An older image may have printed something before.
        start = text[max(0, text.rfind(_BANNER)) :]
        if start.endswith("> "):
            if VERDICT.search(start):
                return start
            if model:
                channel.write(f"{model}\n".encode("ascii"))
                model = ""
        if data:
            last = time.monotonic()
        elif time.monotonic() - last > patience:
            said = text.strip().splitlines()
            raise UserError(
                f"the image on {channel.name} printed nothing for {patience:g} s and doesn't ask for input; "
                + (f"its last line is: {said[-1]}" if said else "is this port its console (--port)?")
            )


def talk(channel: Channel, patience: float, *, model: str = "") -> Client:
    """Returns a conversation with the image on a channel, see Client.

    Nothing is lost on the way to a simulated board, however slow it is: a request is not repeated there.
    """
    first_wait = patience if isinstance(channel, MachineChannel) else 0.3
    return Client(channel, patience, first_wait, model)


def inputs_of(client: Client, inputs: Sequence[np.ndarray], sample: int) -> list[np.ndarray]:
    """Returns the inputs of a sample as the device's program takes them, of Golden.inputs_in_memory()."""
    return [
        array[sample].astype(spec.dtype, copy=False).reshape(spec.shape)
        for array, spec in zip(inputs, client.device.inputs, strict=True)
    ]


def run_samples(client: Client, golden: Golden) -> list[np.ndarray]:
    """Runs the device's program on all samples; returns an array per output, as Golden.outputs_in_memory().

    Raises:
        UserError: the device stops answering.
    """
    inputs = golden.inputs_in_memory()
    results = []
    for sample in range(golden.samples):
        arrays = inputs_of(client, inputs, sample)
        try:
            results.append(client.infer(arrays).outputs)
        except UserError as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"the board was lost at sample {sample + 1} of {golden.samples}: {reason}") from error
    return [
        np.stack([result[i] for result in results]).reshape(expected.shape)
        for i, expected in enumerate(golden.outputs_in_memory())
    ]


@contextmanager
def reserve(probes: Sequence[str], folder: Path | None = None) -> Iterator[str]:
    """Yields a probe that nobody else uses meanwhile, and waits until there is one.

    Args:
        probes: unique ids; ANY is for those that are connected.
        folder: where the locks are, for all users of this machine; default: its folder of temporary files.
    """
    folder = folder or Path(tempfile.gettempdir())
    if ANY in probes:
        probes = [line.split(maxsplit=1)[0] for line in list_probes()]
    said = False
    while True:
        for probe in probes:
            if probe == SIMULATED:
                # Each process has its own.
                yield probe
                return
            path = folder / f"torch_fusion_probe_{re.sub(r'[^A-Za-z0-9]', '_', probe)}.lock"
            # Another user's file can be read, which is enough for a lock. O_CREAT alone is refused for such a file in
            # /tmp, with fs.protected_regular as Debian sets it.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            with suppress(FileExistsError):
                made = os.open(path, flags | os.O_CREAT | os.O_EXCL)
                os.fchmod(made, 0o644)
                os.close(made)
            file = os.open(path, flags)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                continue
            try:
                yield probe
            finally:
                os.close(file)
            return
        if not said:
            print(f"waiting for a probe that is free: {', '.join(probes)}", flush=True)
            said = True
        time.sleep(0.2)


class ImageOnBoard:
    """An image on its board, as an Environment.

    Args:
        arguments: those of the command.
        board: the board.
        stack: what the run needs is released with it.
    """

    def __init__(self, arguments: argparse.Namespace, board: Board, stack: ExitStack) -> None:
        self._board = board
        self._patience: float = arguments.patience
        self._model: str = arguments.model
        probe, _, port = stack.enter_context(reserve(arguments.probe)).partition("@")
        self.kind = "simulated" if probe == SIMULATED else f"on the board behind probe {probe}"
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        words = ["--simulate"] if probe == SIMULATED else ["--probe", probe, *(["--port", port] if port else [])]
        for option in ("elf", "hex", "uf2", "algorithm"):
            value = getattr(arguments, option)
            words += [f"--{option}", str(value)] if value else []
        self._flash = parser.parse_args([*words, "--board", str(arguments.board)])
        self._stack = stack
        self._channel: Channel | None = None

    def run_example(self) -> Run:
        """Programs the board and reads what the image says of its example, see Environment.run_example()."""
        self._channel, programmed = program_with_console(self._flash, self._board)
        self._stack.enter_context(closing(self._channel))
        if isinstance(self._channel, MachineChannel):
            # The notes are about a board that has no image yet.
            self._channel.machine.notes.clear()
        start = read_start(self._channel, self._patience, model=self._model)
        found = VERDICT.search(start)
        verdict = found[1] if found else ""
        return Run(start, (programmed.summary,), () if verdict == "PASS" else (f"the image says {verdict}",))

    def run_samples(self, golden: Golden, most: int | None) -> SampleRun:
        """Runs samples over the console, see Environment.run_samples(). The example was a stream's first sample."""
        assert self._channel is not None
        samples = spread(golden, most or _SAMPLES)[1 if golden.is_stream else 0 :]
        if not samples:
            return SampleRun((), ())
        outputs = run_samples(talk(self._channel, self._patience, model=self._model), golden.part(samples))
        notes = tuple(self._channel.machine.notes) if isinstance(self._channel, MachineChannel) else ()
        return SampleRun(tuple(samples), tuple(outputs), problems=notes)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hex", type=Path, required=True, help="the image as Intel HEX, which is what is programmed")
    parser.add_argument("--uf2", type=Path, help="the image as UF2, where the board's boot loader takes that")
    parser.add_argument("--algorithm", type=Path, help="the board's flash algorithm (ELF), where pyOCD has none")
    parser.add_argument(
        "--probe",
        action="append",
        required=True,
        metavar="ID[@PORT]",
        help=f"unique id of the board's debug probe, and its console if that is another port; '{ANY}': a probe of this "
        f"machine; '{SIMULATED}': a simulated board. Repeat it for several boards, of which one is taken",
    )
    parser.add_argument("--patience", type=float, default=30.0, help="seconds without an answer until giving up")


def _make(stack: ExitStack, arguments: argparse.Namespace, board: Board, golden: Golden | None) -> ImageOnBoard:
    # The board of the model before is released.
    stack.close()
    return ImageOnBoard(arguments, board, stack)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line entry point."""
    with ExitStack() as stack:
        return verify_main("on_board", __doc__, _add_options, partial(_make, stack), argv)
