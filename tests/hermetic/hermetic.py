"""Finds what would bind an action to the machine it runs on."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A base Linux has these at these very paths.
BASE_LINUX = {"/bin/sh", "/bin/bash", "/dev/null", "/bin", "/usr/bin", "/usr/local/bin"}

# Bazel names an action's working directory so, whatever it is.
WORKING_DIRECTORY = "/proc/self/cwd"

# Repositories that stand for the machine's own tools, or for what compiles for it: an image needs neither.
HOST_REPOSITORIES = re.compile(r"(?:^|/)external/[^/]*\b(?:local_config_cc|host_clang|host_compiler|local_jdk)\b")

# An absolute path at the start of a word, or after what introduces one in an option: -I/usr/include, --path=/tmp, a:/b.
_ABSOLUTE_PATH = re.compile(r"(?:^|[=:,;'\"\s(]|^-[A-Za-z]{1,8})(/[A-Za-z0-9_.~+@-][^\s:,;'\"=)]*)")


@dataclass(frozen=True)
class Action:
    """One action: what it runs, in which environment, on which files (paths from the execution root)."""

    owner: str
    mnemonic: str
    argv: list[str]
    env: dict[str, str]
    inputs: list[str]


def parse(description: str) -> Action:
    """Returns the action that one line of an `action_graph` describes."""
    fields: dict[str, Any] = json.loads(description)
    return Action(**fields)


def read(path: Path) -> list[Action]:
    """Returns the actions in the file of an `action_graph`."""
    return [parse(line) for line in path.read_text().splitlines() if line]


def absolute_paths(text: str) -> list[str]:
    """Returns the absolute paths named in an argument or in an environment variable's value."""
    return [path for path in _ABSOLUTE_PATH.findall(text) if path not in BASE_LINUX and path != WORKING_DIRECTORY]


def violations(action: Action) -> Iterator[str]:
    """Yields what binds the action to this machine, each as a sentence."""
    what = f"{action.mnemonic} of {action.owner}"
    program = action.argv[0]
    if program not in BASE_LINUX and program not in action.inputs:
        yield f"{what} runs {program}, which is not one of its inputs"
    for argument in action.argv[1:]:
        for path in absolute_paths(argument):
            yield f"{what} names {path} (argument {argument!r})"
    for name, value in action.env.items():
        for path in absolute_paths(value):
            yield f"{what} names {path} (environment variable {name})"
    for path in action.inputs:
        if path.startswith("/") or HOST_REPOSITORIES.search(path):
            yield f"{what} reads {path} of this machine"
