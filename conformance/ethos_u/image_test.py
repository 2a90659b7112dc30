"""The image of a board with an NPU, on one that isn't the program's, on none, and with damaged commands."""

import json
import os
import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tools.artifacts.board.board import read_board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.artifacts.golden.golden import read_golden
from tools.artifacts.size_report.size_report import read_size_report
from tools.quiet.testing import given_file
from tools.verify.environment.hosted import EmulationError, join_inputs
from tools.verify.environment.npu import QemuWithNpu
from tools.verify.environment.qemu import Qemu

QEMU = Path(os.environ["QEMU"])
FILES = [Path(name) for name in os.environ["IMAGE"].split()]
IMAGE = next(path for path in FILES if path.suffix == ".elf")
BOARD = read_board(Path(os.environ["BOARD"]))
WITH_NPU = QemuWithNpu(BOARD, QEMU)
# Images without a console, whose kernels are compiled for them alone: image_silent_test, at night, has them.
SILENT = [Path(name) for name in os.environ.get("SILENT", "").split()]
of_silent_images = pytest.mark.skipif(not SILENT, reason="there are no images without a console")
LOADED_FILES = [Path(name) for name in os.environ["LOADED"].split()]
LOADED = next(path for path in LOADED_FILES if path.suffix == ".elf")
# This image has a torch_cpp_library of the program.
LIBRARY = given_file("LIBRARY", ".elf")
GOLDEN = read_golden(given_file("PROGRAM", ".npz"))
# The command that sets OFM_BASE0.
OUTPUT_BASE = 0x4010


def _commands(image: bytes) -> int:
    """Returns where the program's data for the driver begins."""
    # The next word is that of a configuration in Vela's programs. Code that checks the first word has it before another
    # one, and debug information has both, unaligned.
    (start,) = [found.start() for found in re.finditer(rb"COP1\x01\x00\x10\x00", image) if found.start() % 16 == 0]
    return start


def _damaged(folder: Path, index: int, word: int, image: Path = IMAGE) -> Path:
    """Returns the image with another word in the program's data for the driver, counted from `COP1` on."""
    data = bytearray(image.read_bytes())
    struct.pack_into("<I", data, _commands(data) + 4 * index, word)
    path = folder / image.name
    path.write_bytes(data)
    return path


def _words(image: Path) -> list[int]:
    """Returns the beginning of the program's data for the driver."""
    data = image.read_bytes()
    return [word for (word,) in struct.iter_unpack("<I", data[_commands(data) :][:4000])]


def _stream(image: Path) -> int:
    """Returns where the commands begin, counted as in _damaged()."""
    return next(i for i, word in enumerate(_words(image)) if i > 3 and word & 0xFF == 2) + 1


def _ending(environment: Qemu, image: Path) -> EmulationError:
    with pytest.raises(EmulationError) as caught:
        environment.run(image, timeout=60)
    return caught.value


def test_the_example_is_computed() -> None:
    result = WITH_NPU.run(IMAGE)
    assert "largest difference from PyTorch: 0\n" in result.console


def test_memory_of_an_npu_with_an_sram_of_its_own() -> None:
    """Its tensors are in DRAM, and nothing of the image in that SRAM."""
    files = [Path(name) for name in os.environ["DEDICATED"].split()]
    image = ElfImage(next(path for path in files if path.suffix == ".elf"))
    report = read_size_report(next(path for path in files if path.name.endswith(".report.json")))
    dram = report.arenas["dram"]
    assert dram.limit == 16 << 20 and dram.used >= dram.parts["NPU scratch"] > 0
    assert not {part for part in report.ram.parts if part.startswith("arena planned")}
    (model,) = [symbol.address for name, symbol in image.symbols.items() if "compiled_instance" in name]
    assert 0x71000000 <= model < 0x72000000
    assert not [name for name, symbol in image.symbols.items() if 0x31200000 <= symbol.address < 0x31400000]


def test_the_size_report_knows_the_npus_part() -> None:
    report = json.loads(next(path for path in LOADED_FILES if path.name.endswith(".report.json")).read_text())
    data = LOADED.read_bytes()
    start = _commands(data)
    # The header before the block's data has its length, and the block of weights follows.
    (commands,) = struct.unpack_from("<I", data, start - 16)
    name, weights = struct.unpack_from("<16sI", data, start + -(-commands // 16) * 16)
    assert name.rstrip(b"\0") == b"weight_data"
    flash, ram = report["flash"]["parts"], report["ram"]["parts"]
    assert (flash["NPU commands"], flash["NPU weights"]) == (commands, weights)
    assert flash["NPU driver"] > 0
    assert ram["NPU scratch"] > 0.9 * (ram["NPU scratch"] + ram.get("arena temp", 0))
    for memory in report["flash"], report["ram"]:
        assert sum(memory["parts"].values()) == memory["used"]


@of_silent_images
def test_the_driver_takes_1_kilobyte() -> None:
    """Measures an image that prints nothing, beside commands and weights; a compiled model has no runtime."""
    (report,) = [path for path in SILENT if path.name.endswith(".report.json")]
    flash = json.loads(report.read_text())["flash"]["parts"]
    assert "runtime" not in flash
    assert 0 < flash["NPU driver"] <= 1_024, flash


@of_silent_images
def test_an_execution_takes_few_instructions_of_the_core_whatever_the_input() -> None:
    """Tests a whole delegate, whose inputs and outputs are where the NPU has them."""
    (silent,) = [path for path in SILENT if path.suffix == ".elf"]
    larger = given_file("LARGER", ".elf")
    counts = {}
    for image, input_bytes in (silent, 490), (larger, 3 * 32 * 32):
        result = QemuWithNpu(BOARD, QEMU, counts=True).run(image, join_inputs([np.zeros((1, input_bytes), np.int8)]))
        assert result.execute is not None
        counts[image] = result.execute
    assert 100 < counts[silent] <= 500
    assert abs(counts[larger] - counts[silent]) <= 50


def test_what_the_npu_works_in_is_whole_lines_of_a_cache() -> None:
    for image, name in (IMAGE, "compiled_instance"), (LOADED, "temp_arena"):
        symbols = ElfImage(image).symbols.values()
        (memory,) = [symbol for symbol in symbols if re.search(rf"(^|\d){name}E?$", symbol.name)]
        assert memory.size > 0
        assert (memory.address % 32, memory.size % 32) == (0, 0), memory


def test_a_library_in_an_application_computes_what_pytorch_does() -> None:
    (expected,) = GOLDEN.outputs_in_memory()
    result = WITH_NPU.run(LIBRARY, join_inputs(GOLDEN.inputs_in_memory()))
    assert result.outputs == expected.tobytes()


def test_another_npu_is_named_beside_the_programs() -> None:
    board = replace(BOARD, npu="ethos-u55-256")
    error = _ending(QemuWithNpu(board, QEMU), IMAGE)
    assert error.name == "DelegateInvalidCompatibility"
    message = r"is for an NPU with CONFIG 0x00001807 and ID 0x1006[0-9a-f]{4}, this one has 0x00003008 and 0x10060000\b"
    assert re.search(message, error.console)


def test_an_npu_that_does_not_answer() -> None:
    error = _ending(Qemu(BOARD, QEMU), IMAGE)
    assert error.name == "AccessFailed"
    assert "the NPU's PROT is 0, the board needs 1" in error.console


def test_a_damaged_command_stops_the_npu(tmp_path: Path) -> None:
    error = _ending(WITH_NPU, _damaged(tmp_path, _stream(IMAGE), 0x3FF))
    assert error.name == "Internal"
    assert "unknown command" in error.console
    assert "is no command of this NPU" in error.reason


def test_a_damaged_head_is_refused_when_the_program_is_loaded(tmp_path: Path) -> None:
    error = _ending(WITH_NPU, _damaged(tmp_path, 0, 0, LOADED))
    assert error.name == "DelegateInvalidCompatibility"
    assert "the NPU's commands are of another format" in error.console


def test_a_loaded_program_that_reaches_beyond_its_memory_is_refused(tmp_path: Path) -> None:
    words = _words(LOADED)
    at = words.index(OUTPUT_BASE, _stream(LOADED)) + 1
    error = _ending(WITH_NPU, _damaged(tmp_path, at, 0x00F0_0000, LOADED))
    assert error.name == "DelegateInvalidCompatibility"
    assert "reaches beyond the program's weights and memory" in error.console
    assert "bus error" not in error.reason
