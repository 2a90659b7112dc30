"""Collects the programs that ExecuTorch's own Cortex-M tests would run, instead of running them.

    python -m conformance.cortex_m.collect FOLDER SAMPLE SUITE...

runs one of SAMPLE of the tests named `test_implementation*` of the wheel's `backends/cortex_m/test` (each SUITE is a
file or folder below it) up to where they would start upstream's runner, and writes FOLDER/cases.pickle: lists of Case,
of Skipped tests, and of those that failed before they had a program.
"""

import contextlib
import copy
import importlib.util
import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conformance.cortex_m.cases import Case, Skipped
from conformance.cortex_m.upstream import stages, target_config, tester

# The cores that a test's program is lowered for. DSP code is the same on Cortex-M4 and M33, which the Cortex-M passes
# do not tell apart either.
TARGETS = ("cortex-m4", "cortex-m55")


@dataclass
class Collector:
    """A pytest plugin that keeps what the tests would have run; of `sample` tests one."""

    sample: int = 1
    cases: list[Case] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    failed: list[Skipped] = field(default_factory=list)
    test: str = ""
    is_expected_to_fail: bool = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = items[:: self.sample]

    @pytest.hookimpl
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.test = _short(item.nodeid)
        self.is_expected_to_fail = item.get_closest_marker("xfail") is not None

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            kind = "expected to fail" if hasattr(report, "wasxfail") else "skipped"
            reason = report.wasxfail if hasattr(report, "wasxfail") else _reason(report.longrepr)
            self.skipped.append(Skipped(_short(report.nodeid), f"{kind} by the test itself: {reason}"))
        elif report.failed and "XPASS" not in str(report.longrepr):
            # A test that upstream expects to fail, on its runner, gives a case like any other.
            text = str(report.longrepr).strip().splitlines()
            self.failed.append(Skipped(_short(report.nodeid), text[-1] if text else ""))

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            missing = [line for line in str(report.longrepr).splitlines() if "ModuleNotFoundError" in line]
            kept = self.skipped if missing else self.failed
            kept.append(Skipped(_short(report.nodeid), missing[-1][2:].strip() if missing else str(report.longrepr)))


def _short(nodeid: str) -> str:
    return nodeid.rpartition("cortex_m/test/")[2]


def _reason(longrepr: Any) -> str:
    return longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)


def suite_folder() -> Path:
    """Returns where the wheel's tests are."""
    found = importlib.util.find_spec("executorch.backends.cortex_m.test.tester")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


def _as_list(outputs: Any) -> list[np.ndarray]:
    return [output.detach().contiguous().numpy() for output in torch.utils._pytree.tree_leaves(outputs)]


@contextlib.contextmanager
def _collecting(collector: Collector) -> Iterator[None]:
    original = tester.CortexMTester.test_implementation

    def collect(self: Any, qtol: int = 0, atol: float = 1e-3, calibration_samples: Any = None) -> None:
        stage = None if calibration_samples is None else tester.CortexMQuantize(calibration_samples=calibration_samples)
        self.quantize(stage)
        self.export()
        exported = self.stages[stages.StageType.EXPORT].artifact
        reference, scale = self._calculate_reference_output(exported, self.example_inputs)
        self.to_edge()
        edge = self.stages[stages.StageType.TO_EDGE].artifact
        programs, dialect = {}, {}
        for target in TARGETS:
            passes = tester.CortexMRunPasses(target_config.CortexMTargetConfig.from_target_string(target))
            passes.run(copy.deepcopy(edge), self.example_inputs)
            dialect[target] = _as_list(passes.run_artifact(self.example_inputs))
            final = stages.ToExecutorch()
            final.run(passes.artifact)
            programs[target] = final.artifact.buffer
        leaves = torch.utils._pytree.tree_leaves(self.example_inputs)
        collector.cases.append(
            Case(
                collector.test,
                programs,
                [leaf.contiguous().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf) for leaf in leaves],
                _as_list(reference),
                atol + (scale or 0.0) * qtol,
                dialect,
                collector.is_expected_to_fail,
            )
        )

    tester.CortexMTester.test_implementation = collect
    try:
        yield
    finally:
        tester.CortexMTester.test_implementation = original


def collect(suites: list[str], sample: int) -> Collector:
    """Runs one of `sample` tests of the suites up to its program."""
    torch.set_num_threads(1)
    collector = Collector(sample)
    folder = suite_folder()
    with _collecting(collector):
        pytest.main(
            [
                *("-q", "-p", "no:cacheprovider", "-p", "no:logging", "--continue-on-collection-errors"),
                *("-k", "implementation", "--rootdir", str(folder), *(str(folder / suite) for suite in suites)),
            ],
            plugins=[collector],
        )
    return collector


def main() -> int:
    folder, sample, *suites = sys.argv[1:]
    collector = collect(suites, int(sample))
    content = (collector.cases, collector.skipped, collector.failed)
    (Path(folder) / "cases.pickle").write_bytes(pickle.dumps(content))
    return 0


if __name__ == "__main__":
    sys.exit(main())
