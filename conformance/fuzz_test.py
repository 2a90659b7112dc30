"""Random graphs with fixed seeds against eager PyTorch; //conformance:fuzz goes on for longer."""

import os
from pathlib import Path

import pytest

from conformance.fuzz import check_seed, describe
from tools.run_pte.run_pte import read_runners

RUNNER = read_runners(Path(os.environ["RUNNERS"]).absolute().parents[2]).boards["host"]


@pytest.mark.parametrize("seed", range(12))
def test_a_random_graph(seed: int) -> None:
    text = check_seed(seed, RUNNER)
    assert not text, f"{text}\n{describe(seed)}"
