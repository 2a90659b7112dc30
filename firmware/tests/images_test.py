"""Real images in the emulator: how one can end, each told apart, with its console; and what firmware/libc computes."""

import os
from pathlib import Path

import pytest

from tools.artifacts.board.board import Board, read_board
from tools.artifacts.program.program import load
from tools.artifacts.size_report.size_report import read_size_report
from tools.pipeline.report.stack import stack_bound
from tools.quiet.testing import given_file
from tools.verify.environment.hosted import EmulationError
from tools.verify.environment.qemu import Qemu

QEMU = Path(os.environ["QEMU"])
FILES = [Path(name) for name in os.environ["IMAGES"].split()]
PROGRAM = given_file("PROGRAM", ".pte")
MODELS = [image for image in FILES if image.suffix == ".elf" and ("several_" in image.name or "_test_" in image.name)]
BOARDS = {path.parent.name: read_board(path) for path in FILES if path.name == "board.json"}


def _image(name: str, board: str) -> tuple[Path, Board]:
    (path,) = [image for image in FILES if image.name == f"{name}_{board}.elf"]
    return path, BOARDS[board]


def _ending(name: str, board: str, timeout: float = 60) -> EmulationError:
    path, definition = _image(name, board)
    with pytest.raises(EmulationError) as caught:
        Qemu(definition, QEMU).run(path, timeout=timeout)
    return caught.value


def _boards(name: str) -> list[str]:
    return sorted(board for board in BOARDS if any(image.name == f"{name}_{board}.elf" for image in FILES))


@pytest.fixture(params=_boards("abort"))
def board(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("unaligned", "UsageFault: unaligned access by an instruction that needs alignment"),
        ("undefined", "UsageFault: undefined instruction"),
    ],
)
def test_a_fault_names_its_cause_and_place(board: str, name: str, cause: str) -> None:
    error = _ending(name, board)
    assert error.name == "Fault"
    assert cause in error.console
    assert "pc in main" in error.reason
    for register in ("cfsr", "hfsr", "pc", "lr", "sp", "r0", "r12", "r4", "r11"):
        assert f" {register} 0x" in error.console


def test_a_hang_is_a_timeout(board: str) -> None:
    error = _ending("hang", board, timeout=2)
    assert error.name == "Timeout"
    assert "waiting" in error.console


def test_an_image_that_never_says_pass(board: str) -> None:
    error = _ending("no_pass", board)
    assert error.name == "MissingPass"
    assert "done" in error.console


def test_an_abort_shows_the_check_that_failed(board: str) -> None:
    error = _ending("abort", board)
    assert error.name == "Abort"
    assert "this does not hold" in error.console


def test_a_stack_overflow_is_found(board: str) -> None:
    error = _ending("stack_overflow", board)
    if board == "mps2_an505":
        # The Cortex-M33 stops at the limit.
        assert error.name == "Fault" and "UsageFault: stack overflow" in error.console
    else:
        # The Cortex-M4 has none, and QEMU lets it write where its board has no memory: what it reads back makes it
        # fault sooner or later, or the stack is seen to be full.
        assert error.name in ("Fault", "StackOverflow")


@pytest.mark.parametrize("image", MODELS, ids=lambda path: path.name)
def test_the_stack_is_at_most_what_the_build_says(image: Path) -> None:
    (definition,) = [definition for name, definition in BOARDS.items() if name in image.name]
    stack = stack_bound(image)
    assert stack is not None and not stack.problem
    report = Qemu(definition, QEMU).run(image).report
    assert report.stack_size == stack.size
    # Messages of errors that don't occur take half a kilobyte.
    assert report.stack_used <= stack.bound <= 2 * report.stack_used + 600
    assert 0 < stack.sure_bytes <= stack.bound
    assert stack.text() in image.with_suffix(".report.txt").read_text(encoding="utf-8")


def test_recursion_has_no_bound(board: str) -> None:
    stack = stack_bound(_image("stack_overflow", board)[0])
    assert stack is not None and "descend" in stack.problem and stack.bound == 0


@pytest.mark.parametrize("board", _boards("string"))
def test_the_small_string_functions_are_right(board: str) -> None:
    path, definition = _image("string", board)
    assert Qemu(definition, QEMU).run(path).console == "\nPASS\n"


def test_several_programs_in_one_image_leave_each_others_state_alone() -> None:
    path, definition = _image("several_models", "mps2_an386")
    assert "PASS" in Qemu(definition, QEMU).run(path, timeout=60).console
    report = read_size_report(path.with_name("several_models_mps2_an386.report.json"))
    assert report.program == "sine, softmax, state"


def test_several_compiled_programs_in_one_image_share_memory_and_leave_each_others_state_alone() -> None:
    path, definition = _image("several_compiled", "mps2_an386")
    assert "\nPASS\n" in Qemu(definition, QEMU).run(path, timeout=60).console
    report = read_size_report(path.with_name("several_compiled_mps2_an386.report.json"))
    assert report.program == "codec, compander, state, dynamic, sine_int8"
    assert "engine: compiled\n" in path.with_name("several_compiled_mps2_an386.report.txt").read_text(encoding="utf-8")


def test_methods_share_their_programs_constants() -> None:
    path, _ = _image("several_compiled", "mps2_an386")
    image = path.with_suffix(".bin").read_bytes()
    weights = [bytes(constant) for constant in load(PROGRAM).constants() if len(constant) >= 64]
    # Two layers: weights of both, and a bias.
    assert len(weights) == 3
    assert [image.count(data) for data in weights] == [1, 1, 1]
