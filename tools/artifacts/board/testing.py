"""A board for tests of the tools that read board.json."""

import json
from pathlib import Path
from typing import Any


def board_json(**changes: Any) -> dict[str, Any]:
    """The contents of a small board's board.json, with top-level entries replaced."""
    return {
        "format": "board definition",
        "version": 1,
        "name": "tiny",
        "description": "A board for tests",
        "core": "cortex-m4",
        "flash": {"name": "flash", "origin": 0x08000000, "length": 0x1000, "use": ""},
        "ram": {"name": "ram", "origin": 0x20000000, "length": 0x1000, "use": ""},
        "reserved": [],
        "clock_hz": 25_000_000,
        "stack_size": 1024,
        "console": {},
        "programmer": {"pyocd_target": "tiny_target", "openocd_config": "board/tiny.cfg"},
        "emulator": {"machine": "mps2-an386", "arguments": [], "clock_hz": 25_000_000},
        **changes,
    }


def write_board(folder: Path, **changes: Any) -> Path:
    """Writes board_json() to a file in `folder` and returns its path."""
    path = folder / "board.json"
    path.write_text(json.dumps(board_json(**changes)), encoding="utf-8")
    return path
