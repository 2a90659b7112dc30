"""./bazelw takes the Bazel it should, and says what to do when it can't, on machines made of stand-in programs."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

# The scripts use these of a base system; nothing here fetches or installs.
BASE = ["awk", "bash", "cat", "df", "dirname", "env", "find", "flock", "grep", "head", "ls", "mkdir", "mv", "perl"]
BASE += ["readlink", "rm", "sed", "sh", "sha256sum", "sleep", "tail", "touch", "tr"]

# apt's data on the stand-in machine; the real keyring need not exist there.
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

Program = Callable[[str, str], None]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Returns a directory with the programs of a base system (bin), a home, and a checkout whose path has a space."""
    for directory in ["bin", "home", "a checkout"]:
        (tmp_path / directory).mkdir()
    for name in BASE:
        found = shutil.which(name, path="/usr/bin:/bin")
        if found:
            (tmp_path / "bin" / name).symlink_to(found)
    script = Path(os.environ["BAZELW_SCRIPT"])
    for file in [script, script.parent / "toolchains/bazel/install_debian_bazel.sh"]:
        copy = tmp_path / "a checkout" / file.relative_to(script.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    return tmp_path


@pytest.fixture
def program(machine: Path) -> Program:
    """Adds a program, given as lines of shell, to the machine."""

    def add(name: str, lines: str) -> None:
        path = machine / "bin" / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)

    return add


@pytest.fixture
def debian(program: Program) -> None:
    """Makes the machine a Debian one, without a network."""
    for name in ["dpkg", "dpkg-deb", "apt-cache", "apt-config"]:
        program(name, "echo amd64")
    program("apt-get", apt_get("http://mirror/debian"))


def apt_get(*mirrors: str, update: str = "echo 'E: no route'; exit 100") -> str:
    """Returns the lines of an apt-get whose sources are these mirrors, and which does no more than `update`."""
    addresses = [f"'{mirror}/dists/some/main/binary-amd64/Packages.xz' mirror_Packages 0" for mirror in mirrors]
    listing = "\n".join(f'echo "{address}"' for address in addresses)
    return f'case "$*" in *--print-uris*)\n{listing}\n;;\n*) {update};; esac'


def bazelw(machine: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the checkout's bazelw on the machine."""
    environment = {"PATH": str(machine / "bin"), "HOME": str(machine / "home")} | environment
    command = [machine / "a checkout" / "bazelw", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def refused(machine: Path, *texts: str, **environment: str) -> str:
    """Returns what bazelw says of a build that it refuses, which has these texts."""
    result = bazelw(machine, "build", **environment)
    assert result.returncode == 2
    for text in texts:
        assert text in result.stderr
    return result.stderr


@pytest.mark.parametrize("version", ["7.7.0", "7.7.1", "7.10.2", "8.0.0", "8.4.2", "9.0.1", "7.7.1- (@non-git)"])
def test_a_supported_bazel_is_used(machine: Path, program: Program, version: str) -> None:
    program("bazel", f'[ "$1" = --version ] && echo "bazel {version}" || echo "ran: $*"')
    result = bazelw(machine, "build", "//a b")
    assert (result.returncode, result.stdout, result.stderr) == (0, "ran: build //a b\n", "")


@pytest.mark.parametrize("version", ["6.5.0", "7.1.0", "7.6.2", "10.0.0", "70.7.1"])
def test_an_unsupported_bazel_is_refused_by_name(machine: Path, program: Program, version: str) -> None:
    program("bazel", f'echo "bazel {version}"')
    refused(machine, f'bin/bazel is "bazel {version}"', "bazelisk", "BAZELW=debian")


def test_a_bazel_that_fails_is_refused_with_what_it_said(machine: Path, program: Program) -> None:
    program("bazel", "echo 'needs Bazel 7.7.1, which is not installed' >&2; exit 1")
    refused(machine, "which is not installed")


def test_bazelisk_comes_first_and_needs_no_check(machine: Path, program: Program) -> None:
    program("bazelisk", 'echo "bazelisk: $* by $BAZELW_PROGRAM"')
    program("bazel", 'echo "bazel 5.0.0"')
    assert bazelw(machine, "info").stdout == f"bazelisk: info by {machine}/a checkout/bazelw\n"


def test_the_exit_status_is_bazels(machine: Path, program: Program) -> None:
    program("bazelisk", "exit 3")
    assert bazelw(machine, "test").returncode == 3


def test_system_without_bazel(machine: Path) -> None:
    refused(machine, "neither bazelisk nor bazel is on the PATH", BAZELW="system")


def test_a_misspelt_choice_is_named(machine: Path) -> None:
    refused(machine, '"debain"', BAZELW="debain")


def test_off_debian_it_says_how_to_get_bazelisk(machine: Path) -> None:
    refused(machine, "not a Debian-family machine", "bazelisk")


needs_keyring = pytest.mark.skipif(not Path(KEYRING).exists(), reason=f"this machine has no {KEYRING}")


@needs_keyring
@pytest.mark.usefixtures("debian")
def test_without_a_network_it_says_so(machine: Path) -> None:
    refused(machine, "could not be downloaded from http://mirror/debian.", "network")


@needs_keyring
@pytest.mark.usefixtures("debian")
def test_a_clock_that_is_behind_is_named(machine: Path, program: Program) -> None:
    early = "E: Release file for http://mirror/forky/InRelease is not valid yet (invalid for another 334d)."
    program("apt-get", apt_get("http://mirror/debian", update=f"echo '{early}'; exit 100"))
    refused(machine, "this machine's clock says 2", "Set the clock")


@needs_keyring
@pytest.mark.usefixtures("debian")
@pytest.mark.parametrize(
    "mirrors",
    [
        ["http://other/tools", "http://security/debian-security", "http://mirror/debian"],
        ["http://security/debian-security", "http://mirror/of/our/own"],
    ],
)
def test_the_mirror_is_the_one_that_apt_would_use(machine: Path, program: Program, mirrors: list[str]) -> None:
    program("apt-get", apt_get(*mirrors))
    assert f"could not be downloaded from {mirrors[-1]}" in bazelw(machine, "build").stderr


@needs_keyring
@pytest.mark.usefixtures("debian")
def test_a_mirror_of_something_else_is_named(machine: Path, program: Program) -> None:
    said = "E: The repository 'http://archive/other forky Release' does not have a Release file."
    program("apt-get", apt_get("http://archive/other", update=f'echo "{said}"; exit 100'))
    refused(machine, "http://archive/other has no suite forky", "bazelisk")


@pytest.mark.usefixtures("debian")
def test_on_ubuntu_it_says_how_to_get_bazelisk(machine: Path, program: Program) -> None:
    program("apt-get", apt_get("http://archive/ubuntu", "http://security/ubuntu"))
    stderr = refused(machine, "apt's source http://archive/ubuntu has none that will do", "bazelisk")
    # Debian's keys would not help.
    assert "keyring" not in stderr


@needs_keyring
@pytest.mark.usefixtures("debian")
def test_an_expired_index_is_taken_only_after_saying_so(machine: Path, program: Program) -> None:
    expired = "echo 'E: Release file for http://mirror/forky/InRelease is expired (invalid since 16d).'; exit 100"
    sources = f"{machine}/home/.cache/torch_fusion/bazel-2/incomplete/apt/sources.list"
    seen = machine / "seen"
    program("apt-get", apt_get("http://mirror/debian", update=f'cat "{sources}" >>"{seen}"; {expired}'))
    result = bazelw(machine, "build")
    assert "on http://mirror/debian is expired (invalid since 16d); taking it" in result.stderr
    options = [line.partition("]")[0] for line in seen.read_text().splitlines()]
    assert ["check-valid-until=no" in line for line in options] == [False, True]


@needs_keyring
@pytest.mark.usefixtures("debian")
def test_a_list_of_packages_that_cannot_be_read_is_named(machine: Path, program: Program) -> None:
    program("apt-get", apt_get("http://mirror/debian", update='touch "${APT_CONFIG%/*}/lists/mirror_Packages"'))
    refused(machine, "missing.txt, which can't be read", TORCH_FUSION_TAKEN=str(machine / "missing.txt"))


@needs_keyring
@pytest.mark.usefixtures("debian")
def test_packages_that_the_mirror_has_no_more_are_named_with_the_way_on(machine: Path, program: Program) -> None:
    program("apt-get", apt_get("http://mirror/debian", update='touch "${APT_CONFIG%/*}/lists/mirror_Packages"'))
    program("apt-cache", "case $1 in show) echo \"E: Version '1.0' for 'some' was not found\" >&2; exit 100;; esac")
    (machine / "taken.txt").write_text("qemu other=3.0 99\nbazel some=1.0 88\n")
    refused(
        machine,
        "Version '1.0' for 'some' was not found",
        "TORCH_FUSION_DEBIAN_SNAPSHOT",
        TORCH_FUSION_TAKEN=str(machine / "taken.txt"),
    )


@needs_keyring
@pytest.mark.usefixtures("debian")
def test_a_full_disk_is_named_with_what_is_needed(machine: Path, program: Program) -> None:
    program("df", "echo Avail; echo 17")
    refused(machine, "17 MB free", "BAZELW_CACHE")


@needs_keyring
@pytest.mark.usefixtures("debian")
def test_what_an_interrupted_installation_left_is_removed(machine: Path) -> None:
    left = machine / "home/.cache/torch_fusion/bazel-2"
    (left / "root/usr").mkdir(parents=True)
    (left / "incomplete").mkdir()
    bazelw(machine, "build")
    assert sorted(path.name for path in left.iterdir()) == ["lock"]


@pytest.mark.usefixtures("debian")
@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"HOME": "/home/jürgen"}, "set BAZELW_CACHE"),
        ({"HOME": "/home/jürgen", "BAZELW_CACHE": "/cache"}, "--output_user_root=DIRECTORY"),
        ({"XDG_CACHE_HOME": "/кэш"}, "set BAZELW_CACHE"),
    ],
)
def test_a_path_that_bazels_server_cannot_handle_is_named_before_it_starts(machine, environment, says) -> None:
    result = bazelw(machine, "build", **environment)
    assert result.returncode == 2
    assert "characters other than ASCII" in result.stderr
    assert says.lower() in result.stderr.lower()
    assert "installing" not in result.stderr


@pytest.mark.usefixtures("debian")
def test_a_checkout_that_bazels_server_cannot_handle_is_named(machine: Path) -> None:
    workspace = machine / "größe"
    workspace.mkdir()
    command = [machine / "a checkout/bazelw", "build"]
    environment = {"PATH": str(machine / "bin"), "HOME": str(machine / "home")}
    result = subprocess.run(command, cwd=workspace, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "größe, has characters other than ASCII" in result.stderr


def test_an_installed_debian_bazel_is_used(machine: Path) -> None:
    install = machine / "home/.cache/torch_fusion/bazel-2"
    (install / "root/usr/bin").mkdir(parents=True)
    (install / "complete").touch()
    installed = install / "root/usr/bin/bazel"
    installed.write_text('#!/bin/sh\nfor argument; do last=$argument; done\necho "$BAZELW: $last"\n')
    installed.chmod(0o755)
    assert bazelw(machine, "version").stdout == "debian: version\n"


@pytest.mark.parametrize("chosen", ["", "build --disk_cache=/cache/of/mine\n", "build --disk_cache=\n"])
def test_checkouts_share_a_cache_of_actions_unless_the_user_chose_one(machine: Path, chosen: str) -> None:
    cache = machine / "home/.cache/torch_fusion"
    installed = cache / "bazel-2/root/usr/bin/bazel"
    installed.parent.mkdir(parents=True)
    (cache / "bazel-2/complete").touch()
    installed.write_text('#!/bin/sh\nfor argument; do echo "$argument"; done\n')
    installed.chmod(0o755)
    (machine / "home/.bazelrc").write_text(chosen)
    arguments = bazelw(machine, "build", "//a b").stdout.splitlines()
    assert arguments[-2:] == ["build", "//a b"]
    assert (f"--bazelrc={cache}/actions.bazelrc" in arguments) == (not chosen)
    if not chosen:
        assert f'"--disk_cache={cache}/actions"' in (cache / "actions.bazelrc").read_text()


@pytest.mark.parametrize("failed", [True, False])
def test_damaged_files_of_the_cache_of_actions_are_deleted_when_bazel_met_one(machine: Path, failed: bool) -> None:
    cache = machine / "home/.cache/torch_fusion"
    installed = cache / "bazel-2/root/usr/bin/bazel"
    installed.parent.mkdir(parents=True)
    (cache / "bazel-2/complete").touch()
    installed.write_text("#!/bin/sh\n")
    installed.chmod(0o755)
    output = machine / "output/execroot/_main/bazel-out"
    output.mkdir(parents=True)
    (machine / "a checkout/bazel-out").symlink_to(output)
    said = "ERROR: Expected digest 'a/1' does not match received digest 'b/1'." if failed else "INFO: Build completed"
    (machine / "output/command.log").write_text(said + "\n")
    whole, damaged = (cache / "actions/cas" / name[:2] / name for name in (hashlib.sha256(b"x").hexdigest(), "0" * 64))
    for path in whole, damaged:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    result = bazelw(machine, "build")
    assert (result.returncode, whole.exists(), damaged.exists()) == (0, True, not failed)
    assert ("damaged files" in result.stderr) == failed


@pytest.mark.parametrize(
    ("environment", "locale"),
    [
        ({}, "C.UTF-8"),
        ({"LANG": "C"}, "C.UTF-8"),
        ({"LANG": "de_DE.UTF-8"}, ""),
        ({"LC_ALL": "POSIX", "LANG": "C.utf8"}, "C.UTF-8"),
    ],
)
def test_debian_bazel_opens_files_of_any_name(machine: Path, environment: dict[str, str], locale: str) -> None:
    install = machine / "home/.cache/torch_fusion/bazel-2"
    (install / "root/usr/bin").mkdir(parents=True)
    (install / "complete").touch()
    installed = install / "root/usr/bin/bazel"
    installed.write_text('#!/bin/sh\necho "$LC_ALL"\n')
    installed.chmod(0o755)
    assert bazelw(machine, "version", **environment).stdout == locale + "\n"


@needs_keyring
@pytest.mark.usefixtures("debian")
def test_a_second_bazelw_waits_for_the_first_and_finds_its_work_done(machine: Path) -> None:
    install = machine / "home/.cache/torch_fusion/bazel-2"
    (install / "root/usr/bin").mkdir(parents=True)
    installed = install / "root/usr/bin/bazel"
    installed.write_text("#!/bin/sh\necho started\n")
    installed.chmod(0o755)
    first = f'exec 9>"{install}/lock"; flock 9; echo held; sleep 1; touch "{install}/complete"'
    with subprocess.Popen(["bash", "-c", first], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        result = bazelw(machine, "build")
    assert "waiting for another bazelw" in result.stderr
    assert result.stdout == "started\n"


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("./bazelw ru", ["run"]),
        ("./bazelw run //fir", ["//firmware:", "//firmware/"]),
        ("./bazelw run //firmware/bo", ["//firmware/boards:"]),
        ("./bazelw run //no", []),
        # A word begins behind a colon.
        ("./bazelw run //firmware:fl", ["flash", "flash_all"]),
        ("./bazelw run //firmware:x", ["x$(touch a)"]),
    ],
)
def test_labels_are_completed(tmp_path: Path, line: str, completed: list[str]) -> None:
    (tmp_path / "firmware/boards").mkdir(parents=True)
    (tmp_path / "notes").mkdir()
    for package in ("firmware", "firmware/boards"):
        (tmp_path / package / "BUILD.bazel").touch()
    bazelw = tmp_path / "bazelw"
    bazelw.write_text(
        """#!/bin/sh
[ "$4" = //firmware:all ] && printf '//firmware:%s\\n' flash flash_all emulate 'x$(touch a)'
"""
    )
    bazelw.chmod(0o755)
    script = """
source "$1"
COMP_LINE=$2 COMP_POINT=${#2}
words=($2)
COMP_CWORD=$((${#words[@]} - 1))
_bazelw ./bazelw
printf '%s\\n' "${COMPREPLY[@]}"
"""
    command = ["bash", "-c", script, "bash", str(Path(os.environ["COMPLETION"]).absolute()), line]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [name for name in result.stdout.splitlines() if name] == completed
    assert not (tmp_path / "a").exists()
