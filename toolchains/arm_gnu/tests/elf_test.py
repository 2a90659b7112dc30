"""Images for each core have that core's instruction set and calling convention, and nothing of this machine in them."""

import os
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

# Values of the ARM ABI's build attributes: "Addenda to, and Errata in, the ABI for the Arm Architecture" (ADDENDA32),
# sections 3.3.5.2 (CPU architecture, FP, MVE) and 3.3.6 (procedure call).
V7 = 10
V6S_M = 12
V7E_M = 13
V8_M_BASE = 16
V8_M_MAIN = 17
V8_1_M_MAIN = 21
SOFT, HARD = 0, 1
NO_FPU, FPV4, FPV5 = 0, 6, 8
NO_MVE, MVE_INTEGER, MVE_INTEGER_AND_FLOAT = 0, 1, 2

# Architecture, what floating-point arguments are passed in, FPU, MVE.
CORES = {
    "CORTEX_M0": (V6S_M, SOFT, NO_FPU, NO_MVE),
    "CORTEX_M0PLUS": (V6S_M, SOFT, NO_FPU, NO_MVE),
    "CORTEX_M1": (V6S_M, SOFT, NO_FPU, NO_MVE),
    "CORTEX_M3": (V7, SOFT, NO_FPU, NO_MVE),
    "CORTEX_M4": (V7E_M, HARD, FPV4, NO_MVE),
    "CORTEX_M4_NOFP": (V7E_M, SOFT, NO_FPU, NO_MVE),
    "CORTEX_M7": (V7E_M, HARD, FPV5, NO_MVE),
    "CORTEX_M7_SP": (V7E_M, HARD, FPV5, NO_MVE),
    "CORTEX_M7_NOFP": (V7E_M, SOFT, NO_FPU, NO_MVE),
    "CORTEX_M23": (V8_M_BASE, SOFT, NO_FPU, NO_MVE),
    "CORTEX_M33": (V8_M_MAIN, HARD, FPV5, NO_MVE),
    "CORTEX_M33_NODSP": (V8_M_MAIN, HARD, FPV5, NO_MVE),
    "CORTEX_M33_NOFP": (V8_M_MAIN, SOFT, NO_FPU, NO_MVE),
    "CORTEX_M33_NODSP_NOFP": (V8_M_MAIN, SOFT, NO_FPU, NO_MVE),
    "CORTEX_M35P": (V8_M_MAIN, HARD, FPV5, NO_MVE),
    "CORTEX_M35P_NOFP": (V8_M_MAIN, SOFT, NO_FPU, NO_MVE),
    **{
        core + variant: values
        for core in ("CORTEX_M52", "CORTEX_M55", "CORTEX_M85")
        for variant, values in {
            "": (V8_1_M_MAIN, HARD, FPV5, MVE_INTEGER_AND_FLOAT),
            "_MVE_INT": (V8_1_M_MAIN, HARD, NO_FPU, MVE_INTEGER),
            "_NOMVE": (V8_1_M_MAIN, HARD, FPV5, NO_MVE),
            "_NOMVE_NOFP": (V8_1_M_MAIN, SOFT, NO_FPU, NO_MVE),
        }.items()
    },
}
# An image that allocates is built for these, too.
ALLOCATING = [name.removeprefix("CONTAINERS_") for name in os.environ if name.startswith("CONTAINERS_")]


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
    found = attributes(image(core))
    names = ("TAG_CPU_ARCH", "TAG_ABI_VFP_ARGS", "TAG_FP_ARCH", "TAG_MVE_ARCH")
    assert tuple(found.get(name, 0) for name in names) == CORES[core]
    assert found["TAG_CPU_ARCH_PROFILE"] == ord("M")


def test_every_core_is_tested() -> None:
    assert {f"SAMPLE_{core}" for core in CORES} == {name for name in os.environ if name.startswith("SAMPLE_")}


@pytest.mark.parametrize("core", ALLOCATING)
def test_an_application_that_allocates_gets_the_library_of_its_core(core: str) -> None:
    path = image(core, "CONTAINERS")
    with path.open("rb") as file:
        symbols = {symbol.name for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols()}
    assert "_Znwj" in symbols  # operator new
    found = attributes(path)
    assert (found["TAG_CPU_ARCH"], found.get("TAG_ABI_VFP_ARGS", SOFT)) == CORES[core][:2]


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
