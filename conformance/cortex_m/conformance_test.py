"""ExecuTorch's own Cortex-M tests, with this project's kernels on emulated cores in place of upstream's runner.

The environment says which: SUITES, files or folders of the wheel's `backends/cortex_m/test`, and SAMPLE, of how many
tests one is taken.
"""

import functools
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from conformance.cortex_m.cases import Case, Skipped
from tools.verify.run_pte.cases import Case as RunnerCase
from tools.verify.run_pte.cases import CaseResult, run_cases
from tools.verify.run_pte.run_pte import encode_inputs, read_runners

# Board -> target that its programs are lowered for.
_BOARDS = {"mps2_an386": "cortex-m4", "mps2_an505": "cortex-m4", "mps3_an547": "cortex-m55"}


@functools.cache
def collected() -> tuple[list[Case], list[Skipped], list[Skipped]]:
    """Cases, skipped tests and tests that failed before they had a program."""
    with tempfile.TemporaryDirectory() as folder:
        # They run in a process of their own: the tests' modules patch what they import.
        command = [sys.executable, "-m", "conformance.cortex_m.collect", folder, os.environ["SAMPLE"]]
        done = subprocess.run([*command, *os.environ["SUITES"].split()], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return pickle.loads((Path(folder) / "cases.pickle").read_bytes())


def test_every_test_gives_a_program() -> None:
    cases, skipped, failed = collected()
    for test in skipped:
        print(f"skipped: {test.name}: {test.reason}")
    assert not failed
    assert cases


@pytest.mark.parametrize("board", [board for board in _BOARDS if board in read_runners().boards])
def test_outputs_on_the_emulated_core(board: str, tmp_path: Path) -> None:
    cases, _, _ = collected()
    target = _BOARDS[board]
    runner = read_runners().boards[board]
    programs = []
    for case in cases:
        path = tmp_path / "program.pte"
        path.write_bytes(case.programs[target])
        programs.append(RunnerCase(case.programs[target], encode_inputs(path, case.inputs)))
    problems = []
    for case, result in zip(cases, run_cases(runner, programs, timeout=1200), strict=True):
        problems += [f"{case.name}: {problem}" for problem in _problems(case, target, result)]
    print(f"{len(cases)} programs on {board}")
    assert not problems, "\n".join(problems)


def _problems(case: Case, target: str, result: CaseResult) -> list[str]:
    if result.error != "Ok":
        return [result.text()]
    if len(result.outputs) != len(case.expected):
        return [f"{len(result.outputs)} outputs, {len(case.expected)} expected"]
    problems = []
    for index, (value, expected, dialect) in enumerate(
        zip(result.outputs, case.expected, case.dialect[target], strict=True)
    ):
        actual = value.array
        if actual.shape != expected.shape:
            problems.append(f"output {index} is {actual.shape}, expected {expected.shape}")
            continue
        # The test's own measure is the model before lowering; the kernels' is the dialect.
        if not case.is_expected_to_fail and not np.allclose(actual, expected, atol=case.tolerance, rtol=1e-3):
            problems.append(f"output {index} is {_distance(actual, expected)} from the model, {case.tolerance} allowed")
        if not np.allclose(actual, dialect, atol=1e-5, rtol=1e-5):
            problems.append(f"output {index} is {_distance(actual, dialect)} from the dialect")
    return problems


def _distance(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(actual.astype(np.float64) - expected.astype(np.float64)).max())
