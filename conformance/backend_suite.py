"""Runs ExecuTorch's backend test suite (executorch/backends/test/suite/operators), its portable flow, on our runtime.

As a program it runs all of the suite and writes its result into docs/conformance.md. SUITE_RUNNER is the runner of this
machine: //firmware:runner_host.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.op_db import update_document
from tools.quiet.console import UserError
from tools.quiet.tool import run_tool

_DOCUMENT = "docs/conformance.md"
_TABLE = "bazel run //conformance:backend_suite_report"


@dataclass(frozen=True)
class Outcome:
    """The result of a test of the suite.

    Attributes:
      module: the suite's file without test_ and .py: mostly an operator's name.
      test: the test's name, with its parameters.
      result: passed, skipped or failed.
      reason: the reason of a skip or failure: the first line of the error that caused the others.
    """

    module: str
    test: str
    result: str
    reason: str


def run_suite(runner: Path, every: int) -> list[Outcome]:
    """Runs every n-th test of the suite.

    Args:
      runner: //firmware:runner_host.

    Raises:
      UserError: pytest ended without any result; the text has its output.
    """
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.jsonl"
        settings = {"SUITE_EVERY": str(every), "SUITE_REPORT": str(report), "SUITE_RUNNER": str(runner.absolute())}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "conformance.backend_suite_plugin"]
        command += ["-q", "--tb=no", "--disable-warnings", "--pyargs", "executorch.backends.test.suite.operators"]
        process = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
        if not report.exists():
            output = f"{process.stdout[-3000:]}{process.stderr[-3000:]}"
            raise UserError(f"ExecuTorch's test suite does not start (exit code {process.returncode}):\n{output}")
        return [Outcome(**json.loads(line)) for line in report.read_text(encoding="utf-8").splitlines()]


def make_table(outcomes: Sequence[Outcome]) -> str:
    """Results as Markdown: counts, and what was skipped or failed, by its reason."""
    counts = [sum(outcome.result == result for outcome in outcomes) for result in ("passed", "skipped", "failed")]
    lines = [f"{counts[0]} tests passed, {counts[1]} skipped, {counts[2]} failed."]
    for result in ("failed", "skipped"):
        reasons: dict[str, list[str]] = {}
        for outcome in outcomes:
            if outcome.result == result:
                # A file's tests of one kind are mostly skipped together.
                name = outcome.module if result == "skipped" else f"{outcome.module}::{outcome.test}"
                reasons.setdefault(outcome.reason, []).append(f"`{name}`")
        if reasons:
            lines += ["", f"{result.capitalize()}:", ""]
            lines += [
                f"- {reason}: {len(names)} of {', '.join(dict.fromkeys(names))}" for reason, names in reasons.items()
            ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="backend_suite", description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="run every n-th test, and write nothing unless it is 1")
    return run_tool("backend_suite", _run, parser.parse_args(argv))


def _run(arguments: argparse.Namespace) -> int:
    outcomes = run_suite(Path(os.environ["SUITE_RUNNER"]), arguments.every)
    table = make_table(outcomes)
    if arguments.every == 1:
        update_document(Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."), _DOCUMENT), _TABLE, table)
    for module in dict.fromkeys(outcome.module for outcome in outcomes):
        results = [outcome.result for outcome in outcomes if outcome.module == module]
        print(module, *(f"{results.count(result)} {result}" for result in dict.fromkeys(results)))
    print(table)
    return int(any(outcome.result == "failed" for outcome in outcomes))
