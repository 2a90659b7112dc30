"""Plots of a real image on the board simulator."""

import argparse
import json
import os
import re
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from tools.commands.infer.protocol import Device, TensorSpec
from tools.commands.plot.plot import Curves, main, points, save_plot, text_plot
from tools.commands.plot.window import Window
from tools.quiet.console import UserError
from tools.quiet.testing import given_file

_RUN = ["--elf", str(given_file("IMAGE", ".elf")), "--board", str(given_file("BOARDS", "nucleo_wb55rg/board.json"))]
_RUN += ["--on", "simulator"]


def test_the_prediction_is_plotted_against_sine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "sine.png"
    assert main([*_RUN, "--points", "12", "--save", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "sin(x)" in out and "prediction" in out
    # A file gets no colours, and fits into a terminal.
    assert "\x1b" not in out and max(map(len, out.splitlines()[:24])) <= 80
    # The model was trained to a mean error of about 0.01.
    match = re.search(r"mean \|prediction - sin\(x\)\| (\d\.\d+), largest (\d\.\d+)", out)
    assert match and 0 < float(match[1]) < 0.05
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_samples_of_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "set.npz", input_0=np.linspace(0, 3, 5, dtype=np.float32).reshape(5, 1, 1))
    assert main([*_RUN, "--dataset", str(tmp_path / "set.npz")]) == 0
    out = capsys.readouterr().out
    assert "sample" in out and "sin(x)" not in out


def test_without_a_data_set_golden_inputs_are_run(tmp_path: Path) -> None:
    golden = tmp_path / "net.golden.npz"
    np.savez(golden, input_0=np.arange(12, dtype=np.float32).reshape(3, 1, 4))
    device = cast(
        Device, SimpleNamespace(name="net", inputs=[TensorSpec(np.dtype(np.float32), (1, 4), offset=0, nbytes=16)])
    )
    arguments = argparse.Namespace(dataset=None, golden=golden, model="", points=2)
    label, x, inputs, expected = points(device, arguments)
    assert expected is None
    assert (label, x, [array.tolist() for (array,) in inputs]) == ("sample", [0, 1], [[[0, 1, 2, 3]], [[4, 5, 6, 7]]])
    # They are of the first model.
    arguments.model = "other"
    with pytest.raises(UserError, match="give samples with --dataset"):
        points(device, arguments)


def test_a_record_is_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    assert main([*_RUN, "--points", "5", "--record", str(first)]) == 0
    assert re.search(r"5 inferences, \d+\.\d+ ms each on the device", capsys.readouterr().out)
    assert main([*_RUN, "--dataset", str(first), "--record", str(second)]) == 0
    arrays, again = np.load(first), np.load(second)
    assert set(arrays) == {"input_0", "output_0"} and arrays["output_0"].shape == (5, 1, 1)
    assert all(np.array_equal(arrays[name], again[name]) for name in arrays)


def test_a_data_set_that_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "set.npz", x=np.zeros(3))
    assert main([*_RUN, "--dataset", str(tmp_path / "set.npz")]) == 1
    assert "needs an array input_<i>" in capsys.readouterr().err


class Browser:
    """A browser that behaves like the page's script: it asks for states until the last one."""

    def __init__(self) -> None:
        self.page = ""
        self.states: list[dict[str, Any]] = []

    def open(self, url: str) -> bool:
        self._thread = threading.Thread(target=self._look, args=(url,))
        self._thread.start()
        return True

    def _look(self, url: str) -> None:
        with urlopen(url) as answer:
            self.page = answer.read().decode()
        number, last = "0", False
        while not last:
            with urlopen(f"{url}state?after={number}") as answer:
                self.states.append(json.load(answer))
                number, last = answer.headers["X-Number"], answer.headers["X-Last"] == "1"

    def close(self) -> None:
        self._thread.join()


def test_the_plot_grows_in_a_window(tmp_path, capsys, monkeypatch) -> None:
    browser = Browser()
    monkeypatch.setattr("webbrowser.open", browser.open)
    monkeypatch.setenv("DISPLAY", ":0")
    saved, record = tmp_path / "sine.png", tmp_path / "sine.npz"
    options = ["--points", "24", "--window", os.devnull, "--report", str(given_file("IMAGE", ".report.json"))]
    assert main([*_RUN, *options, "--save", str(saved), "--record", str(record)]) == 0
    browser.close()
    out = capsys.readouterr().out
    assert "the window is at http://127.0.0.1:" in out and "mean |prediction" in out and "\x1b" not in out
    assert "fetch(`state?after=" in browser.page
    state, arrays = browser.states[-1], np.load(record)
    assert state["lines"] == [["prediction", arrays["output_0"].reshape(-1).tolist()]]
    assert state["x"] == pytest.approx(arrays["input_0"].reshape(-1))
    assert state["inputs"] == [
        {"dtype": "float32", "shape": [1, 1], "values": arrays["input_0"][-1].reshape(-1).tolist()}
    ]
    assert len(state["ms"]) == state["total"] == 24 and 0 < state["arena"] < state["memories"]["RAM"]["used"]
    assert saved.read_bytes().startswith(b"\x89PNG")
    # A record is replayed, beside what was recorded.
    again = Browser()
    monkeypatch.setattr("webbrowser.open", again.open)
    assert main([*_RUN, *options, "--dataset", str(record)]) == 0
    again.close()
    assert again.states[-1]["expected"] == again.states[-1]["output"] == state["output"]


@pytest.mark.parametrize("display", [None, ":0"], ids=["no_display", "no_browser"])
def test_without_a_browser_the_address_is_named(display, capsys, monkeypatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    if display:
        monkeypatch.setenv("DISPLAY", display)
    # Without a display, no browser may be started: it could be one in this very terminal.
    monkeypatch.setattr("webbrowser.open", lambda url: not display)
    with pytest.raises(KeyboardInterrupt), Window() as window:
        raise KeyboardInterrupt
    out = capsys.readouterr().out
    assert f"no browser can be opened from here: open {window.url} in one" in out and "ssh -L" in out


def test_a_window_waits_for_its_last_state(monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser()
    monkeypatch.setattr("webbrowser.open", browser.open)
    monkeypatch.setenv("DISPLAY", ":0")
    with Window() as window:
        window.show({"x": 1})
        window.show({"x": 2}, last=True)
    browser.close()
    assert browser.states[-1] == {"x": 2}
    with pytest.raises(OSError):
        urlopen(window.url)


def test_only_who_has_the_address_sees_the_window() -> None:
    with Window() as window:
        window.show({"x": 1})
        root = "/".join(window.url.split("/")[:3])
        requests = {
            window.url: 200,
            f"{root}/": 404,
            f"{root}/state?after=0": 404,
            f"{window.url}state?after=x": 200,
            Request(window.url, headers={"Host": "evil.example"}): 403,
            Request(window.url, headers={"Origin": "http://evil.example"}): 403,
            Request(window.url, headers={"Origin": root}): 200,
        }
        for request, status in requests.items():
            try:
                with urlopen(request) as answer:
                    assert answer.status == status
            except HTTPError as error:
                assert error.code == status


def test_a_port_that_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(UserError, match="cannot be served on port"):
            Window(port=other.getsockname()[1])


def _curves() -> Curves:
    return Curves("a $\\frac{$ title", "sample", [0.0, 1.0], [np.array([0.1, 0.9]), np.array([0.2, 0.8])])


def test_each_element_of_an_output_is_a_curve(tmp_path: Path) -> None:
    text = text_plot(_curves(), 60, 15)
    assert "output[0]" in text and "output[1]" in text
    save_plot(_curves(), tmp_path / "a.svg")
    save_plot(_curves(), tmp_path / "b.png")
    save_plot(_curves(), tmp_path / "c.png")
    assert (tmp_path / "b.png").read_bytes() == (tmp_path / "c.png").read_bytes()


def test_a_single_sample_is_drawn_element_by_element(tmp_path: Path) -> None:
    curves = Curves("title", "sample", [0.0], [np.array([0.1, 0.9, 0.4])], expected=np.array([[0.1, 0.8, 0.4]]))
    drawn = curves.drawn()
    assert (drawn.label, drawn.x, list(drawn.lines())) == ("element", [0, 1, 2], [("prediction", [0.1, 0.9, 0.4])])
    text = text_plot(drawn, 60, 15)
    assert "expected" in text and "prediction" in text
    save_plot(curves, tmp_path / "a.png")
    save_plot(drawn, tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_cannot_be_drawn(bad: float, tmp_path: Path) -> None:
    curves = Curves("title", "sample", [0.0, 1.0, 2.0], [np.array([value]) for value in (0.1, bad, 0.3)])
    text = text_plot(curves, 60, 15)
    assert "prediction" in text and text.endswith("\n1 values are infinite or no number")
    curves.outputs = [np.array([bad])] * 3
    assert text_plot(curves, 60, 15) == "title\n3 values are infinite or no number"
    save_plot(curves, tmp_path / "a.png")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--points", "1"], "--points must be at least 2"),
        (["--start", "nan"], "--start nan --stop 6.28"),
        (["--record", "a.txt"], "--record a.txt: its name must end in .npz"),
        (["--width", "0"], "--width must be at least 20, --height at least 8"),
    ],
)
def test_options_that_cannot_be(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*_RUN, *options])
    assert says in capsys.readouterr().err


def test_a_format_that_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"use a file name that ends in \.png"):
        save_plot(_curves(), tmp_path / "plot.xyz")
