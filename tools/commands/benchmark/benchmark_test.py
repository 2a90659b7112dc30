import json
from dataclasses import replace
from pathlib import Path

from tools.artifacts.document.document import to_json
from tools.artifacts.image_index.image_index import Image
from tools.artifacts.npu_report.npu_report import Delegate, NpuReport, OnCore, npu_report_json
from tools.commands.benchmark import benchmark
from tools.commands.benchmark.benchmark import Row, comparison, documented, main, table, update
from tools.commands.benchmark.npu import NpuRow, delegated, npu_table, update_npu_table
from tools.quiet.console import UserError

_BEFORE = Row("sine", "int8", "mps2_an386", 6584, 250, 604, 454, 1991, 2500)
_OTHER = Row("add", "float32", "mps2_an386", 5088, 232, 1064, 436, 649)
_NOW = Row("sine", "int8", "mps2_an386", 6600, 250, 604, 454, 1200, 2501)
_TEXT = f"# Numbers\n\n{table([_BEFORE, _OTHER])}\n\n| sine | 1 |\n"


def test_rows_of_a_document_are_found() -> None:
    assert documented(_TEXT) == {("sine", "int8", "mps2_an386"), ("add", "float32", "mps2_an386")}


def test_a_row_is_written_anew_and_the_rest_stays() -> None:
    unknown = Row("resnet8", "int8", "mps2_an386", 1, 1, 1, 1, 1)
    text, higher = update(_TEXT, [_NOW, unknown])
    assert text == _TEXT.replace("6,584 | 250 | 604 | 454 | 1,991 | 2,500", "6,600 | 250 | 604 | 454 | 1,200 | 2,501")
    assert higher == ["sine int8 mps2_an386: flash 6,584 -> 6,600", "sine int8 mps2_an386: cycles 2,500 -> 2,501"]


def test_a_row_gets_its_estimate_and_keeps_what_is_not_estimated() -> None:
    before = table([replace(_BEFORE, cycles=None), _OTHER])
    assert "| inference, instructions | inference, estimated cycles |" in before and before.endswith("| 649 |  |")
    assert update(before, [_BEFORE, replace(_OTHER, inference=650)]) == (
        table([_BEFORE, replace(_OTHER, inference=650)]),
        ["add float32 mps2_an386: inference 649 -> 650"],
    )


def test_rows_are_compared_with_an_earlier_run() -> None:
    earlier = {("sine", "int8", "mps2_an386"): {"flash": 6584, "load": 0, "inference": 1188, "cycles": 2476}}
    text, worse = comparison([_NOW, _OTHER], earlier)
    assert text.splitlines()[0] == "| model | variant | board | flash | arena | stack | load | inference | cycles |"
    assert text.splitlines()[2:] == [
        "| sine | int8 | mps2_an386 | 1.002 | new | new |  | 1.010 | 1.010 |",
        "| add | float32 | mps2_an386 | new | new | new | new | new |  |",
    ]
    assert worse == [
        "sine int8 mps2_an386: load 0 -> 454",
        "sine int8 mps2_an386: inference 1,188 -> 1,200",
        "sine int8 mps2_an386: cycles 2,476 -> 2,501",
    ]
    assert comparison([replace(_NOW, cycles=2500)], earlier)[1] == worse[:2]


def test_what_an_npu_leaves_to_the_core_is_in_its_row(tmp_path: Path) -> None:
    path = tmp_path / "m.npu.json"
    report = NpuReport("m", "ethos-u55-128", "shared_sram", 1, (Delegate(1, 1, 1, 1, {"cycles_total": 7}, ()),) * 2, ())
    path.write_text(npu_report_json(report))
    assert delegated(path) == ("all", 14)
    core = (OnCore("aten::flip", "m.py:1", "the NPU has no such operation", "int8"),) * 2
    path.write_text(npu_report_json(replace(report, delegates=(), core=core)))
    assert delegated(path) == ("0 parts; not aten::flip (the NPU has no such operation)", None)
    row = NpuRow("m", "int8", "b", "ethos-u55-128", "all", 1234, 5, 6, None, None, True)
    assert npu_table([row]).splitlines()[-1].endswith("| 1,234 | 6 | 5 |  |  | yes |")


def test_the_table_of_npus_is_written_anew() -> None:
    def row(model: str, accelerator: str, inference: int) -> NpuRow:
        return NpuRow(model, "int8", "b", accelerator, "all", 1, 2, 3, 4, inference, True)

    before = [row("add", "", 5), row("add", "ethos-u55-128", 6), row("sine", "ethos-u55-128", 7)]
    text = f"# Numbers\n\n{npu_table(before)}\n\n| sine | 1 |\n"
    now = [row("mean", "ethos-u55-128", 9), row("add", "ethos-u65-256", 8)]
    assert update_npu_table(text, now) == text.replace(npu_table(before), npu_table([now[1], before[2], now[0]]))


def test_an_image_that_fails_has_a_row_that_says_so(tmp_path, capsys, monkeypatch) -> None:
    def measured(image: Image, *_: object) -> Row:
        if image.model == "broken":
            raise UserError("the device refuses the program: InvalidProgram")
        return replace(_NOW, model=image.model)

    monkeypatch.setattr(benchmark, "measure", measured)
    page, rows = tmp_path / "page.md", tmp_path / "rows.json"
    before = table([replace(_BEFORE, model=model) for model in ("broken", "sine")])
    page.write_text(before)
    keys = ("elf", "plan", "description", "report", "golden", "manifest")
    images = [
        dict.fromkeys(keys, "missing") | {"model": model, "variant": "int8", "board": "mps2_an386"}
        for model in ("broken", "sine")
    ]
    (tmp_path / "index.json").write_text(to_json("index of images", 1, {"images": images}))
    arguments = ["--index", str(tmp_path / "index.json"), "--qemu", "qemu", "--json", str(rows), "--update", str(page)]
    assert main(arguments) == 1
    printed = capsys.readouterr().out
    assert "| broken | int8 | mps2_an386 | failed |  |  |  |  |  |\n| sine | int8 | mps2_an386 | 6,600 |" in printed
    assert "broken int8 mps2_an386: failed: the device refuses the program: InvalidProgram" in printed
    compared = [*arguments[:-4], "--compare", str(rows)]
    monkeypatch.setattr(benchmark, "measure", lambda image, *_: replace(_NOW, model=image.model, inference=1300))
    assert main(compared) == 1
    printed = capsys.readouterr().out
    assert "| broken | int8 | mps2_an386 | new | new | new | new | new | new |" in printed
    assert printed.endswith("\nsine int8 mps2_an386: inference 1,200 -> 1,300\n")
    monkeypatch.setattr(benchmark, "measure", lambda image, *_: replace(_NOW, model=image.model))
    assert main(compared) == 0
    assert capsys.readouterr().out.endswith("no number is worse by 1 % or more\n")
    assert main([*arguments[:-4], "--compare", str(page)]) == 1
    assert "page.md is no list of rows" in capsys.readouterr().err
    assert page.read_text() == before.replace(table([_BEFORE]).splitlines()[-1], table([_NOW]).splitlines()[-1])
    assert [row.get("failure") for row in json.loads(rows.read_text())] == [
        "the device refuses the program: InvalidProgram",
        None,
    ]


def test_a_document_without_the_table_of_npus_is_refused_before_anything_is_measured(tmp_path, capsys) -> None:
    entry = dict.fromkeys(("elf", "plan", "description", "report", "golden", "manifest", "npu", "board"), "missing")
    (tmp_path / "index.json").write_text(to_json("index of images", 1, {"images": [entry]}))
    (tmp_path / "page.md").write_text("# Numbers\n")
    arguments = ["--index", str(tmp_path / "index.json"), "--qemu", "qemu", "--update", str(tmp_path / "page.md")]
    assert main(arguments) == 1
    message = capsys.readouterr().err
    assert "page.md: it has no table of networks on NPUs" in message and "| model | on |" in message
