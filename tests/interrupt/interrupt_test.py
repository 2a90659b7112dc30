"""Ctrl-C while a command's modules are imported, and when it begins to work: one line, status 130, no traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_START = Path("tools/quiet/start.py").absolute()
_COMMANDS = (
    "benchmark",
    "compile_commands",
    "copy",
    "explore",
    "flash",
    "gdb",
    "infer",
    "monitor",
    "netron",
    "new_board",
    "new_model",
    "on_board",
    "plot",
    "profile",
    "prove",
    "update",
    "verify",
)
_MODULES = [f"tools.commands.{command}" for command in _COMMANDS] + [
    "tools.commands.explore.build",
    "boardsim",
    "docs.rules_page",
    "docs.site.serve",
    "runtime.fuzz",
    "third_party.python.update_lock",
    "tools.artifacts.board.table",
    "tools.commands.packages.audit",
    "tools.commands.packages.packages",
    "tools.verify.emulate",
    "tools.verify.reproducibility.hashes",
    "tools.verify.run_pte",
]

# Python runs a module of this name before any program. It sends the signal when a module of some name is imported.
_INTERRUPTER = """
import os, signal, sys

def interrupt(event, arguments):
    if event == "import" and arguments[0] == os.environ["INTERRUPT_AT"]:
        os.environ["INTERRUPT_AT"] = ""
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(interrupt)
"""

# The command's own package, what tells its errors, and what argparse imports for the help when all else is there.
_MOMENTS = ("{package}", "tools.quiet.console", "shutil")


@pytest.mark.parametrize("moment", _MOMENTS)
@pytest.mark.parametrize("module", _MODULES)
def test_an_interrupt_is_one_line(module: str, moment: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_INTERRUPTER)
    package = module if Path(module.replace(".", "/")).is_dir() else module.rpartition(".")[0]
    result = subprocess.run(
        [sys.executable, str(_START), "command", module, "--help"],
        env=os.environ
        | {"INTERRUPT_AT": moment.format(package=package), "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        # The launcher does so, until there is something that handles it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "\ncommand: interrupted\n")
