"""Measures the call of an operator on a Cortex-M4, without its kernel: images that differ in nothing else."""

import os
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

IMAGES = {
    path.stem.removesuffix("_mps2_an386"): path
    for path in map(Path, os.environ["IMAGES"].split())
    if path.suffix == ".elf"
}


def instructions(elf: Path) -> int:
    """Returns how many instructions an image has.

    Its mapping symbols say what is code and what is data ($t, $d; AAELF32, "Mapping symbols"). Instructions of 32 bits
    begin with 0b11101, 0b11110 or 0b11111 (Armv7-M Architecture Reference Manual, A5.1).
    """
    count = 0
    with elf.open("rb") as file:
        image = ELFFile(file)
        section = image.get_section_by_name(".text")
        begin, data = section["sh_addr"], section.data()
        marks = {
            symbol["st_value"] - begin: symbol.name[:2]
            for symbol in image.get_section_by_name(".symtab").iter_symbols()
            if symbol.name[:2] in ("$t", "$d") and 0 <= symbol["st_value"] - begin < len(data)
        }
    places = [*sorted(marks), len(data)]
    for mark, end in zip(places, places[1:], strict=False):
        place = mark if marks[mark] == "$t" else end
        while place < end:
            count += 1
            place += 4 if data[place + 1] >> 3 >= 0b11101 else 2
    return count


@pytest.mark.parametrize(("operator", "limit"), [("relu", 2), ("tanh", 2), ("linear", 5)])
def test_a_call_takes_few_instructions(operator: str, limit: int) -> None:
    # All of the calls are in one line of execution, so each of these instructions is executed once.
    short, long = (instructions(IMAGES[f"chain_{operator}_{length}"]) for length in (16, 32))
    assert 16 <= long - short <= limit * 16, (long - short) / 16
