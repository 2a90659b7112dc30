"""Tests the command on a real image: the outputs of its samples and their accuracy."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from boardsim.boardsim import main


def _file(variable: str, suffix: str) -> str:
    (path,) = [name for name in os.environ[variable].split() if name.endswith(suffix)]
    return path


_GOLDEN = _file("GOLDEN", ".golden.npz")
_BOARD = _file("BOARDS", "nucleo_wb55rg/board.json")
_RUN = ["--elf", _file("IMAGE", ".elf"), "--board", _BOARD, "--test"]
_COMPARE = ["--program", _file("PROGRAM", ".pte"), "--plan", _file("PROGRAM", ".plan.json"), "--atol", "1e-4"]


def test_outputs_and_accuracy_of_samples(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*_RUN, *_COMPARE, "--golden", _GOLDEN, "--samples", "10"]
    assert main([*arguments, "--min-accuracy", "0.9", "--max-accuracy-drop", "0.01"]) == 0
    out = capsys.readouterr().out
    assert "output 0: float32 [1, 10]" in out and "accuracy over 10 of " in out
    assert " samples: device 1.0000, PyTorch 1.0000" in out and out.endswith("PASS\n")


def test_an_image_that_others_linked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may run for ever, and nothing is known of how it ends."""
    image = tmp_path / "app.elf"
    image.write_bytes(Path(_RUN[1]).read_bytes().replace(b"\0__stack_start\0", b"\0__their_stack\0"))
    assert main([_RUN[1], *_RUN[2:], "--instructions", "5000"]) == 1
    assert "did not end within 5,000 instructions" in capsys.readouterr().err
    assert main([str(image), *_RUN[2:], "--instructions", "5000"]) == 0
    assert re.search(r"5,000 instructions.*\npc 0x\w+ in \w+", capsys.readouterr().out)


def _changed(folder: Path, **changes: object) -> str:
    """Returns the golden file with arrays replaced; one that becomes None is left out."""
    with np.load(_GOLDEN) as arrays:
        content = {name: arrays[name] for name in arrays.files} | changes
    path = folder / "changed.golden.npz"
    np.savez(path, **{name: array for name, array in content.items() if array is not None})
    return str(path)


def _fails(capsys: pytest.CaptureFixture[str], golden: str, *more: str) -> str:
    assert main([*_RUN, *_COMPARE, "--golden", golden, "--samples", "10", *more]) == 1
    return capsys.readouterr().err


def test_an_accuracy_that_is_too_low(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(_GOLDEN) as arrays:
        labels = arrays["labels"]
    golden = _changed(tmp_path, labels=(labels + 1) % 10)
    assert "accuracy on the device is 0.0000, below 0.9" in _fails(capsys, golden, "--min-accuracy", "0.9")


def test_an_output_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(_GOLDEN) as arrays:
        output = arrays["output_0"].copy()
    output[0, 0] += 1
    assert "error: " in _fails(capsys, _changed(tmp_path, output_0=output))


def test_an_accuracy_without_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = _changed(tmp_path, labels=None)
    assert "has no labels; --min-accuracy needs a model with evaluation_set()" in _fails(
        capsys, golden, "--min-accuracy", "0.9"
    )
    with pytest.raises(SystemExit):
        main([*_RUN, "--min-accuracy", "0.9"])
    assert "--min-accuracy needs --golden" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--board", "nucleo"], "board 'nucleo' is unknown; give a board.json or one of: b_l475e_iot01a, "),
        (["--board", "mps2_an386"], "board mps2_an386 names no chip to simulate; set `simulator` in its definition to"),
        (["--board", "pico2_w"], "where pico2_w has no memory; is the image for this board?"),
        (["--elf", "none.elf"], "none.elf: No such file or directory; build it first"),
        (["--elf", _BOARD], "is no ELF file (ELFError: Magic number does not match); pass the .elf of a torch"),
    ],
)
def test_what_cannot_be_simulated(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*_RUN, *options]) == 1
    error = capsys.readouterr().err
    assert error.startswith("boardsim: error: ") and says in error and error.count("\n") == 1


@pytest.mark.parametrize("option", ["--samples", "--instructions"])
def test_none_of_something(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*_RUN, option, "0"])
    assert f"{option} 0: give how many" in capsys.readouterr().err


def test_what_a_user_sees(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*_RUN, "--trace-peripherals"]) == 0
    out = capsys.readouterr().out
    assert "write RCC_CR" in out and "read  USART1_ISR" in out
    assert " instructions, " in out and "stack: " in out
