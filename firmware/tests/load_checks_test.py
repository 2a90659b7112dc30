"""Images whose program the build has compiled have nothing of what checks a .pte when it is loaded."""

import os
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tools.quiet.testing import given_file

COMPILED = {name: given_file(name, ".elf") for name in ("COMPILED_FLOAT32", "COMPILED_INT8")}
LOADED = given_file("LOADED", ".elf")
PACKED = Path(os.environ["PACKED"])


def _lines(elf: Path) -> dict[str, set[int]]:
    """Returns, by source file, the lines of which an image has machine code, also if that was inlined into another
    file's.
    """
    found: dict[str, set[int]] = {}
    with elf.open("rb") as file:
        for unit in (dwarf := ELFFile(file).get_dwarf_info()).iter_CUs():
            program = dwarf.line_program_for_CU(unit)
            if program is None:
                continue
            # Before DWARF 5 files are numbered from 1, and folder 0 is where the compiler was started.
            first = int(program["version"] < 5)
            folders = [b"."] * first + list(program["include_directory"])
            for entry in program.get_entries():
                # Code that the linker has left out begins at address 0.
                if entry.state is None or entry.state.end_sequence or entry.state.address == 0:
                    continue
                source = program["file_entry"][entry.state.file - first]
                path = os.path.normpath(Path(os.fsdecode(folders[source.dir_index]), os.fsdecode(source.name)))
                found.setdefault(path, set()).add(entry.state.line)
    return found


def _loader(elf: Path) -> set[str]:
    """Returns the files that load a program."""
    return {source for source in _lines(elf) if source.startswith(("runtime/executor/", "runtime/flatbuffer/"))}


def test_an_image_that_loads_has_the_loader() -> None:
    assert {"runtime/executor/method.cpp", "runtime/flatbuffer/flatbuffer.cpp"} <= _loader(LOADED)


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_image_has_no_instruction_of_it(name: str) -> None:
    assert "firmware/compiled_application.cpp" in _lines(COMPILED[name])
    assert _loader(COMPILED[name]) == set()


def test_a_compiled_image_does_not_check_packed_layers_as_the_loader_does() -> None:
    text = PACKED.read_text(encoding="utf-8").splitlines()
    lines = _lines(COMPILED["COMPILED_INT8"]).get(str(PACKED), set())
    for function in ("void check_contents(", "bool open_packed(", "Error internal::check_packed("):
        (begin,) = [number for number, line in enumerate(text, 1) if line.startswith(function)]
        assert not lines.intersection(range(begin, begin + text[begin:].index("}") + 2))
