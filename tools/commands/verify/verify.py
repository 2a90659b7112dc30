"""Says whether an image file holds the bytes that this tree builds.

The image is built, or taken from the cache, first; the same sources give the same bytes on any machine. The file may be
the .elf, .hex, .uf2 or .bin of a release, or a .bin that was read from a board's flash, which goes on behind the image.
A record lists components, model, compilers, flags and the commit, which no action reads: a new one builds nothing.
"""

import argparse
import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.artifacts.elf_image.elf_image import ElfImage
from tools.artifacts.intel_hex.reader import read_intel_hex
from tools.artifacts.uf2.uf2 import read_uf2
from tools.quiet.console import UserError, user_path
from tools.quiet.files import reading, replace_text
from tools.quiet.tool import option_parser, run_tool

# The bytes that fill gaps between and after an image's pieces, and erased flash.
_EMPTY = (0x00, 0xFF)
_ADVICE = "pass the .elf, .hex, .uf2 or .bin of an image"


def _pieces(path: Path) -> list[tuple[int | None, bytes]]:
    """Returns the addresses and bytes that a file programs. A raw file has no address."""
    with reading("image", path, _ADVICE):
        if path.suffix == ".elf":
            return [*ElfImage(path).segments]
        if path.suffix == ".hex":
            return [*read_intel_hex(path)]
        data = path.read_bytes()
        return [*read_uf2(data)] if path.suffix == ".uf2" else [(None, data)]


def _by_address(pieces: Iterable[tuple[int, bytes]]) -> dict[int, int]:
    return {address + index: byte for address, data in pieces for index, byte in enumerate(data)}


def differences(ours: Iterable[tuple[int, bytes]], theirs: Iterable[tuple[int, bytes]]) -> list[int]:
    """Addresses of bytes that differ or are missing, and of those that only the other one has, in order."""
    expected, found = _by_address(ours), _by_address(theirs)
    other = {address for address, byte in found.items() if address not in expected and byte not in _EMPTY}
    return sorted({address for address, byte in expected.items() if found.get(address) != byte} | other)


def _file(arguments: argparse.Namespace, suffix: str) -> Path:
    return next(path for path in arguments.file if path.name.endswith(suffix))


def commit(workspace: str) -> str:
    """Returns the commit that a checkout has, and whether files differ from it; empty where git knows none."""
    git = ["git", "-C", workspace]
    try:
        found = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changes = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"git commit {found}" + (", with changes that are not committed" if changes else "")


def _run(arguments: argparse.Namespace) -> None:
    path, pieces = arguments.image, _pieces(arguments.image)
    image = ElfImage(_file(arguments, ".elf"))
    name, size = image.path.stem, sum(len(data) for _, data in image.segments)
    origin = min(address for address, _ in image.segments)
    theirs = [(origin if address is None else address, data) for address, data in pieces]
    if different := differences(image.segments, theirs):
        first = different[0]
        where = image.function_at(first) or "data"
        raise UserError(
            f"{path} is not the {name} that this tree builds: {len(different):,} of {size:,} bytes differ, the first "
            f"at {first:#010x} ({where}). It is of other sources, of another board or program, or was changed since"
        )
    checkout = commit(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    print(
        f"{path} is the {name} that this tree builds: all {size:,} bytes are equal."
        + (checkout and f" The tree is {checkout}.")
    )
    if arguments.record:
        document = json.loads(_file(arguments, ".spdx.json").read_text(encoding="utf-8"))
        document["packages"][0]["sourceInfo"] = checkout or "no git checkout"
        replace_text(arguments.record, json.dumps(document, indent=2) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    parser = option_parser("verify", __doc__)
    parser.add_argument("--file", type=Path, action="append", required=True, help="a file that this tree builds")
    parser.add_argument("--record", type=user_path, help="SPDX file to write, of what built the image, if it is equal")
    parser.add_argument("image", type=user_path, help="the file in question")
    return run_tool("verify", _run, parser.parse_args(argv))
