"""Tests runs on boards behind probes, which are simulated, and that a probe has one user at a time."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tools.artifacts.golden.golden import golden_npz, read_golden
from tools.commands.flash.testing import simulated_probes_alone
from tools.commands.on_board.on_board import main, reserve


def _file(variable: str, suffix: str) -> str:
    (path,) = [path for path in os.environ[variable].split() if path.endswith(suffix)]
    return path


@pytest.fixture(autouse=True)
def _own_probes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with simulated_probes_alone(monkeypatch):
        yield


def _run(golden: Path, *more: str, image: str = "IMAGE") -> int:
    options = {
        "--elf": _file(image, ".elf"),
        "--hex": _file(image, ".hex"),
        "--algorithm": _file("ALGORITHM", ".elf"),
        "--board": _file("BOARDS", "nucleo_wb55rg/board.json"),
        "--golden": str(golden),
        "--probe": "simulated",
    }
    return main([*(word for option in options.items() for word in option), "--test", *more])


@pytest.mark.parametrize("model", ["MODEL", "STREAM"])
def test_outputs_of_a_board_are_compared_with_pytorch(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    golden = Path(_file(model, ".golden.npz"))
    assert _run(golden, "--samples", "5", image="IMAGE" if model == "MODEL" else "STREAM_IMAGE") == 0
    said = capfd.readouterr().out
    assert "Cortex-M4F at 64 MHz, simulated" in said and said.endswith("PASS\n")
    # The example, which the image itself compares, is a stream's first sample.
    assert ("4 of " in said) == (model == "STREAM")


def test_another_result_than_pytorchs_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    golden = read_golden(Path(_file("MODEL", ".golden.npz")))
    for output in golden.outputs:
        output[-1] += np.ones((), output.dtype)
    changed = tmp_path / "changed.golden.npz"
    changed.write_bytes(golden_npz(golden))
    assert _run(changed, "--samples", "3") == 1
    assert "on_board: error: output 0" in capfd.readouterr().err


def test_a_probe_has_one_user_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken: list[str] = []

    def wait() -> None:
        with reserve(["a", "b"], tmp_path) as probe:
            taken.append(probe)

    with reserve(["a", "b"], tmp_path) as first, reserve(["a", "b"], tmp_path) as second:
        assert [first, second] == ["a", "b"]
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(0.5)
        assert thread.is_alive() and not taken
    thread.join(60)
    assert taken and capsys.readouterr().out == "waiting for a probe that is free: a, b\n"


def test_a_probe_may_have_been_another_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def protected(path: Path, flags: int, mode: int = 0o777, open: Callable[[Path, int, int], int] = os.open) -> int:
        if path.exists() and flags & os.O_CREAT and not flags & os.O_EXCL:
            raise PermissionError(f"fs.protected_regular: {path}")
        return open(path, flags, mode)

    monkeypatch.setattr(os, "open", protected)
    umask = os.umask(0o077)
    for _ in ("theirs", "ours"):
        with reserve(["a"], tmp_path):
            assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o644]
    os.umask(umask)
