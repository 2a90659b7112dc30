"""Runs a firmware image of a project of one's own in its board's emulator.

It passes if it ends itself, by Arm's semihosting, with status 0; or, if lines of its console are expected, when it has
printed them all, in their order.
"""

import argparse
import os
import subprocess
import threading
from collections.abc import Sequence
from contextlib import ExitStack

from tools.artifacts.board.board import read_board
from tools.quiet.console import UserError, printable, user_path
from tools.quiet.tool import option_parser, run_tool
from tools.verify.environment.hosted import EmulationError
from tools.verify.environment.npu import attached_npu
from tools.verify.environment.qemu import command_line


def run_image(command: Sequence[str], name: str, expected: Sequence[str], timeout: float) -> str:
    """Runs an image until it ends or has printed the expected text; returns its console.

    Args:
        command: the command that runs it.
        name: the image, for messages.
        expected: parts of lines of the console, in order; empty: the image must end with status 0.
        timeout: seconds of this machine's time after which the image counts as hung.

    Raises:
        EmulationError: it ended with another status, or too early, or hung.
        UserError: the command can't be started.
    """
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
        )
    except OSError as error:
        raise UserError(f"{command[0]}: {error.strerror}; it must be a program of this machine") from error
    hung = threading.Event()

    def end() -> None:
        hung.set()
        process.kill()

    timer = threading.Timer(timeout, end)
    timer.start()
    console: list[str] = []
    missing = list(expected)
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            console.append(line.decode("utf-8", errors="replace").replace("\r\n", "\n"))
            if missing and missing[0] in console[-1]:
                missing.pop(0)
                if not missing:
                    process.kill()
                    break
        status = process.wait()
    timer.cancel()
    text = "".join(console)
    if expected and not missing:
        return text
    if hung.is_set():
        waited = f"did not print '{missing[0]}'" if missing else "did not end"
        raise EmulationError("Timeout", f"{name} {waited} within {timeout:g} s", text)
    if missing:
        raise EmulationError("Mismatch", f"{name} ended with status {status} before it printed '{missing[0]}'", text)
    if status:
        raise EmulationError("Crash", f"{name} ended with status {status}", text)
    return text


def _run(arguments: argparse.Namespace) -> None:
    board = read_board(arguments.board)
    command = command_line(arguments.elf, board, arguments.qemu, ["image"])
    with ExitStack() as stack:
        if board.npu:
            command += stack.enter_context(attached_npu(arguments.elf, board))[1]
        console = run_image(command, arguments.elf.name, arguments.expect, arguments.timeout)
    print(printable(console), end="")
    print(f"{arguments.elf.name}: passed")


def main(argv: Sequence[str] | None = None) -> int:
    parser = option_parser("run_firmware", __doc__)
    parser.add_argument("--elf", type=user_path, required=True, help="the image")
    parser.add_argument("--board", type=user_path, required=True, help="board.json of the board that it is for")
    parser.add_argument("--qemu", type=user_path, required=True, help="qemu-system-arm")
    parser.add_argument("--expect", action="append", default=[], help="a part of a line of the console; repeatable")
    parser.add_argument(
        "--timeout",
        type=float,
        # Below the timeout of a Bazel test, so that a hang is reported before the test ends.
        default=0.8 * float(os.environ.get("TEST_TIMEOUT", "600")),
        help="seconds until the image counts as hung",
    )
    return run_tool("run_firmware", _run, parser.parse_args(argv))
