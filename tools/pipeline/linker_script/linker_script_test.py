import re
from pathlib import Path

import pytest

from tools.artifacts.board.testing import write_board
from tools.pipeline.linker_script.linker_script import main


def _generate(folder: Path, **changes: object) -> str:
    output = folder / "linker.ld"
    assert main(["--board", str(write_board(folder, **changes)), "--output", str(output)]) == 0
    return output.read_text(encoding="utf-8")


def _region(name: str, origin: int, length: int) -> dict[str, object]:
    return {"name": name, "origin": origin, "length": length, "use": ""}


def test_regions_are_the_boards_and_reach_to_the_next(tmp_path: Path) -> None:
    script = _generate(tmp_path)
    assert "FLASH (rx) : ORIGIN = 0x08000000, LENGTH = 0x18000000" in script
    assert "RAM (rw) : ORIGIN = 0x20000000, LENGTH = 0xe0000000" in script


def test_vector_table_comes_first_and_the_stack_at_the_bottom_of_ram(tmp_path: Path) -> None:
    script = _generate(tmp_path, stack_size=2048)
    order = re.findall(r"^  (\.[\w.]+) ", script, flags=re.MULTILINE)
    assert order == [
        ".boot_stage",
        ".vectors",
        ".text",
        ".program",
        ".stack",
        ".data",
        ".bss",
        ".arena.method",
        ".arena.planned",
        ".arena.temp",
    ]
    assert ". += 2048 + (" in script


def test_a_host_region_gets_symbols(tmp_path: Path) -> None:
    assert "__host_start" not in _generate(tmp_path)
    script = _generate(tmp_path, reserved=[_region("host", 0x21000000, 0x1000)])
    assert "__host_start = 0x21000000;\n__host_end = 0x21001000;" in script


def test_the_memory_that_an_npu_works_in_lies_where_the_board_says(tmp_path: Path) -> None:
    npu = {"accelerator": "ethos-u65-256", "arena_memory": "dram"}
    script = _generate(tmp_path, npu=npu, reserved=[_region("dram", 0x60000000, 0x1000)])
    assert "RAM (rw) : ORIGIN = 0x20000000, LENGTH = 0x40000000" in script
    assert "DRAM (rw) : ORIGIN = 0x60000000, LENGTH = 0xa0000000" in script
    places = dict(re.findall(r"\*\(\.arena\.(\w+)\)\n  \} > (\w+)", script))
    assert places == {"method": "RAM", "planned": "DRAM", "temp": "DRAM"}


def test_memories_over_which_an_arena_may_be_split(tmp_path: Path) -> None:
    dtcm = _region("dtcm", 0x10000000, 0x1000)
    script = _generate(tmp_path, reserved=[dtcm], arena_memories=["dtcm"])
    assert "DTCM (rw) : ORIGIN = 0x10000000, LENGTH = 0x10000000" in script
    places = dict(re.findall(r"\*\(\.arena\.(\w+)\)\n  \} > (\w+)", script))
    assert places == {"method": "RAM", "planned": "RAM", "temp": "RAM", "ram": "RAM", "dtcm": "DTCM"}


def test_overlapping_regions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = write_board(tmp_path, reserved=[_region("radio", 0x08000800, 0x1000)])
    assert main(["--board", str(board), "--output", str(tmp_path / "linker.ld")]) == 1
    assert "'flash' (0x8000000 to 0x8001000) overlaps 'radio' at 0x8000800" in capsys.readouterr().err


def test_a_stack_larger_than_ram_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = write_board(tmp_path, stack_size=4096)
    assert main(["--board", str(board), "--output", str(tmp_path / "linker.ld")]) == 1
    assert "lower `stack_size`" in capsys.readouterr().err


def test_a_description_cannot_end_the_comment(tmp_path: Path) -> None:
    assert "*/ evil" not in _generate(tmp_path, description="a */ evil")
