"""Asks what is known against the packages that builds fetch; the exit status is 1 if there is anything.

Of Python's packages the package index that pip uses here is asked, as far as it has advisories; of Debian's the
security suite of the mirror that apt uses here.
"""

import argparse
import json
import lzma
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from http.client import HTTPException

from pip._internal.commands import create_command

from tools.commands.packages.packages import DEBIAN, PYPI, Package, add_locks, packages
from tools.quiet.console import printable
from tools.quiet.tool import option_parser, run_tool

# An index without the interface refuses the first packages; it is not asked for all others.
_ATTEMPTS = 3
_SECONDS = 30

# Without an answer there are OSErrors, and the others where it is something else.
_NO_ANSWER = (OSError, AttributeError, LookupError, lzma.LZMAError, RuntimeError, TypeError, ValueError)

Fetch = Callable[[str], bytes]


def fetch(address: str) -> bytes:
    """Returns what is at an address.

    Raises:
      OSError: it can't be had.
    """
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer:
            return bytes(answer.read())
    except HTTPException as error:
        raise OSError(f"{type(error).__name__} {error}") from error


def python_findings(found: Iterable[Package], index: str, fetch: Fetch) -> tuple[list[str], str]:
    """Returns the advisories that the index has of packages, and a line of what was asked."""
    # A name and a password in the address are not for messages, and urllib takes none there.
    base = re.sub("//[^/]*@", "//", index).rstrip("/").removesuffix("/simple") + "/pypi"
    findings: list[str] = []
    refused: list[str] = []
    asked = 0
    for each in found:
        if not asked and len(refused) == _ATTEMPTS:
            break
        address = f"{base}/{each.name}/{each.version.partition('+')[0]}/json"
        try:
            known = [
                (advisory["id"], ", ".join(advisory.get("fixed_in") or ["no version"]))
                for advisory in json.loads(fetch(address))["vulnerabilities"]
                if not advisory.get("withdrawn")
            ]
        except _NO_ANSWER as error:
            refused.append(f"{address}: {error}")
            continue
        asked += 1
        findings += [f"{each.name} {each.version}: {name}, fixed in {fixed}" for name, fixed in known]
    if not asked:
        return (
            [],
            f"Python packages: not asked, the index has no advisories of releases here ({(refused or ['none'])[0]})",
        )
    missing = f"; not known there: {len(refused)}, such as {refused[0]}" if refused else ""
    return findings, f"Python packages: asked of {asked}{missing}"


def newer(version: str, than: str) -> bool:
    """Returns whether a version of a Debian package is newer than another one."""
    # dpkg would take what begins with a hyphen as an option, and complains of what is no version.
    command = ["dpkg", "--compare-versions", version, "gt", than]
    return version[:1].isalnum() and subprocess.run(command, capture_output=True, check=False).returncode == 0


def debian_findings(found: list[Package], listing: str, fetch: Fetch) -> tuple[list[str], str]:
    """Returns the packages that Debian's security suite has a newer version of, and a line of what was asked.

    Args:
      found: the packages; those of Bazel are of another suite, which has no such support.
      listing: what `apt-get --print-uris update` prints.
      fetch: returns what is at an address.
    """
    addresses = [line.split("'")[1] for line in listing.splitlines() if line.startswith("'")]
    indexes = [each for each in addresses if "-security/main/binary-" in each and each.endswith(".xz")]
    fixed: dict[str, set[str]] = {}
    try:
        if not indexes:
            raise OSError("apt has no mirror of the security suite here")
        for index in indexes:
            for paragraph in lzma.decompress(fetch(index)).decode().split("\n\n"):
                fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
                if fields:
                    fixed.setdefault(fields["Package"], set()).add(fields["Version"])
    except _NO_ANSWER as error:
        return [], f"Debian's packages: not asked, {error}"
    stable = [each for each in found if each.why != ("bazel",)]
    findings = [
        f"{each.name} {each.version}: Debian's security suite has {version} (for {', '.join(each.why)})"
        for each in stable
        for version in sorted(fixed.get(each.name, ()))
        if newer(version, each.version)
    ]
    rest = len(found) - len(stable)
    return findings, f"Debian's packages: asked of {len(stable)}" + (
        f"; not asked of {rest} of the testing suite, for Bazel" if rest else ""
    )


def _run(arguments: argparse.Namespace) -> int:
    found = packages(arguments)
    # The build installs from the index in pip's configuration and environment, so the audit asks that one.
    index = create_command("download").parse_args([])[0].index_url
    try:
        apt = ["apt-get", "--print-uris", "update"]
        listing = subprocess.run(apt, capture_output=True, text=True, check=False).stdout
    except OSError:
        listing = ""
    answers = [
        python_findings([each for each in found if each.by == PYPI], index, fetch),
        debian_findings([each for each in found if each.by == DEBIAN], listing, fetch),
    ]
    findings = [finding for part, _ in answers for finding in part]
    for line in [*findings, *(line for _, line in answers), f"{len(findings)} findings"]:
        print(printable(line))
    return 1 if findings else 0


def main(argv: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = option_parser("audit", __doc__)
    add_locks(parser)
    return run_tool("audit", _run, parser.parse_args(argv))
