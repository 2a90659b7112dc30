"""MLPerf Tiny's serial protocol: a host of our own asks images on a simulated board, and compares with PyTorch."""

import re
from typing import Any

import numpy as np
import pytest

from boardsim.boardsim import Simulation
from boardsim.cpu import Stop
from tools.artifacts.board.board import read_board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.artifacts.golden.golden import read_golden
from tools.artifacts.manifest.manifest import read_manifest
from tools.quiet.testing import given_file

_LIMIT = 50_000_000


class Host:
    """The runner's side."""

    def __init__(self, model: str) -> None:
        board = read_board(given_file("BOARDS", "nucleo_wb55rg/board.json"))
        self.machine = Simulation(ElfImage(given_file("IMAGES", f"mlperf_tiny_{model}.elf")), board).machine
        self.machine.reset()
        self.start = self._lines()

    def ask(self, command: str) -> list[str]:
        """Sends a command; returns the lines of its answer before m-ready."""
        self.machine.console.feed(f"{command}%".encode())
        return self._lines()

    def load(self, data: bytes) -> list[str]:
        """Sends an input, 32 bytes with each command."""
        lines = self.ask(f"db load {len(data)}")
        for start in range(0, len(data), 32):
            lines += self.ask(f"db {data[start : start + 32].hex()}")
        return lines

    def _lines(self) -> list[str]:
        console = self.machine.console
        assert self.machine.run(_LIMIT) is Stop.IDLE
        text = console.text
        console.output.clear()
        assert text.endswith("m-ready\n") and not self.machine.notes, (text, self.machine.explain())
        return text.split("\n")[:-2]


def _results(lines: list[str]) -> np.ndarray:
    (found,) = [match[1] for line in lines if (match := re.fullmatch(r"m-results-\[(.*)\]", line))]
    assert re.fullmatch(r"(-?\d+\.\d{3},?)+", found)
    return np.array([float(number) for number in found.split(",")])


@pytest.fixture(scope="module", params=["ad01", "ic01", "kws01"])
def host(request: pytest.FixtureRequest) -> Host:
    return Host(request.param)


def _model(host: Host) -> str:
    (model,) = [match[1] for line in host.ask("profile") if (match := re.fullmatch(r"m-model-\[(\w+)\]", line))]
    return model


def test_it_says_what_it_is(host: Host) -> None:
    mode = "energy" if _model(host) == "kws01" else "performance"
    assert host.start[-2:] == [f"m-timestamp-mode-{mode}", "m-init-done"]
    assert host.ask("name") == ["m-name-dut-[Torch Fusion]"]
    # Line ends between commands are no part of them.
    assert host.ask("\r\nname") == ["m-name-dut-[Torch Fusion]"]


def test_results_are_pytorchs(host: Host) -> None:
    model = _model(host)
    golden = read_golden(given_file("PROGRAMS", f"{model}.golden.npz"))
    manifest = read_manifest(given_file("PROGRAMS", f"{model}.manifest.json"))
    given, expected = golden.inputs_in_memory()[0][0], golden.outputs_in_memory()[0][0].astype(float).reshape(-1)
    if model == "ad01":
        expected = np.array([np.mean((expected - given.reshape(-1)) ** 2)])
    else:
        output = manifest.outputs[0]
        expected = (expected - output.zero_point) * output.scale
    sent = (given.astype(np.int16) + 128).astype(np.uint8) if model == "ic01" else given
    assert host.load(sent.tobytes()) == [f"m-[Expecting {sent.nbytes} bytes]", "m-load-done"]
    answer = host.ask("infer 3 2")
    laps = [int(match[1]) for line in answer if (match := re.fullmatch(r"m-lap-us-(\d+)", line))]
    assert [line for line in answer if not line.startswith(("m-lap", "m-results"))] == [
        "m-warmup-start-2",
        "m-warmup-done",
        "m-infer-start-3",
        "m-infer-done",
    ]
    assert _results(answer) == pytest.approx(expected, abs=6e-4)
    assert _results(host.ask("results")) == pytest.approx(expected, abs=6e-4)
    assert (len(laps) == 2 and 0 < laps[1] - laps[0] < 10_000) or (model == "kws01" and not laps)


def test_timestamps_are_microseconds(host: Host) -> None:
    if _model(host) == "kws01":
        # LD1 is PB5: low for a microsecond, and high again.
        chip: Any = host.machine.chip
        port = chip.ports["B"]
        assert port.level(5) and host.ask("timestamp") == [] and port.level(5)
        return

    def now() -> int:
        (line,) = host.ask("timestamp")
        return int(line.removeprefix("m-lap-us-"))

    first, since = now(), host.machine.clock.nanoseconds
    host.machine.clock.pass_time(10e9)
    assert now() - first == pytest.approx((host.machine.clock.nanoseconds - since) / 1e3, rel=1e-3)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("dance", "unknown command"),
        ("db load 5", "the model's input has another size"),
        ("db 0", "two hexadecimal digits"),
        ("db 0g", "two hexadecimal digits"),
        ("infer 0", "one iteration at least"),
        ("db " + "0" * 200, "the command is too long"),
    ],
)
def test_a_wrong_command_is_answered_with_an_error(command: str, says: str) -> None:
    host = Host("ic01")
    (line,) = host.ask(command)
    assert line.startswith("e-[") and says in line
    assert host.ask("infer 1 0") == ["e-[the input is not loaded]"]
