from dataclasses import replace
from pathlib import Path

from tools.artifacts.npu_report.npu_report import Delegate, NpuReport, OnCore, npu_report_json
from tools.commands.benchmark.benchmark import Row, documented, table, update
from tools.commands.benchmark.npu import NpuRow, delegated, npu_table

_BEFORE = Row("sine", "int8", "mps2_an386", 6584, 250, 604, 454, 1991)
_OTHER = Row("add", "float32", "mps2_an386", 5088, 232, 1064, 436, 649)
_NOW = Row("sine", "int8", "mps2_an386", 6600, 250, 604, 454, 1200)
_TEXT = f"# Numbers\n\n{table([_BEFORE, _OTHER])}\n\n| sine | 1 |\n"


def test_rows_of_a_document_are_found() -> None:
    assert documented(_TEXT) == {("sine", "int8", "mps2_an386"), ("add", "float32", "mps2_an386")}


def test_a_row_is_written_anew_and_the_rest_stays() -> None:
    unknown = Row("resnet8", "int8", "mps2_an386", 1, 1, 1, 1, 1)
    text, higher = update(_TEXT, [_NOW, unknown])
    assert text == _TEXT.replace("6,584 | 250 | 604 | 454 | 1,991", "6,600 | 250 | 604 | 454 | 1,200")
    assert higher == ["sine int8 mps2_an386: flash 6,584 -> 6,600"]


def test_what_an_npu_leaves_to_the_core_is_in_its_row(tmp_path: Path) -> None:
    path = tmp_path / "m.npu.json"
    report = NpuReport("m", "ethos-u55-128", "shared_sram", 1, (Delegate(1, 1, 1, 1, {"cycles_total": 7}, ()),) * 2, ())
    path.write_text(npu_report_json(report))
    assert delegated(path) == ("all", 14)
    core = (OnCore("aten::flip", "m.py:1", "Op is not supported on U55.", "int8"),) * 2
    path.write_text(npu_report_json(replace(report, delegates=(), core=core)))
    assert delegated(path) == ("0 parts; not aten::flip (Op is not supported on U55.)", None)
    row = NpuRow("m", "int8", "b", "ethos-u55-128", "all", 1234, 5, 6, None, None, True)
    assert npu_table([row]).splitlines()[-1].endswith("| 1,234 | 6 | 5 |  |  | yes |")
