import dataclasses
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from tools.abi.layouts.layouts import HOST_REPORT_PASS
from tools.artifacts.board.testing import write_board
from tools.artifacts.golden.golden import Golden
from tools.artifacts.memory_plan.memory_plan import MemoryPlan, memory_plan_json, read_memory_plan
from tools.quiet.troubleshooting import EXPLAINED
from tools.verify.emulate.emulate import check_arenas, main
from tools.verify.environment.comparison import accuracy, compare, differences
from tools.verify.environment.hosted import Report, Result, join_inputs, split_outputs

# An emulator of an emulator: echoes the inputs as outputs, as the options in the environment say.
_FAKE_QEMU = """\
#!{python}
import struct, sys, time
from pathlib import Path
semihosting = sys.argv[sys.argv.index("-semihosting-config") + 1]
options = dict(a.removeprefix("arg=").split("=", 1) for a in semihosting.split(",") if a.count("=") == 2)
behaviour = Path({behaviour!r}).read_text()
inputs = Path(options["inputs"]).read_bytes() if "inputs" in options else b""
report = dict(passed={passed}, error=0, samples=max(1, len(inputs) // 16), load=8, execute=16, method=185,
              planned=32, temp=0, stack_used=100, stack_size=1000)
status, console = 0, "hello\\nPASS\\n"
exec(behaviour)
print(console, end="", flush=True)
Path(options["outputs"]).write_bytes(inputs)
if report:
    Path(options["report"]).write_bytes(struct.pack("<10I", *report.values()))
sys.exit(status)
"""


class Setup:
    """Arguments of the tool for a model that returns its input: 3 samples of 4 floats."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.behaviour = folder / "behaviour.py"
        self.behave("")
        self.qemu = folder / "qemu-system-arm"
        text = _FAKE_QEMU.format(python=sys.executable, behaviour=str(self.behaviour), passed=HOST_REPORT_PASS)
        self.qemu.write_text(text, encoding="utf-8")
        self.qemu.chmod(0o755)
        self.elf = folder / "image.elf"
        self.elf.write_bytes(_empty_elf())
        self.golden = folder / "golden.npz"
        self.data = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
        self.write_golden(self.data)
        self.plan = folder / "plan.json"
        plan = MemoryPlan(
            "cortex-m4", method=185, planned=(32,), temp=0, operators=1, values=2, tensors=2, instructions=1
        )
        self.plan.write_text(memory_plan_json(plan), encoding="utf-8")

    def write_golden(self, outputs: np.ndarray, **more: np.ndarray) -> None:
        np.savez(self.golden, version=1, input_0=self.data, output_0=outputs, **more)

    def behave(self, code: str) -> None:
        self.behaviour.write_text(code, encoding="utf-8")

    def run(self, *more: str) -> int:
        return main(
            [
                *("--elf", str(self.elf), "--board", str(write_board(self.folder)), "--qemu", str(self.qemu)),
                *("--golden", str(self.golden), "--plan", str(self.plan), *more),
            ]
        )


def _empty_elf() -> bytes:
    header = b"\x7fELF\x01\x01\x01" + bytes(9)
    return header + struct.pack("<HHIIIIIHHHHHH", 2, 40, 1, 0, 0, 0, 0, 52, 32, 0, 40, 0, 0)


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


def test_equal_outputs_pass_and_are_shown_beside_pytorchs(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    assert setup.run("--test") == 0
    output = capsys.readouterr().out
    assert re.search(r"^  0, \[0\] +-1 +-1 +0$", output, flags=re.MULTILINE)
    # 40 ns a tick, 64 ns an instruction.
    assert "load 5 instructions, inference 10 instructions" in output
    assert "method 185, planned 32, temp 0 bytes" in output
    assert output.endswith("PASS\n")


def test_a_wrong_output_fails_the_test_and_is_named(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    expected = setup.data.copy()
    expected[1, 2] += 0.5
    setup.write_golden(expected)
    assert setup.run("--test") == 1
    captured = capsys.readouterr()
    assert "output 0: 1 of 12 elements differ" in captured.err and "sample 1 at [2]" in captured.err
    assert not captured.out.endswith("PASS\n")
    # Without --test, the difference is shown, but is not an error.
    assert setup.run() == 0


def test_tolerance(setup: Setup) -> None:
    setup.write_golden(setup.data + np.float32(1e-3))
    assert setup.run("--test") == 1
    assert setup.run("--test", "--atol", "2e-3") == 0


def test_an_arena_that_is_not_used_to_the_planned_byte(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    setup.behave("report['planned'] = 28")
    assert setup.run("--test") == 1
    assert "arena planned: 28 bytes used, 32 planned" in capsys.readouterr().err


def test_memory_that_an_inference_need_not_write(setup: Setup) -> None:
    plan = dataclasses.replace(read_memory_plan(setup.plan), unwritten=4)
    setup.plan.write_text(memory_plan_json(plan), encoding="utf-8")
    setup.behave("report['planned'] = 28")
    assert setup.run("--test") == 0
    setup.behave("report['planned'] = 27")
    assert setup.run("--test") == 1


def test_memory_that_an_npu_works_in_may_end_with_bytes_that_nothing_has(setup: Setup) -> None:
    def problems(planned_used: int, has_npu: bool) -> list[str]:
        report = Report(HOST_REPORT_PASS, 0, 1, 8, 16, 185, planned_used, 0, 100, 1000)
        return check_arenas(Result(b"", "", None, None, report), setup.plan, has_npu)

    assert problems(12, True) == []
    assert problems(33, True) == ["arena planned: 33 bytes used, 32 planned"]
    assert problems(28, False) == ["arena planned: 28 bytes used, 32 planned"]


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("status = 1; report['passed'] = 0", "Mismatch: "),
        ("status = 2; report['passed'] = 0; report['error'] = 0x14", "OperatorMissing: "),
        ("status = 2; report['passed'] = 0; report['error'] = 0x7b", "Error 0x7b: "),
        ("status = 3; report = None; console = 'FAULT: exception 3\\n pc 0x00000010'", "Fault: "),
        ("status = 4; report = None", "Abort: "),
        ("status = 5; report = None", "Host: "),
        ("status = 77; report = None; sys.stderr.write('no such machine')", "Crash: image.elf ended with status 77"),
        ("report = None", "MissingPass: image.elf wrote no report"),
        ("report['passed'] = 0", "MissingPass: "),
        ("console = 'hello\\n'", "MissingPass: "),
        ("report['stack_used'] = 1000", "StackOverflow: "),
    ],
)
def test_how_an_image_can_end(setup: Setup, capsys: pytest.CaptureFixture[str], behaviour: str, message: str) -> None:
    setup.behave(behaviour)
    assert setup.run("--test") == 1
    error = capsys.readouterr().err
    assert f"emulate: error: {message}" in error
    # The console is shown, whatever happened.
    assert "  | hello" in error or "  | FAULT" in error


def test_an_error_names_where_the_documents_explain_it(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    setup.behave("status = 2; report['passed'] = 0; report['error'] = 0x14")
    assert setup.run("--test") == 1
    assert "(docs/troubleshooting.md#operatormissing)" in capsys.readouterr().err
    page = Path("docs/troubleshooting.md").read_text()
    assert set(re.findall('<a id="(.*?)">', page)) == {name.lower() for name in EXPLAINED}


def test_a_hang_shows_what_was_printed(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    setup.behave("print('before', flush=True); time.sleep(60)")
    assert setup.run("--timeout", "1") == 1
    error = capsys.readouterr().err
    assert "Timeout: image.elf did not end within 1 s" in error and "  | before" in error


def test_accuracy_is_shown_and_held(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    setup.write_golden(setup.data, labels=np.array([3, 3, 0]))
    assert setup.run("--test", "--min-accuracy", "0.6") == 0
    assert "accuracy over 3 samples: device 0.6667, PyTorch 0.6667" in capsys.readouterr().out
    assert setup.run("--test", "--min-accuracy", "0.7") == 1
    assert "accuracy on the device is 0.6667, below 0.7" in capsys.readouterr().err


def test_accuracy_of_a_quantized_program_is_held_to_the_modules(setup, capsys) -> None:
    # The device gets two of three right, the module all of them.
    setup.write_golden(setup.data, labels=np.array([3, 3, 0]), eager_0=np.eye(4)[[3, 3, 0]])
    assert setup.run("--test", "--max-accuracy-drop", "0.4") == 0
    assert "accuracy over 3 samples: device 0.6667, PyTorch 1.0000" in capsys.readouterr().out
    assert setup.run("--test", "--max-accuracy-drop", "0.3") == 1
    assert "device, 0.6667, is more than 0.3 below PyTorch's, 1.0000" in capsys.readouterr().err


def test_accuracy_needs_labels(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    assert setup.run("--min-accuracy", "0.5") == 1
    assert "has no labels" in capsys.readouterr().err


def test_an_image_with_the_console_off_needs_no_printed_pass(setup: Setup) -> None:
    setup.behave("console = ''")
    assert setup.run("--test") == 0


def test_outputs_of_another_size(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    setup.behave("inputs = inputs[:-1]")
    assert setup.run("--test") == 1
    assert "wrote 47 bytes of outputs where 3 samples of 16 bytes" in capsys.readouterr().err


def test_bad_files_are_named(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (setup.elf, setup.golden, setup.plan):
        good = path.read_bytes()
        path.write_bytes(b"something else")
        assert setup.run("--test") == 1
        assert path.name in capsys.readouterr().err
        path.unlink()
        assert setup.run("--test") == 1
        assert f"{path.name}: No such file or directory" in capsys.readouterr().err
        path.write_bytes(good)


def test_an_emulator_that_is_missing(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    setup.qemu.unlink()
    assert setup.run() == 1
    assert "qemu-system-arm: No such file" in capsys.readouterr().err


def test_a_board_without_emulator(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    board = write_board(setup.folder, emulator=None)
    assert main(["--elf", str(setup.elf), "--board", str(board), "--qemu", str(setup.qemu)]) == 1
    assert "has no emulator" in capsys.readouterr().err


def test_samples_are_interleaved_and_split_again() -> None:
    first = np.arange(6, dtype=np.float32).reshape(3, 2)
    second = np.arange(3, dtype=np.int64)
    data = join_inputs([first, second])
    # Inputs are padded to 16 bytes each, outputs are not.
    assert len(data) == 3 * (16 + 16)
    outputs = b"".join(data[i : i + 8] for i in range(0, len(data), 16))
    back = split_outputs(outputs, [first, second])
    assert all(np.array_equal(a, b) for a, b in zip(back, [first, second], strict=True))


def test_nan_and_infinity_compare_as_themselves() -> None:
    a = np.array([np.nan, np.inf, -np.inf, np.nan, 1.0])
    b = np.array([np.nan, np.inf, np.inf, 1.0, np.nan])
    assert differences(a, b).tolist() == [0.0, 0.0, np.inf, np.inf, np.inf]
    golden = Golden((), (b.reshape(1, 5),), None)
    assert "3 of 5 elements" in compare([a.reshape(1, 5)], golden, 1.0, 1.0)[0]


def test_integers_are_compared_exactly_by_default() -> None:
    golden = Golden((), (np.array([[2**60]]),), None)
    assert compare([np.array([[2**60]])], golden, 1e-5, 0.0) == []
    assert compare([np.array([[3]])], Golden((), (np.array([[4]]),), None), 1e-5, 1e-5)


def test_accuracy_of_outputs_with_more_axes() -> None:
    outputs = np.array([[[0, 1]], [[1, 0]]], dtype=np.float32)
    assert accuracy(outputs, np.array([1, 1])) == 0.5
