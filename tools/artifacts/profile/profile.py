"""profile.json: what each operator call of an emulated image takes, as //tools/commands/profile writes it."""

import json
from dataclasses import dataclass
from pathlib import Path

from tools.quiet.files import reading


@dataclass(frozen=True)
class Row:
    """The cost of one operator call of an inference: instructions, and estimated cycles where there is an estimate."""

    instructions: int
    cycles: int | None


def read_profile(path: Path) -> tuple[Row, ...]:
    """Reads the rows that //tools/commands/profile writes of an emulated image.

    Raises:
        UserError: the file is missing or something else.
    """
    with reading("profile", path, "pass what a profile's --json writes"):
        rows = json.loads(path.read_text(encoding="utf-8"))
        return tuple(
            Row(int(row["count"]), None if row["cycles"] is None else int(row["cycles"]))
            for row in sorted(rows, key=lambda row: int(row["index"]))
        )
