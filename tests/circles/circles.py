"""Finds Python modules that import each other in a circle; of Starlark files, Bazel refuses circles itself.

Imports inside of functions and for type checkers count, too: files that can only be understood together are one file.
"""

import argparse
import ast
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

from tools.quiet.console import UserError
from tools.quiet.tool import run_tool


def imports(root: Path, files: Sequence[str]) -> dict[str, set[str]]:
    """Returns what each of some files imports of the others.

    Args:
        root: the repository.
        files: paths from there; those that are not `.py` are left out.

    Raises:
        UserError: a file is missing or no source file.
    """
    known = {file for file in files if file.endswith(".py")}
    graph = {}
    for file in sorted(known):
        try:
            named = set(_imported(file, (root / file).read_text(encoding="utf-8")))
        except (OSError, SyntaxError, ValueError) as error:
            raise UserError(f"{file} can't be read: {error}") from error
        graph[file] = {name for name in named if name in known and name != file}
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Returns the circles of a graph, each as the files on the way from one back to it; at most one for each import."""
    edges = {file: set(imported) for file, imported in graph.items()}
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(edges).prepare()
            return found
        except CycleError as error:
            # Each file is imported by the one after it.
            circle = list(reversed(error.args[1]))
            found.append(circle)
            edges[circle[0]].discard(circle[1])


def _imported(file: str, text: str) -> Iterator[str]:
    """Paths that a Python file may mean by its imports."""
    folder = PurePosixPath(file).parent
    for node in ast.walk(ast.parse(text, file)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            bases = [PurePosixPath(), folder]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}".lstrip(".") for alias in node.names)]
            # A model file imports files beside it by their names alone.
            bases = [folder.joinpath(*[".."] * (node.level - 1))] if node.level else [PurePosixPath(), folder]
        else:
            continue
        for base in bases:
            for name in names:
                path = posixpath.normpath(base.joinpath(*name.split(".")) if name else base)
                yield f"{path}.py"
                yield f"{path}/__init__.py"


def _run(arguments: argparse.Namespace) -> int:
    found = circles(imports(arguments.root, arguments.files))
    for circle in found:
        print(" -> ".join(circle))
    return 1 if found else 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="circles", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: the working directory)")
    parser.add_argument("files", nargs="+", help="files, by their paths from there: git ls-files '*.py'")
    return run_tool("circles", _run, parser.parse_args(argv))
