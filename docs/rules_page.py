"""The page of the public rules, docs/rules.md, made from the doc strings of rules/*.bzl.

Bazel's starlark_doc_extract evaluates a .bzl file and writes what is documented in it as a protocol buffer, ModuleInfo
of stardoc_output.proto; its messages are read here by their fields' numbers.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from docs.update_page import update_page
from tools.quiet.console import UserError
from tools.quiet.table import markdown_table

_HEAD = """# Rules and macros

`bazel run //docs:update_rules` writes this page from the doc strings in [rules/](../rules). In another workspace labels
begin with `@torch_fusion`. How they are used is told in [own_model.md](own_model.md), [models.md](models.md) and
[firmware.md](firmware.md). What their providers have is told where these are declared,
[rules/providers.bzl](../rules/providers.bzl).
"""

# Rules of any project are loaded from these.
_PUBLIC = "//rules:defs.bzl"

_TYPES = {
    1: "name",
    2: "int",
    3: "label",
    4: "string",
    5: "list of strings",
    6: "list of ints",
    7: "list of labels",
    8: "bool",
    9: "dict of labels to strings",
    10: "dict of strings",
    11: "dict of strings to lists of strings",
    12: "output",
    13: "list of outputs",
    14: "dict of strings to labels",
    15: "dict of strings to lists of labels",
}


class Message:
    """A protocol buffer message, by its fields' numbers."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[bytes | int]] = defaultdict(list)
        place = 0
        while place < len(data):
            key, place = _varint(data, place)
            field, kind = key >> 3, key & 7
            value: bytes | int
            if kind == 0:
                value, place = _varint(data, place)
            elif kind == 2:
                size, place = _varint(data, place)
                value, place = data[place : place + size], place + size
                if len(value) != size:
                    raise ValueError(f"field {field} is truncated")
            else:
                raise ValueError(f"field {field} is of kind {kind}")
            self._fields[field].append(value)

    def text(self, field: int) -> str:
        """Returns a string; empty where there is none."""
        return (self.texts(field) or [""])[-1]

    def texts(self, field: int) -> list[str]:
        """Returns all of a repeated string."""
        return [value.decode("utf-8") for value in self._fields.get(field, []) if isinstance(value, bytes)]

    def number(self, field: int) -> int:
        """Returns a number, enumerator or bool; 0 where there is none."""
        values = [value for value in self._fields.get(field, []) if isinstance(value, int)]
        return values[-1] if values else 0

    def messages(self, field: int) -> list[Message]:
        """Returns all of a repeated field."""
        return [Message(value) for value in self._fields.get(field, []) if isinstance(value, bytes)]


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(data):
            raise ValueError("a number is truncated")
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


@dataclass(frozen=True)
class Module:
    """The documentation of a .bzl file.

    Attributes:
        file: its label.
        doc: its own doc string.
        parts: Markdown of each of its macros and rules, by name.
    """

    file: str
    doc: str
    parts: dict[str, str]


def read_module(path: Path) -> Module:
    """Reads what starlark_doc_extract wrote.

    Raises:
        UserError: the file is missing or something else.
    """
    try:
        info = Message(path.read_bytes())
        parts = {function.text(1): _function(function) for function in info.messages(3)}
        parts |= {rule.text(1): _rule(rule) for rule in info.messages(1)}
        return Module(info.text(6), _flat(info.text(5)), parts)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is no output of starlark_doc_extract: {error}") from error


def page(modules: Sequence[Module]) -> str:
    """Returns the page: the contents of //rules:defs.bzl, and a line for each further file."""
    by_file = {module.file: module for module in modules}
    if _PUBLIC not in by_file:
        raise UserError(f"there is no documentation of {_PUBLIC} among {', '.join(sorted(by_file))}")
    public = by_file.pop(_PUBLIC).parts
    files = sorted(by_file.values(), key=lambda module: module.file)
    inside = [module for module in files if any(name in public for name in module.parts)]
    lines = [_HEAD]
    lines += ["## Of `@torch_fusion//rules:defs.bzl`\n"]
    for module in inside:
        lines += _module(module)
    others = [module for module in files if module not in inside and module.parts]
    lines += ["## Of files of their own\n", "The doc strings of these files say what their parts take:\n"]
    lines += [f"- {_link(module)} Has {', '.join(f'`{part}`' for part in sorted(module.parts))}." for module in others]
    return "\n".join(lines) + "\n"


def _link(module: Module) -> str:
    name = module.file.partition(":")[2]
    return f"[rules/{name}](../rules/{name}): {module.doc}"


def _module(module: Module) -> Iterator[str]:
    """Yields the parts of a file: a macro comes before the rule that it wraps."""
    yield f"### {module.file.partition(':')[2].removesuffix('.bzl')}\n"
    yield f"{_link(module)}\n"
    for part in sorted(module.parts, key=lambda part: (part.endswith("_rule"), part)):
        yield module.parts[part]


def _function(info: Message) -> str:
    parameters = info.messages(2)
    shown = ", ".join(_parameter(parameter) for parameter in parameters)
    lines = [f"#### `{info.text(1)}({shown})`\n", _paragraphs(info.text(3))]
    rows = [(f"`{_name(p)}`", _cell(p.text(2))) for p in parameters if p.text(2)]
    if rows:
        lines += [markdown_table(("parameter", "what it is"), rows)]
    lines += [f"Returns: {_flat(returned.text(1))}\n" for returned in info.messages(4)]
    return "\n".join(lines)


def _name(parameter: Message) -> str:
    # Bazel 7 doesn't say which parameter takes all others.
    return "**kwargs" if parameter.text(1) == "kwargs" else parameter.text(1)


def _parameter(parameter: Message) -> str:
    default = parameter.text(3)
    return f"{_name(parameter)} = {default}" if default else _name(parameter)


def _rule(info: Message) -> str:
    name = info.text(1)
    kind = "test rule" if info.number(6) else "rule"
    rows = []
    for attribute in info.messages(3):
        if attribute.text(1) == "name" or "Set by the macro" in attribute.text(2):
            continue
        default = "required" if attribute.number(4) else f"`{attribute.text(6)}`"
        kind_of_value = _TYPES.get(attribute.number(3), "value")
        rows.append((f"`{attribute.text(1)}`", kind_of_value, _cell(default), _cell(attribute.text(2))))
    lines = [f"#### `{name}` ({kind})\n", _paragraphs(info.text(2))]
    if rows:
        lines += [markdown_table(("attribute", "type", "default", "what it is"), rows)]
    provided = [f"`{provider}`" for group in info.messages(5) for provider in group.texts(1)]
    if provided:
        lines += [f"Provides {', '.join(provided)}.\n"]
    return "\n".join(lines)


def _flat(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text.strip())


def _cell(text: str) -> str:
    return _flat(text).replace("|", "\\|")


def _paragraphs(text: str) -> str:
    """Returns a doc string; its paragraphs are lines, and what is indented stays as it is."""
    blocks = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(block if block.startswith("    ") else _flat(block) for block in blocks) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="update_rules", description="Writes the page of the public rules.")
    parser.add_argument("modules", type=Path, nargs="+", help="what starlark_doc_extract wrote of each .bzl file")
    return update_page(parser, lambda arguments: page([read_module(path) for path in arguments.modules]), argv)
