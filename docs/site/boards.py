"""The pages of boards: what their definitions say, and a picture of their memory, below the text of their folder."""

import math
from pathlib import Path
from xml.etree import ElementTree

from tools.artifacts.board.board import Board
from tools.artifacts.board.table import size_text

_ROW, _WIDTH, _LABEL, _BAR = 34, 480, 110, 200
# Okabe and Ito's colours, on which black and white backgrounds can be told apart.
_COLORS = {"flash": "#0072b2", "ram": "#e69f00"}


def memory_picture(board: Board) -> bytes:
    """Returns an SVG with a bar for each memory, whose length is the logarithm of its size."""
    regions = [board.flash, board.ram, *board.reserved]
    size = {"width": str(_WIDTH), "height": str(_ROW * len(regions) + 6)}
    root = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "font-family": "sans-serif", **size})

    def text(x: float, y: int, content: str, anchor: str = "start") -> None:
        attributes = {"x": str(x), "y": str(y), "font-size": "13", "fill": "#808890", "text-anchor": anchor}
        ElementTree.SubElement(root, "text", attributes).text = content

    longest = max(math.log2(region.length) for region in regions)
    for index, region in enumerate(regions):
        y = _ROW * index + 6
        width = round(_BAR * math.log2(region.length) / longest)
        bar = {"x": str(_LABEL), "y": str(y), "width": str(width), "height": str(_ROW - 12), "rx": "3"}
        ElementTree.SubElement(root, "rect", bar | {"fill": _COLORS.get(region.name, "#8a939e")})
        text(_LABEL - 8, y + 16, region.name, "end")
        text(_LABEL + _BAR + 10, y + 16, f"{size_text(region.length)} at {region.origin:#010x}")
        ElementTree.SubElement(root[-1], "title").text = region.use or region.name
    return ElementTree.tostring(root)


def page(board: Board, text: str) -> str:
    """Returns the page of a board.

    Args:
        text: of its folder's README.md; empty without one.
    """
    lines = [text.rstrip() if text else f"# {board.description}", "", "## Memory", "", "![Memory](memory.svg)", ""]
    rows = [("name", f"`{board.name}`"), ("core", board.core), ("clock", f"{board.clock_hz / 1e6:g} MHz")]
    rows += [("NPU", board.npu)] if board.npu else []
    rows += [("QEMU's machine", board.emulator.machine)] if board.emulator else []
    rows += [("chip on the board simulator", board.simulator["chip"])] if board.simulator else []
    rows += [(f"memory `{region.name}`", region.use) for region in board.reserved if region.use]
    lines += ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]
    return "\n".join(lines) + "\n"


def write_pages(boards: list[Board], sources: Path) -> None:
    """Writes pages and pictures of boards among the sources of the site."""
    for board in boards:
        folder = sources / "firmware/boards" / board.name
        folder.mkdir(parents=True, exist_ok=True)
        readme = folder / "README.md"
        readme.write_text(page(board, readme.read_text(encoding="utf-8") if readme.exists() else ""), encoding="utf-8")
        (folder / "memory.svg").write_bytes(memory_picture(board))
