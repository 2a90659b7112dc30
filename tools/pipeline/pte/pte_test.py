"""Programs that were exported elsewhere; //conformance/old_programs runs images of one."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tools.artifacts.golden.golden import read_golden
from tools.artifacts.manifest.manifest import read_manifest
from tools.pipeline.pte.__main__ import main

CNN = Path(os.environ["CNN"])
PROGRAMS = Path(os.environ["PROGRAMS"])
PACKED = next(Path(path) for path in os.environ["PACKED"].split() if path.endswith(".pte"))


def _take(folder: Path, program: Path, **examples: np.ndarray) -> int:
    """Takes a program; the examples are written to a file if there are any."""
    arguments = ["--program", str(program), "--name", "net", "--log", str(folder / "log")]
    for kind, name in (("manifest", "net.manifest.json"), ("golden", "net.golden.npz"), ("output", "net.pte")):
        arguments += [f"--{kind}", str(folder / name)]
    if examples:
        np.savez(folder / "examples.npz", **examples)
        arguments += ["--examples", str(folder / "examples.npz")]
    return main(arguments)


def test_a_program_has_what_executorch_computes(tmp_path: Path) -> None:
    assert _take(tmp_path, CNN) == 0
    assert (tmp_path / "net.pte").read_bytes() == CNN.read_bytes()
    manifest = read_manifest(tmp_path / "net.manifest.json")
    assert (manifest.name, manifest.core, manifest.keeps_state) == ("net", "portable", False)
    assert "aten::convolution" in [operator.name for operator in manifest.operators]
    assert len(manifest.calls) >= len(manifest.operators)
    golden = read_golden(tmp_path / "net.golden.npz")
    assert golden.inputs[0].any()
    assert np.isfinite(golden.outputs[0]).all()


def test_the_users_examples_count(tmp_path: Path) -> None:
    assert _take(tmp_path, CNN) == 0
    made = read_golden(tmp_path / "net.golden.npz")
    x, y = 2 * made.inputs[0][0], made.outputs[0][0]
    assert _take(tmp_path, CNN, input_0=x) == 0
    other = read_golden(tmp_path / "net.golden.npz")
    assert np.array_equal(other.inputs[0][0], x)
    assert not np.array_equal(other.outputs[0][0], y)
    # What the user says comes out is what is compared with.
    assert _take(tmp_path, CNN, input_0=x, output_0=y) == 0
    assert np.array_equal(read_golden(tmp_path / "net.golden.npz").outputs[0][0], y)


def _shape_of(path: Path) -> np.ndarray:
    folder = path.parent
    assert _take(folder, CNN) == 0
    return read_golden(folder / "net.golden.npz").inputs[0][0]


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("input_1", lambda x: x, "has no array input_0, which the program has; it has input_1"),
        ("input_0", lambda x: x.astype(np.float64), "input_0 has dtype float64, and the program takes torch.float32"),
        ("input_0", lambda x: x[..., :1], "input_0 has the shape ["),
    ],
)
def test_examples_that_do_not_fit_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], key: str, change: object, message: str
) -> None:
    made = tmp_path / "made"
    made.mkdir()
    x = _shape_of(made / "x")
    assert callable(change)
    assert _take(tmp_path, CNN, **{key: change(x)}) == 1
    assert message in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("net")] == []


def test_what_is_no_such_program_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.pte").write_text("text" * 20, encoding="utf-8")
    for program, message in (
        (tmp_path / "text.pte", "is not an ExecuTorch program; pass a .pte file"),
        (tmp_path / "missing.pte", "No such file or directory"),
        (PACKED, "laid out the layers of operator torch_fusion::"),
        (PROGRAMS / "missing_operator.pte", "ExecuTorch's runtime on this machine can't run it ("),
    ):
        assert _take(tmp_path, program) == 1
        error = capfd.readouterr().err
        assert message in error
        # The last line names the log.
        assert error.splitlines()[-2].startswith("pte: error: ")
    assert {path.name for path in tmp_path.iterdir()} == {"log", "text.pte"}


def test_an_array_alone_is_no_file_of_examples(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "one.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    arguments = ["--program", str(CNN), "--name", "net", "--examples", str(tmp_path / "one.npz")]
    for kind in ("manifest", "golden", "output", "log"):
        arguments += [f"--{kind}", str(tmp_path / f"net.{kind}")]
    assert main(arguments) == 1
    assert "numpy.savez() writes several" in capfd.readouterr().err
