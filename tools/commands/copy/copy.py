"""Copies an image, and what was written about it, into a folder: ELF, raw bytes, Intel HEX, UF2, map and reports.

What lies in a build's own folders moves with its configuration; a copy stays where it was put.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.quiet.console import user_path
from tools.quiet.files import writing
from tools.quiet.tool import run_tool


def copy_files(files: Sequence[Path], folder: Path) -> list[Path]:
    """Copies files into a folder, which is made if it is not there; returns the copies.

    What is there under the same name is replaced whole: nobody sees half a file. The copies can be written to and are
    not executable.

    Raises:
        UserError: the folder cannot be made or written to.
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
    parser = argparse.ArgumentParser(prog="copy", description=__doc__)
    parser.add_argument("--file", type=Path, action="append", required=True, help="a file to copy; repeat for more")
    parser.add_argument("folder", type=user_path, help="where the copies go; it is made if it is not there")
    return run_tool("copy", _run, parser.parse_args(argv))
