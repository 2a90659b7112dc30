"""Installs the packages of a lock into a directory that holds the same bytes on every machine.

Started by the repositories of repository.bzl with an interpreter and a pip, which are all there is.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

# Exit statuses: what is wrong is said on standard error; NOT_OFFERED also means that another lock may do.
FAILED = 1
NOT_OFFERED = 3

# How long an index that may be unreachable is waited for.
_PROBE_SECONDS = 5


class InstallError(Exception):
    """The packages can't be installed; the message says why and what to do."""


class NotOfferedError(InstallError):
    """No place that may be asked has the packages."""


def _run_pip(
    arguments: Sequence[str], environment: dict[str, str], temporary: Path | None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    if temporary:
        # Beside the target: there is the space, and moving from there is renaming.
        environment = environment | {"TMPDIR": str(temporary)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _last_lines(text: str, count: int) -> str:
    return "\n".join(text.strip().splitlines()[-count:])


def explain(output: str, directory: Path) -> InstallError:
    """Returns the error for what pip said when it failed to write to a directory."""
    free = shutil.disk_usage(directory).free >> 20
    if "No space left on device" in output or "Errno 28" in output or free < 50:
        return InstallError(
            # pip has removed its half of the packages by now, so the number is no longer 0.
            f"the disk of {directory} is too full for the packages: {free} MB are free without them. Free some space "
            "(what earlier builds left in Bazel's output base and in ~/.cache/torch_fusion may go), and start again."
        )
    if "Disk quota exceeded" in output or "Errno 122" in output:
        return InstallError(f"this user's disk quota for {directory} is used up. Free some space, and start again.")
    return InstallError(f"pip could not install the packages:\n{_last_lines(output, 20)}")


def pinned(lock: Path, names: Sequence[str]) -> str:
    """Returns the lock's lines of these packages, of all if there are no names."""
    lines = [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    found = {line.split("==")[0]: line for line in lines}
    missing = [name for name in names if name not in found]
    if missing:
        raise InstallError(f"{lock} has no {', '.join(missing)}; it has {', '.join(found)}.")
    return "".join(found[name] + "\n" for name in (names or found))


def install(requirements: str, target: Path, environment: dict[str, str], extra: Sequence[str] = ()) -> None:
    """Installs the lines of a lock, all of which have hashes, into `target`."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="pip-") as directory:
        lock = Path(directory) / "lock.txt"
        lock.write_text(requirements)
        result = _run_pip(
            ["install", "--quiet", "--no-deps", "--no-compile", "--no-warn-script-location", "--require-hashes"]
            + ["--only-binary=:all:", *extra, "--target", str(target), "--requirement", str(lock)],
            environment,
            Path(directory),
        )
        if result.returncode:
            raise explain(result.stdout + result.stderr, target.parent)


def offered(requirement: str, environment: dict[str, str], extra: Sequence[str] = ()) -> str | None:
    """Returns None if pip finds exactly the requirement (a line of a lock), or else what pip says."""
    name, version = requirement.split()[0].split("==")
    result = _run_pip(["-vv", "index", "versions", "--only-binary=:all:", *extra, name], environment, None)
    found = re.search(r"^Available versions: (.*)$", result.stdout, re.MULTILINE)
    if found and version in found[1].split(", "):
        return None
    if found:
        return f"it has {', '.join(found[1].split(', ')[:3])}, not {version}"
    said = result.stdout + result.stderr
    unreachable = re.search(r"Could not fetch URL \S+ (.*?)(?: - skipping)?$", said, re.MULTILINE)
    return unreachable[1] if unreachable else _last_lines(result.stderr, 1).removeprefix("ERROR: ")


def install_with_local_build(lock: Path, target: Path, local: str, index: str, environment: dict[str, str]) -> str:
    """Installs a lock whose one package with a local version label lies on few indexes.

    Args:
      lock: Pins the package as NAME==VERSION+LOCAL.
      target: Where packages go.
      local: The label, e.g. "cpu".
      index: Address of an index that has the package, tried where the user's pip has no such build.
      environment: Of pip.

    Returns:
      A sentence that says where the package is from.

    Raises:
      NotOfferedError: Neither pip's configuration nor the index has this build; nothing was installed.
    """
    lines = pinned(lock, []).splitlines(keepends=True)
    special = [line for line in lines if line.split()[0].endswith(f"+{local}")]
    if len(special) != 1:
        raise InstallError(f"{lock} has {len(special)} packages of a build +{local}; it must have one.")
    wanted = special[0].split()[0]
    configured = offered(special[0], environment)
    if configured is None:
        install("".join(lines), target, environment)
        return f"{wanted}: pip's configuration offers it."
    reasons = [f"pip's configuration has no {wanted} ({configured})"]
    # Proxies and certificates are the user's, but not the other places, which take time and have no such build.
    only = environment | {"PIP_EXTRA_INDEX_URL": index, "PIP_FIND_LINKS": str(target)}
    here = ["--index-url", index]
    missing = offered(special[0], only, [*here, "--retries", "0", "--timeout", str(_PROBE_SECONDS)])
    if missing is not None:
        reasons.append(f"{index} can't be used ({missing})")
        raise NotOfferedError("; ".join(reasons))
    install(special[0], target, only, here)
    install("".join(line for line in lines if line not in special), target, environment)
    return f"{wanted} from {index}: {reasons[0]}."


def make_equal_everywhere(target: Path, exclude: Sequence[str]) -> None:
    """Deletes what names this machine's directories, and what the patterns exclude."""
    for pattern in exclude:
        for path in target.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    # Packages' programs in Python begin with the interpreter's path here.
    scripts = target / "bin"
    if scripts.is_dir():
        for path in scripts.iterdir():
            if path.is_file() and path.read_bytes()[:2] == b"#!":
                path.unlink()
        if not any(scripts.iterdir()):
            scripts.rmdir()
    # The record has a hash of each installed file, those programs included.
    for record in target.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not line.startswith("../../bin/")))


def compile_to_byte_code(target: Path, exclude: Sequence[str]) -> None:
    """Compiles the packages' modules to byte code that is valid whatever the files' times are.

    Remote workers and caches don't keep times. Some packages have files that are no Python of this version, so the
    compiler's status says nothing. Modules below the directories that the patterns of `exclude` match are left out.
    """
    command = [sys.executable, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode=unchecked-hash"]
    rare = [re.escape(str(path.relative_to(target.parent))) for pattern in exclude for path in target.glob(pattern)]
    # By a relative path: byte code names it.
    command += ["-x", "|".join(["/(tests?|testing/_internal)/", *(f"^{path}(/|$)" for path in rare)]), target.name]
    # Modules that the compiler itself imports must not be written.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    subprocess.run(command, cwd=target.parent, env=environment, capture_output=True, check=False)


def main(argv: list[str] | None = None) -> int:
    """Command line entry point."""
    parser = argparse.ArgumentParser(prog="install", description=__doc__)
    parser.add_argument("--lock", type=Path, required=True, help="requirements with hashes")
    parser.add_argument("--target", type=Path, required=True, help="directory to make")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="packages of the lock; default: all")
    parser.add_argument("--exclude", nargs="*", default=[], metavar="GLOB", help="what isn't needed in the target")
    parser.add_argument("--local", help="local version label of a package that few indexes have, e.g. cpu")
    parser.add_argument("--local-index", help="the index that is tried for it where pip's configuration lacks it")
    parser.add_argument("--no-byte-code", nargs="*", default=[], metavar="GLOB", help="directories not to compile")
    parser.add_argument("--no-compile", action="store_true", help="make no byte code at all")
    arguments = parser.parse_args(argv)
    target = arguments.target.absolute()
    environment = dict(os.environ)
    taken = ""
    try:
        target.mkdir()
        if arguments.local:
            taken = install_with_local_build(
                arguments.lock, target, arguments.local, arguments.local_index, environment
            )
        else:
            install(pinned(arguments.lock, arguments.only), target, environment)
        make_equal_everywhere(target, arguments.exclude)
        if not arguments.no_compile:
            compile_to_byte_code(target, arguments.no_byte_code)
    except NotOfferedError as error:
        shutil.rmtree(target, ignore_errors=True)
        print(error, file=sys.stderr)
        return NOT_OFFERED
    except (InstallError, OSError) as error:
        shutil.rmtree(target, ignore_errors=True)
        print(explain(str(error), target.parent) if isinstance(error, OSError) else error, file=sys.stderr)
        return FAILED
    print(taken)
    return 0


if __name__ == "__main__":
    sys.exit(main())
