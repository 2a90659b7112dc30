import contextlib
import os
from pathlib import Path

import pytest

from tools.artifacts.memory_plan.memory_plan import MemoryPlan
from tools.artifacts.program import load, read
from tools.pipeline.link.interface import find_method
from tools.pipeline.link.plan import PlanError, make_plan
from tools.quiet.console import UserError

FOLDER = Path(os.environ["PROGRAMS"])


def plan_of(path: Path, core: str, method: str = "forward") -> MemoryPlan:
    file = load(path)
    return make_plan(file, find_method(file, method), core)


def test_sizes_of_a_small_program() -> None:
    # On a 32-bit core: 2 values of 16 bytes, 2 TensorImpl of 32, a chain of 32, 6 kernels and 3 arguments of 4, two
    # flags for the input; all vectors share their strides. runtime/tests/method_test.cpp checks the host's sizes.
    plan = plan_of(FOLDER / "increment.pte", "cortex-m4")
    assert plan.method == 2 * 16 + 2 * 32 + 32 + 6 * 4 + 3 * 4 + 2
    assert plan.planned == (64,)
    assert (plan.temp, plan.operators, plan.values, plan.tensors, plan.instructions) == (0, 6, 2, 2, 1)
    assert plan_of(FOLDER / "increment.pte", "cortex-m33").method == plan.method
    assert plan_of(FOLDER / "increment.pte", "host").method > plan.method


def test_equal_shapes_share_strides() -> None:
    shared = plan_of(FOLDER / "softmax.pte", "cortex-m4").method
    own = plan_of(FOLDER / "softmax_dynamic.pte", "cortex-m4").method
    # One array of strides for both tensors, instead of sizes and strides for each.
    assert own - shared == 4 * 8 - 8


def test_planned_sizes_are_the_programs() -> None:
    for path in FOLDER.glob("*.pte"):
        if path.stem.startswith("delegate"):
            continue
        sizes = read(path).execution_plan[0].non_const_buffer_sizes
        assert plan_of(path, "host").planned == tuple(sizes[1:])


def test_methods() -> None:
    assert plan_of(FOLDER / "methods.pte", "host", "another").instructions == 2
    with pytest.raises(UserError, match="no method third; its methods are forward, another"):
        plan_of(FOLDER / "methods.pte", "host", "third")


def test_refused() -> None:
    with pytest.raises(UserError, match="delegate of backend SomeBackend, which the image has not.* there are: none"):
        plan_of(FOLDER / "delegate.pte", "host")
    with pytest.raises(PlanError, match="core z80 is unknown; the cores are"):
        plan_of(FOLDER / "increment.pte", "z80")


def test_a_program_with_a_flipped_byte_is_planned_or_refused(tmp_path: Path) -> None:
    good = (FOLDER / "lists.pte").read_bytes()
    path = tmp_path / "flipped.pte"
    for i in range(0, len(good), 5):
        data = bytearray(good)
        data[i] ^= 0xFF
        path.write_bytes(data)
        with contextlib.suppress(UserError):
            plan_of(path, "cortex-m4")
