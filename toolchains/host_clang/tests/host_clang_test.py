"""Tests that programs of Debian's Clang need only Debian 12's C library, tell of faults, and hold nothing of this
machine.
"""

import os
import subprocess
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

FAULTS = Path(os.environ["FAULTS"])
SYMBOLIZER = Path(os.environ["SYMBOLIZER"])

C_LIBRARY = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}


def run(mistake: str) -> subprocess.CompletedProcess[str]:
    environment = {"ASAN_SYMBOLIZER_PATH": str(SYMBOLIZER)}
    return subprocess.run([FAULTS, mistake], env=environment, capture_output=True, text=True, check=False)


def test_the_c_library_is_all_it_needs() -> None:
    with FAULTS.open("rb") as file:
        dynamic = next(section for section in ELFFile(file).iter_sections() if isinstance(section, DynamicSection))
        tags = list(dynamic.iter_tags())
    assert {tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"} <= C_LIBRARY
    assert not [tag for tag in tags if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH")]


def test_neither_date_nor_place_of_the_build_is_in_the_program() -> None:
    result = run("none")
    assert (result.returncode, result.stdout) == (0, "toolchains/host_clang/tests/faults.cpp redacted\n")
    with FAULTS.open("rb") as file:
        units = [unit.get_top_DIE().attributes for unit in ELFFile(file).get_dwarf_info().iter_CUs()]
    ours = [unit["DW_AT_comp_dir"].value for unit in units if unit["DW_AT_name"].value.endswith(b"faults.cpp")]
    assert ours == [b"."]


def test_a_read_beyond_memory_ends_the_program_and_names_the_line() -> None:
    result = run("overflow")
    assert result.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in result.stderr
    assert "toolchains/host_clang/tests/faults.cpp:14" in result.stderr


def test_undefined_behaviour_ends_the_program_and_names_the_line() -> None:
    result = run("undefined")
    assert result.returncode != 0
    assert "faults.cpp:17:33: runtime error: signed integer overflow" in result.stderr
