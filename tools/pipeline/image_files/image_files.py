"""Writes the files of a linked image: its flash contents as .bin, .hex and .uf2, the report of its sizes, and the list
of its components.

All are one action, so that an edit of a kernel compiles, links, and runs this. An image that exceeds its board's limits
only gets a report, and the message lists the largest parts. So does one that needs more than the board's stack.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.artifacts.board.board import Region, read_board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.artifacts.intel_hex.writer import intel_hex
from tools.artifacts.manifest.manifest import read_manifest
from tools.artifacts.program.program import constant_bytes
from tools.artifacts.size_report.size_report import SizeReport, size_report_json
from tools.artifacts.uf2.uf2 import uf2
from tools.pipeline.image_files.sbom import components, file_component, spdx_json, tools
from tools.pipeline.report.image import SourceFiles, measure, read_map
from tools.pipeline.report.npu import npu_bytes
from tools.pipeline.report.report import full_text, over_limits, summary
from tools.pipeline.report.stack import StackBound, readable, stack_bound
from tools.quiet.console import UserError
from tools.quiet.tool import option_parser, run_tool
from tools.quiet.troubleshooting import more_about

# The bytes of an allocator's header before a block.
_BLOCK = 8


def flash_content(image: ElfImage, flash: Region) -> bytes:
    """Returns the contents of flash from its start; gaps between an image's segments are 0.

    Raises:
        UserError: a part of the image is outside of the flash.
    """
    content = bytearray()
    for address, data in sorted(image.segments):
        gap = address - flash.origin - len(content)
        if gap < 0 or address + len(data) > flash.end:
            raise UserError(
                f"image {image.path} has {len(data)} bytes at {address:#010x}, outside the flash "
                f"({flash.origin:#010x} to {flash.end:#010x}); link it by the board's linker script"
            )
        content += bytes(gap) + data
    return bytes(content)


def over_stack(report: SizeReport, stack: StackBound) -> str:
    """Returns a message for a stack that may be too small: both sizes, and the functions that take most of it."""
    if stack.bound <= stack.size:
        return ""
    chain, needed = (stack.sure, stack.sure_bytes) if stack.is_too_small else (stack.chain, stack.bound)
    most = sorted(chain, key=lambda level: level.size, reverse=True)[:4]
    return (
        f"{report.image} may use {needed:,} bytes of stack on {report.board}, which has {stack.size:,}. "
        f'Give the board stack_size = "{needed}" or more. Most of it is used by: '
        + ", ".join(f"{readable(level.name)} {level.size:,}" for level in most)
        + more_about("StackTooSmall")
        + "."
    )


def over_heap(image: ElfImage, stack: int) -> str:
    """Returns a message for a framework's heap that has no room for the largest stack that a thread gets from it, if
    the image has the symbols of CMSIS' linker scripts or FreeRTOS' heap.
    """
    array, limit, *begins = map(image.symbols.get, ("ucHeap", "__HeapLimit", "__HeapBase", "__end__", "end"))
    begin = next((symbol for symbol in begins if symbol), None)
    size = array.size if array else limit.address - begin.address if limit and begin else None
    if not stack or size is None or size >= stack + _BLOCK:
        return ""
    return (
        f"{image.path.stem} has a heap of {size:,} bytes, in which a thread's stack of {stack:,} has no room: it would "
        "not start. Enlarge the framework's heap, or give its thread a smaller stack, down to NAME_STACK_SIZE and what "
        "it needs besides, or a static one, and set heap_stack to the largest that is of the heap, 0 for none."
    )


def _run(arguments: argparse.Namespace) -> int:
    board = read_board(arguments.board)
    constants = sum(map(constant_bytes, arguments.program)) if arguments.program else None
    npu = npu_bytes(arguments.program)
    pieces, sources = read_map(arguments.map), SourceFiles.of(arguments.elf)
    flash, ram, arenas = measure(arguments.elf, pieces, sources, board, constants, npu, arguments.part)
    program = ", ".join(path.stem for path in arguments.program) or None
    report = SizeReport(arguments.elf.stem, program, board.name, board.core, flash, ram, arenas)
    stack = stack_bound(arguments.elf)
    text = full_text(report, arguments.engine) + (f"\n{stack.text()}" if stack else "")
    arguments.report_txt.write_text(text, encoding="utf-8")
    arguments.report_json.write_text(size_report_json(report), encoding="utf-8")
    problems = list(over_limits(report))
    if stack and (message := over_stack(report, stack)):
        if stack.is_too_small:
            problems.append(message)
        else:
            print(f"image_files: note: {message} Some of these calls may never happen.", file=sys.stderr)
    image = ElfImage(arguments.elf)
    problems += filter(None, [over_heap(image, arguments.heap_stack)])
    if problems:
        for problem in problems:
            print(f"image_files: error: {problem}", file=sys.stderr)
        return 1

    taken, version = (
        path.read_text(encoding="utf-8") for path in (arguments.toolchain_packages, arguments.executorch_version)
    )
    found = components(pieces, sources.files, arguments.program, taken, version.strip())
    whole = file_component(arguments.elf)
    related = {
        "CONTAINS": found,
        "GENERATED_FROM": list(map(file_component, arguments.model)),
        "BUILD_TOOL_OF": tools(arguments.elf, taken, map(read_manifest, arguments.manifest)),
    }
    arguments.spdx_json.write_text(spdx_json(whole, whole.sha256, related), encoding="utf-8")
    content = flash_content(image, board.flash)
    arguments.bin.write_bytes(content)
    arguments.hex.write_text(intel_hex([(board.flash.origin, content)], image.entry), encoding="utf-8")
    if arguments.uf2:
        if board.uf2_family is None:
            raise UserError(f"board {board.name} has no UF2 boot loader; give uf2_family to its definition")
        arguments.uf2.write_bytes(uf2(content, board.flash.origin, board.uf2_family))
    if not arguments.quiet:
        # Bazel shows the standard output of a build action unchanged, so the summary goes there.
        print(summary(report, arguments.elf, arguments.engine), end="")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = option_parser("image_files", __doc__)
    parser.add_argument("--elf", type=Path, required=True, help="the image")
    parser.add_argument("--map", type=Path, required=True, help="the linker's map")
    parser.add_argument("--board", type=Path, required=True, help="board.json of the board it is for")
    parser.add_argument(
        "--program",
        type=Path,
        action="append",
        default=[],
        help="a .pte in the image, for the size of its constants; repeat for more",
    )
    parser.add_argument(
        "--model", type=Path, action="append", default=[], help="what a program was exported from; repeatable"
    )
    parser.add_argument("--manifest", type=Path, action="append", default=[], help="a program's; repeat for more")
    parser.add_argument("--part", action="append", default=[], help="a folder or library to report apart; repeatable")
    parser.add_argument("--heap-stack", type=int, default=0, help="the largest stack that a thread has of the heap")
    parser.add_argument("--engine", default="", help="what runs the model, and why it is that, for the report")
    parser.add_argument("--bin", type=Path, required=True, help="raw bytes of flash to write")
    parser.add_argument("--hex", type=Path, required=True, help="Intel HEX to write")
    parser.add_argument("--uf2", type=Path, help="UF2 to write, for a board with such a boot loader")
    parser.add_argument("--report-txt", type=Path, required=True, help="text report to write")
    parser.add_argument("--report-json", type=Path, required=True, help="JSON report to write")
    parser.add_argument("--spdx-json", type=Path, required=True, help="SPDX list to write")
    parser.add_argument("--toolchain-packages", type=Path, required=True, help="taken.txt of the toolchain")
    parser.add_argument("--executorch-version", type=Path, required=True, help="file with the version of executorch")
    parser.add_argument("--quiet", action="store_true", help="do not print the summary")
    return run_tool("image_files", _run, parser.parse_args(argv))
