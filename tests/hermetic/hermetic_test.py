"""No action below a firmware image depends on the machine, so images can be built on remote workers."""

import os
from pathlib import Path

import pytest

from tests.hermetic.hermetic import Action, absolute_paths, read, violations


@pytest.fixture(scope="module")
def actions() -> list[Action]:
    return read(Path(os.environ["ACTIONS"]))


def test_the_graph_holds_the_whole_build(actions: list[Action]) -> None:
    # The other tests must not pass because the graph is empty.
    mnemonics = {action.mnemonic for action in actions}
    assert {"CppCompile", "CppLink", "CompileProgram", "TorchExport"} <= mnemonics


def test_no_action_depends_on_this_machine(actions: list[Action]) -> None:
    found = [violation for action in actions for violation in violations(action)]
    assert found == []


def test_the_first_command_fetches_the_recorded_repositories() -> None:
    fetched, recorded = (set(Path(os.environ[name]).read_text().split()) for name in ("FETCHED", "RECORDED"))
    assert fetched == recorded, (
        f"The README's first command fetches {sorted(fetched - recorded)} more and "
        f"{sorted(recorded - fetched)} less than is recorded. "
        "If that is meant: ./bazelw build //tests/hermetic:fetched && "
        "cp -f bazel-bin/tests/hermetic/fetched.txt tests/hermetic/first_command.txt"
    )


@pytest.mark.parametrize(
    ("argument", "paths"),
    [
        ("-I/usr/include", ["/usr/include"]),
        ("--sysroot=/opt/arm", ["/opt/arm"]),
        ("-Wl,-T,/home/me/a.ld", ["/home/me/a.ld"]),
        ("/usr/bin/python3", ["/usr/bin/python3"]),
        ("-iquote", []),
        ("external/arm/usr/include", []),
        ("-ffile-prefix-map=/proc/self/cwd=.", []),
        ("a/b", []),
        ("//tools/pipeline/export", []),
        ("exec /bin/sh -c '/usr/bin/cat x'", ["/usr/bin/cat"]),
    ],
)
def test_absolute_paths(argument: str, paths: list[str]) -> None:
    assert absolute_paths(argument) == paths


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"argv": ["/usr/bin/gcc", "-c"]}, "runs /usr/bin/gcc"),
        ({"argv": ["tool", "--config=/etc/tool.conf"]}, "names /etc/tool.conf"),
        ({"env": {"PATH": "/home/me/bin:/usr/bin"}}, "environment variable PATH"),
        ({"inputs": ["tool", "external/a~local_config_cc/a.h"]}, "reads external/a~local_config_cc/a.h"),
    ],
)
def test_each_kind_of_dependency_is_found(change: dict[str, object], says: str) -> None:
    clean: dict[str, object] = {"argv": ["tool"], "env": {"PATH": "/usr/bin:/bin"}, "inputs": ["tool"]}
    assert list(violations(Action(owner="//a:b", mnemonic="Run", **clean))) == []  # type: ignore[arg-type]
    found = list(violations(Action(owner="//a:b", mnemonic="Run", **(clean | change))))  # type: ignore[arg-type]
    assert len(found) == 1
    assert says in found[0]
