"""JSON files of the pipeline: each says its format and the version of its schema, so that the wrong one is named."""

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from tools.quiet.console import UserError
from tools.quiet.files import reading

_Record = TypeVar("_Record")


def to_json(file_format: str, version: int, content: dict[str, Any]) -> str:
    """The text of a file.

    Args:
      file_format: the format's name, such as "memory plan".
      version: the version of its schema, which changes with the meaning of its fields.
      content: the fields; `format` and `version` are put before them.
    """
    return json.dumps({"format": file_format, "version": version, **content}, indent=2) + "\n"


def from_json(path: Path, file_format: str, version: int, advice: str) -> dict[str, Any]:
    """The fields of a file; the caller checks them inside tools.quiet.files.reading().

    Args:
      advice: the next step where it is another file, such as "pass the plan.json of a torch_firmware".

    Raises:
      UserError: the file cannot be read, is of another format, or has another version of its schema.
    """
    with reading(file_format, path, advice):
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content.get("format")
        if found != file_format:
            raise ValueError(f"its format is {found!r}")
        if content.get("version") != version:
            raise UserError(
                f"{file_format} {path} has version {content.get('version')!r} of its schema, and this is the tool for "
                f"version {version}; build the file anew"
            )
        return content


def record(kind: type[_Record], content: Any) -> _Record:
    """Makes a dataclass of a file's fields, by the types of its own; call it inside tools.quiet.files.reading().

    Fields may be missing that have defaults, and further ones are ignored.

    Raises:
      KeyError, TypeError, ValueError: a field is missing, or of another type.
    """
    result: _Record = _decoded(kind, content)
    return result


@dataclasses.dataclass(frozen=True)
class Format(Generic[_Record]):
    """A file that has the fields of a dataclass.

    Attributes:
      kind: the dataclass, whose `__post_init__` may raise ValueError for fields that contradict each other.
      name, version, advice: those of to_json() and from_json().
    """

    kind: type[_Record]
    name: str
    version: int
    advice: str

    def text(self, content: _Record) -> str:
        """Returns the text of a file."""
        return to_json(self.name, self.version, dataclasses.asdict(typing.cast(Any, content)))

    def read(self, path: Path) -> _Record:
        """Reads a file.

        Raises:
          UserError: the file is missing, something else, or of another version.
        """
        content = from_json(path, self.name, self.version, self.advice)
        with reading(self.name, path, self.advice):
            return record(self.kind, content)


def _of_fields(kind: Any, content: Any) -> Any:
    hints, missing = typing.get_type_hints(kind), dataclasses.MISSING
    needed = {each.name for each in dataclasses.fields(kind) if each.default is each.default_factory is missing}
    return kind(**{name: _decoded(hints[name], content[name]) for name in hints if name in needed or name in content})


def _decoded(kind: Any, value: Any) -> Any:
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _of_fields(kind, _checked(dict, value))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        (other,) = set(arguments) - {types.NoneType}
        return None if value is None else _decoded(other, value)
    if origin is tuple:
        return tuple(_decoded(arguments[0], each) for each in _checked(list, value))
    if origin in (dict, Mapping):
        # The names of JSON's fields are texts, also those of numbers.
        key = int if arguments[0] is int else str
        return {key(name): _decoded(arguments[1], each) for name, each in _checked(dict, value).items()}
    return float(_checked((int, float), value)) if kind is float else _checked(kind, value)


def _checked(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{value!r} is of another type")
    return value
