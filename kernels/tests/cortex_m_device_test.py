"""The int8 operators on emulated cores, each with code for its own instruction set, against the dialect's Python."""

import functools
import os
from pathlib import Path

import pytest

from kernels.tests.case_file import Case, exact_difference, read_results, write_cases
from kernels.tests.cortex_m_cases import cortex_m_cases, cortex_m_refused_cases
from tools.artifacts.board.board import read_board
from tools.pipeline.export.backends.cortex_m import pack
from tools.pipeline.export.backends.cortex_m.lower import target_of
from tools.verify.environment.hosted import finish
from tools.verify.environment.qemu import Qemu, command_line

FILES = [Path(name).absolute() for name in os.environ["IMAGES"].split()]
BOARDS = {path.parent.name: read_board(path) for path in FILES if path.name == "board.json"}
QEMU = Path(os.environ["QEMU"]).absolute()


@functools.cache
def cases(arrangement: int) -> list[Case]:
    return [*cortex_m_cases(60, seed=1, arrangements=(arrangement,)), *cortex_m_refused_cases(arrangement)]


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_results_equal_the_dialect(board: str, tmp_path: Path) -> None:
    (image,) = [path for path in FILES if path.stem == f"device_cases_{board}"]
    found = cases(pack.arrangement_of(target_of(BOARDS[board].core)))
    write_cases(found, tmp_path / "cases.bin")
    options = ["image", "cases=cases.bin", "outputs=outputs.bin", "report=report.bin"]
    command = command_line(image, BOARDS[board], QEMU, options)
    outputs = finish(Qemu(BOARDS[board], QEMU), command, image, tmp_path, timeout=300).outputs
    results = read_results(outputs, len(found))
    failures = [
        f"{case.operator} {[getattr(a, 'shape', a) for a in case.arguments]}: {text}"
        for case, result in zip(found, results, strict=True)
        if (text := exact_difference(case, result))
    ]
    assert not failures, f"{len(failures)} of {len(found)} cases differ:\n" + "\n".join(failures[:20])
