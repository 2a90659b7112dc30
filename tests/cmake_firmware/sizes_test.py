"""SIZES.md of a package says what its models take of an image that a project made with it."""

import os
from pathlib import Path

from elftools.elf.elffile import ELFFile

from tools.quiet.testing import given_file

_PACKAGE = next(Path(path) for path in os.environ["PACKAGES"].split() if not path.endswith(".zip"))
_SIZES = _PACKAGE / "SIZES.md"
_IMAGE = given_file("IMAGES", ".elf")
# The size of sine alone: three layers of 1, 16, 16 and 1 numbers in float32.
_WEIGHTS = 4 * (16 + 16 + 16 * 16 + 16 + 16 + 1)


def test_sizes_are_those_of_an_image() -> None:
    rows = [line.split("|")[1:-1] for line in _SIZES.read_text(encoding="utf-8").splitlines() if "cortex m4" in line]
    sizes = {
        model: [int(number.replace(",", "")) for number in numbers]
        for _, model, *numbers in ([cell.strip() for cell in row] for row in rows)
    }
    (sine, ram, stack), (flash, all_ram, most) = sizes["sine"], sizes["all"]
    with _IMAGE.open("rb") as file:
        elf = ELFFile(file)
        text = elf.get_section_by_name(".text")["sh_size"]
        symbols = elf.get_section_by_name(".symtab")
        instances = [symbols.get_symbol_by_name(name)[0]["st_size"] for name in ("sine", "leaky")]
        # The image has an example and start-up code besides, and not all of the interface.
        assert _WEIGHTS < sine < flash < text + 512
        assert text - flash < 2048
        assert ram == instances[0]
        # Each instance begins at an address that is a multiple of 16.
        assert sum(instances) <= all_ram < sum(instances) + 16
    # A frame of run at least, and less than any application gives a thread.
    assert 16 <= stack <= most < 1024 and most == max(stack, sizes["leaky"][2])
    header = (_PACKAGE / "include/archives_package.h").read_text(encoding="utf-8")
    assert f"#ifdef __ARM_ARCH_7EM__\n#define SINE_STACK_SIZE {stack}\n" in header
