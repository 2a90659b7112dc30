"""Tests which licences debian.bzl's script reads of a package, though the file of copyright itself is excluded."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

_MIT = " Permission is hereby granted, free of charge, to any person obtaining a copy\n"
_GPL = "The full text is in `/usr/share/common-licenses/GPL-3'.\n"


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="this machine has no dpkg-deb")
@pytest.mark.parametrize(
    ("copyright", "licences"),
    [
        ("Files: *\nLicense: Zlib \n\nLicense:\n\nLicense: MIT\n" + _GPL, "MIT|Zlib"),
        (_GPL + _MIT, "GPL-3|MIT"),
        ("Free for all.\n", ""),
        (None, ""),
    ],
)
def test_licences_of_a_package(tmp_path: Path, copyright: str | None, licences: str) -> None:
    rules = Path(os.environ["RULES"]).read_text(encoding="utf-8")
    (script,) = re.findall(r'"_debian/unpack\.sh", """\\\n(.*?)"""', rules, re.DOTALL)
    package = tmp_path / "package"
    for name, text in {
        "DEBIAN/control": "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: none\nDescription: none\n",
        "usr/share/doc/a/copyright": copyright,
        "usr/lib/a": "content",
    }.items():
        if text is not None:
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_text(text)
    work = tmp_path / "repository/_debian"
    (work / "archives").mkdir(parents=True)
    (work / "exclude").write_text("./usr/share/doc\n")
    subprocess.run(["dpkg-deb", "--build", package, work / "archives/a_1_all.deb"], check=True, capture_output=True)
    subprocess.run(["sh", "-c", script.replace("\\\\", "\\")], cwd=work.parent, check=True)
    assert (work / "licences").read_text() == f"a_1_all.deb {licences}\n"
    assert [path.name for path in (work.parent / "usr").rglob("*") if path.is_file()] == ["a"]
