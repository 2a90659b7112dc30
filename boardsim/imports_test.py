"""boardsim's modules have an order: none needs itself, also not by an import in a function or for types alone."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import boardsim
from boardsim.chips import chip_names

_FOLDER = Path(boardsim.__file__).parent


def _modules() -> dict[str, Path]:
    paths = {path: path.relative_to(_FOLDER.parent).with_suffix("").parts for path in sorted(_FOLDER.rglob("*.py"))}
    return {".".join(parts).removesuffix(".__init__"): path for path, parts in paths.items()}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_module_needs_itself() -> None:
    modules = _modules()
    assert len(modules) > 15
    graph = {name: {other for other in _imported(path) if other in modules} for name, path in modules.items()}
    # Raises CycleError, which names the circle.
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert order.index("boardsim.machine") < order.index("boardsim.boards")


def test_nothing_but_boards_names_a_chip() -> None:
    chips = {f"boardsim.chips.{name}" for name in chip_names()}
    assert len(chips) >= 3
    for name, path in _modules().items():
        assert not chips & set(_imported(path)), name
