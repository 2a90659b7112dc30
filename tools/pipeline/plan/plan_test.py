import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.artifacts.program import read
from tools.pipeline.plan import PlanError, make_plan
from tools.quiet.console import UserError

FOLDER = Path(os.environ["PROGRAMS"])


def test_sizes_of_a_small_program() -> None:
    # On a 32-bit core: 2 values of 16 bytes, 2 TensorImpl of 32, a chain of 32, 5 kernels and 3 arguments of 4, two
    # flags for the input; strides of a vector are shared by all. runtime/testing/method_test.cpp holds the host's.
    plan = make_plan(FOLDER / "increment.pte", "cortex-m4")
    assert plan.method == 2 * 16 + 2 * 32 + 32 + 5 * 4 + 3 * 4 + 2
    assert plan.planned == (64,)
    assert (plan.temp, plan.operators, plan.values, plan.tensors, plan.instructions) == (0, 5, 2, 2, 1)
    assert make_plan(FOLDER / "increment.pte", "cortex-m33").method == plan.method
    assert make_plan(FOLDER / "increment.pte", "host").method > plan.method


def test_equal_shapes_share_strides() -> None:
    shared = make_plan(FOLDER / "softmax.pte", "cortex-m4").method
    own = make_plan(FOLDER / "softmax_dynamic.pte", "cortex-m4").method
    # One array of strides for both tensors, against sizes and strides for each.
    assert own - shared == 4 * 8 - 8


def test_planned_sizes_are_the_programs() -> None:
    for path in FOLDER.glob("*.pte"):
        if path.stem == "delegate":
            continue
        sizes = read(path).execution_plan[0].non_const_buffer_sizes
        assert make_plan(path, "host").planned == tuple(sizes[1:])


def test_methods() -> None:
    assert make_plan(FOLDER / "methods.pte", "host", "another").instructions == 2
    with pytest.raises(PlanError, match="no method third; its methods are forward, another"):
        make_plan(FOLDER / "methods.pte", "host", "third")


def test_refused() -> None:
    with pytest.raises(PlanError, match="SomeBackend"):
        make_plan(FOLDER / "delegate.pte", "host")
    with pytest.raises(PlanError, match="core z80 is unknown; the cores are"):
        make_plan(FOLDER / "increment.pte", "z80")


@pytest.mark.parametrize("prelinked", [False, True])
def test_a_program_with_a_flipped_byte_is_planned_or_refused(tmp_path: Path, prelinked: bool) -> None:
    good = (FOLDER / "lists.pte").read_bytes()
    path = tmp_path / "flipped.pte"
    for i in range(0, len(good), 5):
        data = bytearray(good)
        data[i] ^= 0xFF
        path.write_bytes(data)
        with contextlib.suppress(UserError):
            make_plan(path, "cortex-m4", prelinked=prelinked)


def test_command_line(tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    command = [sys.executable, "-m", "tools.pipeline.plan", "--core", "cortex-m4", "--output", str(output), "--program"]
    subprocess.run([*command, str(FOLDER / "softmax.pte")], check=True)
    assert json.loads(output.read_text())["core"] == "cortex-m4"
    bad = tmp_path / "bad.pte"
    bad.write_bytes(b"nothing")
    result = subprocess.run([*command, str(bad)], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "bad.pte" in result.stderr and "Traceback" not in result.stderr
