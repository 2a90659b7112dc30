"""Command line of //tools/abi/schema."""

import argparse
from pathlib import Path

from tools.quiet.tool import run_tool

from . import cpp, python
from .schema import parse


def _run(arguments: argparse.Namespace) -> None:
    schema = parse(arguments.schema, arguments.include)
    if arguments.cpp:
        arguments.cpp.write_text(cpp.generate(schema), encoding="utf-8")
    if arguments.python:
        arguments.python.write_text(python.generate(schema), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="schema", description="Generates readers of a FlatBuffers schema.")
    parser.add_argument("--schema", type=Path, required=True, help="the .fbs file")
    parser.add_argument("--include", type=Path, action="append", default=[], help="folder of included schema files")
    parser.add_argument("--cpp", type=Path, help="the C++ header to write")
    parser.add_argument("--python", type=Path, help="the Python module to write")
    return run_tool("schema", _run, parser.parse_args())
