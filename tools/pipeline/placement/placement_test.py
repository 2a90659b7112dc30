import itertools
import random

import pytest

from tools.pipeline.placement.placement import Buffer, Lead, Overlap, live_bytes, plan_memory


def check(buffers: list[Buffer], overlaps: list[Overlap] | None = None) -> int:
    """Size of the plan, after checking that it is one."""
    plan = plan_memory(buffers, overlaps or [])
    leads = {(overlap.result, overlap.operand): overlap.lead for overlap in overlaps or []}
    for i, j in itertools.permutations(range(len(buffers)), 2):
        one, other, at, other_at = buffers[i], buffers[j], plan.offsets[i], plan.offsets[j]
        if (j, i) not in leads and one.first <= other.last and other.first <= one.last:
            is_led = (i, j) in leads and leads[i, j].allows(other_at - at)
            assert at + one.nbytes <= other_at or other_at + other.nbytes <= at or is_led
    for buffer, offset in zip(buffers, plan.offsets, strict=True):
        assert offset >= 0
        assert offset % buffer.alignment == 0
        assert offset + buffer.nbytes <= plan.nbytes
    assert plan.nbytes >= plan.lower_bound == live_bytes(buffers, overlaps or [])
    return plan.nbytes


def test_buffers_of_different_times_share_memory() -> None:
    assert check([Buffer(100, 4, 0, 1), Buffer(60, 4, 1, 2), Buffer(100, 4, 2, 3)]) == 160


def test_buffers_of_one_time_do_not() -> None:
    assert check([Buffer(8, 4, 0, 0), Buffer(12, 4, 0, 0), Buffer(4, 4, 0, 0)]) == 24


def test_alignment_is_kept() -> None:
    assert check([Buffer(1, 1, 0, 0), Buffer(8, 8, 0, 0), Buffer(2, 2, 0, 0)]) == 11


def test_memory_behind_kept_bytes_is_shared_at_other_times() -> None:
    # The first buffer has 12 bytes at instruction 1, and 4 all the time.
    kept = Buffer(12, 4, 1, 1, 4, 0, 4)
    assert plan_memory([kept, Buffer(8, 4, 2, 3), Buffer(8, 4, 0, 0)]).nbytes == 12
    assert plan_memory([kept, Buffer(8, 4, 1, 3)]).nbytes == 20
    assert live_bytes([kept, Buffer(8, 4, 2, 3)]) == 12


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


@pytest.mark.parametrize(
    ("result", "operand", "lead", "nbytes"),
    [(100, 100, 0, 100), (100, 100, 8, 108), (200, 100, 100, 200), (100, 200, -40, 200), (100, 100, 300, 200)],
)
def test_a_result_overlaps_its_operand(result: int, operand: int, lead: int, nbytes: int) -> None:
    assert check([Buffer(operand, 4, 0, 1), Buffer(result, 4, 1, 2)], [Overlap(1, 0, Lead(lead))]) == nbytes


def test_a_chain_of_results_over_their_operands() -> None:
    # Beside the third one there is scratch memory, and each begins four bytes before the last one.
    buffers = [Buffer(100, 4, step, step + 1) for step in range(6)] + [Buffer(20, 4, 2, 2)]
    assert check(buffers, [Overlap(step + 1, step, Lead(4)) for step in range(5)]) == 128


def test_a_chain_with_scratch_memory_beside_each_step() -> None:
    # A network of separable convolutions, every other one of which is written over its operand from before that on.
    buffers, overlaps = [Buffer(8000, 4, 0, 1)], []
    for step in range(1, 9):
        buffers += [Buffer(1344 if step % 2 else 512, 4, step, step), Buffer(8000, 4, step, step + 1)]
        overlaps.append(Overlap(2 * step, 2 * step - 2, Lead(0 if step % 2 else 64)))
    assert check(buffers, overlaps) <= 8000 + 4 * 64 + 1344


@pytest.mark.parametrize("seed", range(20))
def test_random_overlaps(seed: int) -> None:
    generator = random.Random(seed)
    buffers = [Buffer(generator.randrange(200), 4, step, step + generator.choice([1, 1, 3])) for step in range(12)]
    overlaps = [
        Overlap(step + 1, step, Lead(generator.randrange(-60, 60)))
        for step in range(11)
        if buffers[step].last == step + 1
    ]
    assert check(buffers, overlaps) <= check(buffers)


@pytest.mark.parametrize(
    ("lead", "nbytes"),
    [(Lead(4, 24), 124), (Lead(0, 24), 100), (Lead(0, 24, 20), 120), (Lead(8, 6, 3), 200), (Lead(-3, 24, 8), 108)],
)
def test_a_result_begins_some_steps_before_its_operand(lead: Lead, nbytes: int) -> None:
    assert check([Buffer(100, 4, 0, 1), Buffer(100, 4, 1, 2)], [Overlap(1, 0, lead)]) == nbytes


@pytest.mark.parametrize("seed", range(20))
def test_random_steps(seed: int) -> None:
    generator = random.Random(seed)
    buffers = [Buffer(generator.randrange(200), 4, step, step + 1) for step in range(12)]
    steps = [generator.choice([1, 8, 12, 20]) for _ in range(11)]
    check(buffers, [Overlap(i + 1, i, Lead(generator.randrange(-60, 60), steps[i])) for i in range(11)])


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
