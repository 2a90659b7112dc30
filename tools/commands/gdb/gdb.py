"""Debugs an image on a board: starts a gdb server on the debug probe, and gdb on the image.

The server is pyOCD's; --tool openocd starts OpenOCD instead. In gdb, `load` programs the flash, `monitor reset halt`
resets.
"""

import argparse
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tools.artifacts.board.board import Board, read_board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.commands.console.options import image_options
from tools.commands.flash.flash import openocd_base, refuse_when_simulated
from tools.commands.flash.pyocd_tool import Selection, open_session
from tools.quiet.console import UserError, user_path
from tools.quiet.tool import option_parser, run_tool

_LAST_PORT = 65535
# Debuggers for Arm images, the best first.
_GDBS = ("arm-none-eabi-gdb", "gdb-multiarch", "gdb")


def find_gdb(wanted: str | None) -> str:
    """Returns the gdb to start.

    Args:
        wanted: a path, or a name to look for on the PATH; None: one for Arm from there.

    Raises:
        UserError: there is none for Arm.
    """
    if wanted is not None:
        found = shutil.which(user_path(wanted) if "/" in wanted else wanted)
        if found is None:
            raise UserError(f"--gdb {wanted} is no program that can be started; name another, or leave it out")
        return found
    for name in _GDBS:
        found = shutil.which(name)
        if found and (name != "gdb" or _knows_arm(found)):
            return found
    raise UserError(
        "no gdb for Arm is on the PATH: install gdb-multiarch (Debian, Ubuntu) or arm-none-eabi-gdb, or name one with "
        "--gdb; --server-only starts the server alone"
    )


def _knows_arm(gdb: str) -> bool:
    command = [gdb, "-batch", "-ex", "set architecture armv7e-m"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def gdb_command(gdb: str, elf: Path, port: int) -> list[str]:
    """Returns the command line that debugs an image through the server at a port."""
    return [gdb, "-q", "-ex", f"target extended-remote localhost:{port}", str(elf)]


def _run_gdb(command: Sequence[str]) -> None:
    # Ctrl-C is for gdb.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        subprocess.run(command, check=False, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    finally:
        signal.signal(signal.SIGINT, before)


def _wait_for_interrupt() -> NoReturn:
    while True:
        time.sleep(1)


def debug_with_pyocd(arguments: argparse.Namespace, board: Board, gdb: str | None) -> None:
    """Serves until gdb ends, or without one until Ctrl-C.

    Raises:
        UserError: the port is taken, or see open_session().
    """
    from pyocd.gdbserver.gdbserver import GDBServer

    with open_session(board, Selection(arguments.probe, None, arguments.algorithm)) as session:
        session.options["gdbserver_port"] = arguments.port
        session.options["persist"] = True
        try:
            server = GDBServer(session, core=0)
        except OSError as error:
            raise UserError(f"port {arguments.port} is taken ({error.strerror}); name another with --port") from error
        server.start()
        print(f"gdb server for {board.name} on port {server.port}", flush=True)
        try:
            if gdb is None:
                _wait_for_interrupt()
            else:
                _run_gdb(gdb_command(gdb, arguments.elf, server.port))
        finally:
            server.stop()


def openocd_server(board: Board, probe_id: str | None, port: int) -> list[str]:
    """Returns the command line of OpenOCD's gdb server."""
    return [*openocd_base(board, probe_id), "-c", f"gdb_port {port}"]


def debug_with_openocd(arguments: argparse.Namespace, board: Board, gdb: str | None) -> None:
    """Does the same as debug_with_pyocd(), with OpenOCD.

    Raises:
        UserError: OpenOCD is not installed, or it ended.
    """
    command = openocd_server(board, arguments.probe, arguments.port)
    if not shutil.which(command[0]):
        raise UserError("openocd is not on the PATH: install it, or leave --tool out to use pyOCD")
    # OpenOCD's messages would disturb gdb.
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            time.sleep(1)
            if server.poll() is not None:
                said = (server.stderr.read() if server.stderr else "").strip().splitlines()
                raise UserError(f"openocd ended: {said[-1] if said else 'it does not say why'}")
            if gdb is None:
                _wait_for_interrupt()
            else:
                _run_gdb(gdb_command(gdb, arguments.elf, arguments.port))
        finally:
            server.terminate()


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("gdb", __doc__)
    image = image_options(parser)
    image.add_argument("--elf", type=Path, required=True, help="the image")
    image.add_argument("--board", type=Path, required=True, help="board.json of the board it is for")
    image.add_argument("--algorithm", type=Path, help="the board's flash algorithm (ELF), where pyOCD has none")
    parser.add_argument("--probe", help="unique id of the debug probe, or its start, if there are several")
    parser.add_argument("--tool", choices=["openocd", "pyocd"], default="pyocd", help="what talks to the probe")
    parser.add_argument("--gdb", help="the gdb to start; default: one for Arm from the PATH")
    parser.add_argument("--port", type=int, default=3333, help="the server's TCP port; 0 takes any; default 3333")
    parser.add_argument("--server-only", action="store_true", help="start no gdb; Ctrl-C ends")
    parser.add_argument("--simulate", action="store_true", help="debug on a simulated board")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> None:
    board = read_board(arguments.board)
    gdb = None if arguments.server_only else find_gdb(arguments.gdb)
    lowest = 1 if arguments.tool == "openocd" else 0
    if not lowest <= arguments.port <= _LAST_PORT:
        raise UserError(f"--port {arguments.port} is no TCP port; with {arguments.tool}: {lowest} to {_LAST_PORT}")
    if arguments.simulate:
        refuse_when_simulated(arguments, "probe", "tool")
        from boardsim.boards import simulated
        from tools.commands.flash import simulated_probe

        machine = simulated(board)
        machine.load_elf(ElfImage(arguments.elf))
        machine.reset()
        arguments.probe = simulated_probe.connect(machine).unique_id
    if arguments.tool == "openocd":
        debug_with_openocd(arguments, board, gdb)
    else:
        debug_with_pyocd(arguments, board, gdb)


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("gdb", _run, _parse(argv))
