"""Lists what was taken of packages that the build doesn't pin itself, with versions and hashes.

A build with TORCH_FUSION_TAKEN set to a file of this is held to it: it takes exactly that, or fails.
"""

import argparse
import os
import sys
from pathlib import Path


def bazel_packages(environment: dict[str, str]) -> Path:
    """Returns where ./bazelw keeps the list of Debian's packages that its Bazel is made of."""
    home = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME', '')}/.cache"
    return Path(environment.get("BAZELW_CACHE") or f"{home}/torch_fusion") / "bazel-2" / "packages.txt"


def taken_files(environment: dict[str, str]) -> dict[str, Path]:
    """Returns the lists of what was taken, by the repositories that they are of."""
    # Repositories' files are in directories of their canonical names, such as _main~third_party~qemu.
    files = {
        path.parent.name.replace("+", "~").split("~")[-1]: path
        for path in map(Path, environment.get("TAKEN", "").split())
    }
    packages = bazel_packages(environment)
    return files | ({"bazel": packages} if packages.exists() else {})


def listing(files: dict[str, Path]) -> str:
    """Returns the lines of each file, headed by the name of what they are of."""
    lines = [f"{name} {line}" for name, path in sorted(files.items()) for line in path.read_text().splitlines()]
    return "".join(line + "\n" for line in lines)


def main(argv: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="taken", description=__doc__)
    parser.add_argument("--output", type=Path, help="file to write instead of standard output")
    arguments = parser.parse_args(argv)
    text = listing(taken_files(dict(os.environ)))
    if arguments.output:
        directory = os.environ.get("BUILD_WORKING_DIRECTORY", ".")
        Path(directory, arguments.output).write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
