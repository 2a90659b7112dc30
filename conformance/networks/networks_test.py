"""Two of the networks; :sweep does all."""

import pytest

from conformance.networks import sweep


@pytest.mark.parametrize("name", ["mobilenet_v1_blocks", "gpt_block"])
def test_int8_runs_on_the_device_faster_than_float32_and_close_to_it(name: str) -> None:
    floating, int8 = (sweep.run(name, backend, "mps2_an386") for backend in ("portable", "cortex_m"))
    assert floating.problem is None and int8.problem is None
    assert int8.snr_db > 15
    assert int8.instructions < floating.instructions
    assert int8.size < floating.size


# Depthwise convolutions and concatenations of channels that fill no words, and convolutions over time.
@pytest.mark.parametrize("name", ["ghost_module", "temporal_convolutions"])
def test_floating_point_is_chosen_where_int8_is_slower(name: str) -> None:
    floating, int8 = (sweep.run(name, backend, "mps2_an386") for backend in ("portable", "cortex_m"))
    assert floating.problem is None and int8.problem is None
    assert int8.instructions <= floating.instructions
