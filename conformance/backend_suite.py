"""A pytest plugin for ExecuTorch's backend test suite: one of its flows, with our runtime in place of ExecuTorch's.

The environment says what it does: SUITE_EVERY=n runs every n-th test, SUITE_FLOW is portable or cortex_m, which the
suite has since ExecuTorch 1.5, and SUITE_RUNNER is the runner of this machine (//firmware:runner_host).
"""

import importlib
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from executorch.backends.test.harness.stages import Serialize
from executorch.backends.test.suite import flow as suite_flow
from executorch.backends.test.suite import runner as suite_runner
from executorch.exir.scalar_type import ScalarType
from torch.utils._pytree import tree_flatten

from conformance.check import DTYPES_BY_NAME, encode_input
from conformance.operators import listed_operators
from tools.verify.run_pte.cases import Case, Runner, run_cases
from tools.verify.run_pte.values import encode

_FLOW = os.environ["SUITE_FLOW"]
_RUNNER = Runner(Path(os.environ["SUITE_RUNNER"]).absolute(), None, Path("qemu-system-arm"))

# ExecuTorch's portable library has these; the suite exports other operators, too, which its own runtime does not run.
_PORTABLE = {operator.name for operator in listed_operators([], []) if operator.group == "portable"}
# The suite skips what ExecuTorch's own runtime does not run. Ours has these.
_SUPPORTED = {"aten::_adaptive_avg_pool2d"}
# The least share of tests that must pass: what fails before it gets to a runtime, the suite skips.
_LEAST_RUN = 0.5


class RunError(Exception):
    """Our runtime refused a program, or could not run it."""


def _encode(value: Any) -> bytes:
    if isinstance(value, torch.Tensor):
        return encode_input(value)
    kinds = {bool: ScalarType.BOOL, int: ScalarType.LONG, float: ScalarType.DOUBLE}
    return encode(np.array(value), int(kinds[type(value)]), ())


def run_artifact(stage: Serialize, inputs: Any) -> list[torch.Tensor]:
    """Replaces Serialize.run_artifact by our runtime: runs the program of the stage and returns its outputs."""
    values = [value for value in tree_flatten(inputs)[0] if value is not None]
    (result,) = run_cases(_RUNNER, [Case(stage.artifact, tuple(_encode(value) for value in values))], timeout=100)
    missing = re.findall(r"no kernel for operator (\S+):", result.text())
    if any(name not in _PORTABLE for name in missing):
        pytest.skip(f"no portable operator: {', '.join(missing)}")
    if result.error != "Ok":
        raise RunError(result.text())
    return [torch.from_numpy(value.array.copy()).to(DTYPES_BY_NAME[value.dtype]) for value in result.outputs]


def _skip_inspector() -> None:
    """Lets the suite import executorch.devtools.etrecord without pandas, which only the package's inspector needs."""
    name = "executorch.devtools"
    found = importlib.util.find_spec(name)
    assert found is not None and found.submodule_search_locations is not None, f"the executorch wheel has no {name}"
    bare = ModuleType(name)
    bare.__path__ = list(found.submodule_search_locations)
    sys.modules[name] = bare
    bare.__dict__["ETRecord"] = importlib.import_module(f"{name}.etrecord").ETRecord


def pytest_configure(config: pytest.Config) -> None:
    """Puts our runtime in place of ExecuTorch's."""
    _skip_inspector()
    Serialize.run_artifact = run_artifact
    if _FLOW == "cortex_m":
        # Its tester imports pandas, which nothing here calls, and it is there only beside Arm's simulator.
        sys.modules.setdefault("pandas", ModuleType("pandas")).__dict__.setdefault("DataFrame", object)
        importlib.import_module("tools.pipeline.export.backends.cortex_m")
        importlib.import_module("executorch.backends.cortex_m.test.tester").CortexMSerialize.run_artifact = run_artifact
        flows = importlib.import_module("executorch.backends.test.suite.flows.cortex_m")
        suite_flow._load_cortex_m = lambda: [flows.CORTEX_M_TEST_FLOW]
    suite_runner.UNSUPPORTED_PORTABLE_OPS -= _SUPPORTED
    config.addinivalue_line("markers", "timeout: of pytest-timeout, which is not needed here")
    # The suite adds its run's seed to that of each test.
    suite_runner.get_active_test_session = lambda: type("Session", (), {"seed": 0})


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps the flow's tests, and of these the part that is asked for."""
    of_flow = [item for item in items if f"[{_FLOW}" in item.name or f"-{_FLOW}" in item.name]
    items[:] = of_flow[:: int(os.environ["SUITE_EVERY"])]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails if too few tests got to our runtime."""
    stats = session.config.pluginmanager.get_plugin("terminalreporter").stats
    if len(stats.get("passed", ())) < _LEAST_RUN * session.testscollected:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
