"""Operators with code for an instruction set, on emulated cores: int8 against the dialect's Python, others against
PyTorch.
"""

import functools

import pytest
import torch

from kernels.tests.case_file import Case, memory_bytes, outputs_difference
from kernels.tests.case_program import CaseProgram
from kernels.tests.cases import refused_cases, supported_cases
from kernels.tests.cortex_m_cases import cortex_m_cases, cortex_m_refused_cases
from tools.artifacts.board.board import read_board
from tools.pipeline.export.backends.cortex_m import pack
from tools.pipeline.export.backends.cortex_m.lower import target_of
from tools.pipeline.registry.catalog import read_catalog
from tools.verify.run_pte.cases import CaseResult, run_cases
from tools.verify.run_pte.run_pte import read_runners

RUNNERS = {name: runner for name, runner in read_runners().boards.items() if runner.board}
# Kernels of floating point with instructions of their own.
FLOATING = {f"aten::{name}out" for name in ("convolution.", "linear.", "max_pool2d_with_indices.", "relu.", "sqrt.")}
# Larger calls show nothing more.
MOST_BYTES = 0x30000


def size(case: Case) -> int:
    return sum(len(memory_bytes(a)) for a in (*case.arguments, *case.expected) if isinstance(a, torch.Tensor))


@functools.cache
def floating_cases() -> list[Case]:
    found = [case for case in [*supported_cases(), *refused_cases()] if case.operator in FLOATING]
    return [case for case in found if size(case) < MOST_BYTES]


def difference(case: Case, program: CaseProgram, result: CaseResult) -> str:
    if result.error != case.error:
        return f"{result.text()}, expected {case.error}"
    if case.error != "Ok" and result.step != "execute":
        return f"refused by the step {result.step}"
    if program.is_guard_changed(result):
        return "the kernel wrote outside of its tensors"
    if case.error != "Ok":
        return ""
    outs = case.outs()
    found = (torch.from_numpy(each.array.copy()).to(out.dtype) for each, out in zip(result.outputs, outs, strict=False))
    tolerance = 0.0
    if case.operator in FLOATING:
        tolerance = 2e-5 if outs[0].dtype in (torch.float32, torch.float64) else 1e-2
    return outputs_difference(case, found, tolerance)


@functools.cache
def cases(arrangement: int) -> list[Case]:
    return [*cortex_m_cases(40, seed=1, arrangements=(arrangement,)), *cortex_m_refused_cases(arrangement)]


@pytest.mark.parametrize("board", sorted(RUNNERS))
def test_results_are_right(board: str) -> None:
    runner = RUNNERS[board]
    assert runner.board
    found = [*cases(pack.arrangement_of(target_of(read_board(runner.board).core))), *floating_cases()]
    catalog = read_catalog()
    programs = [CaseProgram(case, catalog[case.operator].constants) for case in found]
    results = run_cases(runner, [program.run for program in programs])
    failures = [
        f"{case.operator} {[getattr(a, 'shape', a) for a in case.arguments]}: {text}"
        for case, program, result in zip(found, programs, results, strict=True)
        if (text := difference(case, program, result))
    ]
    assert not failures, f"{len(failures)} of {len(found)} cases differ:\n" + "\n".join(failures[:20])
