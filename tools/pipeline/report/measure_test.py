"""Reports of this build's images, against what else is known of them: the bytes that get programmed, the symbols."""

import json
import os
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

_FILES = [Path(path) for path in os.environ["IMAGES"].split()]
# 16 neurons, twice: of six tensors, each aligned to 16 bytes.
_SINE_WEIGHTS = 4 * (16 + 16 + 16 * 16 + 16 + 16 + 1)


def _file(board: str, suffix: str) -> Path:
    return next(path for path in _FILES if path.name == board + suffix)


def _report(board: str) -> dict:
    return json.loads(_file(board, ".report.json").read_text(encoding="utf-8"))


# One has its flash at the very beginning of the address space, one does not.
@pytest.mark.parametrize("board", ["mps2_an386", "nucleo_wb55rg"])
def test_flash_is_what_gets_programmed(board: str) -> None:
    flash = _report(board)["flash"]
    parts = flash["parts"]
    assert flash["used"] == _file(board, ".bin").stat().st_size
    assert sum(parts.values()) == flash["used"]
    assert _SINE_WEIGHTS <= parts["weights"] < _SINE_WEIGHTS + 6 * 16
    for part in ("runtime", "kernels", "libc", "board", "application", "strings", "program metadata"):
        assert parts[part] > 0
    # What belongs to no part.
    assert parts["alignment"] < 0.02 * flash["used"]


@pytest.mark.parametrize("board", ["mps2_an386", "nucleo_wb55rg"])
def test_ram_is_what_the_symbols_take(board: str) -> None:
    ram = _report(board)["ram"]
    parts = ram["parts"]
    with _file(board, ".elf").open("rb") as file:
        symbols = {
            symbol.name: symbol["st_size"]
            for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols()
            if symbol["st_info"]["type"] == "STT_OBJECT"
        }
    for arena in ("method", "planned"):
        (size,) = [size for name, size in symbols.items() if f"{arena}_arena" in name]
        assert parts[f"arena {arena}"] == size
    assert sum(parts.values()) == ram["used"]
    assert parts["stack"] >= 4096
