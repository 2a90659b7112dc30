"""The model sine, trained, in int8: how far what emulated cores return is from the sine."""

import math
from pathlib import Path

import numpy as np
import torch

from conformance.check import encode_input
from tools.pipeline.export.options import Options
from tools.pipeline.export.testing import export_file
from tools.pipeline.train.train import train
from tools.quiet.console import SilentConsole
from tools.verify.run_pte.cases import Case, run_cases
from tools.verify.run_pte.run_pte import read_runners

_MODEL = Path("models/sine/sine.py")
_BOARDS = {"cortex-m4": ["mps2_an386", "mps2_an505"], "cortex-m55": ["mps3_an547"]}


def test_sine_in_int8_is_close_to_sine(tmp_path: Path) -> None:
    weights = tmp_path / "sine.weights"
    weights.write_bytes(train(_MODEL, SilentConsole()))
    angles = torch.linspace(0, 2 * math.pi, 101)
    runners = read_runners().boards
    for core, boards in _BOARDS.items():
        program = export_file(_MODEL, weights, Options(core, "cortex_m")).program
        cases = [Case(program, (encode_input(angle.reshape(1, 1)),)) for angle in angles]
        for board in boards:
            results = run_cases(runners[board], cases)
            assert {result.error for result in results} == {"Ok"}
            sines = np.array([result.outputs[0].array.item() for result in results])
            # Eight seeds of the training gave 0.010 to 0.020, and 0.005 to 0.018 in floating point.
            assert np.abs(sines - np.sin(angles.numpy())).mean() < 0.03
