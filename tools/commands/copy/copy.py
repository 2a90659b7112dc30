"""Copies an image and its reports to a folder: ELF, raw bytes, Intel HEX, UF2, map and reports.

The paths of Bazel's outputs change with the configuration; a copy stays in its folder.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.quiet.console import user_path
from tools.quiet.files import writing
from tools.quiet.tool import option_parser, run_tool


def copy_files(files: Sequence[Path], folder: Path) -> list[Path]:
    """Copies files to a folder, which is created if it is missing; returns the copies.

    Files with the same name are replaced atomically. The copies are writable and not executable.

    Raises:
        UserError: the folder cannot be created or written to.
    """
    copies = []
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            copy = folder / file.name
            descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=folder)
            partial = Path(name)
            try:
                with os.fdopen(descriptor, "wb") as target, file.open("rb") as source:
                    shutil.copyfileobj(source, target)
                partial.chmod(0o644)
                partial.replace(copy)
            finally:
                partial.unlink(missing_ok=True)
            copies.append(copy)
    return copies


def _run(arguments: argparse.Namespace) -> None:
    for copy in copy_files(arguments.file, arguments.folder):
        print(f"{copy} ({copy.stat().st_size:,} bytes)")


def main(argv: Sequence[str] | None = None) -> int:
    parser = option_parser("copy", __doc__)
    parser.add_argument("--file", type=Path, action="append", required=True, help="a file to copy; repeat for more")
    parser.add_argument("folder", type=user_path, nargs="?", help="where the copies go; it is made if need be")
    arguments = parser.parse_args(argv)
    if arguments.folder is None:
        parser.error('name the folder for the copies behind "--", such as: bazel run TARGET -- ~/images')
    return run_tool("copy", _run, arguments)
