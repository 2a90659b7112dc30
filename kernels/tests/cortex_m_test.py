"""The int8 operators against the dialect's Python, under sanitizers, bit for bit."""

import os
from pathlib import Path

import yaml

from kernels.tests.case_file import exact_difference, run_cases
from kernels.tests.corrupted import corrupted_cases, exploding_cases, overlapping_cases
from kernels.tests.cortex_m_cases import cortex_m_cases, cortex_m_huge_cases, cortex_m_refused_cases

RUNNER = Path(os.environ["CASE_RUNNER"]).absolute()
CATALOG = Path(__file__).absolute().parents[1] / "cortex_m" / "operators.yaml"


def test_results_equal_the_dialect(tmp_path: Path) -> None:
    cases = [*cortex_m_cases(50, seed=0), *cortex_m_refused_cases(), *cortex_m_huge_cases()]
    failures = [
        f"{case.operator} {[getattr(a, 'shape', a) for a in case.arguments]}: {text}"
        for case, result in zip(cases, run_cases(RUNNER, cases, tmp_path), strict=True)
        if (text := exact_difference(case, result))
    ]
    assert not failures, f"{len(failures)} of {len(cases)} cases differ:\n" + "\n".join(failures[:20])


def test_every_kernel_has_cases() -> None:
    operators = {name for entry in yaml.safe_load(CATALOG.read_text()) for name in entry["kernels"]}
    assert operators == {case.operator for case in cortex_m_cases(3, seed=0)}


def test_corrupted_calls_touch_no_foreign_memory(tmp_path: Path) -> None:
    # The runner ends with an error where a sanitizer sees one, or a kernel aborts.
    run_cases(RUNNER, corrupted_cases(cortex_m_cases(10, seed=2), 4000, seed=0), tmp_path)


def test_work_is_bounded_by_elements(tmp_path: Path) -> None:
    run_cases(RUNNER, exploding_cases(cortex_m_cases(10, seed=4), 2000, seed=0), tmp_path)


def test_tensors_that_overlap_touch_no_foreign_memory(tmp_path: Path) -> None:
    constants = {
        name: tuple(entry.get("constants", ()))
        for entry in yaml.safe_load(CATALOG.read_text())
        for name in entry["kernels"]
    }
    run_cases(RUNNER, overlapping_cases(cortex_m_cases(20, seed=3), 4000, 0, constants), tmp_path)
