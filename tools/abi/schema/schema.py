"""FlatBuffers schema files: a parser, and generators of readers for C++ and Python.

The grammar is the part that ExecuTorch's program.fbs and scalar_type.fbs use (FlatBuffers documentation, "Schema"):
namespaces, includes, enums, unions and tables, with defaults and attributes. Structs and RPC services are refused.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from tools.quiet.console import UserError

SCALARS = {
    "bool": ("bool", 1, "?"),
    "byte": ("int8_t", 1, "b"),
    "int8": ("int8_t", 1, "b"),
    "ubyte": ("uint8_t", 1, "B"),
    "uint8": ("uint8_t", 1, "B"),
    "short": ("int16_t", 2, "h"),
    "int16": ("int16_t", 2, "h"),
    "ushort": ("uint16_t", 2, "H"),
    "uint16": ("uint16_t", 2, "H"),
    "int": ("int32_t", 4, "i"),
    "int32": ("int32_t", 4, "i"),
    "uint": ("uint32_t", 4, "I"),
    "uint32": ("uint32_t", 4, "I"),
    "float": ("float", 4, "f"),
    "float32": ("float", 4, "f"),
    "long": ("int64_t", 8, "q"),
    "int64": ("int64_t", 8, "q"),
    "ulong": ("uint64_t", 8, "Q"),
    "uint64": ("uint64_t", 8, "Q"),
    "double": ("double", 8, "d"),
    "float64": ("double", 8, "d"),
}
"""Scalar type -> (C++ type, width in bytes, `struct` format character)."""


class SchemaError(UserError):
    """A schema that cannot be read; the message names the file, the line and the cause."""


@dataclass
class Enum:
    """An enum, or the type of a union; a union's members are tables and 0 is NONE."""

    name: str
    underlying: str
    values: dict[str, int]
    is_union: bool = False


@dataclass
class Field:
    """A field of a table. `slot` is its index in the vtable; a union's value takes `slot`, its type the one before."""

    name: str
    type: str
    is_vector: bool
    default: str | None
    slot: int


@dataclass
class Table:
    """A table with its fields in the order of declaration."""

    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass
class Schema:
    """The declarations of one schema file and its includes."""

    namespace: str = ""
    file_identifier: str = ""
    root_type: str = ""
    enums: dict[str, Enum] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)


_TOKEN = re.compile(r'\s+|//[^\n]*|/\*.*?\*/|(?P<token>"[^"]*"|[A-Za-z_][\w.]*|[-+]?[\d][\w.+]*|[{}\[\]():;,=])', re.S)


class _Parser:
    def __init__(self, path: Path, schema: Schema, include_paths: list[Path]) -> None:
        self.path = path
        self.schema = schema
        self.include_paths = include_paths
        self.tokens: list[tuple[str, int]] = []
        text = path.read_text(encoding="utf-8")
        position, line = 0, 1
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise SchemaError(f"{path}:{line}: unexpected character {text[position]!r}")
            if match["token"] is not None:
                self.tokens.append((match["token"], line))
            line += match[0].count("\n")
            position = match.end()
        self.next = 0

    def error(self, message: str) -> SchemaError:
        line = self.tokens[min(self.next, len(self.tokens)) - 1][1] if self.tokens else 1
        return SchemaError(f"{self.path}:{line}: {message}")

    def take(self, expected: str | None = None) -> str:
        if self.next >= len(self.tokens):
            raise self.error(f"the file ends where {expected or 'more'} was expected")
        token = self.tokens[self.next][0]
        self.next += 1
        if expected is not None and token != expected:
            raise self.error(f"expected {expected!r}, found {token!r}")
        return token

    def peek(self) -> str | None:
        return self.tokens[self.next][0] if self.next < len(self.tokens) else None

    def skip_attributes(self) -> None:
        if self.peek() == "(":
            while self.take() != ")":
                pass

    def parse(self) -> None:
        while self.peek() is not None:
            keyword = self.take()
            if keyword == "include":
                self.include(self.take().strip('"'))
            elif keyword == "namespace":
                self.schema.namespace = self.take()
            elif keyword == "file_identifier":
                self.schema.file_identifier = self.take().strip('"')
            elif keyword in ("file_extension", "attribute"):
                self.take()
            elif keyword == "root_type":
                self.schema.root_type = self.take()
            elif keyword == "enum":
                self.enum()
                continue
            elif keyword == "union":
                self.union()
                continue
            elif keyword == "table":
                self.table()
                continue
            else:
                raise self.error(f"'{keyword}' is not supported")
            self.take(";")

    def include(self, name: str) -> None:
        for folder in [self.path.parent, *self.include_paths]:
            if (folder / name).is_file():
                _Parser(folder / name, self.schema, self.include_paths).parse()
                return
        raise self.error(f"included file {name} not found")

    def enum(self) -> None:
        name = self.take()
        self.take(":")
        underlying = self.take()
        if underlying not in SCALARS:
            raise self.error(f"enum {name} has unknown type {underlying}")
        self.skip_attributes()
        self.take("{")
        values: dict[str, int] = {}
        number = 0
        while self.peek() != "}":
            member = self.take()
            if self.peek() == "=":
                self.take()
                number = int(self.take(), 0)
            values[member] = number
            number += 1
            if self.peek() == ",":
                self.take()
        self.take("}")
        self.schema.enums[name] = Enum(name, underlying, values)

    def union(self) -> None:
        name = self.take()
        self.take("{")
        values = {"NONE": 0}
        while self.peek() != "}":
            values[self.take()] = len(values)
            if self.peek() == ",":
                self.take()
        self.take("}")
        self.schema.enums[name] = Enum(name, "ubyte", values, is_union=True)

    def table(self) -> None:
        table = Table(self.take())
        self.skip_attributes()
        self.take("{")
        slot = 0
        while self.peek() != "}":
            name = self.take()
            self.take(":")
            is_vector = self.peek() == "["
            if is_vector:
                self.take()
            kind = self.take()
            if is_vector:
                self.take("]")
            default = None
            if self.peek() == "=":
                self.take()
                default = self.take()
            self.skip_attributes()
            self.take(";")
            union = self.schema.enums.get(kind)
            if union is not None and union.is_union:
                slot += 1
            table.fields.append(Field(name, kind, is_vector, default, slot))
            slot += 1
        self.take("}")
        self.schema.tables[table.name] = table


def parse(path: Path, include_paths: list[Path] | None = None) -> Schema:
    """Reads a schema file and what it includes.

    Args:
      path: the .fbs file.
      include_paths: folders of included files, besides the including file's own.

    Raises:
      SchemaError: naming file, line and cause.
    """
    schema = Schema()
    _Parser(path, schema, include_paths or []).parse()
    for table in schema.tables.values():
        for item in table.fields:
            known = item.type in SCALARS or item.type == "string" or item.type in schema.tables | schema.enums
            if not known:
                raise SchemaError(f"{path}: {table.name}.{item.name} has unknown type {item.type}")
    if schema.root_type not in schema.tables:
        raise SchemaError(f"{path}: root_type {schema.root_type!r} is not a table")
    return schema


def default_value(schema: Schema, item: Field) -> str:
    """The default of a scalar or enum field as a number, "true" or "false"."""
    if item.default is None:
        return "false" if item.type == "bool" else "0"
    enum = schema.enums.get(item.type)
    return str(enum.values[item.default]) if enum else item.default
