"""`run_pte` with a program for VGF, as it starts it."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np

from tools.artifacts.golden.golden import read_golden

_FILES = {"".join(Path(path).suffixes): Path(path) for path in os.environ["ADD"].split()}


def _run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [os.environ["RUN_PTE"], *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_outputs_are_those_of_pytorch(tmp_path: Path) -> None:
    golden = read_golden(_FILES[".golden.npz"])
    options: list[object] = []
    for index, array in enumerate(golden.inputs):
        np.save(tmp_path / f"{index}.npy", array[0])
        options += ["--input", tmp_path / f"{index}.npy"]
    result = _run(_FILES[".pte"].absolute(), "--json", "--output-dir", tmp_path / "outputs", *options)
    assert result.returncode == 0, result.stderr
    (output,) = json.loads(result.stdout)["outputs"]
    assert np.array_equal(np.load(output["file"]), golden.outputs[0][0])


def test_help_has_no_boards() -> None:
    result = _run("--help")
    assert result.returncode == 0, result.stderr
    assert "host, which is this machine" in result.stdout
