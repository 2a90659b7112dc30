"""An image with several models runs the one that a person, a tool or an emulator's host names, and says which ones it
has when there is none of that name.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tools.artifacts.board.board import read_board
from tools.artifacts.golden.golden import read_golden
from tools.commands.console.channel import Channel, EmulatorChannel
from tools.commands.infer.protocol import Client
from tools.quiet.console import UserError
from tools.quiet.testing import given_file
from tools.verify.emulate.emulate import main, run_golden
from tools.verify.environment.hosted import EmulationError
from tools.verify.environment.qemu import Qemu

ELF, BOARD, QEMU = given_file("IMAGE", ".elf"), given_file("BOARD", "board.json"), Path(os.environ["QEMU"])
GOLDEN = {name: given_file("GOLDEN", f"{name}.golden.npz") for name in ("sine", "softmax")}


@pytest.fixture
def channel() -> Iterator[Channel]:
    opened = EmulatorChannel(ELF, read_board(BOARD), QEMU)
    try:
        yield opened
    finally:
        opened.close()


def _read_to_prompt(channel: Channel, prompt: str) -> str:
    text = ""
    while not text.endswith(prompt):
        data = channel.read(60)
        assert data, f"no {prompt!r} in {text!r}"
        text += data.decode()
    return text.replace("\r\n", "\n")


def test_a_line_with_a_name_chooses_a_model(channel: Channel) -> None:
    start = _read_to_prompt(channel, "sine> ")
    assert [line for line in start.splitlines() if line.startswith("model ")] == ["model softmax", "model sine"]
    assert "\nPASS\n" in start
    # The line is no input with softmax's number of elements.
    channel.write(b"1 2 3 4\n")
    assert "give all elements" in _read_to_prompt(channel, "sine> ")
    channel.write(b"softmax\n")
    chosen = _read_to_prompt(channel, "softmax> ")
    assert "model softmax\noutput 0: Float [2, 2]" in chosen
    channel.write(b"1.5, 1.5 -1e1 2.0e+01\n")
    assert "0.5 0.5 " in _read_to_prompt(channel, "softmax> ")
    for wrong in (b"softmaxi\n", b"softma\n", b"softmax 1\n"):
        channel.write(wrong)
        answer = _read_to_prompt(channel, "softmax> ")
        assert ("there are sine, softmax\n" in answer) == (b" " not in wrong)
    channel.write(b"sine\n0\n")
    assert "output 0: Float [1, 1]" in _read_to_prompt(channel, "us\r\nsine> ")


@pytest.mark.parametrize("name", ["softmax", "sine"])
def test_a_tool_runs_the_model_that_it_names(channel: Channel, name: str) -> None:
    golden = read_golden(GOLDEN[name])
    client = Client(channel, model=name)
    assert client.device.name == name
    (output,) = client.infer([array[0] for array in golden.inputs]).outputs
    np.testing.assert_allclose(output, golden.outputs[0][0], rtol=1e-5, atol=1e-5)
    client.close()


def test_a_tool_says_which_models_there_are(channel: Channel) -> None:
    with pytest.raises(UserError, match="has no model digits; give --model one of: sine, softmax"):
        Client(channel, model="digits")


def test_a_host_that_names_no_model_of_the_image_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EmulationError, match="there is no model digits; there are sine, softmax") as error:
        Qemu(read_board(BOARD), QEMU).run(ELF, model="digits")
    assert error.value.name == "InvalidArgument"
    entry = ["--one-of", "sine", str(GOLDEN["sine"]), "x.plan.json", "x.pte", "forward"]
    command = ["--elf", str(ELF), "--board", str(BOARD), "--qemu", str(QEMU), *entry, "--model", "digits"]
    assert main(command) == 1
    assert "has no such model; there are sine" in capsys.readouterr().err


def test_samples_are_given_to_the_model_that_the_host_names() -> None:
    for name, path in GOLDEN.items():
        golden = read_golden(path).part([0])
        _, (output,) = run_golden(Qemu(read_board(BOARD), QEMU), ELF, golden, 60, name)
        np.testing.assert_allclose(output, golden.outputs[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "operators"), [("sine", 5), ("softmax", 1)])
def test_each_model_is_profiled(name: str, operators: int, tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    command = [os.environ["PROFILE"], "--model", name, "--json", rows]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert len(json.loads(rows.read_text(encoding="utf-8"))) == operators


def test_profile_says_which_models_there_are() -> None:
    command = [os.environ["PROFILE"], "--model", "digits"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "has no such model; it has sine, softmax" in done.stderr
