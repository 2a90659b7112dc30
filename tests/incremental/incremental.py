"""What an edit costs: the actions that Bazel runs again for an image after a line was added to a source file.

Each line is put in front of all others, so that the places of the others change, and taken away in the end. Actions
that Bazel does itself, such as making links, don't count; those that a cache answers do. What a second board costs is
the number of actions that only its image has.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.checkout.checkout import Checkout
from tools.quiet.tool import run_tool

_IMAGE = "//firmware:nucleo_wb55rg"
_SECOND = "//firmware:mps2_an386"


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


def _row(what: str, kinds: Counter[str]) -> str:
    shown = ", ".join(f"{kind} {count}" if count > 1 else kind for kind, count in sorted(kinds.items()))
    return f"| {what} | {kinds.total()} | {shown} |"


def _run(arguments: argparse.Namespace) -> None:
    checkout = Checkout(arguments.workspace)

    def build() -> Counter[str]:
        return checkout.build("build", [_IMAGE], []).kinds

    build()
    print("| edit | actions | kinds |\n|---|--:|---|")
    for edit in _EDITS:
        with checkout.edited(edit.file, edit.comment):
            print(_row(edit.what, build()), flush=True)
        # As it was before: the next edit is alone.
        build()
    second = checkout.actions(_SECOND) - checkout.actions(_IMAGE)
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
