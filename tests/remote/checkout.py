"""A checkout in which //tests/remote builds, beside the one that the user works in."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tools.quiet.console import UserError


class CheckoutError(UserError):
    """A command of Bazel failed; the message has the end of what it said."""


@dataclass(frozen=True)
class Build:
    """What a build did.

    Attributes:
      seconds: its duration.
      actions: how many actions each of Bazel's runners executed, by its name, such as `remote` and `remote cache hit`.
    """

    seconds: float
    actions: dict[str, int]


class Checkout:
    """A checkout and an output base of its own; the repositories that were fetched are the workspace's.

    Args:
      root: the workspace.
      bazel: its launcher.
      output_base: where it builds; None for the workspace's usual one.
      flags: flags of every command.
    """

    def __init__(self, root: Path, output_base: Path | None = None, flags: list[str] | None = None) -> None:
        self.root = root
        self._startup = [f"--output_base={output_base}"] if output_base else []
        self._flags = flags or []

    def build(self, command: str, targets: list[str], flags: list[str]) -> Build:
        """Runs `bazel build` or `bazel test`."""
        with tempfile.TemporaryDirectory() as folder:
            events = Path(folder, "events.json")
            start = time.monotonic()
            arguments = [command, "--noshow_progress", f"--build_event_json_file={events}", *self._flags, *flags]
            self._bazel([*arguments, "--", *targets], "build of " + " ".join(targets[:3]))
            return Build(time.monotonic() - start, _runners(events))

    def outputs(self, targets: list[str]) -> dict[str, str]:
        """The sha256 of every output of the targets, by its path from the output directory."""
        expression = " + ".join(targets)
        files = self._bazel(["cquery", "--noshow_progress", "--output=files", *self._flags, "--", expression], "cquery")
        root = self._bazel(["info", "--noshow_progress", "execution_root"], "info").strip()
        found = {name: Path(root, name) for name in files.splitlines() if name.startswith("bazel-out/")}
        return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.items() if path.is_file()}

    def query(self, expression: str) -> list[str]:
        """The labels of a query."""
        return self._bazel(["query", "--noshow_progress", "--output=label", expression], "query").split()

    def output_base(self) -> Path:
        """Bazel's output base."""
        return Path(self._bazel(["info", "--noshow_progress", "output_base"], "info").strip())

    def server(self) -> int:
        """The process id of the Bazel server."""
        return int(self._bazel(["info", "--noshow_progress", "server_pid"], "info"))

    def shutdown(self) -> None:
        """Ends the Bazel server."""
        self._bazel(["shutdown"], "shutdown")

    def _bazel(self, arguments: list[str], what: str) -> str:
        command = [str(self.root / "bazelw"), *self._startup, *arguments]
        # What `bazel run` and the launcher put into the environment would make repositories be fetched again.
        environment = {name: value for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)}
        result = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise CheckoutError(f"{what} failed in {self.root}:\n{result.stderr[-6000:]}")
        return result.stdout


# Beginnings of names.
_ENVIRONMENT = (
    *("BAZELW", "HOME", "LANG", "LC_", "PATH", "PIP_", "SSL_CERT_FILE", "TMPDIR", "TORCH_FUSION_", "USER"),
    "XDG_CACHE_HOME",
)


def _runners(events: Path) -> dict[str, int]:
    for line in events.read_text().splitlines():
        summary = json.loads(line).get("buildMetrics", {}).get("actionSummary")
        if summary:
            counts = {entry["name"]: int(entry.get("count", 0)) for entry in summary.get("runnerCount", [])}
            return {name: count for name, count in counts.items() if name not in ("total", "internal")}
    return {}


def fetched(workspace: Checkout) -> list[Path]:
    """The repositories that were fetched for the workspace."""
    external = workspace.output_base() / "external"
    return [path for mark in "~+" for path in external.glob(f"_main{mark}third_party{mark}*") if path.is_dir()]


def shared_repositories(workspace: Checkout) -> list[str]:
    """Flags with which another output base uses what was fetched for the workspace."""
    return [f"--override_repository={path.name}={path}" for path in fetched(workspace)]
