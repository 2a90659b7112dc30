"""Operators with code for an instruction set, on emulated cores: int8 against the dialect's Python, others against
PyTorch.
"""

import functools
import os
from pathlib import Path

import pytest
import torch

from kernels.tests.case_file import (
    Case,
    Result,
    exact_difference,
    memory_bytes,
    output_tensor,
    read_results,
    write_cases,
)
from kernels.tests.cases import refused_cases, supported_cases
from kernels.tests.cortex_m_cases import cortex_m_cases, cortex_m_refused_cases
from tools.artifacts.board.board import read_board
from tools.pipeline.export.backends.cortex_m import pack
from tools.pipeline.export.backends.cortex_m.lower import target_of
from tools.verify.environment.hosted import finish
from tools.verify.environment.qemu import Qemu, command_line

FILES = [Path(name).absolute() for name in os.environ["IMAGES"].split()]
BOARDS = {path.parent.name: read_board(path) for path in FILES if path.name == "board.json"}
QEMU = Path(os.environ["QEMU"]).absolute()
# Kernels of floating point with instructions of their own.
FLOATING = {f"aten::{name}out" for name in ("convolution.", "linear.", "max_pool2d_with_indices.", "relu.", "sqrt.")}
# The images have this memory for the tensors of a call.
MOST_BYTES = 0x30000


def size(case: Case) -> int:
    return sum(len(memory_bytes(a)) for a in (*case.arguments, *case.expected) if isinstance(a, torch.Tensor))


@functools.cache
def floating_cases() -> list[Case]:
    found = [case for case in [*supported_cases(), *refused_cases()] if case.operator in FLOATING]
    return [case for case in found if size(case) < MOST_BYTES]


def difference(case: Case, result: Result) -> str:
    if case.operator not in FLOATING or case.error != "Ok" or result.error:
        return exact_difference(case, result)
    for out, expected, found in zip(case.outs(), case.expected, result.outputs, strict=True):
        near = 2e-5 if out.dtype in (torch.float32, torch.float64) else 1e-2
        if expected is not None and not torch.allclose(output_tensor(out, *found), expected, near, near, True):
            return "the results differ"
    return ""


@functools.cache
def cases(arrangement: int) -> list[Case]:
    return [*cortex_m_cases(60, seed=1, arrangements=(arrangement,)), *cortex_m_refused_cases(arrangement)]


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_results_are_right(board: str, tmp_path: Path) -> None:
    (image,) = [path for path in FILES if path.stem == f"device_cases_{board}"]
    found = [*cases(pack.arrangement_of(target_of(BOARDS[board].core))), *floating_cases()]
    write_cases(found, tmp_path / "cases.bin")
    options = ["image", "cases=cases.bin", "outputs=outputs.bin", "report=report.bin"]
    command = command_line(image, BOARDS[board], QEMU, options)
    outputs = finish(Qemu(BOARDS[board], QEMU), command, image, tmp_path, timeout=300).outputs
    results = read_results(outputs, len(found))
    failures = [
        f"{case.operator} {[getattr(a, 'shape', a) for a in case.arguments]}: {text}"
        for case, result in zip(found, results, strict=True)
        if (text := difference(case, result))
    ]
    assert not failures, f"{len(failures)} of {len(found)} cases differ:\n" + "\n".join(failures[:20])
