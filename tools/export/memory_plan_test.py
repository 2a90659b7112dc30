import itertools
import random

import pytest

from tools.export.memory_plan import Buffer, live_bytes, plan_memory


def check(buffers: list[Buffer]) -> int:
    """Size of the plan, after checking that it is one."""
    plan = plan_memory(buffers)
    for (one, at), (other, other_at) in itertools.combinations(zip(buffers, plan.offsets, strict=True), 2):
        if one.first <= other.last and other.first <= one.last:
            assert at + one.nbytes <= other_at or other_at + other.nbytes <= at
    for buffer, offset in zip(buffers, plan.offsets, strict=True):
        assert offset >= 0
        assert offset % buffer.alignment == 0
        assert offset + buffer.nbytes <= plan.nbytes
    assert plan.nbytes >= plan.lower_bound == live_bytes(buffers)
    return plan.nbytes


def test_buffers_of_different_times_share_memory() -> None:
    assert check([Buffer(100, 4, 0, 1), Buffer(60, 4, 1, 2), Buffer(100, 4, 2, 3)]) == 160


def test_buffers_of_one_time_do_not() -> None:
    assert check([Buffer(8, 4, 0, 0), Buffer(12, 4, 0, 0), Buffer(4, 4, 0, 0)]) == 24


def test_alignment_is_kept() -> None:
    assert check([Buffer(1, 1, 0, 0), Buffer(8, 8, 0, 0), Buffer(2, 2, 0, 0)]) == 11


def test_no_buffers() -> None:
    plan = plan_memory([])
    assert (plan.offsets, plan.nbytes, plan.lower_bound) == ([], 0, 0)


def test_large_buffers_first_is_not_always_best() -> None:
    # A chain that a fixed order misses: only the search finds the 12 bytes that live at once.
    buffers = [
        Buffer(4, 4, 0, 3),
        Buffer(8, 4, 0, 0),
        Buffer(4, 4, 1, 5),
        Buffer(4, 4, 2, 2),
        Buffer(8, 4, 4, 5),
        Buffer(4, 4, 3, 3),
    ]
    assert check(buffers) == 12


@pytest.mark.parametrize("seed", range(20))
def test_random_buffers(seed: int) -> None:
    generator = random.Random(seed)
    buffers = []
    for _ in range(generator.randrange(1, 25)):
        first = generator.randrange(20)
        buffers.append(
            Buffer(generator.randrange(200), 2 ** generator.randrange(4), first, first + generator.randrange(5))
        )
    assert check(buffers) <= 1.2 * live_bytes(buffers) + 16
    assert plan_memory(buffers) == plan_memory(buffers)
