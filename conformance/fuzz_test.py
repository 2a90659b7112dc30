"""Random graphs with fixed seeds against eager PyTorch; //conformance:fuzz goes on for longer."""

import pytest

from conformance.fuzz import check_seed, describe
from tools.verify.run_pte.run_pte import read_runners

RUNNER = read_runners().boards["host"]


@pytest.mark.parametrize("seed", range(12))
def test_a_random_graph(seed: int) -> None:
    text = check_seed(seed, RUNNER)
    assert not text, f"{text}\n{describe(seed)}"
