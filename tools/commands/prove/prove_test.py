"""Proofs on simulated boards, as a user starts them, and boards that fail on the way."""

import json
import os
import pty
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from boardsim.machine import Machine
from tools.artifacts.board_report.board_report import read_board_report
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.commands.console.channel import ChannelClosed, MachineChannel
from tools.commands.flash import simulated_probe
from tools.commands.flash.pyocd_tool import Programmed
from tools.commands.flash.testing import BoardUnderTest, discovery, nucleo, simulated_probes_alone
from tools.commands.on_board.on_board import reserve
from tools.commands.prove import prove

_PROOFS = {Path(path).name.partition(".")[0]: Path(path).absolute() for path in os.environ["PROOFS"].split()}


def _file(variable: str, suffix: str) -> str:
    (path,) = [path for path in os.environ[variable].split() if path.endswith(suffix)]
    return path


@pytest.mark.parametrize("board", _PROOFS)
def test_a_simulated_board_is_proven(board: str, tmp_path: Path) -> None:
    command = [_PROOFS[board], "--simulate", "--samples", "5"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"BUILD_WORKING_DIRECTORY": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = read_board_report(tmp_path / "board_report.json")
    page = (tmp_path / "board_report.html").read_text(encoding="utf-8")
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert (report.board, report.place, report.model, report.passed) == (board, "simulator", "digits_int8", True)
    # The simulated boot ROM of a Pico has no version.
    assert "0x00000000" not in report.revision
    found = {item.name: item.found for item in report.items}
    assert found["golden inputs"] == "5 of 5 equal PyTorch to the bit"
    # The simulator's flash answers at once, whatever its settings, and a clock changes no count of cycles.
    settings = [name for name in found if name.startswith("inference ")]
    chip = re.search("STM32(WB|L4|H7)", report.description)
    assert len(settings) == ({"WB": 3, "L4": 3, "H7": 1}[chip[1]] if chip else 0)
    for each in settings:
        ticks, usual = re.findall(r"\d[\d,]*", found[each])[:2]
        assert (ticks, found[each].endswith("; the same outputs")) == (usual, True)
    for kinds in ("kinds", "kinds_int8"):
        # exp() and tanh() in floating point are those of another library than PyTorch's.
        assert f"{int(kinds == 'kinds_int8')} of 1 equal PyTorch to the bit" in found[f"layers of {kinds}"]
        assert sum(layer.measured for layer in report.kinds if layer.place.startswith(f"{kinds}: ")) > 0
    assert 0 < report.stack_used < report.stack_size
    assert sum(layer.measured for layer in report.layers) == pytest.approx(report.inference, rel=0.01)
    assert data["proof"]["image"] == report.image and data["proof"]["place"] == "simulator"
    rows = [[layer.instructions, layer.estimate, layer.measured] for layer in report.layers]
    assert data["images"][0]["rows"] == rows
    # A cycle is an instruction on the simulator, however the image came into flash.
    counted = [layer.instructions for layer in report.layers]
    assert [layer.measured for layer in report.layers] == pytest.approx(counted, abs=2)
    # The manuals of Cortex-M33 and M7 have no cycles.
    is_estimated = not re.search("Cortex-M(33|7)", report.description)
    assert [layer.estimate is not None for layer in report.layers] == [is_estimated] * len(counted)
    assert not is_estimated or all(
        layer.instructions < layer.estimate < 4 * layer.instructions for layer in report.layers
    )


@pytest.fixture(autouse=True)
def _own_probes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with simulated_probes_alone(monkeypatch):
        yield


def _prove(tmp_path: Path, *more: str) -> int:
    options = {
        "--elf": _file("IMAGES", ".elf"),
        "--hex": _file("IMAGES", ".hex"),
        "--spdx": _file("IMAGES", ".spdx.json"),
        "--algorithm": _file("ALGORITHM", ".elf"),
        "--board": _file("BOARDS", "nucleo_wb55rg/board.json"),
        "--golden": _file("MODEL", ".golden.npz"),
        "--manifest": _file("MODEL", ".manifest.json"),
        "--program": _file("MODEL", ".pte"),
        # These are only read when all has run.
        "--objdump": "objdump",
        "--sizes": "sizes",
        "--graph": "graph",
        "--report": str(tmp_path / "board_report.json"),
        "--samples": "3",
        "--patience": "1",
    }
    return prove.main([word for option in options.items() for word in option] + list(more))


def _plug(*boards: BoardUnderTest) -> Callable[[pytest.MonkeyPatch], list[str]]:
    def plug(_: pytest.MonkeyPatch) -> list[str]:
        for number, board in enumerate(boards):
            simulated_probe.connect(board.machine(), f"SIM{number}")
        _, port = pty.openpty()
        return ["--port", os.ttyname(port)]

    return plug


def test_one_proof_at_a_time_uses_a_probe(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    options = _plug(discovery())(monkeypatch)
    with ThreadPoolExecutor() as pool:
        with reserve(["SIM0"]):
            second = pool.submit(_prove, tmp_path, *options, "--probe", "sim")
            while not (said := capsys.readouterr().out) and not second.done():
                time.sleep(0.05)
            assert said == "waiting for a probe that is free: SIM0\n" and not second.done()
        assert second.result() == 1
    assert "the probe is connected to another chip" in capsys.readouterr().err


class _Lost(MachineChannel):
    """The console of a board that falls silent, or is unplugged: while it starts, or at some request."""

    request = 0
    error: Exception | None = None
    requests = 0
    has_started = False

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        # A proof that ends well programs its board; these begin where that is done.
        machine.load_elf(ElfImage(Path(_file("IMAGES", ".elf"))))
        machine.reset()

    def write(self, data: bytes) -> None:
        self.requests += 1
        super().write(data)

    def read(self, timeout: float) -> bytes:
        if self.has_started and self.requests >= self.request:
            if self.error is not None:
                raise self.error
            return b""
        data = super().read(timeout)
        self.has_started = bool(data)
        return data


# The frames are hello, a description of the input and of the output, then input and execution of each sample.
_SECOND_SAMPLE = 6


def _lose(request: int, error: Exception | None = None) -> Callable[[pytest.MonkeyPatch], list[str]]:
    def lose(patch: pytest.MonkeyPatch) -> list[str]:
        patch.setattr(_Lost, "request", request)
        patch.setattr(_Lost, "error", error)
        patch.setattr("tools.commands.flash.flash.MachineChannel", _Lost)
        patch.setattr("tools.commands.flash.flash._program", lambda *_: Programmed("programmed", "STM32WB55", ""))
        return ["--simulate"]

    return lose


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (_plug(), "no debug probe found: connect the board's debug USB port"),
        (_plug(nucleo(), nucleo()), "several debug probes: SIM0 (Torch Fusion simulated nucleo_wb55rg), SIM1"),
        (_plug(discovery()), "the probe is connected to another chip (device id 0x415, an STM32WB55 has 0x495)"),
        (_lose(0), "printed nothing for 1 s and doesn't ask for input; its last line is: "),
        (_lose(0, ChannelClosed("unplugged")), "the board was lost before its image asked for input: unplugged"),
        (_lose(_SECOND_SAMPLE, ChannelClosed("unplugged")), "the board was lost at sample 2 of 3: unplugged"),
        (_lose(_SECOND_SAMPLE), "the board was lost at sample 2 of 3: no answer from the simulated nucleo_wb55rg"),
    ],
)
def test_a_board_that_fails_leaves_no_report(prepare, says, tmp_path, monkeypatch, capsys) -> None:
    assert _prove(tmp_path, *prepare(monkeypatch)) == 1
    error = capsys.readouterr().err
    assert error.startswith("prove: error: ") and says in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
