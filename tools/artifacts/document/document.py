"""JSON files of the pipeline: each says its format and the version of its schema, so that the wrong one is named."""

import json
from pathlib import Path
from typing import Any

from tools.quiet.console import UserError
from tools.quiet.files import reading


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
