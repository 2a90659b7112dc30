"""Models that were compiled to C++ compute what PyTorch and to the bit what the runtime does, and refuse bad calls."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tools.artifacts.golden.golden import read_golden
from tools.artifacts.program.program import read
from tools.verify.environment.comparison import compare
from tools.verify.run_pte.cases import Case, Runner, run_cases
from tools.verify.run_pte.values import encode

BINARIES = {Path(path).name.removesuffix("_runner"): Path(path).absolute() for path in os.environ["BINARIES"].split()}
PROGRAMS = [Path(path) for path in os.environ["PROGRAMS"].split()]
RUNNER = Runner(Path(os.environ["RUNNER"]), None, Path())
_SAMPLES = 3


@pytest.mark.parametrize("name", sorted(BINARIES))
def test_two_instances_compute_what_pytorch_and_the_runtime_do(tmp_path: Path, name: str) -> None:
    files = {"".join(path.suffixes): path for path in PROGRAMS if path.name.partition(".")[0] == name}
    plan = read(files[".pte"]).execution_plan[0]
    golden = read_golden(files[".golden.npz"])
    arrays = golden.inputs_in_memory()
    samples = min(_SAMPLES, len(arrays[0]))
    (tmp_path / "inputs").write_bytes(b"".join(array[i].tobytes() for i in range(samples) for array in arrays))
    result = subprocess.run(
        [BINARIES[name], tmp_path / "inputs", tmp_path / "outputs", str(samples)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    compiled = (tmp_path / "outputs").read_bytes()

    # A program with state runs on the first sample alone: the runner loads it anew for each.
    tensors = [plan.values[index].val for index in plan.inputs]
    inputs = tuple(
        encode(array[0], int(tensor.scalar_type), list(tensor.dim_order))
        for array, tensor in zip(golden.inputs, tensors, strict=True)
    )
    case = run_cases(RUNNER, [Case(files[".pte"].read_bytes(), inputs)])[0]
    assert case.error == "Ok", case.text()
    orders = [list(plan.values[index].val.dim_order) for index in plan.outputs]
    loaded = b"".join(value.array.transpose(order).tobytes() for value, order in zip(case.outputs, orders, strict=True))
    assert compiled[: len(loaded)] == loaded
    assert len(compiled) == 2 * samples * len(loaded)

    # A program with state runs on all samples, one after another.
    expected = golden.part(range(samples))
    for instance in (compiled[: len(compiled) // 2], compiled[len(compiled) // 2 :]):
        rows = np.frombuffer(instance, np.uint8).reshape(samples, -1)
        sizes = [array[0].nbytes for array in expected.outputs]
        outputs = [
            np.ascontiguousarray(part).view(array.dtype).reshape(array.shape)
            for part, array in zip(
                np.split(rows, np.cumsum(sizes)[:-1], axis=1), expected.outputs_in_memory(), strict=True
            )
        ]
        assert compare(expected.outputs_from_memory(outputs), expected, 1e-4, 1e-4) == []
