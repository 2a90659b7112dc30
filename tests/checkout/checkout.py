"""A checkout of Torch Fusion that a tool builds in: the user's, or one of its own beside that."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tools.quiet.console import UserError


class CheckoutError(UserError):
    """A command of Bazel failed; the message has the end of what it said."""


def environment() -> dict[str, str]:
    """Returns the user's environment: with what `bazel run` and the launcher add, repositories are fetched again."""
    return {name: value for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)}


@dataclass(frozen=True)
class Build:
    """The result of a build.

    Attributes:
      seconds: its duration.
      actions: how many actions each of Bazel's runners executed, by its name, such as `remote` and `remote cache hit`.
    """

    seconds: float
    actions: dict[str, int]


class Checkout:
    """A checkout and where it builds.

    Args:
      root: its folder, with its bazelw.
      output_base: where it builds; None for the checkout's usual one.
      flags: flags of every command.
    """

    def __init__(self, root: Path, output_base: Path | None = None, flags: list[str] | None = None) -> None:
        self.root = root
        self._startup = [f"--output_base={output_base}"] if output_base else []
        self.flags = flags or []

    def build(self, command: str, targets: list[str], flags: list[str]) -> Build:
        """Runs `bazel build` or `bazel test`."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "events.json")
            start = time.monotonic()
            options = ["--noshow_progress", f"--build_event_json_file={file}"]
            arguments = [command, *options, *self.flags, *flags]
            self._bazel([*arguments, "--", *targets], "build of " + " ".join(targets[:3]))
            seconds = time.monotonic() - start
            events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return Build(seconds, _runners(events))

    def files(self, targets: list[str]) -> dict[str, Path]:
        """Returns the outputs of the targets that are built, by their paths from the output directory."""
        expression = " + ".join(targets)
        files = self._bazel(["cquery", "--noshow_progress", "--output=files", *self.flags, "--", expression], "cquery")
        root = self._bazel(["info", "--noshow_progress", "execution_root"], "info").strip()
        found = {name: Path(root, name) for name in files.splitlines() if name.startswith("bazel-out/")}
        return {name: path for name, path in found.items() if path.is_file()}

    def outputs(self, targets: list[str]) -> dict[str, str]:
        """Returns the sha256 of every output of the targets, by its path from the output directory."""
        return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in self.files(targets).items()}

    def repositories(self, targets: list[str]) -> set[str]:
        """Returns the directories' names of the repositories that targets need, their tools included."""
        expression = f"deps({' + '.join(targets)})"
        labels = self._bazel(["cquery", "--noshow_progress", "--output=label", *self.flags, "--", expression], "cquery")
        mapping = self._bazel(["mod", "dump_repo_mapping", ""], "mod")
        names = json.loads(mapping.splitlines()[-1])
        found = {label.removeprefix("@").removeprefix("@").partition("//")[0] for label in labels.splitlines()}
        return {names.get(name, name) for name in found}

    def output_base(self) -> Path:
        """Returns Bazel's output base."""
        return Path(self._bazel(["info", "--noshow_progress", "output_base"], "info").strip())

    def shutdown(self) -> None:
        """Ends the Bazel server."""
        self._bazel(["shutdown"], "shutdown")

    def start(self, command: str, targets: list[str], log: TextIO) -> subprocess.Popen[str]:
        """Starts a command of Bazel that writes into a file."""
        arguments = [command, "--noshow_progress", *self.flags, "--", *targets]
        return subprocess.Popen(
            self._command(arguments), cwd=self.root, env=environment(), stdout=log, stderr=log, text=True
        )

    def expunge(self) -> None:
        """Ends the Bazel server, and deletes what it has built."""
        self._bazel(["clean", "--expunge"], "clean")

    def _bazel(self, arguments: list[str], what: str) -> str:
        result = subprocess.run(
            self._command(arguments), cwd=self.root, env=environment(), capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            raise CheckoutError(f"{what} failed in {self.root}:\n{result.stderr[-6000:]}")
        return result.stdout

    def _command(self, arguments: list[str]) -> list[str]:
        return [str(self.root / "bazelw"), *self._startup, *arguments]


# Beginnings of names.
_ENVIRONMENT = (
    *("BAZELW", "HOME", "LANG", "LC_", "PATH", "PIP_", "SSL_CERT_FILE", "TMPDIR", "TORCH_FUSION_", "USER"),
    "XDG_CACHE_HOME",
)


def _runners(events: Sequence[dict[str, Any]]) -> dict[str, int]:
    for event in events:
        summary = event.get("buildMetrics", {}).get("actionSummary")
        if summary:
            counts = {entry["name"]: int(entry.get("count", 0)) for entry in summary.get("runnerCount", [])}
            return {name: count for name, count in counts.items() if name not in ("total", "internal")}
    return {}


def fetched(workspace: Checkout) -> list[Path]:
    """Returns the repositories that were fetched for the workspace."""
    external = workspace.output_base() / "external"
    return [path for mark in "~+" for path in external.glob(f"_main{mark}third_party{mark}*") if path.is_dir()]


def shared_repositories(workspace: Checkout) -> list[str]:
    """Flags with which another output base uses what was fetched for the workspace."""
    return [f"--override_repository={path.name}={path}" for path in fetched(workspace)]


def copy_checkout(source: Path, target: Path) -> None:
    """Copies the files of a checkout that git knows or would, or all of a folder without git."""
    for file in _files(source):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / file, target / file)


def remove(folder: Path) -> None:
    """Removes a folder, if there is one, with the directories in it that Bazel makes unwritable."""
    for name, _, _ in os.walk(folder):
        Path(name).chmod(0o755)
    shutil.rmtree(folder, ignore_errors=not folder.exists())


def _files(root: Path) -> list[Path]:
    # Bazel's are behind links.
    if not (root / ".git").exists():
        return [Path(name, file).relative_to(root) for name, _, files in os.walk(root) for file in files]
    listed = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")
    return [Path(name) for name in names if name and (root / name).is_file()]
