"""Compares the sha256 of exported programs with recorded ones, or records them."""

import argparse
import hashlib
import os
import sys
from pathlib import Path

from tools.quiet.files import replace_text
from tools.quiet.tool import run_tool

_HEADER = "# sha256 of the exported programs, by target and core. Written by: {}\n"


def compute(programs: list[str]) -> dict[tuple[str, str], str]:
    """Hashes by target and core of `programs`: target, core, file, target, core, file, ..."""
    triples = zip(programs[::3], programs[1::3], programs[2::3], strict=True)
    return {(target, core): hashlib.sha256(Path(file).read_bytes()).hexdigest() for target, core, file in triples}


def write(hashes: dict[tuple[str, str], str], command: str) -> str:
    """Returns the text of the file; `command` writes it."""
    lines = [f"{digest} {core} {target}\n" for (target, core), digest in sorted(hashes.items())]
    return _HEADER.format(command) + "".join(lines)


def read(text: str) -> dict[tuple[str, str], str]:
    """Parses the result of write(); malformed lines are omitted, and so differ from any program."""
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {(row[2], row[1]): row[0] for row in rows if len(row) == 3}


def differences(recorded: dict[tuple[str, str], str], computed: dict[tuple[str, str], str]) -> list[str]:
    """Returns a line per program that is not as recorded."""
    lines = []
    for key in sorted(recorded.keys() | computed.keys()):
        target, core = key
        if key not in computed:
            lines.append(f"{target} for {core} is recorded and not built")
        elif key not in recorded:
            lines.append(f"{target} for {core} is not recorded")
        elif recorded[key] != computed[key]:
            lines.append(f"{target} for {core} has sha256 {computed[key][:16]}..., recorded is {recorded[key][:16]}...")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="hashes", description=__doc__)
    parser.add_argument("--recorded", type=Path, required=True, help="the file of hashes")
    parser.add_argument("--update", type=Path, help="write the file here instead, by its path in the workspace")
    parser.add_argument("--update-command", required=True, help="what the user runs to record")
    parser.add_argument("programs", nargs="+", help="target, core, file, target, core, file, ...")
    return run_tool("hashes", _run, parser.parse_args(arguments))


def _run(options: argparse.Namespace) -> int:
    computed = compute(options.programs)
    if options.update:
        path = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."), options.update)
        replace_text(path, write(computed, options.update_command))
        print(f"{path}: {len(computed)} programs")
        return 0
    found = differences(read(options.recorded.read_text(encoding="utf-8")), computed)
    for line in found:
        print(line, file=sys.stderr)
    if found:
        print(
            f"If a change to the model or the export is the reason: {options.update_command}\n"
            "If not, an action depends on this machine: docs/models.md, The same bytes everywhere.",
            file=sys.stderr,
        )
    else:
        print(f"PASS: {len(computed)} programs are as recorded")
    return 1 if found else 0
