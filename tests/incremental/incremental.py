"""Measures the cost of an edit: the actions that Bazel runs again for an image after a line was added to a source file.

Each line is put in front of all others, so that the positions of the others change, and taken away in the end. Actions
that Bazel does itself, such as making links, don't count; those that a cache answers do. The cost of a second board is
the number of actions that only its image has. The exit status is 1 if something costs more than it may.
"""

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.checkout.checkout import Checkout
from tools.quiet.tool import option_parser, run_tool

_IMAGE = "//firmware:nucleo_wb55rg"
_SECOND = "//firmware:mps2_an386"


@dataclass(frozen=True)
class Edit:
    """A file to edit, what stands before a comment in it, and how many actions an edit may cost."""

    what: str
    file: str
    comment: str
    most: int


_EDITS = (
    # Training and export write the same bytes as before.
    Edit("the model", "models/sine/sine.py", "#", 2),
    # Compilation, link and what is made of the image: lines of its code have moved.
    Edit("a kernel of the image", "kernels/portable/relu.cpp", "//", 3),
    # Compilation and link, whose image is as it was.
    Edit("another kernel", "kernels/portable/softmax.cpp", "//", 2),
    Edit("the application", "firmware/compiled_application.cpp", "//", 3),
)
_MOST_OF_A_SECOND_BOARD = 19


def report(what: str, kinds: Counter[str], most: int) -> bool:
    """Prints a row of the table; returns whether there are at most as many actions as there may be."""
    shown = ", ".join(f"{kind} {count}" if count > 1 else kind for kind, count in sorted(kinds.items()))
    fits = kinds.total() <= most
    print(f"| {what} | {kinds.total()} | {most}{'' if fits else ' (exceeded)'} | {shown} |", flush=True)
    return fits


def _run(arguments: argparse.Namespace) -> int:
    checkout = Checkout(arguments.workspace)

    def build() -> Counter[str]:
        return checkout.build("build", [_IMAGE], []).kinds

    build()
    print("| edit | actions | at most | kinds |\n|---|--:|--:|---|")
    fits = []
    for edit in _EDITS:
        with checkout.edited(edit.file, edit.comment):
            fits.append(report(edit.what, build(), edit.most))
        # The file is as before: the next edit is alone.
        build()
    second = checkout.actions(_SECOND) - checkout.actions(_IMAGE)
    # An image is linked of objects: archives, which libraries declare, are not made.
    kinds = Counter(kind for kind, _ in second if kind != "CppArchive")
    fits.append(report("a second board", kinds, _MOST_OF_A_SECOND_BOARD))
    return 0 if all(fits) else 1


def main(argv: Sequence[str] | None = None) -> int:
    parser = option_parser("incremental", __doc__)
    parser.add_argument(
        "--workspace",
        type=Path,
        default=Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")),
        help="the checkout to measure in (default: this one)",
    )
    return run_tool("incremental", _run, parser.parse_args(argv))
