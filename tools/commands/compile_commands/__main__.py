"""Writes compile_commands.json into the workspace, for clangd and other tools that ask how each file is compiled."""

import argparse
import json
import os
import subprocess
from pathlib import Path

from tools.commands.compile_commands.compile_commands import Roots, compile_commands
from tools.quiet.console import UserError
from tools.quiet.files import replace_text
from tools.quiet.tool import option_parser, run_tool

# Everything that is compiled for a board, and code for this machine where that has a compiler.
_TARGETS = ["//firmware/...", "//kernels/...", "//runtime/..."]


def main(arguments: list[str] | None = None) -> int:
    """Parses the command line, asks Bazel, writes the file and returns the exit status."""
    parser = option_parser("compile_commands", __doc__)
    parser.add_argument("--bazel", help="the Bazel to ask (default: the workspace's bazelw, else bazel)")
    parser.add_argument("targets", nargs="*", default=_TARGETS, help=f"targets (default: {' '.join(_TARGETS)})")
    options = parser.parse_args(arguments)
    directory = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if directory is None:
        parser.error("start it with `./bazelw run //tools:compile_commands`")
    return run_tool("compile_commands", _run, options, Path(directory))


def _run(options: argparse.Namespace, workspace: Path) -> None:
    own = workspace / "bazelw"
    bazel = options.bazel or (str(own) if own.exists() else "bazel")

    def ask(*command: str) -> str:
        return subprocess.run([bazel, *command], cwd=workspace, check=True, stdout=subprocess.PIPE, text=True).stdout

    # deps() includes what a firmware's transition compiles for its board.
    expression = f'mnemonic("CppCompile", deps({" + ".join(options.targets)}))'
    try:
        graph = ask("aquery", "--noshow_progress", "--output=jsonproto", "--keep_going", expression)
        output_base = ask("info", "--noshow_progress", "output_base").strip()
        output_path = ask("info", "--noshow_progress", "output_path").strip()
    except subprocess.CalledProcessError as error:
        raise UserError(f"{bazel} {error.cmd[1]} failed; its message is above.") from error
    entries = compile_commands(json.loads(graph), Roots(workspace, Path(output_base, "external"), Path(output_path)))
    file = workspace / "compile_commands.json"
    replace_text(file, json.dumps(entries, indent=1) + "\n")
    print(f"{file}: {len(entries)} files")
