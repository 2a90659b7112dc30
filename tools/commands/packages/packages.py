"""Lists the packages that builds fetch: name, version, licence, who vouches for the bytes, what asks for it, and hash.

They come from the locks of Python packages, the pins of npm packages, and what repositories took of Debian's packages.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from email.message import Message
from pathlib import Path
from typing import cast

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from third_party.python.update_lock import alone, previous_hashes, required
from third_party.taken import taken_files
from tools.pipeline.image_files.sbom import TOOLCHAIN_LICENCES, Component, spdx_json
from tools.quiet.table import text_table
from tools.quiet.tool import option_parser, run_tool

DEBIAN, PYPI, NPM = "Debian's archive keys", "hash in the lock", "hash in the pin"
_UNKNOWN = "NOASSERTION"

# With packages whose file of copyright is in another one, gcc-12-base or binutils-common, which no build fetches.
_KNOWN = TOOLCHAIN_LICENCES | {
    "binutils-x86-64-linux-gnu": "GPL-3.0-or-later",
    "libbinutils": "GPL-3.0-or-later",
    "libgcc-12-dev": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libstdc++-12-dev": "GPL-3.0-or-later WITH GCC-exception-3.1",
}

# Characters of a licence in the table.
_WORDS = 40


@dataclass(frozen=True)
class Package:
    """A package that builds fetch.

    Attributes:
      name: what its source calls it, or the address of an archive.
      version: empty if the name tells it.
      licence: an SPDX expression, `NOASSERTION` if none is known.
      stated: what the package says of its licence in other words.
      by: who or what vouches for the bytes.
      why: the repositories that have it, each with the packages that need it there.
      sha256: of the files that are accepted; none of what the machine has.
    """

    name: str
    version: str
    licence: str
    stated: str
    by: str
    why: tuple[str, ...]
    sha256: tuple[str, ...]


def licence(metadata: Message) -> tuple[str, str]:
    """Returns the SPDX expression that a Python package's metadata has, and what they say otherwise, in a few words."""
    words = metadata.get("License-Expression") or metadata.get("License") or ""
    try:
        return canonicalize_license_expression(words), ""
    except InvalidLicenseExpression:
        classifiers = [text for text in metadata.get_all("Classifier", []) if text.startswith("License ::")]
        return _UNKNOWN, (classifiers or [words.partition("\n")[0]])[0].rpartition(" :: ")[2]


def python_packages(
    locks: Mapping[str, str], requirements: Mapping[str, str], installed: Iterable[importlib.metadata.Distribution]
) -> list[Package]:
    """Returns the packages of locks.

    Args:
      locks: text by set.
      requirements: text of the sets' files of requirements.
      installed: packages that have been fetched, for their licences and what they need.
    """
    metadata, needed_by = {}, defaultdict(set)
    for each in installed:
        metadata[canonicalize_name(each.name), each.version] = cast(Message, each.metadata)
        for requirement in map(Requirement, each.requires or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed_by[canonicalize_name(requirement.name)].add(canonicalize_name(each.name))
    found = []
    for name, lock in locks.items():
        text = requirements.get(name, "")
        wanted = {canonicalize_name(each.name) for each in [*required(text), *map(Requirement, alone(text))]}
        for pin, hashes in previous_hashes(lock).items():
            package, version = pin.split("==")
            known = metadata.get((canonicalize_name(package), version))
            users = [] if package in wanted else sorted(needed_by[canonicalize_name(package)])
            found.append(
                Package(
                    package,
                    version,
                    *(licence(known) if known else (_UNKNOWN, "")),
                    PYPI,
                    (f"pypi_{name}" + (f" for {', '.join(users)}" if users else ""),),
                    tuple(digest.removeprefix("sha256:") for digest in hashes),
                )
            )
    return found


def taken_packages(repository: str, text: str) -> list[Package]:
    """Returns what a repository took: Debian's packages, an archive by its address, or a program of this machine."""
    found = []
    for line in text.splitlines():
        what, digest, *words = line.split(" ", 2) if " " in line else (line, "")
        name, _, version = what.partition("=")
        if not re.fullmatch("[0-9a-f]{64}", digest):
            found.append(Package(line, "", _UNKNOWN, "", "this machine", (repository,), ()))
        elif "://" in what:
            found.append(Package(what, "", _UNKNOWN, "", NPM, (repository,), (digest,)))
        else:
            known = _KNOWN.get(name, _UNKNOWN)
            stated = "" if known != _UNKNOWN else words[0] if words else "free by Debian's guidelines"
            found.append(Package(name, version, known, stated, DEBIAN, (repository,), (digest,)))
    return found


def merged(packages: Iterable[Package]) -> list[Package]:
    """Returns each package once, with all that asks for it, sorted by name."""
    why: dict[Package, list[str]] = defaultdict(list)
    for each in packages:
        why[Package(**asdict(each) | {"why": ()})] += each.why
    return sorted(
        (Package(**asdict(each) | {"why": tuple(dict.fromkeys(names))}) for each, names in why.items()),
        key=lambda each: (each.by, each.name, each.version),
    )


def add_locks(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name what packages() reads."""
    parser.add_argument("--lock", type=Path, nargs="+", required=True, help="locks and their files of requirements")
    parser.add_argument("--npm", required=True, help="JSON of npm packages: repository to package, version, sha256")


def packages(arguments: argparse.Namespace) -> list[Package]:
    """Returns all packages that builds fetch, from the options of add_locks() and the environment."""
    texts = {}
    for path in arguments.lock:
        texts[path.as_posix().rpartition("requirements/")[2]] = path.read_text()
    locks, requirements = (
        {name.removesuffix(end): text for name, text in texts.items() if name.endswith(end)} for end in (".txt", ".in")
    )
    found = python_packages(locks, requirements, importlib.metadata.distributions())
    for repository, path in taken_files(dict(os.environ)).items():
        found += taken_packages(repository, path.read_text())
    for repository, pin in json.loads(arguments.npm).items():
        found.append(Package(pin["package"], pin["version"], _UNKNOWN, "", NPM, (repository,), (pin["sha256"],)))
    return merged(found)


def _spdx(found: Iterable[Package]) -> str:
    components = [
        Component(
            each.name,
            each.licence,
            version=each.version,
            sha256=each.sha256[0] if len(each.sha256) == 1 else "",
            comment="; ".join(filter(None, [f"For {', '.join(each.why)}", each.stated and f"licence: {each.stated}"])),
        )
        for each in found
    ]
    digest = hashlib.sha256(repr(components).encode()).hexdigest()
    return spdx_json(Component("torch_fusion", "Apache-2.0"), digest, {"DEPENDS_ON": components})


def _run(arguments: argparse.Namespace) -> None:
    found = packages(arguments)
    if arguments.json:
        print(json.dumps([asdict(each) for each in found], indent=2))
    elif arguments.spdx:
        sys.stdout.write(_spdx(found))
    else:
        rows = [
            (
                each.name,
                each.version,
                (each.stated or each.licence)[:_WORDS],
                each.by,
                "; ".join(each.why),
                " ".join(each.sha256),
            )
            for each in found
        ]
        print("\n".join(text_table([("name", "version", "licence", "vouched by", "for", "sha256"), *rows], range(6))))


def main(argv: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = option_parser("list", __doc__)
    add_locks(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--spdx", action="store_true", help="print an SPDX 2.3 document, JSON")
    return run_tool("list", _run, parser.parse_args(argv))
