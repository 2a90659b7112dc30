"""Compares the files of this build's images with other information: the programmed bytes, the symbols."""

import hashlib
import json
import os
import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tools.artifacts.board.board import Region
from tools.artifacts.elf_image.elf_image import ElfImage, Symbol
from tools.artifacts.size_report.size_report import SizeReport, read_size_report
from tools.artifacts.uf2.uf2 import check_uf2
from tools.pipeline.image_files.image_files import flash_content, over_heap, over_stack
from tools.pipeline.image_files.sbom import components
from tools.pipeline.report.image import Piece
from tools.pipeline.report.stack import Level, StackBound
from tools.quiet.console import UserError

_FILES = [Path(path) for path in os.environ["IMAGES"].split()]
# 16 neurons, twice: of six tensors, each aligned to 16 bytes.
_SINE_WEIGHTS = 4 * (16 + 16 + 16 * 16 + 16 + 16 + 1)


def _file(board: str, suffix: str) -> Path:
    return next(path for path in _FILES if path.name == board + suffix)


def _report(board: str) -> SizeReport:
    return read_size_report(_file(board, ".report.json"))


# One board has its flash at address 0, the other does not.
@pytest.mark.parametrize("board", ["mps2_an386", "nucleo_wb55rg"])
def test_flash_is_what_gets_programmed(board: str) -> None:
    flash = _report(board).flash
    parts = flash.parts
    assert flash.used == _file(board, ".bin").stat().st_size
    assert sum(parts.values()) == flash.used
    assert _SINE_WEIGHTS <= parts["weights"] < _SINE_WEIGHTS + 6 * 16
    for part in ("runtime", "kernels", "libc", "board", "application", "strings", "program metadata"):
        assert parts[part] > 0
    # Bytes that belong to no part.
    assert parts["alignment"] < 0.02 * flash.used


@pytest.mark.parametrize("board", ["mps2_an386", "nucleo_wb55rg"])
def test_ram_is_what_the_symbols_take(board: str) -> None:
    ram = _report(board).ram
    parts = ram.parts
    with _file(board, ".elf").open("rb") as file:
        symbols = {
            symbol.name: symbol["st_size"]
            for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols()
            if symbol["st_info"]["type"] == "STT_OBJECT"
        }
    # A compiled model with all of its memory.
    (size,) = [size for name, size in symbols.items() if "compiled_instance" in name]
    assert parts["arena planned"] == size
    assert sum(parts.values()) == ram.used
    assert parts["stack"] >= 4096


def test_an_arena_in_two_memories() -> None:
    report = _report("wide_compiled")
    image = ElfImage(_file("wide_compiled", ".elf"))
    sizes = {name: symbol.size for name, symbol in image.symbols.items() if symbol.size > 4096}
    (instance,) = [size for name, size in sizes.items() if "compiled_instance" in name]
    (apart,) = [size for name, size in sizes.items() if "sram2_arena" in name]
    assert (report.ram.parts["arena planned"], report.arenas["sram2"].parts) == (instance, {"arena sram2": apart})
    assert report.arenas["sram2"].limit == 32 * 1024 and apart + instance > report.ram.limit - 4096


@pytest.mark.parametrize("board", ["mps2_an386", "nucleo_wb55rg", "pico2_w"])
def test_bin_has_what_the_linker_placed(board: str) -> None:
    content = _file(board, ".bin").read_bytes()
    with _file(board, ".elf").open("rb") as file:
        segments = [s for s in ELFFile(file).iter_segments() if s["p_type"] == "PT_LOAD" and s["p_filesz"]]
        origin = min(segment["p_paddr"] for segment in segments)
        for segment in segments:
            start = segment["p_paddr"] - origin
            assert content[start : start + segment["p_filesz"]] == segment.data()


@pytest.mark.parametrize("board", ["mps2_an386", "nucleo_wb55rg", "pico2_w"])
def test_the_list_of_components_names_what_is_linked(board: str) -> None:
    document = json.loads(_file(board, ".spdx.json").read_text())
    # Build tools come after components.
    packages = {package["name"]: package for package in reversed(document["packages"])}
    (image,) = (name for name in packages if name == f"{board}.elf")
    digest = hashlib.sha256(_file(board, ".elf").read_bytes()).hexdigest()
    assert packages[image]["checksums"] == [{"algorithm": "SHA256", "checksumValue": digest}]
    ends = {package["SPDXID"]: package["name"] for package in document["packages"]} | {"SPDXRef-DOCUMENT": ""}
    related = {
        kind: {ends[each[end]] for each in document["relationships"] if each["relationshipType"] == kind}
        for kind, end in (
            ("CONTAINS", "relatedSpdxElement"),
            ("GENERATED_FROM", "relatedSpdxElement"),
            ("BUILD_TOOL_OF", "spdxElementId"),
        )
    }
    # This build's own C library is all that its images need of one.
    assert related["CONTAINS"] == {"libgcc", "libstdc++", "executorch", "torch_fusion", "sine.pte"}
    assert {"sine.py", "sine.weights"} & related["GENERATED_FROM"]
    assert {"GNU C17", "GNU C++17", "torch", "executorch"} <= related["BUILD_TOOL_OF"]
    assert packages["torch"]["versionInfo"]
    assert "-Os -std=c++17" in packages["GNU C++17"]["comment"] and packages["GNU C++17"]["versionInfo"]
    assert "bazel-out" not in _file(board, ".spdx.json").read_text()
    assert packages["executorch"]["licenseConcluded"] == "BSD-3-Clause"
    assert packages["libgcc"]["licenseConcluded"] == "GPL-3.0-or-later WITH GCC-exception-3.1"
    assert packages["executorch"]["versionInfo"] and packages["libgcc"]["versionInfo"]
    assert {
        each[end] for each in document["relationships"] for end in ("spdxElementId", "relatedSpdxElement")
    } == ends.keys()


def test_components_of_a_workspace_and_of_the_toolchain_are_told_apart(tmp_path: Path) -> None:
    sources = {
        "external/torch_fusion+/kernels/portable/gemm.cpp",
        "external/torch_fusion++third_party+executorch/include/executorch/runtime/core/span.h",
        "external/driver+/uart.c",
        "app/main.cpp",
        "external/torch_fusion++third_party+arm_gnu_toolchain/usr/bin/../lib/gcc/arm-none-eabi/12.2.1/include/arm_mve.h",
        "bazel-out/k8/bin/net.cpp",
    }
    (tmp_path / "net.pte").write_bytes(b"net")
    taken = f"libnewlib-arm-none-eabi=3.3.0 {'0' * 64} BSD-3-Clause, MIT\ngcc-arm-none-eabi=12 {'1' * 64}\n"
    pieces = [Piece(".text", ".text", 4, source) for source in ("/usr/lib/libc_nano.a(lib_a-memcpy.o)", "main.o")]
    found = components(pieces, sources, [tmp_path / "net.pte"], taken, "1.5.1")
    assert [(each.name, each.version, each.files) for each in found] == [
        ("newlib", "3.3.0", ("libc_nano.a",)),
        ("gcc", "12", ("arm_mve.h",)),
        ("executorch", "1.5.1", ("span.h",)),
        ("torch_fusion", "", ()),
        ("application", "", ("main.cpp",)),
        ("driver+", "", ("uart.c",)),
        ("net.pte", "", ()),
    ]


def test_a_stack_that_may_be_too_small_is_named_with_both_sizes_and_what_takes_most() -> None:
    chain = (Level("main", 128), Level("_ZN2ab12_GLOBAL__N_16Filter3runEPKal", 4000), Level("memcpy", 8))
    message = over_stack(_report("mps2_an386"), StackBound(4096, chain))
    assert "may use 4,136 bytes of stack on mps2_an386, which has 4,096" in message
    assert 'stack_size = "4136"' in message and "ab::Filter::run 4,000, main 128, memcpy 8" in message
    assert message.endswith(" (docs/troubleshooting.md#stacktoosmall).")
    # Calls that are certain come first.
    sure = (Level("main", 4100),)
    assert "may use 4,100 bytes" in over_stack(_report("mps2_an386"), StackBound(4096, chain, sure))
    assert not over_stack(_report("mps2_an386"), StackBound(4136, chain))
    assert not over_stack(_report("mps2_an386"), StackBound(4096, problem="f may be called while it runs"))


@pytest.mark.parametrize(
    "symbols", [{"__end__": (0x20000000, 0), "__HeapLimit": (0x20001000, 0)}, {"ucHeap": (0x20000000, 4096)}]
)
def test_a_heap_without_room_for_a_thread_is_named(symbols: dict[str, tuple[int, int]]) -> None:
    image = ElfImage(_file("mps2_an386", ".elf"))
    assert not over_heap(image, 4096), "without such symbols nothing is known of a heap"
    image.symbols = {name: Symbol(name, address, size, False) for name, (address, size) in symbols.items()}
    assert "mps2_an386 has a heap of 4,096 bytes, in which a thread's stack of 4,096 has" in over_heap(image, 4096)
    assert not over_heap(image, 4088) and not over_heap(image, 0)


def test_uf2_is_there_for_a_board_with_such_a_boot_loader() -> None:
    data = _file("pico2_w", ".uf2").read_bytes()
    check_uf2(data)
    payload = b"".join(data[at + 32 : at + 288] for at in range(0, len(data), 512))
    image = _file("pico2_w", ".bin").read_bytes()
    assert payload[: len(image)] == image
    assert struct.unpack_from("<I", data, 12) == (0x10000000,)
    assert not [path for path in _FILES if path.suffix == ".uf2" and path.stem != "pico2_w"]


@pytest.mark.parametrize("origin", [0x08000100, 0x07000000])
def test_an_image_for_another_place_is_refused(origin: int) -> None:
    image = ElfImage(_file("nucleo_wb55rg", ".elf"))
    with pytest.raises(UserError, match=r"nucleo_wb55rg\.elf has .* bytes at 0x08000000, outside the flash"):
        flash_content(image, Region("flash", origin, 0x1000000 - 0x200))
