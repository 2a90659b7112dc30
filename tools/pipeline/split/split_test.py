import os
from pathlib import Path

import numpy as np
import torch

from tools.artifacts.golden.golden import read_golden
from tools.artifacts.program.program import load
from tools.pipeline.export.upstream.loaded_program import LoadedProgram
from tools.pipeline.split.split import split_program

FILES = {Path(path).name.partition(".")[2]: Path(path) for path in os.environ["PROGRAM"].split()}


def test_executorch_computes_the_same_with_a_split_program(tmp_path: Path) -> None:
    golden = read_golden(FILES["golden.npz"])
    rooms = {"tcm": 30_000, "sram": 16_000, "ram": 75_000}
    data = split_program(FILES["pte"], {"forward": FILES["manifest.json"]}, rooms)
    (tmp_path / "split.pte").write_bytes(data)
    sizes = load(tmp_path / "split.pte").program.execution_plan[0].non_const_buffer_sizes
    assert all(size <= room for size, room in zip(sizes, (0, 75_000 - 14_400, 30_000, 16_000), strict=True))
    (output,) = LoadedProgram(data).run(torch.from_numpy(golden.inputs[0][0]))
    np.testing.assert_allclose(output.numpy(), golden.outputs[0][0], atol=1e-5)
