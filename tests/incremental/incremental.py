"""What an edit costs: the actions that Bazel runs again for an image after a line was added to a source file.

Each line is put in front of all others, so that the places of the others change, and taken away in the end. Actions
that Bazel does itself, such as making links, don't count; those that a cache answers do. What a second board costs is
the number of actions that only its image has.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.quiet.console import UserError
from tools.quiet.tool import run_tool

_IMAGE = "//firmware:nucleo_wb55rg"
_SECOND = "//firmware:mps2_an386"

# Done by Bazel itself.
_INTERNAL = {
    "BazelWorkspaceStatusAction",
    "FileWrite",
    "Middleman",
    "RepoMappingManifest",
    "SourceSymlinkManifest",
    "Symlink",
    "SymlinkTree",
    "TranslateBuildInfo",
}


@dataclass(frozen=True)
class Edit:
    """A file to edit, and what stands before a comment in it."""

    what: str
    file: str
    comment: str


_EDITS = (
    Edit("the model", "models/sine/sine.py", "#"),
    Edit("a kernel of the image", "kernels/portable/relu.cpp", "//"),
    Edit("another kernel", "kernels/portable/softmax.cpp", "//"),
    Edit("the application", "firmware/application.cpp", "//"),
)


class Workspace:
    """A checkout, and the bazelw in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def build(self, target: str) -> Counter[str]:
        """Builds a target; returns the kinds of actions that were executed or taken from a cache, with numbers."""
        with tempfile.TemporaryDirectory() as folder:
            events = Path(folder, "events.json")
            self._bazel("build", "--build_event_publish_all_actions", f"--build_event_json_file={events}", target)
            return executed(events.read_text(encoding="utf-8").splitlines())

    def actions(self, target: str) -> set[tuple[str, tuple[str, ...]]]:
        """Kind and outputs of the actions below a target."""
        graph = self._bazel("aquery", "--output=jsonproto", "--include_commandline=false", f"deps({target})")
        return actions_of(json.loads(graph))

    @contextmanager
    def edited(self, edit: Edit) -> Iterator[None]:
        """Puts a comment that no build has seen before in front of a file."""
        path = self.root / edit.file
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; run this on a checkout of Torch Fusion") from error
        try:
            path.write_bytes(f"{edit.comment} Edited at {time.time_ns()}.\n".encode() + content)
            yield
        finally:
            path.write_bytes(content)

    def _bazel(self, command: str, *arguments: str) -> str:
        result = subprocess.run(
            ["./bazelw", command, "--noshow_progress", "--ui_event_filters=-info", *arguments],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise UserError(f"bazelw {command} {arguments[-1]} failed:\n{result.stderr.strip()}")
        return result.stdout


def executed(events: Sequence[str]) -> Counter[str]:
    """Kinds of actions in a build's events, with their numbers."""
    kinds: Counter[str] = Counter()
    for line in events:
        action = json.loads(line).get("action")
        if action is not None and action["type"] not in _INTERNAL:
            kinds[action["type"]] += 1
    return kinds


def actions_of(graph: dict[str, Any]) -> set[tuple[str, tuple[str, ...]]]:
    """Kind and outputs of the actions of an action graph that Bazel doesn't do itself."""
    fragments = {fragment["id"]: fragment for fragment in graph["pathFragments"]}

    def path(index: int) -> str:
        fragment = fragments[index]
        parent = fragment.get("parentId")
        return f"{path(parent)}/{fragment['label']}" if parent else str(fragment["label"])

    artifacts = {artifact["id"]: path(artifact["pathFragmentId"]) for artifact in graph["artifacts"]}
    return {
        (action["mnemonic"], tuple(sorted(artifacts[index] for index in action["outputIds"])))
        for action in graph["actions"]
        if action["mnemonic"] not in _INTERNAL
    }


def _row(what: str, kinds: Counter[str]) -> str:
    shown = ", ".join(f"{kind} {count}" if count > 1 else kind for kind, count in sorted(kinds.items()))
    return f"| {what} | {kinds.total()} | {shown} |"


def _run(arguments: argparse.Namespace) -> None:
    workspace = Workspace(arguments.workspace)
    workspace.build(_IMAGE)
    print("| edit | actions | kinds |\n|---|--:|---|")
    for edit in _EDITS:
        with workspace.edited(edit):
            print(_row(edit.what, workspace.build(_IMAGE)), flush=True)
        # As it was before: the next edit is alone.
        workspace.build(_IMAGE)
    second = workspace.actions(_SECOND) - workspace.actions(_IMAGE)
    print(_row("a second board", Counter(kind for kind, _ in second)))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="incremental", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workspace",
        type=Path,
        default=Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")),
        help="the checkout to measure in (default: this one)",
    )
    return run_tool("incremental", _run, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
