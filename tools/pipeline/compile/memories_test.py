from tools.pipeline.compile.memories import distribute
from tools.pipeline.placement.placement import Buffer, Lead, Overlap


def test_what_is_accessed_most_per_byte_is_in_the_fastest_memory() -> None:
    buffers = [Buffer(100, 4, 0, 3), Buffer(40, 4, 0, 3), Buffer(60, 4, 0, 3), Buffer(8, 4, 0, 3)]
    found = distribute(buffers, [], [100, 200, 120, 80], [3], {"tcm": 100, "sram": 110, "psram": 100})
    assert [sorted(each) for each in found.members] == [[1, 2], [0], [3]]
    assert (found.excess, found.heat) == (0, [320, 100, 80])
    assert [plan.nbytes for plan in found.plans] == [100, 100, 8]


def test_buffers_of_different_times_and_a_result_over_its_operand_share_a_memory() -> None:
    buffers = [Buffer(50, 1, 0, 1), Buffer(50, 1, 2, 3), Buffer(40, 1, 1, 2)]
    found = distribute(buffers, [Overlap(2, 0, Lead(0))], [9, 9, 9], [], {"tcm": 60, "ram": 40})
    assert [sorted(each) for each in found.members] == [[0, 1], [2]]
    found = distribute(buffers[::2], [Overlap(1, 0, Lead(0))], [9, 9], [], {"tcm": 50, "ram": 0})
    assert [sorted(each) for each in found.members] == [[0, 1], []]


def test_fitting_comes_before_speed() -> None:
    # The small buffer is the hottest, but beside it the large one fits nowhere.
    buffers = [Buffer(10, 1, 0, 1), Buffer(100, 1, 0, 1)]
    found = distribute(buffers, [], [50, 100], [], {"tcm": 100, "ram": 50})
    assert (found.members, found.excess) == ([[1], [0]], 0)
    assert distribute(buffers, [], [50, 100], [], {"tcm": 9, "ram": 50}).excess == 60
