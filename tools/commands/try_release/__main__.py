"""Tries a release of ExecuTorch with this checkout, and prints what breaks by the name of the symbol.

    bazel run //third_party:try_release -- 1.5.1

The release is installed into a temporary folder, in front of the packages that the workspace has; nothing else changes.
Of a torch that is named, what importing it needs is installed, too: of the build for GPUs, 4 GB.
"""

import itertools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.version import InvalidVersion, Version

from tools.commands.try_release.checks import Finding
from tools.quiet.console import UserError
from tools.quiet.tool import option_parser, run_tool


def _package(text: str) -> str:
    """Returns what pip installs for a version of ExecuTorch, for `newest`, or for NAME==VERSION."""
    if text == "newest":
        return "executorch"
    name, _, version = text.rpartition("==")
    try:
        Version(version)
    except InvalidVersion as error:
        raise UserError(
            f'"{text}" is no release: give ExecuTorch\'s version such as 1.5.1, and further packages as NAME==VERSION.'
        ) from error
    return f"{name or 'executorch'}=={version}"


def explain(output: str) -> str:
    """Returns the reason among pip's messages: versions that exclude each other, or the last error."""
    details = output.partition("The conflict is caused by:\n")[2].splitlines()
    conflict = [line.strip() for line in itertools.takewhile(str.strip, details)]
    if any("(constraint)" in line for line in conflict):
        conflict.append("the constraint is one of pip's configuration, which `pip config list` shows")
    return "; ".join(conflict or [line for line in output.splitlines() if line.startswith("ERROR")][-1:] or [output])


def install(packages: list[str], folder: Path) -> None:
    """Installs packages without what they need, which the workspace has; torch with it, as other builds need others."""
    torch = [package for package in packages if package.startswith("torch==")]
    for group, option in ((torch, []), ([package for package in packages if package not in torch], ["--no-deps"])):
        if not group:
            continue
        pip = [sys.executable, "-m", "pip", "install", "--no-input", "--only-binary=:all:", *option]
        result = subprocess.run(
            [*pip, "--target", str(folder), *group],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        if result.returncode != 0:
            raise UserError(f"pip can't install {' '.join(group)}: {explain(result.stdout)}.")


def lost_headers(sources: Path, headers: Path) -> list[Finding]:
    """Returns the headers of ExecuTorch's that C++ here includes, and the release lacks."""
    wanted: dict[str, Path] = {}
    for folder in ("runtime", "kernels", "firmware"):
        for path in sorted((sources / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                for name in re.findall(
                    r"^#include <(executorch/[^>]+)>", path.read_text(encoding="utf-8"), re.MULTILINE
                ):
                    wanted.setdefault(name, path)
    return [
        Finding("header", name, f"{path.relative_to(sources)} includes it; the release has no such file")
        for name, path in wanted.items()
        if not (headers / name).exists()
    ]


def main(argv: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = option_parser("try_release", __doc__)
    parser.add_argument("release", help="version of ExecuTorch, or `newest`")
    parser.add_argument("packages", nargs="*", metavar="NAME==VERSION", help="further packages, such as torchao")
    arguments = parser.parse_args(argv)
    return run_tool("try_release", _run, [arguments.release, *arguments.packages])


def _run(wanted: list[str]) -> int:
    packages = [_package(text) for text in wanted]
    sources = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install(packages, folder)
        findings = lost_headers(sources, folder / "executorch/include")
        path = os.pathsep.join([str(folder), *sys.path])
        # This runs in another process: the present one may have imported the workspace's release.
        result = subprocess.run(
            [sys.executable, "-m", "tools.commands.try_release.checks"],
            check=False,
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
    lines = result.stdout.splitlines()
    for line in lines:
        if line.startswith("checked\t"):
            print(line.partition("\t")[2])
    findings += [Finding.from_line(line) for line in lines if line.startswith("broken\t")]
    if result.returncode != 0:
        # The packages warn of what they deprecate, which is in the way of what is broken otherwise.
        print(result.stderr, file=sys.stderr)
        findings.append(
            Finding("checks", "tools.commands.try_release.checks", "the process ended; its message is above")
        )
    for finding in findings:
        print(f"{finding.kind}: {finding.symbol}: {finding.reason}")
    print(f"{', '.join(packages)}: {len(findings)} broken" if findings else f"{', '.join(packages)}: nothing broken")
    return bool(findings)
