"""Measures what a farm's work is made of: actions, processor time and bytes in the cache, step by step from nothing.

    ./bazelw run //tests/remote:cost

Each step builds what it names in addition to the steps before it: the first image of a board brings the kernels for its
core, a further model only what is its own. Targets of one's own instead, a step each:

    ./bazelw run //tests/remote:cost -- //my:first_image //my:second_image

What was fetched for the workspace is used and not counted. docs/scale.md says what follows for many models.
"""

import os
import shutil
import tempfile
from pathlib import Path

from tests.checkout.checkout import Checkout, shared_repositories
from tools.quiet.tool import option_parser, run_tool

# A small model's export, a trained one's, an image with the latter, and a further model's image for the same board.
_STEPS = [
    "//models/layers:linear",
    "//models/sine",
    "//firmware:mps2_an386",
    "//tests/remote:linear_test_mps2_an386.image",
]


def processor_seconds(pid: int) -> float:
    """Returns the user and system time of all processes that `pid` has started and waited for: Bazel's actions, not
    Bazel.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def stored(folder: Path) -> int:
    """Returns the bytes of a folder's files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(checkout: Checkout, cache: Path, targets: list[str]) -> None:
    """Builds target by target and prints a line for each.

    Args:
      cache: the checkout's disk cache.
    """
    # Starting the server and looking at the machine is no action.
    checkout.query("//models/sine:sine.py")
    pid = checkout.server()
    print(f"{'step':48} {'actions':>7} {'processor':>10} {'cache':>10}", flush=True)
    for target in targets:
        seconds, size = processor_seconds(pid), stored(cache)
        build = checkout.build("build", [target], [])
        used, added = processor_seconds(pid) - seconds, stored(cache) - size
        print(f"{target:48} {sum(build.actions.values()):7} {used:8.1f} s {added / 1e6:7.2f} MB", flush=True)


def _run(targets: list[str], user: Checkout) -> None:
    folder = Path(tempfile.mkdtemp(prefix="torch_fusion_cost", dir=Path.home() / ".cache"))
    cache = folder / "cache"
    cache.mkdir()
    try:
        # Files to be shared have to be there.
        user.build("build", targets, ["--nobuild"])
        checkout = Checkout(user.root, folder / "out", [*shared_repositories(user), f"--disk_cache={cache}"])
        try:
            measure(checkout, cache, targets)
        finally:
            checkout.shutdown()
    finally:
        # Bazel makes directories that can't be written.
        for name, _, _ in os.walk(folder):
            Path(name).chmod(0o755)
        shutil.rmtree(folder)


def main() -> int:
    """Parses the command line and measures; returns the exit status."""
    parser = option_parser("cost", __doc__)
    parser.add_argument("targets", nargs="*", default=_STEPS, help="programs, images or tests, a step each")
    options = parser.parse_args()
    workspace = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if workspace is None:
        parser.error("start it with `./bazelw run //tests/remote:cost`")
    return run_tool("cost", _run, options.targets, Checkout(Path(workspace)))
