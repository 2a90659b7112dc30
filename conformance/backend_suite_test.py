"""ExecuTorch's backend test suite (executorch/backends/test/suite/operators), its portable flow, on our runtime."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

# The least share of tests that must have run: what fails before it gets to a runtime, the suite skips.
_LEAST_RUN = 0.5


def _run(report: Path) -> str:
    shard_status = os.environ.get("TEST_SHARD_STATUS_FILE")
    if shard_status:
        Path(shard_status).touch()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "conformance.backend_suite_plugin"]
    command += ["-q", "--tb=short", f"--junitxml={report}", "--pyargs", "executorch.backends.test.suite.operators"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return process.stdout[-20000:] + process.stderr[-2000:]


def test_our_runtime_passes(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    output = _run(report)
    assert report.exists(), output
    passed, skipped, failed = [], [], []
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        problem = case.find("failure") if case.find("failure") is not None else case.find("error")
        skip = case.find("skipped")
        if problem is not None:
            failed.append(name)
        elif skip is not None:
            skipped.append(f"{name}: {(skip.get('message') or '')[:160]}")
        else:
            passed.append(name)
    print(f"{len(passed)} passed, {len(skipped)} skipped, {len(failed)} failed")
    print("\n".join(["skipped:", *skipped, "failed:", *failed]))
    assert not failed, output
    assert len(passed) >= _LEAST_RUN * (len(passed) + len(skipped)) > 0, output
