"""The lock holds what the requirements need, and its making keeps what users added."""

import importlib.metadata
import re
from pathlib import Path
from typing import Any

import pytest
from packaging.tags import parse_tag
from packaging.utils import canonicalize_name

from third_party.python.update_lock import (
    MACHINES,
    PYTHONS,
    LockError,
    format_lock,
    hashes_elsewhere,
    included,
    machine_of,
    main,
    needed,
    previous_hashes,
    sets,
    update_release,
)

REQUIREMENTS = Path("third_party/python/requirements")


def entry(name: str, version: str, digest: str, *dependencies: str, kind: str = "-py3-none-any.whl") -> dict[str, Any]:
    """Returns an entry of pip's installation report."""
    address = f"https://index/{name}-{version.replace('+', '%2B')}{kind}"
    return {
        "metadata": {"name": name, "version": version, "requires_dist": list(dependencies)},
        "download_info": {"url": address, "archive_info": {"hashes": {"sha256": digest}}},
    }


ENVIRONMENTS = {f"{machine} {python}" for machine in MACHINES for python in PYTHONS}

INSTALLED = {
    "torch": entry("torch", "2.0+cpu", "aa", "sympy>=1", 'triton; extra == "gpu"', 'winlib; sys_platform == "win32"'),
    "sympy": entry("sympy", "1.5", "bb", "mpmath"),
    "mpmath": entry("mpmath", "1.3", "cc"),
    "pandas": entry("pandas", "3.0", "dd", "tzdata"),
    "tzdata": entry("tzdata", "2026", "ee"),
    "triton": entry("triton", "3.1", "ff"),
}


def test_dependencies_are_followed_and_markers_obeyed() -> None:
    assert needed("torch==2.0\n", INSTALLED) == ["mpmath", "sympy", "torch"]


def test_extras_bring_their_dependencies() -> None:
    assert "triton" in needed("torch[gpu]\n", INSTALLED)


def test_what_another_machine_or_python_needs_is_needed() -> None:
    markers = 'sympy; platform_machine == "aarch64"', 'pandas; python_version > "3.12"'
    installed = INSTALLED | {"torch": entry("torch", "2.0", "aa", *markers)}
    assert needed("torch", installed) == ["mpmath", "pandas", "sympy", "torch", "tzdata"]


def test_an_exclusion_leaves_out_what_only_it_needs() -> None:
    assert needed("torch\npandas\n#without pandas\n#without mpmath\n", INSTALLED) == ["sympy", "torch"]


def test_an_unknown_package_is_named() -> None:
    with pytest.raises(LockError, match="nosuch"):
        needed("nosuch\n", INSTALLED)


def test_a_set_has_what_the_sets_it_includes_lack() -> None:
    texts = {"tools": "mpmath\n", "torch": "-r tools.in\ntorch==2.0\n"}
    assert sets(texts, INSTALLED) == {"tools": ["mpmath"], "torch": ["sympy", "torch"]}


def test_a_package_of_which_files_are_read_is_alone() -> None:
    text = "-r tools.in\nsympy\n#alone pandas==3.0\n#alone mpmath==1.3\n"
    assert sets({"tools": "mpmath\n", "trained": text}, INSTALLED) == {
        "tools": ["mpmath"],
        "trained": ["pandas", "sympy"],
    }


def test_the_lock_keeps_hashes_of_the_same_version() -> None:
    previous = previous_hashes("# note\ntorch==2.0+cpu --hash=sha256:99\nsympy==1.4 --hash=sha256:88\n")
    lock = format_lock(["sympy", "torch"], INSTALLED, previous, "Packages", "torch.in")
    assert "torch==2.0+cpu --hash=sha256:99 --hash=sha256:aa\n" in lock
    assert "sympy==1.5 --hash=sha256:bb\n" in lock


def test_a_package_without_a_wheel_is_refused() -> None:
    with pytest.raises(LockError, match=r"cobs.*tar\.gz.*no wheel"):
        hashes_elsewhere([entry("cobs", "1.2", "aa", kind=".tar.gz")], {})


def test_files_for_other_machines_and_pythons_are_asked_for(monkeypatch) -> None:
    glibc = "manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    entries = [
        entry("tqdm", "4.1", "own"),
        entry("numpy", "2.1", "own", kind=f"-cp311-cp311-{glibc}"),
        entry("regex", "1.0", "own", kind=f"-cp39-abi3-{glibc}"),
        entry("atheris", "3.0", "own", kind=f"-cp311-cp311-{glibc}"),
        entry("torch", "2.0+cpu", "own", kind=f"-cp311-cp311-{glibc}"),
    ]

    def resolve(arguments: list[str]) -> dict[str, dict[str, Any]]:
        (python,) = (word.partition("=")[2] for word in arguments if word.startswith("--python-version="))
        machine = "aarch64" if "--platform=manylinux_2_28_aarch64" in arguments else "x86_64"
        pins = [word.split("==") for word in arguments if "==" in word]
        return {name: entry(name, version, f"{machine} {python}") for name, version in pins}

    monkeypatch.setattr("third_party.python.update_lock.resolve", resolve)
    assert hashes_elsewhere(entries, machine_of("#only x86_64 atheris\n")) == {
        "numpy==2.1": {f"sha256:{each}" for each in ENVIRONMENTS - {"x86_64 3.11"}},
        "regex==1.0": {f"sha256:aarch64 {python}" for python in PYTHONS},
        "atheris==3.0": {"sha256:x86_64 3.12", "sha256:x86_64 3.13"},
    }


def test_packages_of_machine_code_have_a_file_for_each_machine_and_python() -> None:
    locked, only = {}, {}
    for path in REQUIREMENTS.rglob("*.txt"):
        locked |= previous_hashes(path.read_text())
        only |= machine_of(path.with_name(path.stem.removesuffix("_public") + ".in").read_text())
    few = {}
    for each in importlib.metadata.distributions():
        pin = f"{canonicalize_name(each.name)}=={each.version}"
        lines = re.findall("^Tag: (.*)$", each.read_text("WHEEL") or "", re.MULTILINE)
        tags = {tag for line in lines for tag in parse_tag(line)}
        if pin not in locked or any(tag.platform == "any" for tag in tags):
            continue
        files = 1 if canonicalize_name(each.name) in only else len(MACHINES)
        files *= 1 if any(tag.abi in ("abi3", "none") for tag in tags) else len(PYTHONS)
        if len(locked[pin]) < files:
            few[pin] = files
    assert few == {}


@pytest.mark.parametrize("requirements", sorted(REQUIREMENTS.rglob("*.in")), ids=str)
def test_every_requirement_is_locked_with_hashes(requirements: Path) -> None:
    locked = previous_hashes(requirements.with_suffix(".txt").read_text())
    assert all(digests for digests in locked.values())
    text = requirements.read_text()
    for file in included(text):
        locked |= previous_hashes((requirements.parent / file).with_suffix(".txt").read_text())
    wanted = {canonicalize_name(line.split("==")[0]) for line in text.splitlines() if line and line[0] not in "#-"}
    assert wanted <= {pin.split("==")[0] for pin in locked}


def test_a_release_has_locks_of_its_own_sets_that_fit_the_default_s_others(tmp_path, monkeypatch) -> None:
    (tmp_path / "torch.in").write_text("sympy\n")
    (tmp_path / "torch.txt").write_text("sympy==1.5 --hash=sha256:bb\nmpmath==1.3 --hash=sha256:cc\n")
    (tmp_path / "export.in").write_text("-r torch.in\npandas==2.0\n")
    release = tmp_path / "9.9"
    release.mkdir()
    (release / "export.in").write_text("-r ../torch.in\npandas==3.0\n")

    def resolve(arguments: list[str]) -> dict[str, dict[str, Any]]:
        assert arguments[:3] == ["--requirement", str(release / "export.in"), "--constraint"]
        assert Path(arguments[3]).read_text().splitlines() == ["sympy==1.5", "mpmath==1.3"]
        return INSTALLED

    monkeypatch.setattr("third_party.python.update_lock.resolve", resolve)
    assert update_release(release) == {release / "export.txt": 2}
    assert list(previous_hashes((release / "export.txt").read_text())) == ["pandas==3.0", "tzdata==2026"]


def test_the_public_lock_of_torch_differs_in_torch_and_what_it_adds() -> None:
    public, local = (previous_hashes((REQUIREMENTS / name).read_text()) for name in ("torch_public.txt", "torch.txt"))
    (build,) = [pin for pin in local if pin.endswith("+cpu")]
    assert set(local) - set(public) == {build}
    assert build.removesuffix("+cpu") in public


def test_without_a_workspace_the_command_says_how_to_start_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "bazelw run //third_party/python:update_lock" in capsys.readouterr().err


def test_no_lock_is_written_unless_all_can_be_made(tmp_path, monkeypatch, capsys) -> None:
    installed = {"tqdm": entry("tqdm", "4.1", "aa"), "cobs": entry("cobs", "1.2", "bb", kind=".tar.gz")}
    monkeypatch.setattr("third_party.python.update_lock.resolve", lambda _: installed)
    (tmp_path / "a.in").write_text("tqdm\n")
    (tmp_path / "b.in").write_text("cobs\n")
    (tmp_path / "a.txt").write_text("old\n")
    assert main(["--directory", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("update_lock: error: pip takes cobs from ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.in", "a.txt", "b.in"]
    assert (tmp_path / "a.txt").read_text() == "old\n"
