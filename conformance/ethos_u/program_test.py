"""The report of a program that an NPU computes as a whole."""

import os
import re
from pathlib import Path

from tools.artifacts.npu_report.npu_report import read_npu_report

_FILES = {"".join(Path(path).suffixes): Path(path) for path in os.environ["PROGRAM"].split()}
_REPORT = read_npu_report(_FILES[".npu.json"])
_TEXT = _FILES[".npu.txt"].read_text()


def test_report() -> None:
    """The report's sizes are the program's, and its layers add up."""
    (delegate,) = _REPORT.delegates
    blocks = delegate.commands_bytes + delegate.weights_bytes
    assert blocks < delegate.bytes < blocks + 1024
    assert sum(layer["cycles"] for layer in delegate.layers) == delegate.summary["cycles_total"]
    assert _REPORT.core == ()
    assert f"{delegate.summary['cycles_total']:,}" in _TEXT
    # The layer takes as long as the NPU or a memory, whichever is longer; each has a column.
    headings, *rows = _TEXT.splitlines()[1 : len(delegate.layers) + 2]
    assert headings.split()[3:] == ["cycles", "share", "NPU", "SRAM", "flash", "MACs", "SRAM", "bytes"]
    for layer, row in zip(delegate.layers, rows, strict=True):
        assert layer["cycles"] == max(layer[f"{part}_cycles"] for part in ("npu", "sram", "off_chip_flash"))
        assert row.split()[5:8] == [f"{layer[f'{part}_cycles']:,}" for part in ("npu", "sram", "off_chip_flash")]


def test_report_of_memories() -> None:
    """Weights are read from flash, and tensors read and written in SRAM, once each at least."""
    (delegate,) = _REPORT.delegates
    moved = {name: int(text.replace(",", "")) for name, text in re.findall(r"^(.+): ([\d,]+) bytes read", _TEXT, re.M)}
    assert moved.keys() == {"SRAM", "off-chip flash"}
    assert moved["off-chip flash"] > 0.9 * delegate.weights_bytes
    assert moved["SRAM"] > delegate.arena_bytes
