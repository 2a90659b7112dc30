"""Programs with VGF: run on this machine's Vulkan by the tool that has what this needs."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

# The identity of the backend.
VGF = "VgfBackend"

# This tool with what Vulkan needs, which the other one does not fetch.
_TOOL = "tools/verify/run_pte:run_pte_vgf"


def start(arguments: Sequence[str]) -> int | None:
    """Has Bazel build and start run_pte_vgf with these arguments.

    Returns:
      Its exit status; None if this process was not started by Bazel.
    """
    directory = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if directory is None:
        return None
    own = Path(directory, "bazelw")
    command = [
        str(own) if own.exists() else "bazel",
        "run",
        "--noshow_progress",
        "--show_result=0",
        "--ui_event_filters=-info",
    ]
    # This also holds if this module is another workspace's dependency.
    return subprocess.run(
        [*command, f"@torch_fusion//{_TOOL}", "--", *arguments], cwd=directory, check=False
    ).returncode
