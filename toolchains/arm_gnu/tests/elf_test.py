"""Images for each core have that core's instruction set and calling convention, and nothing of this machine in them."""

import os
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

# Values of the ARM ABI's build attributes: "Addenda to, and Errata in, the ABI for the Arm Architecture" (ADDENDA32),
# sections 3.3.5.2 (CPU architecture, FP, MVE) and 3.3.6 (procedure call).
ARCHITECTURE_V7E_M = 13
ARCHITECTURE_V8_M_MAIN = 17
ARCHITECTURE_V8_1_M_MAIN = 21
HARD_FLOAT_ARGUMENTS = 1
MVE_INTEGER_AND_FLOAT = 2

CORES = {
    "CORTEX_M4": (ARCHITECTURE_V7E_M, 0),
    "CORTEX_M33": (ARCHITECTURE_V8_M_MAIN, 0),
    "CORTEX_M55": (ARCHITECTURE_V8_1_M_MAIN, MVE_INTEGER_AND_FLOAT),
}


def image(core: str, name: str = "SAMPLE") -> Path:
    return Path(os.environ[f"{name}_{core}"])


def attributes(path: Path) -> dict[str, int | str]:
    """Returns the ABI's build attributes of the whole file."""
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".ARM.attributes")
        whole_file = section.subsections[0].subsubsections[0]
        return {attribute.tag: attribute.value for attribute in whole_file.iter_attributes()}


@pytest.mark.parametrize("core", CORES)
def test_architecture_and_calling_convention(core: str) -> None:
    architecture, mve = CORES[core]
    found = attributes(image(core))
    assert found["TAG_CPU_ARCH"] == architecture
    assert found["TAG_CPU_ARCH_PROFILE"] == ord("M")
    assert found["TAG_ABI_VFP_ARGS"] == HARD_FLOAT_ARGUMENTS
    assert found["TAG_FP_ARCH"] != 0
    assert found.get("TAG_MVE_ARCH", 0) == mve


@pytest.mark.parametrize("core", CORES)
def test_an_application_that_allocates_gets_the_library_of_its_core(core: str) -> None:
    path = image(core, "CONTAINERS")
    with path.open("rb") as file:
        symbols = {symbol.name for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols()}
    assert "_Znwj" in symbols  # operator new
    found = attributes(path)
    assert found["TAG_CPU_ARCH"] == CORES[core][0]
    assert found["TAG_ABI_VFP_ARGS"] == HARD_FLOAT_ARGUMENTS


def compilation_directories(path: Path) -> dict[str, str]:
    """Returns the directory that the debug information names for each of our own sources."""
    with path.open("rb") as file:
        units = [unit.get_top_DIE().attributes for unit in ELFFile(file).get_dwarf_info().iter_CUs()]
    sources = {unit["DW_AT_name"].value.decode(): unit["DW_AT_comp_dir"].value.decode() for unit in units}
    return {source: directory for source, directory in sources.items() if "arm_gnu/tests" in source}


@pytest.mark.parametrize("core", CORES)
def test_debug_information_names_no_path_of_this_machine(core: str) -> None:
    assert compilation_directories(image(core)) == {
        "toolchains/arm_gnu/tests/sample.cpp": ".",
        "toolchains/arm_gnu/tests/sample_startup.c": ".",
    }


@pytest.mark.parametrize("core", CORES)
def test_neither_date_nor_place_of_the_build_is_in_the_program(core: str) -> None:
    with image(core).open("rb") as file:
        text = ELFFile(file).get_section_by_name(".text").data()
    assert b"\0redacted\0" in text  # __DATE__
    assert b"\0toolchains/arm_gnu/tests/sample.cpp\0" in text  # __FILE__
