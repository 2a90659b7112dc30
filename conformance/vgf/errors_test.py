"""Programs with VGF that cannot be run, or that return something else than they must."""

import os
from pathlib import Path

import numpy as np
import pytest

from tools.artifacts.golden.golden import read_golden
from tools.quiet.console import UserError
from tools.verify.vgf import check
from tools.verify.vgf.vulkan import VulkanError, run

_FILES = {"".join(Path(path).suffixes): Path(path) for path in os.environ["ADD"].split()}
_PROGRAM, _GOLDEN = _FILES[".pte"], _FILES[".golden.npz"]


def test_a_damaged_vgf_has_an_error_that_says_so(tmp_path: Path) -> None:
    data = _PROGRAM.read_bytes()
    assert data.count(b"VGF1") == 1
    damaged = tmp_path / "damaged.pte"
    damaged.write_bytes(data.replace(b"VGF1", b"NONE"))
    golden = read_golden(_GOLDEN)
    with pytest.raises(VulkanError, match=r"damaged\.pte: .*error"):
        run(damaged, [[array[0] for array in golden.inputs]], 60)


def test_a_program_for_another_backend(tmp_path: Path) -> None:
    other = tmp_path / "other.pte"
    other.write_bytes(_PROGRAM.read_bytes().replace(b"VgfBackend", b"NpuBackend"))
    with pytest.raises(UserError, match=r'other\.pte has parts for NpuBackend.*make it with .*backend = "vgf"'):
        check.check(other, _GOLDEN, 0, 0, 60)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda array: array + np.float32(0.5),
            r"6 of 6 elements of output 0 of sample 0 differ .* the first at \[0, 0\]: 2\.0",
        ),
        (lambda array: array.astype(np.float64), "output 0 of sample 0 is float64"),
        (lambda array: array[:1], r"is float32 \[1, 3\], expected float32 \[2, 3\]"),
    ],
)
def test_another_result(monkeypatch: pytest.MonkeyPatch, change: object, message: str) -> None:
    expected = [[array[0] for array in read_golden(_GOLDEN).outputs]]
    monkeypatch.setattr(check, "run", lambda *_: [[change(array) for array in expected[0]]])  # type: ignore[operator]
    with pytest.raises(UserError, match=message):
        check.check(_PROGRAM, _GOLDEN, 1e-5, 1e-5, 60)
