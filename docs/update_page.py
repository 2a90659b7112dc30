"""Writes a page of the documentation into the workspace."""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.quiet.files import replace_text
from tools.quiet.tool import run_tool


def update_page(
    parser: argparse.ArgumentParser, page: Callable[[argparse.Namespace], str], argv: Sequence[str] | None
) -> int:
    """Runs a command that writes a page.

    Args:
        parser: the command's options; --output is added.
        page: returns the whole page for its arguments.
        argv: the command line.

    Returns:
        the exit status.
    """
    parser.add_argument("--output", required=True, help="the page, from the root of the workspace")

    def run(arguments: argparse.Namespace) -> None:
        # `bazel run` says where the workspace is.
        replace_text(Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."), arguments.output), page(arguments))

    return run_tool(parser.prog, run, parser.parse_args(argv))
