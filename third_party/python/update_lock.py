"""Regenerates the locks from the files of requirements, with the packages that pip resolves on this machine."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

from tools.quiet.console import UserError
from tools.quiet.files import replace_text
from tools.quiet.tool import run_tool

_HERE = Path("third_party/python/requirements")

# Sets whose wheels differ by index: the build +LOCAL of the first package is what the lock has, and PUBLIC.txt what the
# public index has instead, with what importing that needs.
_LOCAL = {"torch": "cpu"}

# Locks have the files for each of these machines and versions of Python, whichever made them.
MACHINES = ("aarch64", "x86_64")
PYTHONS = ("3.11", "3.12", "3.13")

# The newest minor version of glibc 2 that wheels may need: Debian 12's.
_GLIBC_MINOR = 36

_HEAD = """\
# {title}, with a hash for every file. Made by `./bazelw run //third_party/python:update_lock` from {source};
# only additional hashes are written by hand, and survive an update to the same version.
"""


class LockError(UserError):
    """The lock can't be made; the message says why and what to do."""


def exclusions(requirements: str) -> set[str]:
    """Returns the canonical names in `#without NAME` lines."""
    return {canonicalize_name(name) for name in re.findall(r"^#without (\S+)$", requirements, re.MULTILINE)}


def alone(requirements: str) -> list[str]:
    """Returns the pins in `#alone NAME==VERSION` lines: packages of which files are read, and nothing is imported."""
    return re.findall(r"^#alone (\S+==\S+)$", requirements, re.MULTILINE)


def machine_of(requirements: str) -> dict[str, str]:
    """Returns the machines in `#only MACHINE NAME` lines by canonical name: packages that no other machine has."""
    found = re.findall(r"^#only (\S+) (\S+)$", requirements, re.MULTILINE)
    return {canonicalize_name(name): machine for machine, name in found}


def required(requirements: str) -> list[Requirement]:
    """Returns the requirements in lines of their own."""
    return [Requirement(line) for line in requirements.splitlines() if line and line[0] not in "#-"]


def included(requirements: str) -> list[str]:
    """Returns the files that `-r FILE` lines name."""
    return re.findall(r"^-r (\S+)$", requirements, re.MULTILINE)


def needed(requirements: str, installed: dict[str, dict[str, Any]]) -> list[str]:
    """Returns the sorted canonical names of packages that requirements need, directly or not, without exclusions.

    Args:
      requirements: Text of a file of requirements; lines that include others are ignored.
      installed: From canonical name to the entry of pip's installation report.
    """
    environments = [
        {"platform_machine": machine, "python_version": python, "python_full_version": f"{python}.0"}
        for machine in MACHINES
        for python in PYTHONS
    ]
    without = exclusions(requirements)
    pending = required(requirements)
    found: set[tuple[str, str]] = set()
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        if name in without:
            continue
        if name not in installed:
            raise LockError(f"pip's resolution has no {name}; is it misspelt, or needed only on other machines?")
        for extra in ["", *sorted(requirement.extras)]:
            if (name, extra) in found:
                continue
            found.add((name, extra))
            for text in installed[name]["metadata"].get("requires_dist", []):
                dependency = Requirement(text)
                marker = dependency.marker
                if marker is None or any(marker.evaluate(each | {"extra": extra}) for each in environments):
                    pending.append(dependency)
    return sorted({name for name, _ in found})


def sets(
    texts: dict[str, str], installed: dict[str, dict[str, Any]], wanted: Iterable[str] | None = None
) -> dict[str, list[str]]:
    """Returns for each set the sorted names that its lock has: its needs, without those of the sets it includes.

    Args:
      texts: From a set's name to the text of its file of requirements, which includes others as `-r NAME.in`.
      installed: From canonical name to the entry of pip's installation report.
      wanted: The sets, which come with those that they include; by default all.
    """
    found: dict[str, list[str]] = {}

    def everything(name: str) -> set[str]:
        below = set().union(*(everything(Path(file).stem) for file in included(texts[name])))
        pins = {canonicalize_name(Requirement(pin).name) for pin in alone(texts[name])}
        own = ({*needed(texts[name], installed)} | pins) - below
        found[name] = sorted(own)
        return own | below

    for name in texts if wanted is None else wanted:
        everything(name)
    return found


def previous_hashes(lock: str) -> dict[str, list[str]]:
    """Returns the hashes of a lock by `name==version`."""
    entries = [line.split() for line in lock.splitlines() if line and not line.startswith("#")]
    return {entry[0]: [word.removeprefix("--hash=") for word in entry[1:]] for entry in entries}


def _pin(entry: dict[str, Any]) -> str:
    return f"{canonicalize_name(entry['metadata']['name'])}=={entry['metadata']['version']}"


def _digest(entry: dict[str, Any]) -> str:
    return "sha256:" + entry["download_info"]["archive_info"]["hashes"]["sha256"]


def _wheel_tags(entry: dict[str, Any]) -> frozenset[Tag]:
    """Returns the tags of the wheel that pip takes; fails if that is no wheel."""
    address = entry["download_info"]["url"]
    if not address.endswith(".whl"):
        raise LockError(
            f"pip takes {entry['metadata']['name']} from {address}, which is no wheel: what a machine's compiler makes "
            "of it differs from machine to machine. Require a version of it that has one."
        )
    return parse_wheel_filename(unquote(address.rpartition("/")[2]))[3]


def _platforms(machine: str) -> list[str]:
    """Returns the platforms of wheels for Debian 12 on a machine, the newest first."""
    names = [f"manylinux_2_{minor}" for minor in range(_GLIBC_MINOR, 4, -1)]
    return [f"{name}_{machine}" for name in (*names, "manylinux2014", "manylinux2010", "manylinux1", "linux")]


def hashes_elsewhere(entries: list[dict[str, Any]], only: dict[str, str]) -> dict[str, set[str]]:
    """Returns the hashes of other machines' and other Pythons' files by `name==version`.

    Args:
      entries: of pip's installation report, with a name each once.
      only: From the canonical name of a package that one machine has to that machine.
    """
    found = defaultdict(set)
    for machine in MACHINES:
        for python in PYTHONS:
            version = [int(number) for number in python.split(".")]
            interpreter = "cp" + python.replace(".", "")
            platforms = _platforms(machine)
            suitable = {*cpython_tags(version, platforms=platforms), *compatible_tags(version, interpreter, platforms)}
            # The indexes of builds with a local label are few, and pip may not know one.
            pins = [
                _pin(entry)
                for entry in entries
                if not suitable & _wheel_tags(entry)
                and only.get(canonicalize_name(entry["metadata"]["name"]), machine) == machine
                and "+" not in entry["metadata"]["version"]
            ]
            if pins:
                kind = ["--implementation=cp", f"--python-version={python}"]
                kind += [f"--abi={abi}" for abi in (interpreter, "abi3", "none")]
                kind += [f"--platform={platform}" for platform in platforms]
                for entry in resolve(["--no-deps", "--only-binary=:all:", *kind, *pins]).values():
                    found[_pin(entry)].add(_digest(entry))
    return found


def _with_previous(hashes: dict[str, set[str]], lock: Path) -> dict[str, set[str]]:
    """Returns hashes with those of the lock, if there is one already."""
    previous = previous_hashes(lock.read_text()) if lock.exists() else {}
    return {pin: {*hashes.get(pin, ()), *previous.get(pin, ())} for pin in hashes.keys() | previous.keys()}


def format_lock(
    names: list[str], installed: dict[str, dict[str, Any]], more: Mapping[str, Iterable[str]], title: str, source: str
) -> str:
    """Returns the lock's text, with the hash that pip reports for each package and `more` by `name==version`."""
    lines = []
    for entry in (installed[name] for name in names):
        pin = _pin(entry)
        hashes = sorted({_digest(entry), *more.get(pin, ())})
        lines.append(" ".join([pin, *(f"--hash={digest}" for digest in hashes)]))
    return _HEAD.format(title=title, source=source) + "\n" + "\n".join(lines) + "\n"


def resolve(arguments: list[str], environment: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Lets pip resolve requirements; returns the entries of its installation report by canonical name.

    Args:
      arguments: Arguments of `pip install`: the requirements.
      environment: Pip's environment; by default this process's.
    """
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-input", "--quiet"]
        pip += ["--prefer-binary", "--report", str(report), *arguments]
        # Apart from the terminal, Ctrl-C is this program's alone: pip would have lines of its own to say of it.
        if subprocess.run(pip, check=False, env=environment, start_new_session=True).returncode != 0:
            raise LockError(f"pip could not resolve {' '.join(arguments)}; its message is above.")
        entries = json.loads(report.read_text())["install"]
    return {canonicalize_name(entry["metadata"]["name"]): entry for entry in entries}


def resolve_public(name: str, version: str, text: str) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Resolves a set's package by the public index, whatever pip's configuration adds to that.

    Args:
      name: The package.
      version: Its version, without a local label.
      text: The set's requirements.

    Returns:
      The names of the packages that it needs, and pip's entries.
    """
    added = ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS")
    environment = {key: value for key, value in os.environ.items() if key not in added}
    entries = resolve([f"{name}=={version}"], environment | {"PIP_CONFIG_FILE": os.devnull})
    return needed(text, entries), entries


def update(directory: Path) -> dict[Path, int]:
    """Writes the locks of all files of requirements in a directory; returns how many packages each has."""
    texts = {path.stem: path.read_text() for path in sorted(directory.glob("*.in"))}
    if not texts:
        raise LockError(f"{directory} has no files of requirements (*.in).")
    installed = resolve([word for name in texts for word in ("--requirement", str(directory / f"{name}.in"))])
    pins = [pin for text in texts.values() for pin in alone(text)]
    if pins:
        installed = resolve(["--no-deps", *pins]) | installed
    for name, local in _LOCAL.items():
        version = installed[name]["metadata"]["version"] if name in texts else ""
        if name in texts and not version.endswith(f"+{local}"):
            raise LockError(
                f"pip resolves {name} to {version}, and the lock needs its build +{local}: point PIP_FIND_LINKS or "
                "PIP_EXTRA_INDEX_URL to one."
            )
    by_set = sets(texts, installed)
    locks = {name: (names, installed, f"{name}.in") for name, names in by_set.items()}
    for name in _LOCAL:
        if name in texts:
            names, entries = resolve_public(name, installed[name]["metadata"]["version"].split("+")[0], texts[name])
            below = {other for file in included(texts[name]) for other in by_set[Path(file).stem]}
            # Packages in both locks have the same version in both, so that other sets fit either.
            names = sorted(set(names) - below)
            entries |= {other: entry for other, entry in installed.items() if other != name}
            locks[f"{name}_public"] = (names, entries, f"{name}.in with the public index alone")
    counts = {}
    written = {}
    pinned = {_pin(entries[name]): entries[name] for names, entries, _ in locks.values() for name in names}
    elsewhere = hashes_elsewhere(list(pinned.values()), machine_of("\n".join(texts.values())))
    for name, (names, entries, source) in locks.items():
        path = directory / f"{name}.txt"
        hashes = _with_previous(elsewhere, path)
        written[path] = format_lock(names, entries, hashes, f"The Python packages of {name}", source)
        counts[path] = len(names)
    for path, text in written.items():
        replace_text(path, text)
    for release in sorted({path.parent for path in directory.glob("*/*.in")}):
        counts |= update_release(release)
    return counts


def update_release(directory: Path) -> dict[Path, int]:
    """Writes the locks of a release's own sets, which fit the default's locks of the sets below them.

    Args:
      directory: of the release, in the one with the default's files; its files include those as `-r ../NAME.in`.
    """
    own = {path.stem: path.read_text() for path in sorted(directory.glob("*.in"))}
    below = {path.stem: path for path in directory.parent.glob("*.in") if path.stem not in own}
    pins = [pin for name in below for pin in previous_hashes((directory.parent / f"{name}.txt").read_text())]
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text("\n".join(pins))
        files = [word for name in own for word in ("--requirement", str(directory / f"{name}.in"))]
        installed = resolve([*files, "--constraint", str(constraints)])
    by_set = sets(own | {name: path.read_text() for name, path in below.items()}, installed, own)
    pinned = [installed[name] for each in own for name in by_set[each]]
    elsewhere = hashes_elsewhere(pinned, machine_of("\n".join(own.values())))
    counts = {}
    for name in own:
        path = directory / f"{name}.txt"
        hashes = _with_previous(elsewhere, path)
        title = f"The Python packages of {name}, release {directory.name}"
        replace_text(path, format_lock(by_set[name], installed, hashes, title, f"{directory.name}/{name}.in"))
        counts[path] = len(by_set[name])
    return counts


def main(argv: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="update_lock", description=__doc__)
    workspace = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    default = Path(workspace) / _HERE if workspace else None
    parser.add_argument("--directory", type=Path, default=default, help="where the *.in are and the locks go")
    arguments = parser.parse_args(argv)
    if arguments.directory is None:
        parser.error("start it with `./bazelw run //third_party/python:update_lock`, or give --directory")
    return run_tool("update_lock", _run, arguments.directory)


def _run(directory: Path) -> None:
    for path, count in update(directory).items():
        print(f"{path}: {count} packages")


if __name__ == "__main__":
    sys.exit(main())
