"""A pytest plugin for ExecuTorch's own Cortex-M tests: this project's kernels on emulated cores, not upstream's runner.

The environment says SUITE_EVERY=n, which runs every n-th test.
"""

import copy
import importlib
import importlib.util
import os
import sys
import tempfile
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from tools.verify.run_pte.cases import Case, run_cases
from tools.verify.run_pte.run_pte import encode_inputs, read_runners

# The runner of these tests imports pandas, which nothing here calls: a table of executorch's profiler.
if importlib.util.find_spec("pandas") is None:
    sys.modules["pandas"] = ModuleType("pandas")
    sys.modules["pandas"].DataFrame = object
    sys.modules["pandas"].__spec__ = ModuleSpec("pandas", None)
# The wheel must be prepared before any part of its backend is imported.
importlib.import_module("tools.pipeline.export.backends.cortex_m")
_stages = importlib.import_module("executorch.backends.test.harness.stages")
_target_config = importlib.import_module("executorch.backends.cortex_m.target_config")
_tester = importlib.import_module("executorch.backends.cortex_m.test.tester")

# Maps boards to the targets that their programs are lowered for: DSP code is the same on Cortex-M4 and M33.
_BOARDS = {"mps2_an386": "cortex-m4", "mps2_an505": "cortex-m4", "mps3_an547": "cortex-m55"}
_RUNNERS = {board: runner for board, runner in read_runners().boards.items() if board in _BOARDS}
# Says whether upstream expects that its runner gives something else than the running test's model.
_EXPECTATIONS = {"fails": False}


def _test_implementation(self: Any, qtol: int = 0, atol: float = 1e-3, calibration_samples: Any = None) -> None:
    """Replaces CortexMTester.test_implementation: outputs must be the dialect's, and about the model's."""
    stage = None if calibration_samples is None else _tester.CortexMQuantize(calibration_samples=calibration_samples)
    self.quantize(stage)
    self.export()
    model, scale = self._calculate_reference_output(self.stages[_stages.StageType.EXPORT].artifact, self.example_inputs)
    self.to_edge()
    edge = self.stages[_stages.StageType.TO_EDGE].artifact
    inputs = [torch.as_tensor(leaf).contiguous().numpy() for leaf in tree_leaves(self.example_inputs)]
    for board, runner in _RUNNERS.items():
        passes = _tester.CortexMRunPasses(_target_config.CortexMTargetConfig.from_target_string(_BOARDS[board]))
        passes.run(copy.deepcopy(edge), self.example_inputs)
        dialect = passes.run_artifact(self.example_inputs)
        final = _stages.ToExecutorch()
        final.run(passes.artifact)
        program = final.artifact.buffer
        with tempfile.NamedTemporaryFile() as file:
            path = Path(file.name)
            path.write_bytes(program)
            (result,) = run_cases(runner, [Case(program, encode_inputs(path, inputs))], timeout=1200)
        assert result.error == "Ok", f"{board}: {result.text()}"
        outputs = [torch.from_numpy(value.array.copy()) for value in result.outputs]
        _check(outputs, tree_leaves(dialect), 1e-5, 1e-5, f"the dialect, on {board}")
        if not _EXPECTATIONS["fails"]:
            _check(outputs, tree_leaves(model), atol + (scale or 0.0) * qtol, 1e-3, f"the model, on {board}")


def _check(outputs: list[Tensor], expected: list[Tensor], atol: float, rtol: float, what: str) -> None:
    torch.testing.assert_close(
        outputs, expected, atol=atol, rtol=rtol, check_stride=False, msg=lambda text: f"not what {what} gives: {text}"
    )


def pytest_configure() -> None:
    """Puts our kernels in place of upstream's runner."""
    torch.set_num_threads(1)
    _tester.CortexMTester.test_implementation = _test_implementation


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps every n-th test."""
    items[:] = items[:: int(os.environ["SUITE_EVERY"])]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Notes whether upstream expects that the test fails; --runxfail lets it pass or fail all the same."""
    _EXPECTATIONS["fails"] = item.get_closest_marker("xfail") is not None
