"""Regenerates requirements_lock.txt from requirements.in with the packages that pip resolves on this machine."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_HERE = Path("third_party/python")

_HEAD = """\
# The Python environment, with a hash for every file. Made by `./bazelw run //third_party/python:update_lock`; only
# additional hashes are written by hand, and survive an update to the same version.
#
# torch: the hash is that of the wheel without CUDA, {torch}, which the package index itself doesn't have. pip finds it
# where PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL (or pip's configuration) point, e.g. to PyTorch's own index of wheels for
# the CPU. If pip offers another build of that version (another processor or another index) it names that build's hash;
# check where it comes from and add it to the line of torch: `--hash=sha256:...`.
"""


class LockError(Exception):
    """The lock can't be made; the message says why and what to do."""


def exclusions(requirements: str) -> set[str]:
    """Returns the canonical names in `#without NAME` lines."""
    return {canonicalize_name(name) for name in re.findall(r"^#without (\S+)$", requirements, re.MULTILINE)}


def needed(requirements: str, installed: dict[str, dict[str, Any]]) -> list[str]:
    """Returns the sorted canonical names of what the requirements need, directly or not, without the exclusions.

    Args:
      requirements: Text of requirements.in.
      installed: From canonical name to the entry of pip's installation report.
    """
    without = exclusions(requirements)
    lines = [line for line in requirements.splitlines() if line and not line.startswith("#")]
    pending = [Requirement(line) for line in lines]
    found: set[tuple[str, str]] = set()
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        if name in without:
            continue
        if name not in installed:
            raise LockError(f"pip's resolution has no {name}; is it misspelt in requirements.in?")
        for extra in ["", *sorted(requirement.extras)]:
            if (name, extra) in found:
                continue
            found.add((name, extra))
            for text in installed[name]["metadata"].get("requires_dist", []):
                dependency = Requirement(text)
                if dependency.marker is None or dependency.marker.evaluate({"extra": extra}):
                    pending.append(dependency)
    return sorted({name for name, _ in found})


def previous_hashes(lock: str) -> dict[str, list[str]]:
    """Returns the hashes of a lock by `name==version`."""
    entries = [line.split() for line in lock.splitlines() if line and not line.startswith("#")]
    return {entry[0]: [word.removeprefix("--hash=") for word in entry[1:]] for entry in entries}


def format_lock(names: list[str], installed: dict[str, dict[str, Any]], previous: dict[str, list[str]]) -> str:
    """Returns the lock's text; hashes of `previous` are kept where the version is the same."""
    lines = []
    for name in names:
        entry = installed[name]
        # A local version (2.13.0+cpu) would bind the lock to one index.
        version = entry["metadata"]["version"].split("+")[0]
        pin = f"{name}=={version}"
        own = "sha256:" + entry["download_info"]["archive_info"]["hashes"]["sha256"]
        hashes = sorted({own, *previous.get(pin, [])})
        lines.append(" ".join([pin, *(f"--hash={digest}" for digest in hashes)]))
    return _HEAD.format(torch=installed["torch"]["metadata"]["version"]) + "\n" + "\n".join(lines) + "\n"


def resolve(requirements: Path) -> dict[str, dict[str, Any]]:
    """Lets pip resolve the requirements, from wheels only; returns the entries of its installation report by canonical name."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-input", "--quiet"]
        pip.append("--only-binary=:all:")
        status = subprocess.run([*pip, "--report", str(report), "--requirement", str(requirements)], check=False)
        if status.returncode != 0:
            raise LockError("pip could not resolve requirements.in; its message is above.")
        entries = json.loads(report.read_text())["install"]
    return {canonicalize_name(entry["metadata"]["name"]): entry for entry in entries}


def main(argv: list[str] | None = None) -> int:
    """Command line entry point."""
    parser = argparse.ArgumentParser(prog="update_lock", description=__doc__)
    workspace = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    default = Path(workspace) / _HERE if workspace else None
    parser.add_argument("--directory", type=Path, default=default, help="where requirements.in is and the lock goes")
    arguments = parser.parse_args(argv)
    if arguments.directory is None:
        parser.error("start it with `./bazelw run //third_party/python:update_lock`, or give --directory")
    requirements = arguments.directory / "requirements.in"
    lock = arguments.directory / "requirements_lock.txt"
    try:
        installed = resolve(requirements)
        names = needed(requirements.read_text(), installed)
        previous = previous_hashes(lock.read_text()) if lock.exists() else {}
        lock.write_text(format_lock(names, installed, previous))
    except LockError as error:
        print(f"update_lock: {error}", file=sys.stderr)
        return 1
    print(f"{lock}: {len(names)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
