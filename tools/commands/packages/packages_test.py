"""The list of what builds fetch has each package once; an audit finds advisories, or says what was not asked."""

import json
import lzma
from email.message import Message
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from tools.commands.packages import packages
from tools.commands.packages.audit import debian_findings, newer, python_findings
from tools.commands.packages.packages import DEBIAN, PYPI, Package, licence, merged, python_packages, taken_packages

_DIGEST = "0123456789abcdef" * 4
_OLD = Package("libssl3", "3.0.20-1~deb12u2", "NOASSERTION", "", DEBIAN, ("python3",), (_DIGEST,))
_BAZEL = Package("libssl3", "3.6.0-1", "NOASSERTION", "", DEBIAN, ("bazel",), (_DIGEST,))
_PINNED = Package("jinja2", "3.1.2", "BSD-3-Clause", "", PYPI, ("pypi_torch",), (_DIGEST,))
_APT = (
    "'http://mirror/debian/dists/bookworm/main/binary-amd64/Packages.xz' a 0 \n"
    "'http://mirror/debian-security/dists/bookworm-security/main/binary-amd64/Packages.xz' b 0 \n"
)


def distribution(folder: Path, name: str, version: str, *lines: str) -> Distribution:
    """Returns a package that is installed, with lines of its metadata."""
    (folder / name).mkdir()
    text = "\n".join(["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *lines])
    (folder / name / "METADATA").write_text(text + "\n")
    return Distribution.at(folder / name)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"License-Expression": "MIT OR Apache-2.0"}, ("MIT OR Apache-2.0", "")),
        ({"License": "bsd-3-clause"}, ("BSD-3-Clause", "")),
        ({"License": "BSD", "Classifier": "License :: OSI Approved :: BSD License"}, ("NOASSERTION", "BSD License")),
        ({"License": "Free for all\nand so on"}, ("NOASSERTION", "Free for all")),
        ({}, ("NOASSERTION", "")),
    ],
)
def test_a_licence_is_an_spdx_expression_or_what_the_package_says(fields, expected) -> None:
    metadata = Message()
    for key, value in fields.items():
        metadata[key] = value
    assert licence(metadata) == expected


def test_a_python_package_has_licence_hashes_and_what_needs_it(tmp_path: Path) -> None:
    installed = [
        distribution(tmp_path, "torch", "2.13.0+cpu", "Requires-Dist: Jinja2", "Requires-Dist: x; extra == 'all'"),
        distribution(tmp_path, "Jinja2", "3.1.2", "License: MIT"),
    ]
    lock = f"# head\n\njinja2==3.1.2 --hash=sha256:{_DIGEST}\ntorch==2.13.0+cpu --hash=sha256:{_DIGEST}\nx==1\n"
    found = python_packages({"torch": lock}, {"torch": "-r tools.in\ntorch==2.13.0\n#alone x==1\n"}, installed)
    assert [(each.name, each.licence, each.why, each.sha256) for each in found] == [
        ("jinja2", "MIT", ("pypi_torch for torch",), (_DIGEST,)),
        ("torch", "NOASSERTION", ("pypi_torch",), (_DIGEST,)),
        ("x", "NOASSERTION", ("pypi_torch",), ()),
    ]


@pytest.mark.parametrize(
    ("line", "name", "version", "by", "stated"),
    [
        (f"zlib1g=1:1.2 {_DIGEST} Zlib, GPL-2+", "zlib1g", "1:1.2", DEBIAN, "Zlib, GPL-2+"),
        (f"libc6=2.36-9 {_DIGEST}", "libc6", "2.36-9", DEBIAN, "free by Debian's guidelines"),
        (f"libbinutils=2.40-2 {_DIGEST}", "libbinutils", "2.40-2", DEBIAN, ""),
        (f"https://example.org/a?b=c {_DIGEST}", "https://example.org/a?b=c", "", packages.NPM, ""),
        (
            "/usr/bin/qemu-system-arm of this machine, 7.2",
            "/usr/bin/qemu-system-arm of this machine, 7.2",
            "",
            "this machine",
            "",
        ),
    ],
)
def test_what_a_repository_took(line: str, name: str, version: str, by: str, stated: str) -> None:
    (found,) = taken_packages("some", line + "\n")
    assert (found.name, found.version, found.by, found.stated, found.why) == (name, version, by, stated, ("some",))


def test_each_package_is_listed_once() -> None:
    line = f"zlib1g=1:1.2 {_DIGEST}"
    (found,) = merged([*taken_packages("qemu", line), *taken_packages("cmake", line)])
    assert found.why == ("qemu", "cmake")


def test_the_forms_have_each_package(tmp_path, capsys, monkeypatch) -> None:
    lock, taken = tmp_path / "requirements/torch.txt", tmp_path / "_main~third_party~qemu/taken.txt"
    for path, text in [
        (lock, f"jinja2==0.0.1 --hash=sha256:{_DIGEST}\n"),
        (taken, f"libnewlib-arm-none-eabi=3 {_DIGEST}\n"),
    ]:
        path.parent.mkdir()
        path.write_text(text)
    monkeypatch.setenv("TAKEN", str(taken))
    monkeypatch.setenv("BAZELW_CACHE", str(tmp_path))
    npm = json.dumps({"npm_d3": {"package": "d3", "version": "7", "sha256": _DIGEST}})

    def printed(*form: str) -> str:
        assert packages.main(["--lock", str(lock), "--npm", npm, *form]) == 0
        return capsys.readouterr().out

    expected = {("jinja2", "0.0.1"), ("libnewlib-arm-none-eabi", "3"), ("d3", "7")}
    head, *rows = printed().splitlines()
    assert head.split()[:3] == ["name", "version", "licence"]
    assert {tuple(row.split()[:2]) for row in rows} == expected and all(row.endswith(_DIGEST) for row in rows)
    assert {(each["name"], each["version"]) for each in json.loads(printed("--json"))} == expected
    document = json.loads(printed("--spdx"))
    components = {each["name"]: each for each in document["packages"]}
    assert {(name, each.get("versionInfo")) for name, each in components.items()} == expected | {("torch_fusion", None)}
    assert components["libnewlib-arm-none-eabi"]["licenseDeclared"] == "LicenseRef-newlib"
    assert components["d3"]["checksums"] == [{"algorithm": "SHA256", "checksumValue": _DIGEST}]


def answer(text: bytes | None) -> bytes:
    """Returns the text, or fails as an address does at which there is nothing."""
    if text is None:
        raise OSError("HTTP Error 404: Not Found")
    return text


@pytest.mark.parametrize(
    ("advisories", "findings", "asked"),
    [
        ('{"vulnerabilities": []}', 0, "asked of 1"),
        ('{"vulnerabilities": [{"id": "PYSEC-1", "fixed_in": ["3.1.3"]}]}', 1, "asked of 1"),
        ('{"vulnerabilities": [{"id": "PYSEC-1", "withdrawn": "2026-01-01"}]}', 0, "asked of 1"),
        ('{"info": {}}', 0, "not asked"),
        ("<html>", 0, "not asked"),
        (None, 0, "http://index/pypi/jinja2/3.1.2/json: HTTP Error 404"),
    ],
)
def test_advisories_of_the_index(advisories: str | None, findings: int, asked: str) -> None:
    body = advisories and advisories.encode()
    found, said = python_findings([_PINNED], "http://me:secret@index/simple/", lambda _: answer(body))  # type: ignore[arg-type]
    assert asked in said and len(found) == findings
    assert all("jinja2 3.1.2: PYSEC-1, fixed in 3.1.3" in each for each in found)


def test_an_index_without_advisories_is_not_asked_for_every_package() -> None:
    asked = []
    python_findings([_PINNED] * 9, "http://index/simple", lambda address: answer(asked.append(address)))  # type: ignore[func-returns-value]
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("listing", "version", "findings", "asked"),
    [
        (_APT, "3.0.22-1~deb12u2", 1, "asked of 1; not asked of 1"),
        (_APT, "3.0.20-1~deb12u2", 0, "asked of 1; not asked of 1"),
        (_APT, None, 0, "not asked, HTTP Error 404"),
        ("", "", 0, "not asked, apt has no mirror"),
    ],
)
def test_what_the_security_suite_of_debian_has(listing: str, version: str | None, findings: int, asked: str) -> None:
    index = lzma.compress(f"Package: libssl3\nVersion: {version}\nDescription: x\n y: z\n\n".encode())
    assert not newer("--help", "1")
    found, said = debian_findings([_OLD, _BAZEL], listing, lambda _: answer(version and index))  # type: ignore[arg-type]
    assert asked in said and len(found) == findings
    assert all("libssl3 3.0.20-1~deb12u2" in each and f"has {version} (for python3)" in each for each in found)
