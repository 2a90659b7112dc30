"""Packages come from the right place, without traces of the machine, and failures say what happened."""

import base64
import errno
import hashlib
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from third_party.python import install
from third_party.python.install import FAILED, NOT_OFFERED, explain, main

# An address at which nothing answers.
NOWHERE = "http://127.0.0.1:9/whl/cpu"


def wheel(directory: Path, name: str, version: str, text: str = "") -> str:
    """Writes a wheel of one module and one program; returns its line of a lock."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"TEXT = {text!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    digests = {path: base64.urlsafe_b64encode(hashlib.sha256(data.encode()).digest()) for path, data in files.items()}
    lines = [f"{path},sha256={digest.decode().rstrip('=')},{len(files[path])}" for path, digest in digests.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""])
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in files.items():
            archive.writestr(member, data)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a user whose pip knows one folder of wheels and no index."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "wheels"
    folder.mkdir()
    configuration = tmp_path / "pip.conf"
    configuration.write_text(f"[global]\nindex-url = {NOWHERE}\nretries = 0\nfind-links = {folder}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """Yields the address of an index on this machine, which has what is below `tmp_path / "index"`."""
    root = tmp_path / "index"
    root.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(root))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def run(tmp_path: Path, lock: str, *arguments: str) -> int:
    (tmp_path / "lock.txt").write_text(lock)
    return main(["--lock", str(tmp_path / "lock.txt"), "--target", str(tmp_path / "site-packages"), *arguments])


def run_torch(tmp_path: Path, lock: str, index: str = NOWHERE) -> int:
    return run(tmp_path, lock, "--local", "cpu", "--local-index", index)


def test_installations_hold_the_same_bytes_wherever_they_lie(tmp_path: Path, user: Path) -> None:
    lock = wheel(user, "some", "1.0")
    contents = []
    for name in ["one", "another/place"]:
        (tmp_path / name).mkdir(parents=True)
        assert run(tmp_path / name, lock) == 0
        site = tmp_path / name / "site-packages"
        contents.append({str(path.relative_to(site)): path.read_bytes() for path in site.rglob("*") if path.is_file()})
    assert contents[0] == contents[1]
    assert "some.py" in contents[0]
    assert any(path.endswith(".pyc") for path in contents[0])
    assert not any(str(tmp_path).encode() in data for data in contents[0].values())


def test_a_package_with_another_hash_is_refused_and_nothing_is_left(tmp_path, user, capsys) -> None:
    lock = wheel(user, "some", "1.0")
    wheel(user, "some", "1.0", "changed")
    assert run(tmp_path, lock) == FAILED
    assert "DO NOT MATCH THE HASHES" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock.txt", "pip.conf", "wheels"]


def test_what_the_patterns_exclude_is_not_there(tmp_path: Path, user: Path) -> None:
    assert run(tmp_path, wheel(user, "some", "1.0"), "--exclude", "some*.dist-info") == 0
    assert sorted(path.name for path in (tmp_path / "site-packages").iterdir()) == ["__pycache__", "some.py"]


def test_what_is_rarely_imported_is_not_compiled(tmp_path: Path, user: Path) -> None:
    lock = wheel(user, "some", "1.0") + wheel(user, "other", "2.0")
    assert run(tmp_path, lock, "--no-byte-code", "so*", "absent") == 0
    assert [path.name for path in tmp_path.glob("site-packages/**/*.pyc")] == ["other.cpython-311.pyc"]


def test_one_package_of_a_lock(tmp_path: Path, user: Path) -> None:
    lock = wheel(user, "some", "1.0") + wheel(user, "other", "2.0")
    assert run(tmp_path, lock, "--only", "other", "--no-compile") == 0
    assert (tmp_path / "site-packages/other.py").exists()
    assert not (tmp_path / "site-packages/some.py").exists()


def test_the_cpu_build_of_pips_configuration_comes_first(tmp_path, user, index, capsys) -> None:
    wheel(user, "torch", "2.0")
    lock = wheel(user, "torch", "2.0+cpu", "for the CPU") + wheel(user, "some", "1.0")
    assert run_torch(tmp_path, lock, index) == 0
    assert "for the CPU" in (tmp_path / "site-packages/torch.py").read_text()
    assert (tmp_path / "site-packages/some.py").exists()
    assert capsys.readouterr().out == "torch==2.0+cpu: pip's configuration offers it.\n"


def test_the_cpu_build_of_its_own_index_comes_second(tmp_path, user, index, capsys) -> None:
    wheel(user, "torch", "2.0")
    lock = wheel(tmp_path / "index/torch", "torch", "2.0+cpu", "for the CPU") + wheel(user, "some", "1.0")
    assert run_torch(tmp_path, lock, index) == 0
    assert "for the CPU" in (tmp_path / "site-packages/torch.py").read_text()
    assert (tmp_path / "site-packages/some.py").exists()
    said = capsys.readouterr().out
    assert f"torch==2.0+cpu from {index}" in said
    assert "it has 2.0, not 2.0+cpu" in said


def test_without_a_cpu_build_another_lock_is_asked_for_with_both_reasons(tmp_path, user, capsys) -> None:
    wheel(user, "torch", "2.0")
    lock = "torch==2.0+cpu --hash=sha256:" + "0" * 64 + "\n"
    assert run_torch(tmp_path, lock) == NOT_OFFERED
    said = capsys.readouterr().err
    assert "it has 2.0, not 2.0+cpu" in said
    assert re.search(re.escape(NOWHERE) + r" can't be used \(.*[Cc]onnection", said)
    assert not (tmp_path / "site-packages").exists()


def test_an_index_that_answers_with_an_error_is_no_reason_to_stop(tmp_path, index, capsys) -> None:
    assert run_torch(tmp_path, "torch==2.0+cpu --hash=sha256:" + "0" * 64 + "\n", index) == NOT_OFFERED
    assert "404" in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_called_that(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # pip prints this when writing fails, whatever it was writing.
    program = f"import os, sys; sys.exit(f'ERROR: {{OSError({number}, os.strerror({number}))}}')"
    failing = partial(subprocess.run, [sys.executable, "-c", program], capture_output=True, text=True, check=False)
    monkeypatch.setattr(install, "_run_pip", lambda *_: failing())
    with pytest.raises(install.InstallError, match=r"Free some space"):
        install.install("some==1.0", tmp_path / "site-packages", {})


def test_other_failures_are_pips(tmp_path: Path) -> None:
    assert "could not resolve" in str(explain("ERROR: could not resolve", tmp_path))
