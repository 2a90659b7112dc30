"""Writes the folder of a new board: its definition, and a board.c with the remaining tasks.

A board of Torch Fusion itself is also added to the list of boards, firmware/boards/boards.bzl.
"""

import argparse
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from tools.artifacts.core.core import CORTEX_M, platform_name
from tools.quiet.console import UserError, user_path
from tools.quiet.files import replace_text, writing
from tools.quiet.tool import option_parser, run_tool

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|[0-9]+[KM]?")
# Targets in the folder's BUILD file.
_TARGETS = ("files", "support")
# BoardClock counts ticks per second in 32 bits.
_HIGHEST_CLOCK = 2**32 - 1
_ZERO = re.compile(r"(0x)?0+[KM]?")

# A board that is built and tested, whose name and numbers are replaced.
_TEMPLATE = Path(__file__).parent / "my_board"


def _workspace(folder: Path) -> Path | None:
    """Returns the Bazel workspace that contains a folder, which need not exist."""
    markers = ("MODULE.bazel", "REPO.bazel", "WORKSPACE.bazel", "WORKSPACE")
    candidates = (folder, *folder.parents)
    return next((path for path in candidates if any((path / marker).is_file() for marker in markers)), None)


def _prefix(workspace: Path | None, external: bool) -> str:
    """Returns the repository of Torch Fusion's labels, as a workspace names it."""
    if external or workspace is None:
        return "@torch_fusion" if external else ""
    module = workspace / "MODULE.bazel"
    text = module.read_text(encoding="utf-8") if module.is_file() else ""
    return "" if re.search(r'^module\(\s*name = "torch_fusion"', text, re.MULTILINE) else "@torch_fusion"


def files(arguments: argparse.Namespace, prefix: str) -> dict[str, str]:
    """Returns the files of a board's folder: name -> contents.

    Args:
        arguments: the command line's.
        prefix: the repository of Torch Fusion's labels, empty in its own.

    Raises:
        UserError: a value has the wrong form.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", arguments.name):
        raise UserError(f"--name {arguments.name}: use lower-case letters, digits and '_', such as nucleo_f446re")
    if arguments.name in _TARGETS:
        raise UserError(f"--name {arguments.name}: a board's folder has a target of that name; use another")
    for option in ("description", "pyocd_target", "openocd_config"):
        if not getattr(arguments, option).isprintable():
            raise UserError(f"--{option.replace('_', '-')} {getattr(arguments, option)!r}: give one line of text")
    for option in ("flash_origin", "flash_length", "ram_origin", "ram_length"):
        value = getattr(arguments, option)
        if not _NUMBER.fullmatch(value):
            raise UserError(f"--{option.replace('_', '-')} {value}: no number; use 0x20000000, 4096, 192K or 1M")
    for option in ("flash_length", "ram_length"):
        if _ZERO.fullmatch(value := getattr(arguments, option)):
            raise UserError(
                f"--{option.replace('_', '-')} {value}: no memory; take the size from the chip's data sheet"
            )
    if not re.fullmatch(r"[1-9][0-9]*", arguments.clock_hz):
        raise UserError(f"--clock-hz {arguments.clock_hz}: give it in Hz without a unit, such as 80000000")
    if int(arguments.clock_hz) > _HIGHEST_CLOCK:
        raise UserError(f"--clock-hz {arguments.clock_hz}: no Cortex-M runs at more than {_HIGHEST_CLOCK:,} Hz")
    programmer = ""
    if arguments.pyocd_target:
        targets = {"pyocd_target": arguments.pyocd_target, "openocd_config": arguments.openocd_config}
        lines = "".join(f'        "{key}": {_quoted(value)},\n' for key, value in targets.items())
        programmer = f"    programmer = {{\n{lines}    }},\n"
    replaced = {
        '"//rules:': f'"{prefix}//rules:',
        "180000000": arguments.clock_hz,
        '"cortex_m4"': f'"{platform_name(arguments.core)}"',
        '"my_board, cortex-m4"': _quoted(arguments.description or f"{arguments.name}, {arguments.core}"),
        "0x08000000 512K": f"{arguments.flash_origin} {arguments.flash_length}",
        "0x20000000 128K": f"{arguments.ram_origin} {arguments.ram_length}",
        "    deps = [": f"{programmer}    deps = [",
        "my_board": arguments.name,
    }
    texts = {name: (_TEMPLATE / name).read_text(encoding="utf-8") for name in ("BUILD.bazel", "board.c")}
    known = re.compile("|".join(map(re.escape, replaced)))
    return {name: known.sub(lambda found: replaced[found[0]], text) for name, text in texts.items()}


def listed(text: str, name: str) -> str:
    """Returns boards.bzl with a line for a board, behind those that are there; unchanged if it has one.

    Raises:
        UserError: the file has no such list.
    """
    before, begin, rest = text.partition("_BOARDS = {\n")
    entries, end, after = rest.partition("}\n")
    if not begin or not end:
        raise UserError("firmware/boards/boards.bzl has no list _BOARDS = {...}; restore it")
    return text if f'    "{name}":' in entries else f'{before}{begin}{entries}    "{name}": [],\n{end}{after}'


def _quoted(text: str) -> str:
    # Starlark's strings of one line are JSON's.
    return json.dumps(text, ensure_ascii=False)


def _core(text: str) -> str:
    # The spelling of Arm, GCC and board().
    return text.lower().replace("_", "-")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("new_board", __doc__)
    parser.add_argument("--name", required=True, help="name of the board and its folder")
    parser.add_argument("--core", required=True, type=_core, choices=sorted(CORTEX_M), help="the core")
    parser.add_argument("--clock-hz", required=True, help="core clock after start-up, in Hz")
    parser.add_argument("--flash-origin", default="0x08000000", help="address of flash")
    parser.add_argument("--flash-length", required=True, help="bytes of flash, such as 512K")
    parser.add_argument("--ram-origin", default="0x20000000", help="address of RAM")
    parser.add_argument("--ram-length", required=True, help="bytes of RAM, such as 128K")
    parser.add_argument("--description", default="", help="one line for people: product name, chip, core")
    parser.add_argument("--pyocd-target", default="", help="pyOCD's name of the chip")
    parser.add_argument("--openocd-config", default="", help="OpenOCD's configuration file for the board")
    parser.add_argument(
        "--output", type=user_path, help="folder to write, in any workspace; default: firmware/boards/NAME of this one"
    )
    parser.add_argument(
        "--external",
        action="store_true",
        help="for a workspace that depends on torch_fusion; found out where the folder lies in one",
    )
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> None:
    root = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    folder = (arguments.output or root / "firmware" / "boards" / arguments.name).resolve()
    workspace = _workspace(folder)
    prefix = _prefix(workspace, arguments.external)
    contents = files(arguments, prefix)
    taken = [name for name in contents if (folder / name).exists()]
    if taken:
        raise UserError(f"{folder / taken[0]} exists; choose another --name or --output, or delete it")
    boards = folder.parent / "boards.bzl"
    is_ours = workspace is not None and boards == workspace / "firmware/boards/boards.bzl" and boards.is_file()
    before = boards.read_text(encoding="utf-8") if is_ours else ""
    after = listed(before, arguments.name) if is_ours else ""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, text in contents.items():
            with writing(folder / name):
                (folder / name).write_text(text, encoding="utf-8")
        if after != before:
            replace_text(boards, after)
    except BaseException:
        # An incomplete board would prevent the next attempt, also after Ctrl-C.
        for name in contents:
            (folder / name).unlink(missing_ok=True)
        raise
    print(f"wrote {folder}: complete board.c (TODO), then")
    if is_ours:
        print("  ./bazelw run //firmware/boards:update_readme    # puts it into the tables of boards")
    if workspace is None:
        print("  move it into a Bazel workspace; there")
    package = "/".join(folder.relative_to(workspace).parts) if workspace else f"FOLDER/{folder.name}"
    model = f"{prefix}//models/sine"
    print(f'  torch_firmware(name = "image", board = "//{package}:{arguments.name}", model = "{model}")')


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("new_board", _run, _parse(argv))
