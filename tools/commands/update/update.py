"""Sends a signed program to a running image that takes updates (docs/update.md), over its console.

The board checks it, restarts and runs it. What ends this early, such as a power cut, leaves the program that ran
before.
"""

import argparse
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.artifacts.board.board import read_board
from tools.artifacts.signed_program.signed_program import SignedProgram, parse
from tools.commands.console.options import add_arguments, open_channel
from tools.commands.infer.protocol import Client
from tools.quiet.console import UserError, user_path
from tools.quiet.files import reading
from tools.quiet.tool import option_parser, run_tool

# firmware/update/application.cpp.
_STATE, _BEGIN, _WRITE, _FINISH = range(16, 20)
# UpdateStatus of firmware/update/program_slots.h.
_STATUS = [
    "",
    "it is no signed program that this firmware knows",
    "it is signed for another product",
    "its version is not above that of each program that has worked there",
    "it does not fit into a slot",
    "its signature is not by the key that this firmware trusts",
    "other bytes came than were announced",
    "the running program has not shown yet that it works",
    "its flash could not be written",
]
# Seconds that a board has to restart.
_RESTART = 2.0


def _ask(client: Client, kind: int, arguments: bytes = b"") -> bytes:
    return _checked(client.ask(kind, lambda _: arguments))


def _checked(answer: bytes) -> bytes:
    """Returns the rest of an answer, after its status.

    Raises:
        UserError: the status is a refusal.
    """
    status = answer[0] if answer else len(_STATUS)
    if status:
        why = _STATUS[status] if status < len(_STATUS) else f"status {status}"
        raise UserError(f"the board refuses the program: {why}")
    return answer[1:]


def running_version(client: Client) -> tuple[int, int]:
    """Returns the version of the program that a board runs, and the bytes of the largest that it takes.

    Raises:
        UserError: the image takes no updates.
    """
    try:
        version, largest = struct.unpack("<II", _ask(client, _STATE))
    except (UserError, struct.error) as error:
        raise UserError(
            f"{client.device.name} takes no updates ({error}): is an updatable_firmware flashed there?"
        ) from error
    return version, largest


def send(client: Client, data: bytes) -> None:
    """Sends a signed program; the board restarts afterwards.

    Raises:
        UserError: the board refuses it.
    """
    _ask(client, _BEGIN, struct.pack("<I", len(data)))
    at = 0
    while at < len(data):
        sent = b""

        def arguments(chunk: int, start: int = at) -> bytes:
            nonlocal sent
            sent = sent or data[start : start + chunk]
            return struct.pack("<I", start) + sent

        _checked(client.ask(_WRITE, arguments))
        at += len(sent)
        if sys.stderr.isatty():
            print(f"\r{at:,} of {len(data):,} bytes", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    _ask(client, _FINISH)


def read_update(path: Path) -> tuple[bytes, SignedProgram]:
    """Reads a signed program.

    Raises:
        UserError: the file is missing or none.
    """
    with reading("signed program", path, "a signed_program target writes it"):
        data = path.read_bytes()
        return data, parse(data)


def _run(arguments: argparse.Namespace) -> None:
    data, program = read_update(arguments.file)
    channel = open_channel(arguments, read_board(arguments.board))
    try:
        client = Client(channel, arguments.patience)
        version, largest = running_version(client)
        if program.version <= version:
            raise UserError(f"{arguments.file} has version {program.version}, and the board runs {version} already")
        if len(data) > largest:
            raise UserError(f"{arguments.file} has {len(data):,} bytes, and a slot of the board {largest:,}")
        send(client, data)
        end = time.monotonic() + _RESTART
        while time.monotonic() < end:
            channel.read(0.1)
        client = Client(channel, arguments.patience)
        now, _ = running_version(client)
        client.close()
    finally:
        channel.close()
    if now != program.version:
        raise UserError(
            f"the board took version {program.version} and runs {now}: it could not load it; is it exported for this "
            "image's kernels, inputs and outputs?"
        )
    print(f"version {version} -> {now}: {len(program.program):,} bytes of program")


def main(argv: Sequence[str] | None = None) -> int:
    """Command line entry point."""
    parser = option_parser("update", __doc__)
    add_arguments(parser)
    parser.add_argument("file", type=user_path, help="signed program: the .update of a signed_program")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds without an answer until giving up")
    return run_tool("update", _run, parser.parse_args(argv))
