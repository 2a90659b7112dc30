"""Operators that are compiled to C++ compute to the bit what loaded programs do."""

from __future__ import annotations

import os
from pathlib import Path

from conformance.compiled import compare
from tools.verify.run_pte.cases import Runner


def test_outputs_are_the_runtimes() -> None:
    failures, counts = compare(
        Path(os.environ["INDEX"]), Path(os.environ["PROGRAM"]), Runner(Path(os.environ["RUNNER"]), None, Path())
    )
    print("\n".join([*failures, *(f"{count}: {reason}" for reason, count in counts.items())]))
    assert counts.pop("compared") > 0
    # Else it is a kernel that has not what the call needs.
    assert [reason for reason in counts if not reason.startswith("the kernel of operator ")] == []
    assert not failures
