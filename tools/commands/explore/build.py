"""Builds targets as `bazel build` does, and says how long an export to int8 about takes, which Bazel alone can't."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.commands.explore.progress import Progress, find_bazel
from tools.quiet.tool import option_parser, run_tool


def _run(arguments: Sequence[str]) -> int:
    workspace = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")).resolve()
    command = [find_bazel(workspace), "build", *arguments]
    if not sys.stderr.isatty():
        return subprocess.run(command, cwd=workspace, check=False).returncode
    with subprocess.Popen(command, cwd=workspace, stderr=subprocess.PIPE, text=True, errors="replace") as build:
        assert build.stderr is not None
        Progress(workspace).show(build.stderr, lambda line: print(line, end="", file=sys.stderr, flush=True))
    return build.returncode


def main(argv: Sequence[str] | None = None) -> int:
    parser = option_parser("build", __doc__)
    parser.add_argument("targets", nargs=argparse.REMAINDER, help="labels, such as //:net_int8, and options of Bazel's")
    return run_tool("build", _run, parser.parse_args(argv).targets)
