import json
from dataclasses import replace
from pathlib import Path

import pytest

from tools.artifacts.size_report.size_report import Memory, SizeReport, size_report_json
from tools.pipeline.report import report as report_module
from tools.pipeline.report.image import Piece, SourceFiles, owner, program_parts, read_map
from tools.pipeline.report.npu import NpuBytes
from tools.pipeline.report.report import comparison, full_text, main, over_limits, summary
from tools.quiet.console import UserError

_MAP = """\
Archive member included to satisfy reference by file (symbol)

Discarded input sections

 .text.unused   0x00000000       0x40 bazel-out/bin/runtime/libruntime.a(method.o)

Linker script and memory map

LOAD bazel-out/bin/firmware/_objs/sine/application.o
.vectors        0x08000000       0x40
 *(.vectors)
 .vectors       0x08000000       0x40 bazel-out/bin/firmware/cortex_m/libstartup.lo(startup.o)

.text           0x08000040      0x234
 *(.text .text.*)
 .text.main     0x08000040       0x20 bazel-out/bin/firmware/_objs/sine/application.o
 .text._ZN10executorch7runtime6Method7executeEv
                0x08000060       0x80 bazel-out/bin/runtime/libruntime.a(method.o)
 *fill*         0x080000e0        0x4
 .rodata.str1.1
                0x080000e4       0x12 bazel-out/bin/kernels/libkernels.a(op_add.o)
                                 0x20 (size before relaxing)
 .rodata.table  0x080000f8       0x10 bazel-out/bin/firmware/_objs/sine/registry.o
 .text.memcpy   0x08000108       0x1c /x/lib/thumb/v7e-m+fp/hard/libc_nano.a(libc_a-memcpy.o)
 .text.empty    0x08000124        0x0 bazel-out/bin/runtime/libruntime.a(method.o)

.program        0x08000130      0x110
 *(.program .program.*)
 .program.sine_pte
                0x08000130      0x100 bazel-out/bin/firmware/_objs/sine/sine_pte.o
 .program.sine_pte_example_input_0.example
                0x08000230       0x10 bazel-out/bin/firmware/_objs/sine/sine_pte.o
"""


def test_the_map_gives_what_was_linked(tmp_path: Path) -> None:
    path = tmp_path / "image.map"
    path.write_text(_MAP, encoding="utf-8")
    pieces = read_map(path)
    assert [(owner(piece), piece.size) for piece in pieces] == [
        ("board", 0x40),
        ("application", 0x20),
        ("runtime", 0x80),
        ("kernels", 0x12),
        ("kernels", 0x10),
        ("libc", 0x1C),
        ("program", 0x100),
        ("example", 0x10),
    ]
    assert {piece.output for piece in pieces} == {".vectors", ".text", ".program"}


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("firmware/boards/nucleo_wb55rg/_objs/support/board.o", "board"),
        ("firmware/ethos_u/driver.cpp", "NPU driver"),
        ("bazel-out/bin/external/torch_fusion/runtime/_objs/runtime/program.o", "runtime"),
        ("bazel-out/bin/runtime/libruntime.a(operator_registry.o)", "runtime"),
        ("bazel-out/bin/models/own/sine_registry.pic.o", "kernels"),
        ("/usr/lib/gcc/arm-none-eabi/12.2.1/thumb/libgcc.a(_udivmoddi4.o)", "libc"),
        ("firmware/_objs/console_text/console.o", "application"),
        ("libmine.a(mine.o)", "application"),
    ],
)
def test_owner_by_path(source: str, part: str) -> None:
    assert owner(Piece(".text.f", ".text", 4, source)) == part


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("mbed-os/CMakeFiles/mbed-os.dir/hal/runtime/us_ticker.cpp.obj", "mbed-os"),
        ("mbed-os/libmbed-rtos.a(thread.cpp.obj)", "mbed-os"),
        ("networks/libnetworks.a(op_add.cpp.obj)", "networks"),
        ("libnetworks.a(op_add.cpp.obj)", "networks"),
        ("/usr/lib/libc_nano.a(memcpy.o)", "libc"),
        ("CMakeFiles/application.dir/main.cpp.obj", "application"),
    ],
)
def test_frameworks_and_packages_are_parts_of_their_own(source: str, part: str) -> None:
    assert owner(Piece(".text.f", ".text", 4, source), ["mbed-os", "networks"]) == part


def test_data_of_models_without_a_program_is_weights() -> None:
    """For example, an image of CMake has models from a package."""
    assert program_parts(1000, None, NpuBytes()) == {"weights": 1000}
    parts = program_parts(1000, 900, NpuBytes(commands=10, weights=20))
    assert parts == {"weights": 900, "NPU weights": 20, "NPU commands": 10, "program metadata": 70}


def test_a_file_that_is_no_map(tmp_path: Path) -> None:
    path = tmp_path / "image.map"
    path.write_text("nothing", encoding="utf-8")
    with pytest.raises(UserError, match=r"image\.map is no map of GNU ld"):
        read_map(path)


def _report(flash: int = 3000, ram: int = 1000) -> SizeReport:
    return SizeReport(
        "firmware",
        "sine",
        "tiny",
        "cortex-m4",
        Memory(flash, 4096, {"weights": flash - 1000, "runtime": 600, "kernels": 400}),
        Memory(ram, 2048, {"arena planned": ram - 100, "stack": 100}),
    )


def test_a_fitting_image_has_no_message() -> None:
    assert list(over_limits(_report(flash=4096, ram=2048))) == []


def test_one_byte_too_many_says_what_takes_how_much() -> None:
    (message,) = over_limits(_report(flash=4097))
    assert "does not fit into the flash of tiny: 4,097 of 4,096 bytes, 1 too many" in message
    assert "weights 3,097, runtime 600, kernels 400. " in message
    large = replace(_report(), flash=Memory(9000, 4096, {"example": 8000, "weights": 1000}))
    assert "weights 1,000, of which example = False leaves out the example. Use" in next(over_limits(large))


def test_both_memories_can_be_over() -> None:
    flash, ram = over_limits(_report(flash=5000, ram=5000))
    assert "int8" in flash
    assert "int8" in ram and 'memory = "smallest"' in ram


def test_the_npu_has_a_memory_of_its_own() -> None:
    report = replace(_report(), arenas={"dram": Memory(900, 800, {"NPU scratch": 900})})
    assert "dram  [########################]       900 of 800 bytes" in summary(report, Path("out/firmware.elf"))
    (message,) = over_limits(report)
    assert "does not fit into the dram of tiny: 900 of 800 bytes, 100 too many" in message
    assert "arena_memory" in message
    rows = [line.split() for line in comparison([_report(), report]).splitlines()]
    assert rows[0][-3:] == ["dram", "NPU", "scratch"]
    assert [row[-2:] for row in rows[-2:]] == [["0", "0"], ["900", "900"]]


def test_texts_name_every_part() -> None:
    for text in (summary(_report(), Path("out/firmware.elf")), full_text(_report())):
        for word in (
            "firmware: sine on tiny (cortex-m4)",
            "3,000 of 4,096",
            "weights",
            "runtime",
            "kernels",
            "arena planned",
            "stack",
        ):
            assert word in text


def test_the_summary_draws_flash_and_says_where_the_files_are() -> None:
    text = summary(_report(), Path("bazel-out/k8-ST-1/bin/firmware/my.image.elf"))
    assert "[##################......]" in text
    assert text.endswith("\n  bazel-out/k8-ST-1/bin/firmware/my.image.*\n")


def test_comparison_has_a_row_per_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = replace(_report(), ram=Memory(1000, 2048, {"arena planned": 900}))
    reports = [small, _report(flash=3500)]
    options = []
    for i, report in enumerate(reports):
        path = tmp_path / f"{i}.json"
        path.write_text(size_report_json(report), encoding="utf-8")
        options.append(f"--compare={path}")
    table, together = tmp_path / "all.txt", tmp_path / "all.json"
    assert main([*options, "--text", str(table), "--json", str(together)]) == 0
    assert [each["flash"]["used"] for each in json.loads(together.read_text())["reports"]] == [3000, 3500]
    assert capsys.readouterr().out == table.read_text() == comparison(reports)
    rows = [line.split() for line in table.read_text().splitlines()]
    assert [row[2] for row in rows] == ["flash", "3,000", "3,500"]
    assert [row[-1] for row in rows] == ["stack", "0", "100"]


def test_the_bar_is_full_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert report_module._bar(10_000, 100) == "[" + "#" * 24 + "]"


def test_what_the_link_time_optimiser_made_counts_to_its_sources() -> None:
    sources = SourceFiles({0x104: "firmware/application.cpp", 0x110: "runtime/executor/method.cpp"})
    made = "bazel-out/bin/firmware/sine.elf.ltrans0.ltrans.o"
    # Code by the file of each line: the method is inlined into main().
    code = list(sources.split(Piece(".text.main", ".text", 0x20, made, 0x100)))
    assert [(owner(part), part.size) for part in code] == [("application", 0x10), ("runtime", 0x10)]
    # Data by namespace, and strings, which are merged, by themselves.
    for name, part in (
        (".rodata._ZN10executorch7runtime8kNumbersE", "runtime"),
        (".rodata._ZN5torch8executor6native6kTableE", "kernels"),
        (".rodata._ZN10executorch7runtime8kNumbersE.str1.1", "strings"),
        (".rodata.numbers", "application"),
    ):
        (piece,) = sources.split(Piece(name, ".text", 8, made, 0x200))
        assert owner(piece) == part
    # Objects outside of link-time optimisation stay unchanged.
    whole = Piece(".text.memcpy", ".text", 8, "bazel-out/bin/firmware/libc/libstring.lo(memcpy.o)", 0x110)
    assert list(sources.split(whole)) == [whole]
