import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_WORKER = """
import os, sys, time
from pathlib import Path
from tools.pipeline.persistent_worker.persistent_worker import serve

state = []

def main(arguments):
    state.append(arguments)
    if arguments[0] == "exit":
        sys.exit(int(arguments[1]))
    if arguments[0] == "fail":
        raise ValueError("no such thing")
    if arguments[0] == "abort":
        os.abort()
    if arguments[0] == "sleep":
        Path(arguments[1]).touch()
        time.sleep(60)
    if arguments[0] == "wait":
        while not Path(arguments[1]).exists():
            time.sleep(0.01)
    print("did", *arguments, "after", len(state) - 1, flush=True)
    print("to stderr", file=sys.stderr)
    return 3 if arguments[0] == "three" else 0

def prepare():
    print("imports print warnings")

sys.exit(serve(main, prepare))
"""


class _Worker:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def send(self, **request: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@pytest.fixture
def worker() -> Iterator[_Worker]:
    worker = _Worker()
    yield worker
    worker.process.kill()
    worker.process.wait()


def test_requests_get_what_their_process_printed_and_see_nothing_of_each_other(worker: _Worker) -> None:
    for number in (1, 2):
        worker.send(arguments=["it"], requestId=number)
        assert worker.receive() == {"requestId": number, "exitCode": 0, "output": "did it after 0\nto stderr\n"}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["three"], 3, "did three"),
        (["exit", "2"], 2, ""),
        (["fail"], 1, "ValueError: no such thing"),
        (["abort"], 134, "SIGABRT"),
    ],
)
def test_a_request_that_fails_says_why_and_the_next_one_works(worker, arguments, status, said) -> None:
    worker.send(arguments=arguments)
    response = worker.receive()
    assert response["requestId"] == 0
    assert response["exitCode"] == status
    assert said in response["output"]
    worker.send(arguments=["it"], requestId=1)
    assert worker.receive()["exitCode"] == 0


def test_requests_are_worked_on_at_once(worker: _Worker, tmp_path: Path) -> None:
    file = tmp_path / "file"
    worker.send(arguments=["wait", str(file)], requestId=1)
    worker.send(arguments=["it"], requestId=2)
    assert worker.receive()["requestId"] == 2
    file.touch()
    assert worker.receive()["requestId"] == 1


def test_a_request_is_cancelled(worker: _Worker, tmp_path: Path) -> None:
    file = tmp_path / "file"
    worker.send(arguments=["sleep", str(file)], requestId=1)
    while not file.exists():
        time.sleep(0.01)
    worker.send(cancel=True, requestId=1)
    response = worker.receive()
    assert response["requestId"] == 1
    assert response["wasCancelled"]


def test_it_ends_with_bazel_and_so_does_what_it_began(worker: _Worker, tmp_path: Path) -> None:
    file = tmp_path / "file"
    worker.send(arguments=["sleep", str(file)], requestId=1)
    while not file.exists():
        time.sleep(0.01)
    children = Path(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children").read_text(encoding="utf-8")
    (child,) = map(int, children.split())
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    assert worker.process.wait() == 0
    for _ in range(1000):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    pytest.fail("the request is still worked on")
