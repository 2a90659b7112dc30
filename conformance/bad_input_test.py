"""Corrupted calls of every operator: an error with a name or some result, and no access outside of the tensors."""

import os
import pickle
from pathlib import Path

from conformance.bad_input import corrupted
from tools.verify.run_pte.cases import run_cases
from tools.verify.run_pte.run_pte import read_runners

RUNNER = read_runners().boards["host"]
# A case that the runtime does not end itself ends with one of these.
CRASHES = {"Crash", "Abort", "Fault", "Timeout", "MissingPass", "Host", "Mismatch"}


def test_corrupted_calls_have_an_error_with_a_name() -> None:
    with Path(os.environ["CALLS"]).open("rb") as file:
        for _ in range(2):
            pickle.load(file)
        calls = pickle.load(file)
    seeds = int(os.environ.get("SEEDS", "1"))
    chosen = [(call, seed) for seed in range(seeds) for call in calls[seed % 3 :: 3]]
    results = run_cases(RUNNER, [corrupted(call, seed) for call, seed in chosen])
    crashed = [
        f"{call.operator} {call.signature()} seed {seed}: {result.text()}"
        for (call, seed), result in zip(chosen, results, strict=True)
        if result.error in CRASHES
    ]
    assert not crashed, f"{len(crashed)} of {len(chosen)}:\n" + "\n".join(crashed[:20])
    refused = sum(result.error != "Ok" for result in results)
    assert refused > len(results) / 3, "most corruptions should be found"
    unnamed = [result for result in results if result.error != "Ok" and not result.messages]
    assert not unnamed
