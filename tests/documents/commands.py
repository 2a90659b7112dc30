"""Runs the commands of README.md and docs/*.md, in a copy of this checkout that is deleted in the end.

A block with a command of Bazel is one of commands. A comment in front of it says what its commands need, for all of the
block or for those that contain a text: `<!-- commands: board: flash, monitor; long -->`. A fenced block behind
`<!-- build file -->` goes to the end of BUILD.bazel in the folder that the commands before it have changed to.

board: a board, in whose place the command gets --simulate. interrupted: it may run until Ctrl-C, which it gets after
a while. long, network, and machine, for a program that a machine may lack: run with --with alone. yours: of the
reader's own targets, never run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.checkout.checkout import Checkout, copy_checkout, environment, shared_repositories
from tools.quiet.console import UserError
from tools.quiet.tool import option_parser, run_tool

_BLOCK = re.compile(
    r"(?:<!-- commands: ([^>]*?) -->\n\n?)?((?:^ {4}[^\n]*\n)+)|<!-- build file -->\n\n```starlark\n(.*?)^```",
    re.MULTILINE | re.DOTALL,
)
_FENCED = re.compile(r"^(<!-- build file -->\n\n)?```.*?^```", re.MULTILINE | re.DOTALL)
_BAZEL = re.compile(r"^ *(?:[A-Z_]+=\S+ )*(\./bazelw|bazel) ", re.MULTILINE)
_ASKED = ("long", "machine", "network")
_KINDS = {"board", "interrupted", "yours", *_ASKED}
_BUILD_FILE = "build file"
_SECONDS_TO_INTERRUPT = 20
_INTERRUPTED = {0, 130, -signal.SIGINT}


@dataclass(frozen=True)
class Command:
    """A command of a document.

    Attributes:
        place: document and line.
        text: the command, without its comment.
        needs: what its block's comment says of it.
    """

    place: str
    text: str
    needs: frozenset[str]

    def shell(self, bazelw: Path) -> str:
        """Returns what a shell runs."""
        text = re.sub(r"(?<![\w/.])\./bazelw(?= )|^bazel(?= )", str(bazelw), self.text)
        if "board" in self.needs and "--simulate" not in text:
            text = text.replace(" -- ", " -- --simulate ", 1) if " -- " in text else f"{text} -- --simulate"
        return text


def commands(document: str, text: str) -> Iterator[Command]:
    """Yields the commands of a document.

    Raises:
        UserError: a mark has another word, or a text that no command of its block has.
    """
    text = _FENCED.sub(lambda block: block[0] if block[1] else "\n" * block[0].count("\n"), text)
    for block in _BLOCK.finditer(text):
        if block[3]:
            yield Command(
                f"{document}:{text.count(chr(10), 0, block.start(3)) + 1}", block[3], frozenset({_BUILD_FILE})
            )
            continue
        if not block[1] and not _BAZEL.search(block[2]):
            continue
        marks = dict(_marks(document, block[1] or ""))
        first = text.count("\n", 0, block.start(2)) + 1
        found = []
        for line in block[2].replace("\\\n", "\0").split("\n"):
            command = re.sub(r"\s+# .*", "", re.sub(r"\0 *", "", line)).strip()
            if command:
                needs = frozenset(kind for kind, of in marks.items() if not of or any(part in command for part in of))
                found.append(Command(f"{document}:{first}", command, needs))
            first += 1 + line.count("\0")
        for part in (part for of in marks.values() for part in of):
            if not any(part in command.text for command in found):
                raise UserError(f"{document}: a comment marks the command {part!r}, which its block does not have")
        yield from found


def _marks(document: str, mark: str) -> Iterator[tuple[str, list[str]]]:
    for entry in filter(None, mark.split(";")):
        kind, _, parts = entry.strip().partition(":")
        if kind not in _KINDS:
            raise UserError(f"{document}: {kind!r} marks a command; it can be {', '.join(sorted(_KINDS))}")
        yield kind, [part.strip() for part in parts.split(",") if part.strip()]


@dataclass(frozen=True)
class Shell:
    """Runs the commands of a document. They share a working directory, which `cd` changes.

    Attributes:
        root: the checkout.
        environment: for all commands.
    """

    root: Path
    environment: Mapping[str, str]

    def run(self, command: str, folder: Path, interrupt: bool) -> tuple[int, str, Path]:
        """Returns exit status, output, and the working directory afterwards."""
        with tempfile.TemporaryDirectory() as temporary:
            log, last = Path(temporary, "log"), Path(temporary, "folder")
            script = f"{command}\nstatus=$?; pwd >{last}; exit $status"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    ["bash", "-c", script],
                    cwd=folder,
                    env=dict(self.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                try:
                    status = process.wait(_SECONDS_TO_INTERRUPT if interrupt else None)
                except subprocess.TimeoutExpired:
                    # A terminal ends the shell and what it started, too.
                    os.killpg(process.pid, signal.SIGINT)
                    status = process.wait()
                    status = 0 if status in _INTERRUPTED else status
            text = log.read_text(encoding="utf-8", errors="replace")
            return status, text, Path(last.read_text().strip()) if last.exists() else folder


def append_rules(file: Path, block: str, rules: Path) -> None:
    """Appends targets to a BUILD file, and loads the rules that they are of, which it does not load yet."""
    text = file.read_text(encoding="utf-8")
    known = set(re.findall(r"_\w+ = \"(\w+)\"", rules.read_text(encoding="utf-8")))
    used = sorted(known & set(re.findall(r"\b(\w+)\(", block)))
    names = [name for name in used if f'"{name}"' not in text]
    load = f'load("@torch_fusion//rules:defs.bzl", {", ".join(map(json.dumps, names))})\n' if names else ""
    file.write_text(f"{load}{text}\n{block}", encoding="utf-8")


def run_all(found: Sequence[Command], shell: Shell, asked: set[str], say: Callable[[str], None] = print) -> int:
    """Runs commands; returns how many failed."""
    failed = 0
    folders: dict[str, Path] = {}
    for command in found:
        document = command.place.partition(":")[0]
        here = folders.get(document, shell.root)
        if _BUILD_FILE in command.needs:
            append_rules(here / "BUILD.bazel", command.text, shell.root / "rules/defs.bzl")
            continue
        left = command.needs & ({"yours", *_ASKED} - asked)
        if left:
            say(f"left    {command.place}: {command.text} ({', '.join(sorted(left))})")
            continue
        start = time.monotonic()
        text = command.shell(shell.root / "bazelw")
        if "interrupted" in command.needs and " run " in text:
            # Its time begins when it is built.
            shell.run(re.sub(r" -- .*", "", text.replace(" run ", " build ", 1)), here, False)
        status, output, folder = shell.run(text, here, "interrupted" in command.needs)
        folders[document] = folder
        say(f"{'FAILED' if status else 'passed'}  {command.place}: {command.text} ({time.monotonic() - start:.1f} s)")
        if status:
            failed += 1
            say("".join(f"    {line}\n" for line in output.splitlines()[-25:]))
    for folder in {*folders.values()} - {shell.root}:
        # A workspace that a command has made.
        if (folder / "MODULE.bazel").exists():
            shell.run(f"{shell.root}/bazelw clean --expunge", folder, False)
    return failed


# The reader's files that commands name, each with what stands for it in the tree.
_READERS_FILES = {
    "data.npz": "models/sine/sine.golden.npz",
    "digits.npz": "models/digits/digits.golden.npz",
    "image.elf": "firmware/nucleo_wb55rg.elf",
    "model.pte": "models/sine/sine.pte",
    "my.pte": "models/sine/sine.pte",
    "my_model.py": "examples/own_model/blink.py",
    "../nets/blink.py": "examples/own_model/blink.py",
    "path/to/net.py": "examples/own_model/blink.py",
    "release.bin": "firmware/nucleo_wb55rg.bin",
    "x.npy": "",
    "x.npz": "models/sine/sine.golden.npz",
}
_TARGETS = ["//firmware:nucleo_wb55rg", "//models/digits", "//models/sine"]


def put_files(folder: Path, built: Sequence[Path]) -> None:
    """Puts the reader's files where commands look for them: sources of the folder, a checkout, and what is built."""
    for name, path in _READERS_FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if not path:
            np.save(folder / name, np.ones((1, 1), np.float32))
            continue
        sources = [file for file in (folder / path, *built) if str(file).endswith(path) and file.exists()]
        if sources:
            shutil.copyfile(sources[0], folder / name)


def _copy_of(checkout: Path, folder: Path) -> Path:
    """Copies a checkout's files as they are, and lets it use what was fetched for the checkout."""
    copy_checkout(checkout, folder)
    flags = shared_repositories(Checkout(checkout))
    (folder / "user.bazelrc").write_text("".join(f"common {flag}\n" for flag in flags), encoding="utf-8")
    return folder


def _run(arguments: argparse.Namespace) -> int:
    root = arguments.workspace
    documents = arguments.documents or sorted(
        str(path.relative_to(root)) for path in (root / "README.md", *(root / "docs").glob("*.md"))
    )
    try:
        texts = {document: (root / document).read_text(encoding="utf-8") for document in documents}
    except OSError as error:
        raise UserError(f"{error.filename} can't be read: {error.strerror}") from error
    found = [command for document, text in texts.items() for command in commands(document, text)]
    if arguments.list:
        for command in found:
            if _BUILD_FILE not in command.needs:
                print(f"{command.place}: {command.text}" + "".join(f" ({need})" for need in sorted(command.needs)))
        return 0
    with tempfile.TemporaryDirectory(prefix="commands_of_documents_") as folder:
        checkout = _copy_of(root, Path(folder, "torch_fusion"))
        try:
            Checkout(checkout).build("build", _TARGETS, [])
            put_files(checkout, list(Checkout(checkout).files(_TARGETS).values()))
            return 1 if run_all(found, Shell(checkout, environment()), set(arguments.asked)) else 0
        finally:
            Checkout(checkout).expunge()


def main(argv: Sequence[str] | None = None) -> int:
    parser = option_parser("commands", __doc__)
    parser.add_argument(
        "--workspace",
        type=Path,
        default=Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")),
        help="the checkout (default: this one)",
    )
    parser.add_argument("--list", action="store_true", help="print the commands, and run none")
    parser.add_argument("--with", dest="asked", action="append", default=[], choices=_ASKED, help="run these, too")
    parser.add_argument("documents", nargs="*", help="by their paths from the checkout's root (default: all)")
    return run_tool("commands", _run, parser.parse_args(argv))
