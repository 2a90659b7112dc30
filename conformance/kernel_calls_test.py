"""Kernels as corrupted programs may call them, with no loader that refuses some: no access outside of the tensors."""

import functools
import os
import pickle
from pathlib import Path

import yaml

from conformance.kernel_calls import kernel_case
from kernels.tests.case_file import Case, run_cases
from kernels.tests.cases import supported_cases
from kernels.tests.corrupted import corrupted_cases, exploding_cases, overlapping_cases

RUNNER = Path(os.environ["CASE_RUNNER"]).absolute()
# The limit of elements of a call: in larger ones corruptions show nothing more.
_MAX_ELEMENTS = 300


@functools.cache
def cases() -> list[Case]:
    """Returns calls of all operators, from PyTorch's samples and by hand."""
    with Path(os.environ["CALLS"]).open("rb") as file:
        for _ in range(2):
            pickle.load(file)
        calls = pickle.load(file)
    found = [kernel_case(call) for call in calls] + supported_cases()
    return [case for case in found if sum(a.numel() for a in case.arguments if hasattr(a, "numel")) < _MAX_ELEMENTS]


def test_every_kernel_has_cases() -> None:
    catalogs = [Path(name) for name in os.environ["CATALOGS"].split()]
    operators = {
        name
        for path in catalogs
        # //kernels/tests:cortex_m_test has the int8 operators.
        if path.parent.name != "cortex_m"
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))
        for name in entry["kernels"]
    }
    assert operators == {case.operator for case in cases()}


def test_corrupted_calls_touch_no_foreign_memory(tmp_path: Path) -> None:
    # The runner ends with an error where a sanitizer sees one, or a kernel aborts.
    for seed in range(2):
        run_cases(RUNNER, corrupted_cases(cases(), 6000, seed), tmp_path)


def test_work_is_bounded_by_elements(tmp_path: Path) -> None:
    run_cases(RUNNER, exploding_cases(cases(), 6000, 0), tmp_path)


def test_tensors_that_overlap_touch_no_foreign_memory(tmp_path: Path) -> None:
    run_cases(RUNNER, overlapping_cases(cases(), 6000, 0, {}), tmp_path)
