import json
from pathlib import Path

import pytest

from tools.artifacts.board.board import Board, Region
from tools.artifacts.graph.graph import Graph, Step
from tools.artifacts.profile.profile import Row as Measured
from tools.artifacts.quantization_report.quantization_report import Accuracy, QuantizationReport
from tools.artifacts.size_report.size_report import Memory, SizeReport
from tools.commands.explore.build_events import Built, read_build_events
from tools.commands.explore.explore import (
    Result,
    best,
    build_file,
    main,
    parse_budget,
    rows_of,
    table,
    target_name,
    write_package,
)
from tools.commands.new_model.new_model import Model
from tools.pipeline.page.page import Image
from tools.quiet.console import UserError


def _image(board: str, flash: int, cycles: int | None, accuracy: float | None = None, clock: int = 1_000_000) -> Image:
    region = Region("x", 0, 1 << 20)
    graph = Graph("net", "cortex-m4", 0, (), (), {}, (Step("aten::relu", "", 0, 0, (), ()),))
    report = None
    if accuracy is not None:
        report = QuantizationReport("net", "cortex-m4", 8, (), Accuracy(100, 0.9, accuracy))
    return Image(
        SizeReport("x", "net", board, "cortex-m4", Memory(flash, 1 << 20, {}), Memory(500, 1 << 20, {})),
        Board(board, board, "cortex-m4", region, region, (), clock, stack_size=64),
        graph,
        report,
        () if cycles is None else (Measured(cycles, cycles),),
    )


def test_budget() -> None:
    assert parse_budget("flash=256K,ram=1M,ms=2.5,accuracy=0.95") == {
        "flash": 262144,
        "ram": 1048576,
        "ms": 2.5,
        "accuracy": 0.95,
    }
    assert parse_budget("") == {}
    for text in ("flash", "ms=20K", "speed=1", "ram=-1"):
        with pytest.raises(UserError, match=r"give flash, ram, ms, accuracy as in flash=256K"):
            parse_budget(text)


def test_table_says_what_fits_why_not_and_what_is_best() -> None:
    rows = rows_of(
        [
            Result("int8", "slow", _image("slow", 1000, 4000, accuracy=0.8)),
            Result("int8", "quick", _image("quick", 2000, None, accuracy=0.8, clock=4_000_000)),
            Result("float32", "slow", _image("slow", 3000, 8000)),
            Result("float32", "small", reason="flash is 3 bytes too small"),
        ]
    )
    assert table(rows, parse_budget("flash=2K,ms=2")).splitlines() == [
        "variant  board  flash  RAM    ms  accuracy  fits",
        "int8     slow   1,000  500  4.00     80.0%  no: ms",
        # It has the times of the other board with its core, at its own clock.
        "int8     quick  2,000  500  1.00     80.0%  yes",
        "float32  slow   3,000  500  8.00     90.0%  no: flash, ms",
        "float32  small                              no: flash is 3 bytes too small",
    ]
    assert best(rows, {}) == [
        "fastest: int8 on quick",
        "least flash: int8 on slow",
        "least RAM: int8 on slow",
        "most accurate: float32 on slow",
    ]
    assert best(rows, {"ms": 0.1}) == ["nothing fits"]


def test_package(tmp_path: Path) -> None:
    path = tmp_path / "Net.py"
    path.write_text("x = 1\n")
    (tmp_path / "data").mkdir()
    (tmp_path / 'data/a"b.txt').write_text("y")
    model = Model(path, "net", trains=True, beside=(tmp_path / 'data/a"b.txt',))
    text = build_file(model, ["int8", "int4"], ["pico", "//my:board"], "@torch_fusion")
    assert 'load("@torch_fusion//rules:defs.bzl", "model_page", "quantization", "torch_program")' in text
    assert '    quantization = quantization(weight_dtype = "int4"),\n' in text
    # It is trained once, whatever variants there are.
    assert text.count("train = True") == 1
    assert 'weights = ":net_float32"' in text
    assert 'data = ["data/a\\"b.txt"]' in text
    assert 'boards = ["@torch_fusion//firmware/boards/pico"]' in text
    assert f'name = "{target_name("int8", "//my:board")}",\n    boards = ["//my:board"]' in text
    folder = tmp_path / "explore/net"
    write_package(folder, model, text)
    write_package(folder, model, text)
    assert (folder / "net.py").read_text() == "x = 1\n"
    assert (folder / 'data/a"b.txt').read_text() == "y"
    (folder / "BUILD.bazel").write_text("mine()\n")
    with pytest.raises(UserError, match="has other files"):
        write_package(folder, model, text)


def test_build_events(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "image_files: flash overflows\nimage_files: error: flash of pico is 5 bytes too small. It goes to: weights 1.\n"
    )
    failed = {"label": "//explore/net:image", "primaryOutput": "x.elf"}
    events = [
        {
            "id": {"namedSet": {"id": "0"}},
            "namedSetOfFiles": {"files": [{"uri": "file:///a.json"}], "fileSets": [{"id": "1"}]},
        },
        {"id": {"namedSet": {"id": "1"}}, "namedSetOfFiles": {"files": [{"uri": "file:///b.json"}]}},
        {"id": {"actionCompleted": failed}, "action": {"stderr": {"uri": log.as_uri()}}},
        {
            "id": {"targetCompleted": {"label": "//explore/net:good"}},
            "completed": {"success": True, "outputGroup": [{"name": "reports", "fileSets": [{"id": "0"}]}]},
        },
        {
            "id": {"targetCompleted": {"label": "//explore/net:large"}},
            "children": [{"actionCompleted": failed}],
            "completed": {"failureDetail": {"message": "failed"}},
        },
        {"id": {"targetCompleted": {"label": "//explore/net:odd"}}, "aborted": {"description": "analysis failed"}},
    ]
    path = tmp_path / "events.json"
    path.write_text("\n".join(map(json.dumps, events)))
    assert read_build_events(path) == {
        "good": Built(("file:///a.json", "file:///b.json")),
        "large": Built(reason="image_files: error: flash of pico is 5 bytes too small"),
        "odd": Built(reason="analysis failed"),
    }


def test_unknown_variant_and_board(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["net.py", "--boards", "pico,nano", "--known", "pico,pico_w"]) == 1
    assert "--boards nano: the boards are pico, pico_w, and your own by their labels" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["net.py", "--boards", "pico", "--variants", "int8,int3"])
    assert "int3; variants are float32, int8, int4" in capsys.readouterr().err
