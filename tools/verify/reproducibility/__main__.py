"""Compares the files of two builds, given in pairs: first, second, first, second, ..."""

import argparse
import sys
from pathlib import Path

from tools.verify.reproducibility.compare import differences


def main() -> int:
    parser = argparse.ArgumentParser(prog="reproducibility", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="files in pairs: of the first build, of the second")
    arguments = parser.parse_args()
    if len(arguments.files) % 2:
        parser.error("an even number of files is needed")
    found = differences(list(zip(arguments.files[::2], arguments.files[1::2], strict=True)))
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(f"PASS: {len(arguments.files) // 2} files are identical in both builds")
    return 1 if found else 0
