"""Images that are built for measuring say what each operator took, and others have nothing of that in them."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tools.quiet.testing import given_file

IMAGE = given_file("IMAGE", ".bin")
APPLICATION = Path(os.environ["APPLICATION"])


@pytest.mark.parametrize("engine", ["COMPILED", "LOADED"])
def test_each_operator_is_measured(engine: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    command = [os.environ[f"PROFILE_{engine}"], "--json", rows]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    operators = json.loads(rows.read_text(encoding="utf-8"))
    # Two hidden layers of sixteen, and their activations: what is large takes most.
    assert [row["operator"] for row in operators] == ["aten::linear", "aten::relu"] * 2 + ["aten::linear"]
    counts = [row["count"] for row in operators]
    assert max(counts) == counts[2]
    assert all(10 < count < 1000 for count in counts)
    # The tool refuses blocks that are not the instructions that the image counted.
    cycles = [row["cycles"] for row in operators]
    assert all(count < estimate < 4 * count for count, estimate in zip(counts, cycles, strict=True))
    assert f"\n{sum(cycles):,} cycles are " in out and " ms at 25 MHz\n" in out


def test_the_flash_of_an_image_without_profiling_has_no_profiler() -> None:
    source = APPLICATION.read_text(encoding="utf-8")
    texts = re.findall(r'console_text\("([^"\\]*)', source)
    flash = IMAGE.read_bytes()
    # The profiler prints this first; other texts of the application are there.
    assert "profile " in texts
    assert b"profile " not in flash
    assert sum(text.encode() in flash for text in texts if len(text) > 4) >= 3
