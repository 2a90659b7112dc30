"""Plots of a real image on the board simulator."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from tools.plot.plot import Curves, main, save_plot, text_plot
from tools.quiet.console import UserError


def _file(variable: str, suffix: str) -> Path:
    (path,) = [Path(name) for name in os.environ[variable].split() if name.endswith(suffix)]
    return path


_RUN = ["--elf", str(_file("IMAGE", ".elf")), "--board", str(_file("BOARDS", "nucleo_wb55rg/board.json"))]
_RUN += ["--on", "simulator"]


def test_the_prediction_is_plotted_against_sine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "sine.png"
    assert main([*_RUN, "--points", "12", "--save", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "sin(x)" in out and "prediction" in out
    # The model was trained to a mean error of about 0.01.
    match = re.search(r"mean \|prediction - sin\(x\)\| (\d\.\d+), largest (\d\.\d+)", out)
    assert match and 0 < float(match[1]) < 0.05
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_samples_of_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "set.npz", input_0=np.linspace(0, 3, 5, dtype=np.float32).reshape(5, 1, 1))
    assert main([*_RUN, "--dataset", str(tmp_path / "set.npz")]) == 0
    out = capsys.readouterr().out
    assert "sample" in out and "sin(x)" not in out


def test_a_data_set_that_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "set.npz", x=np.zeros(3))
    assert main([*_RUN, "--dataset", str(tmp_path / "set.npz")]) == 1
    assert "needs an array input_<i>" in capsys.readouterr().err


def _curves() -> Curves:
    return Curves("title", "sample", [0.0, 1.0], [np.array([0.1, 0.9]), np.array([0.2, 0.8])])


def test_each_element_of_an_output_is_a_curve(tmp_path: Path) -> None:
    text = text_plot(_curves(), 60, 15)
    assert "output[0]" in text and "output[1]" in text
    save_plot(_curves(), tmp_path / "a.svg")
    save_plot(_curves(), tmp_path / "b.png")
    save_plot(_curves(), tmp_path / "c.png")
    assert (tmp_path / "b.png").read_bytes() == (tmp_path / "c.png").read_bytes()


def test_a_format_that_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"use a file name that ends in \.png"):
        save_plot(_curves(), tmp_path / "plot.xyz")
