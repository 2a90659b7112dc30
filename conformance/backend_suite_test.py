"""Runs ExecuTorch's backend test suite on our runtime."""

import os
from pathlib import Path

from conformance.backend_suite import Outcome, make_table, run_suite

# The least share of tests that must have run: what fails before it gets to a runtime, the suite skips.
_LEAST_RUN = 0.5


def test_our_runtime_passes() -> None:
    outcomes = run_suite(Path(os.environ["SUITE_RUNNER"]), int(os.environ["SUITE_EVERY"]))
    failures = [outcome for outcome in outcomes if outcome.result == "failed"]
    assert not failures, "\n".join(f"{failure.module}::{failure.test}: {failure.reason}" for failure in failures)
    passed = sum(outcome.result == "passed" for outcome in outcomes)
    assert passed >= _LEAST_RUN * len(outcomes) > 0, make_table(outcomes)


def test_the_table_names_what_failed() -> None:
    outcomes = [
        Outcome("abs", "test_abs[portable]", "passed", ""),
        Outcome("abs", "test_abs_dtype[portable]", "failed", "RunError: InvalidProgram"),
        Outcome("elu", "test_elu[portable]", "skipped", "in place"),
    ]
    table = make_table(outcomes)
    assert "1 tests passed, 1 skipped, 1 failed." in table
    assert "- RunError: InvalidProgram: 1 of `abs::test_abs_dtype[portable]`" in table
    assert "- in place: 1 of `elu`" in table
