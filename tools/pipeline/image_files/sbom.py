"""NAME.spdx.json: what is in an image, by whom and under which licence, and what built it from what.

SPDX 2.3 (ISO/IEC 5962), https://spdx.github.io/spdx-spec/v2.3. The same image has the same bytes of it, so its time of
creation is a constant.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tools.artifacts.elf_image.elf_image import opened_elf
from tools.artifacts.manifest.manifest import Manifest
from tools.pipeline.report.image import Piece

_CREATED = "1980-01-01T00:00:00Z"
_WHOLE = "SPDXRef-Whole"
_RUNTIME_LIBRARY = "GPL-3.0-or-later WITH GCC-exception-3.1"
_NEWLIB = "LicenseRef-newlib"

# A line of taken.txt: a Debian package with its version, or the address of Arm's archive, sha256 and licences.
_TAKEN = re.compile(r"^(?:(?P<package>[^= ]+)=(?P<version>\S+)|(?P<url>\S+)) (?P<sha256>[0-9a-f]{64})\b", re.MULTILINE)


@dataclass(frozen=True)
class Component:
    """Something that an image consists of.

    Attributes:
      name: what it is called.
      licence: an SPDX expression, `NOASSERTION` of what this build does not know.
      files: what of it is in the image, for the reader.
      version: empty if it has none.
      sha256: of what it was taken from, empty if it is source.
      comment: for the reader, in place of the files.
    """

    name: str
    licence: str
    files: tuple[str, ...] = ()
    version: str = ""
    sha256: str = ""
    comment: str = ""


# Archives, start files and headers of the toolchain's libraries, by the library's name, licence and Debian package.
_TOOLCHAIN = {
    ("newlib", _NEWLIB, "libnewlib-arm-none-eabi"): re.compile(r"lib(c|g|m|nosys|rdimon)(_nano)?\.a$|/crt0\.o$"),
    ("libgcc", _RUNTIME_LIBRARY, "gcc-arm-none-eabi"): re.compile(r"/libgcc/|libgcc\.a$|/crt(i|n|begin|end)\.o$"),
    # Code of intrinsics, such as arm_mve.h's.
    ("gcc", _RUNTIME_LIBRARY, "gcc-arm-none-eabi"): re.compile(r"/lib/gcc/arm-none-eabi/[\d.]+/include/\w+\.h$"),
    ("libstdc++", _RUNTIME_LIBRARY, "libstdc++-arm-none-eabi-dev"): re.compile(
        r"lib(stdc|supc)\+\+(_nano)?\.a$|arm_gnu_\w+/.*/c\+\+/"
    ),
}
# From a Debian package to the licence of what images have of it.
TOOLCHAIN_LICENCES = {package: licence for _, licence, package in _TOOLCHAIN}
_EXECUTORCH = re.compile(r"third_party[~+]executorch/")
# An updatable_firmware has it; third_party/extensions.bzl names the package, whose sources state the licence.
_LIBSODIUM = re.compile(r"npm_sodium/")
_OTHERS = re.compile(r"(?:^|/)external/(?P<repository>[^/]+)/")
# A compiler's name, version and flags in debug information, without a flag that differs by source.
_PRODUCER = re.compile(r"(?P<name>\w+(?: [^\d\s-]\S*)*) (?P<version>[^-]*[^-\s])(?: (?P<flags>-.*))?")
_BY_SOURCE = re.compile(r" -frandom-seed=\S+")
_OURS = re.compile(r"(?:^|/)external/[^/]*torch_fusion[^/]*/")


def components(
    pieces: Iterable[Piece], files: Set[str], programs: Sequence[Path], taken: str, executorch: str
) -> list[Component]:
    """Lists the components of an image: the archives and sources of its code, and its programs.

    Args:
      pieces: read_map() of the image.
      files: the source files that its debug information names.
      programs: the .pte files in it.
      taken: the text of the toolchain's taken.txt.
      executorch: the version of executorch.
    """
    # The debug information names the sources of an object's code; the C library has none.
    sources = files | {archive for piece in pieces for archive, found, _ in [piece.source.partition("(")] if found}
    found = []
    for (name, licence, package), pattern in _TOOLCHAIN.items():
        if files := {source for source in sources if pattern.search(source)}:
            sources -= files
            lines = [line for line in _TAKEN.finditer(taken) if line["package"] == package or line["url"]]
            version, sha256 = (lines[0]["version"] or lines[0]["url"], lines[0]["sha256"]) if lines else ("", "")
            found.append(Component(name, licence, _names(files), version, sha256))
    if headers := {source for source in sources if _EXECUTORCH.search(source)}:
        sources -= headers
        found.append(Component("executorch", "BSD-3-Clause", _names(headers), executorch))
    if files := {source for source in sources if _LIBSODIUM.search(source)}:
        sources -= files
        found.append(Component("libsodium", "ISC", _names(files), "1.0.16"))
    found.append(Component("torch_fusion", "Apache-2.0"))
    # In another workspace, sources that are not ours belong to that workspace or to its other dependencies.
    if any(map(_OURS.search, sources)):
        others = defaultdict(set)
        for source in sources:
            if not _OURS.search(source) and not source.startswith("bazel-out/"):
                repository = _OTHERS.search(source)
                others[repository["repository"] if repository else "application"].add(source)
        found += [Component(name, "NOASSERTION", _names(files)) for name, files in sorted(others.items())]
    return found + [file_component(program) for program in programs]


def tools(elf: Path, taken: str, manifests: Iterable[Manifest]) -> list[Component]:
    """Lists what built an image: the compilers that its debug information names, with all their flags, the packages of
    the toolchain, and those that exported its programs.

    Args:
      elf: the image.
      taken: the text of the toolchain's taken.txt.
      manifests: those of its programs.
    """
    flags: dict[tuple[str, str], set[str]] = defaultdict(set)
    with opened_elf(elf) as image:
        for unit in image.get_dwarf_info().iter_CUs() if image.has_dwarf_info() else ():
            producer = unit.get_top_DIE().attributes.get("DW_AT_producer")
            if producer and (match := _PRODUCER.fullmatch(_BY_SOURCE.sub("", producer.value.decode()))):
                flags[match["name"], match["version"]].add(match["flags"] or "")
    found = [
        Component(name, "NOASSERTION", version=version, comment="; ".join(sorted(filter(None, each))))
        for (name, version), each in sorted(flags.items())
    ]
    for line in _TAKEN.finditer(taken):
        name, version = (line["package"], line["version"]) if line["package"] else (_names([line["url"]])[0], "")
        found.append(Component(name, "NOASSERTION", version=version, sha256=line["sha256"]))
    return found + exporters(manifests)


def exporters(manifests: Iterable[Manifest]) -> list[Component]:
    """Lists the packages that exported the programs of manifests."""
    found = sorted({entry for manifest in manifests for entry in manifest.versions.items()})
    return [Component(name, "NOASSERTION", version=version) for name, version in found]


def file_component(path: Path) -> Component:
    """Describes a file by its name and hash."""
    return Component(path.name, "NOASSERTION", sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def _names(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({PurePosixPath(path).name for path in paths}))


def spdx_json(whole: Component, digest: str, related: Mapping[str, Sequence[Component]]) -> str:
    """Returns the text of an SPDX document.

    Args:
      whole: what it is about.
      digest: SHA-256 that tells it from documents of other content.
      related: components by the relationship that the whole has to them, in SPDX's terms; one that ends in `_OF` is
        that of the component to the whole.
    """
    packages = [_package(_WHOLE, whole)]
    relationships = [_relationship("SPDXRef-DOCUMENT", "DESCRIBES", _WHOLE)]
    for kind, components in related.items():
        for component in components:
            identifier = f"SPDXRef-Component-{len(packages) - 1}"
            packages.append(_package(identifier, component))
            ends = (identifier, _WHOLE) if kind.endswith("_OF") else (_WHOLE, identifier)
            relationships.append(_relationship(ends[0], kind, ends[1]))
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": PurePosixPath(whole.name).stem,
        "documentNamespace": f"urn:sha256:{digest}",
        "creationInfo": {"created": _CREATED, "creators": ["Tool: torch_fusion"]},
        "packages": packages,
        "relationships": relationships,
        "hasExtractedLicensingInfos": [
            {
                "licenseId": _NEWLIB,
                "name": "newlib's licences",
                "extractedText": "Several permissive licences, which COPYING.NEWLIB of its sources has.",
            }
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _package(identifier: str, component: Component) -> dict[str, Any]:
    package: dict[str, Any] = {
        "SPDXID": identifier,
        "name": component.name,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": component.licence,
        "licenseDeclared": component.licence,
        "copyrightText": "NOASSERTION",
    }
    if component.version:
        package["versionInfo"] = component.version
    if component.sha256:
        package["checksums"] = [{"algorithm": "SHA256", "checksumValue": component.sha256}]
    if component.files or component.comment:
        package["comment"] = component.comment or "In the image: " + ", ".join(component.files)
    return package


def _relationship(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
