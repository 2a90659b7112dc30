"""Kills builds and fills their disk at random moments of a fetch, an export, a link and a package; then frees the disk
and runs the same command again. It must succeed and build the bytes that an undisturbed build has. So must the second
build with a damaged cache of actions, two builds at once, a build in a read-only checkout, and one without a network
after that.

    ./bazelw run //tests/faults                                        # 12 kills and 8 full disks
    ./bazelw run //tests/faults -- --kills 100 --full 0 --seed 2 --phase fetch

All of it happens in a copy of the checkout with a home of its own, on a disk in memory, for which `unshare -rm` makes a
mount namespace without root. Needs up to 3 GB of memory. The exit status is 1 if a command failed the second time.
"""

import argparse
import contextlib
import ctypes
import fcntl
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tests.checkout.checkout import Checkout, CheckoutError, copy_checkout, remove, shared_repositories
from tools.quiet.console import UserError
from tools.quiet.tool import option_parser, run_tool

_SECONDS = 1800
_DISK = 16 << 30
# Set while this runs in the namespace.
_INSIDE = "TORCH_FUSION_FAULTS"
_CACHE = ".cache/torch_fusion"


@dataclass(frozen=True)
class Phase:
    """Names a step of a build that is disturbed.

    Attributes:
      targets: what is built.
      folder: the folder of outputs, below `bin`, that is removed before; without one, all that was fetched is.
    """

    targets: list[str]
    folder: str = ""


PHASES = {
    # A compiler from Debian's packages, headers from a wheel, an interpreter and a set of Python packages.
    "fetch": Phase(["//runtime:program_reader", "//third_party/python:ruff"]),
    "export": Phase(["//models/sine:sine"], "models/sine"),
    "link": Phase(["//firmware:nucleo_wb55rg"], "firmware"),
    "package": Phase(["//tests/compiled:networks_make"], "tests/compiled"),
}


class Machine:
    """A home, a cache and a checkout on a disk of their own, whose free space can be taken.

    Args:
      workspace: the user's checkout, whose Bazel and, outside of the phase `fetch`, fetched repositories are used.
      folder: an empty folder.
    """

    def __init__(self, workspace: Checkout, folder: Path) -> None:
        shared = shared_repositories(workspace)
        user_cache = Path(os.environ.get("BAZELW_CACHE") or Path.home() / _CACHE)
        self.disk = folder / "disk"
        self.disk.mkdir()
        mounted = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(self.disk)]
        if subprocess.run(mounted, check=False).returncode:
            raise UserError("this user may not mount a file system in a namespace here; run it on another machine.")
        self.cache = self.disk / _CACHE
        self.cache.mkdir(parents=True)
        (self.disk / "tmp").mkdir()
        # Its installation is //tests/bazelw's.
        for installed in user_cache.glob("bazel-*"):
            (self.cache / installed.name).symlink_to(installed)
        for name in ("BAZELW_CACHE", "XDG_CACHE_HOME"):
            os.environ.pop(name, None)
        os.environ |= {"HOME": str(self.disk), "TMPDIR": str(self.disk / "tmp")}
        copy_checkout(workspace.root, self.disk / "checkout")
        self._bases = {"fetch": (self.disk / "fetched", []), "": (self.disk / "out", shared)}

    def base(self, phase: str) -> Path:
        """Returns the output base of a phase."""
        return self._bases.get(phase, self._bases[""])[0]

    def checkout(self, phase: str) -> Checkout:
        """Returns the checkout as a phase builds in it."""
        base, flags = self._bases.get(phase, self._bases[""])
        return Checkout(self.disk / "checkout", base, flags)

    def forget(self, phase: str, actions: bool = True) -> None:
        """Removes what a phase makes, and what the cache of actions knows of it, if asked to."""
        if phase == "fetch":
            self.checkout(phase).shutdown()
            remove(self.base(phase))
            remove(self.cache / "repositories")
        else:
            for folder in self.base(phase).glob(f"execroot/_main/bazel-out/*/bin/{PHASES[phase].folder}"):
                remove(folder)
        if actions:
            remove(self.cache / "actions/ac")

    def fill(self) -> None:
        """Leaves no space on the disk beyond what is used."""
        state = os.statvfs(self.disk)
        self._resize((state.f_blocks - state.f_bfree) * state.f_frsize)

    def free(self) -> None:
        """Gives the disk its size back."""
        self._resize(_DISK)

    def _resize(self, size: int) -> None:
        # It is refused if a build has just written more, and tried again by who wants it.
        command = ["mount", "-o", f"remount,size={size}", str(self.disk)]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)


def descendants(root: int) -> list[int]:
    """Returns the process ids of all that a process has started, by what /proc says."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            # It is over.
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        waiting.extend(children.get(waiting[0], []))
        found.append(waiting.pop(0))
    return found[1:]


def kill(process: int) -> None:
    """Kills a process as the system does when memory is short; one that is over is fine."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def kill_build(client: int, base: Path, chance: random.Random) -> str:
    """Kills all processes of a build, or one of them; returns which."""
    server = _server(base)
    started = descendants(server) if server else []
    choice = chance.choice(["all", "server", "client", "action"])
    if choice == "action" and started:
        victims = [chance.choice(started)]
    else:
        victims = {"server": [server], "client": [client]}.get(choice, [client, server, *started])
        choice = "all" if choice == "action" else choice
    for process in victims:
        if process:
            kill(process)
    return f"kill -9 of {choice}"


def _server(base: Path) -> int:
    """Returns the process id of the Bazel server, or 0."""
    try:
        return int((base / "server/server.pid.txt").read_text())
    except (OSError, ValueError):
        return 0


def disturbed(machine: Machine, phase: str, after: float, chance: random.Random | None, log: TextIO) -> tuple[str, int]:
    """Builds what a phase does, and after some seconds kills the build (by chance) or fills its disk (without).

    Returns:
      What was done to it, empty if it was over before, and its status.
    """
    checkout = machine.checkout(phase)
    process = checkout.start("build", PHASES[phase].targets, log)
    what = ""
    start = time.monotonic()
    try:
        while process.poll() is None and time.monotonic() - start < after:
            time.sleep(0.02)
        if chance and process.poll() is None:
            what = kill_build(process.pid, machine.base(phase), chance)
        while not chance and process.poll() is None and time.monotonic() - start < _SECONDS:
            what = "full disk"
            machine.fill()
            time.sleep(0.05)
        return what, process.wait(_SECONDS)
    finally:
        machine.free()


def said(output: str) -> str:
    """Returns the line of a failed build's output that tells most."""
    for pattern in ("No space left|is full", "^Error in fail", "^(ERROR|FATAL|Server terminated)", ""):
        for line in output.splitlines():
            if re.search(pattern, line) and line.strip():
                return line.strip()[:150]
    return ""


def try_phase(machine: Machine, phase: str, faults: Sequence[bool], seed: int, folder: Path) -> int:
    """Disturbs a phase once for each of the faults, kills or full disks; returns how often the same command failed."""
    checkout = machine.checkout(phase)
    targets = PHASES[phase].targets
    checkout.build("build", targets, [])
    expected = checkout.outputs(targets)
    machine.forget(phase)
    seconds = checkout.build("build", targets, []).seconds
    failed = 0
    for number, is_kill in enumerate(faults):
        chance = random.Random(f"{seed} {phase} {number}")
        log = folder / f"{phase}_{number}.log"
        after, what = 2 * chance.uniform(0, seconds), ""
        # It may be quicker than it was: then the moment comes earlier.
        while not what:
            after /= 2
            machine.forget(phase)
            with log.open("w") as file:
                what, status = disturbed(machine, phase, after, chance if is_kill else None, file)
        again = "succeeds"
        try:
            checkout.build("build", targets, [])
            if checkout.outputs(targets) != expected:
                again = "HAS OTHER OUTPUTS"
        except CheckoutError as error:
            again = f"FAILS: {error}"
        failed += again != "succeeds"
        words = said(log.read_text(errors="replace")) if status else ""
        print(f"| {phase} | {what} | {after:.1f} of {seconds:.1f} s | {status} | {words} | {again} |", flush=True)
    checkout.shutdown()
    return failed


def damage(folder: Path, chance: random.Random) -> None:
    """Changes a bit in about every second file of a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and chance.random() < 0.5 and (content := bytearray(path.read_bytes())):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            path.write_bytes(content)


def _damage_cache(machine: Machine, checkout: Checkout, targets: list[str], seed: int) -> None:
    checkout.build("build", targets, [])
    checkout.shutdown()
    damage(machine.cache / "actions", random.Random(seed))
    machine.forget("link", actions=False)
    with contextlib.suppress(CheckoutError):
        checkout.build("build", targets, [])


def _build_both(checkout: Checkout, targets: list[str], other: Path) -> None:
    copy_checkout(checkout.root, other)
    second = Checkout(other, other.with_suffix(".out"), checkout.flags)
    with ThreadPoolExecutor() as pool:
        builds = [pool.submit(each.build, "build", targets, []) for each in (checkout, second)]
    for build in builds:
        build.result()
    outputs = second.outputs(targets)
    second.shutdown()
    if outputs != checkout.outputs(targets):
        raise CheckoutError("the two builds have different outputs")


def _make_read_only(checkout: Path) -> None:
    for option in ("bind", "remount,bind,ro"):
        subprocess.run(["mount", "-o", option, str(checkout), str(checkout)], check=True)


def _leave_network() -> None:
    """Leaves this process, and what it starts, the loopback interface alone."""
    new_network, set_flags, up = 0x40000000, 0x8914, 1
    if ctypes.CDLL(None, use_errno=True).unshare(new_network):
        raise UserError(f"unshare: {os.strerror(ctypes.get_errno())}; run it on another machine.")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", up))


def try_conditions(machine: Machine, seed: int) -> tuple[int, int]:
    """Builds the targets of a link under conditions, of which the last two stay; returns how many, and the failures."""
    checkout, targets = machine.checkout("link"), PHASES["link"].targets
    conditions: dict[str, Callable[[], None]] = {
        "damaged cache of actions": lambda: _damage_cache(machine, checkout, targets, seed),
        "two builds at once": lambda: _build_both(checkout, targets, machine.disk / "other"),
        "read-only checkout": lambda: _make_read_only(checkout.root),
        "no network": _leave_network,
    }
    failed = 0
    for what, begin in conditions.items():
        checkout.build("build", targets, [])
        expected = checkout.outputs(targets)
        checkout.shutdown()
        machine.forget("link")
        try:
            begin()
            checkout.build("build", targets, [])
            result = "succeeds" if checkout.outputs(targets) == expected else "HAS OTHER OUTPUTS"
        except CheckoutError as error:
            result = f"FAILS: {error}"
        failed += result != "succeeds"
        print(f"| link | {what} | | | | {result} |", flush=True)
    checkout.shutdown()
    return len(conditions), failed


def _run(options: argparse.Namespace, workspace: Checkout) -> int:
    phases = options.phase or list(PHASES)
    workspace.build("build", [target for phase in phases for target in PHASES[phase].targets], [])
    folder = Path(tempfile.mkdtemp(prefix="faults"))
    machine = Machine(workspace, folder)
    print("| phase | what was done | when | status | what it said | the same command |")
    print("|---|---|--:|--:|---|---|", flush=True)
    failed = 0
    for index, phase in enumerate(phases):
        # Each phase gets equally many of each kind; the first ones get the rest.
        faults = [
            kind
            for kind, count in ((True, options.kills), (False, options.full))
            for _ in range(index, count, len(phases))
        ]
        failed += try_phase(machine, phase, faults, options.seed, folder)
    total = options.kills + options.full
    if "link" in phases:
        tried, wrong = try_conditions(machine, options.seed)
        total += tried
        failed += wrong
    print(f"{total - failed} of {total} succeeded")
    if failed:
        print(f"The builds' output is in {folder}.")
        return 1
    subprocess.run(["umount", "--lazy", str(machine.disk)], check=True)
    shutil.rmtree(folder)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = option_parser("faults", __doc__)
    parser.add_argument("--kills", type=int, default=12, help="how many builds are killed (default: 12)")
    parser.add_argument("--full", type=int, default=8, help="how often the disk is filled (default: 8)")
    parser.add_argument("--seed", type=int, default=1, help="which moments and processes (default: 1)")
    parser.add_argument("--phase", action="append", choices=PHASES, help="only this one; may be given several times")
    options = parser.parse_args(argv)
    workspace = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if workspace is None:
        parser.error("start it with `./bazelw run //tests/faults`")
    if _INSIDE not in os.environ:
        os.environ[_INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--map-root-user", "--mount", "--", sys.executable, *sys.orig_argv[1:]])
    return run_tool("faults", _run, options, Checkout(Path(workspace)))
