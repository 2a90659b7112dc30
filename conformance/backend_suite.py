"""A pytest plugin for ExecuTorch's backend test suite: one of its flows, with our runtime in place of ExecuTorch's.

The environment says what it does: SUITE_EVERY=n runs every n-th test, SUITE_FLOW is portable or cortex_m, which the
suite has since ExecuTorch 1.5, and SUITE_RUNNER is the runner of this machine (//firmware:runner_host).

The suite compares a program with its quantized module to 0.1, which isn't meant for int8. A program for Cortex-M must
give what ExecuTorch's Python implementation of its operators gives, and the report lists those that are further from
the module.
"""

import contextlib
import copy
import importlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from executorch.backends.test.harness.stages import Serialize, StageType
from executorch.backends.test.suite import flow as suite_flow
from executorch.backends.test.suite import runner as suite_runner
from torch.utils._pytree import tree_leaves

from conformance.check import DTYPES_BY_NAME
from conformance.operators import listed_operators
from tools.verify.run_pte.cases import Case, Runner, run_cases
from tools.verify.run_pte.run_pte import encode_inputs

_FLOW = os.environ["SUITE_FLOW"]
_RUNNER = Runner(Path(os.environ["SUITE_RUNNER"]).absolute(), None, Path("qemu-system-arm"))

# ExecuTorch's portable library has these; the suite exports other operators, too, which its own runtime does not run.
_PORTABLE = {operator.name for operator in listed_operators([], []) if operator.group == "portable"}
# The suite skips what ExecuTorch's own runtime does not run. Ours has these.
_SUPPORTED = {"aten::_adaptive_avg_pool2d"}
# The least share of tests that must pass: what fails before it gets to a runtime, the suite skips.
_LEAST_RUN = 0.5
# Tests whose programs give what their operators say, and are further from the quantized module than the suite allows.
_FAR: list[str] = []


class RunError(Exception):
    """Our runtime refused a program, or could not run it."""


def run_artifact(stage: Serialize, inputs: Any) -> list[torch.Tensor]:
    """Replaces Serialize.run_artifact by our runtime: runs the program of the stage and returns its outputs."""
    values = [torch.as_tensor(value).numpy() for value in tree_leaves(inputs) if value is not None]
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(stage.artifact)
        encoded = encode_inputs(Path(file.name), values)
    (result,) = run_cases(_RUNNER, [Case(stage.artifact, encoded)], timeout=100)
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


@contextlib.contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Skips a test whose program fails before it gets to our runtime."""
    try:
        yield
    except Exception as error:
        pytest.skip(f"{what}: {(error.__cause__ or error)}".splitlines()[0])


def _check(output: torch.Tensor, expected: torch.Tensor, step: float) -> None:
    """Compares an output with that of PyTorch. One element in a hundred may differ by a step of int8: a sum in floating
    point that is quantized may be rounded to either side.
    """
    other = ~torch.isclose(output.double(), expected.double(), atol=1e-5, rtol=1e-5, equal_nan=True)
    atol = 1e-5 + (step if other.sum() <= 0.01 * other.numel() else 0.0)
    torch.testing.assert_close(output, expected, atol=atol, rtol=1e-5, equal_nan=True, check_stride=False)


def _add_cortex_m() -> None:
    """Adds the flow for Cortex-M, which the suite has only beside Arm's simulator."""
    # Its tester imports pandas, which nothing here calls.
    pandas = ModuleType("pandas")
    pandas.__dict__.update(DataFrame=object, __spec__=ModuleSpec("pandas", None))
    sys.modules.setdefault("pandas", pandas)
    tester = importlib.import_module("executorch.backends.cortex_m.test.tester").CortexMTester
    flows = importlib.import_module("executorch.backends.test.suite.flows.cortex_m")
    suite_flow._load_cortex_m = lambda: [flows.CORTEX_M_TEST_FLOW]
    lower, emit, compare_with_module = (
        tester.to_edge_transform_and_lower,
        tester.to_executorch,
        tester.run_method_and_compare_outputs,
    )

    def lower_or_skip(self: Any, *args: Any, **options: Any) -> Any:
        with _refusing("ExecuTorch does not lower it"):
            return lower(self, *args, **options)

    def keep_dialect(self: Any) -> Any:
        # This stage changes the graph.
        self.dialect = copy.deepcopy(self.get_artifact().exported_program()).module()
        return emit(self)

    def compare(self: Any, inputs: Any = None, **options: Any) -> None:
        inputs = inputs or next(self.generate_random_inputs())
        serialize = self.stages[StageType.SERIALIZE]
        try:
            dialect = tree_leaves(self.dialect(*copy.deepcopy(inputs)))
        except Exception:
            with _refusing("neither PyTorch nor this runtime runs it"):
                outputs = run_artifact(serialize, inputs)
            serialize.run_artifact = lambda _: outputs
            compare_with_module(self, inputs=inputs, **options)
            return
        outputs = run_artifact(serialize, inputs)
        _, step = self._calculate_reference_output(self.stages[StageType.EXPORT].artifact, copy.deepcopy(inputs))
        for output, expected in zip(outputs, dialect, strict=True):
            _check(output, expected, step or 0.0)
        serialize.run_artifact = lambda _: outputs
        try:
            compare_with_module(self, inputs=inputs, **options)
        except AssertionError as error:
            (difference,) = re.findall("Difference: (.*)", str(error))
            _FAR.append(f"{os.environ['PYTEST_CURRENT_TEST'].split()[0]}: {difference}")

    tester.to_edge_transform_and_lower = lower_or_skip
    tester.run_method_and_compare_outputs, tester.to_executorch = compare, keep_dialect


def pytest_configure(config: pytest.Config) -> None:
    """Puts our runtime in place of ExecuTorch's."""
    _skip_inspector()
    Serialize.run_artifact = run_artifact
    if _FLOW == "cortex_m":
        _add_cortex_m()
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


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Lists programs that are right and far from their module."""
    for line in _FAR:
        terminalreporter.write_line(f"FAR FROM THE MODULE {line}")
