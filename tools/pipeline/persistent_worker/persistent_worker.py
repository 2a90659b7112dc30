"""Runs a tool as Bazel's persistent worker: one process imports slow modules, and a fork of it handles each request.

Importing torch and ExecuTorch takes as long as exporting a small model. So the worker imports them once, and each
request gets its own process, which begins in the state of a new one after its imports: requests don't see each other's
effects, and the results are those of the tool without a worker.

Requests and responses are lines of JSON (Bazel, "Creating persistent workers", work request protocol). Several requests
run concurrently (multiplex workers), and can be cancelled.
"""

import ctypes
import gc
import json
import os
import selectors
import signal
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, NoReturn

from tools.quiet.console import flush_all

# The option with which Bazel starts a worker.
FLAG = "--persistent_worker"

_PR_SET_PDEATHSIG = 1


@dataclass
class _Request:
    """A running request: its number, and the output of its process."""

    id: int
    output: IO[bytes]
    is_cancelled: bool = False


def serve(main: Callable[[list[str]], int], prepare: Callable[[], None]) -> int:
    """Answers Bazel's requests on stdin until it ends; returns the exit status.

    Args:
      main: handles a request: takes its arguments, returns the exit status. Bazel shows its output.
      prepare: called once before, to import the modules of all requests. It must not start a thread, which a fork would
        lose.
    """
    responses = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Bazel logs a worker's own output; stdout is for responses only.
    os.dup2(2, 1)
    prepare()
    # Every fork would print the contents of buffers.
    flush_all()
    # Otherwise each fork would copy all pages with objects, because of their reference counts.
    gc.collect()
    gc.freeze()
    return _Server(main, responses).run()


class _Server:
    """The loop of a worker."""

    def __init__(self, main: Callable[[list[str]], int], responses: IO[str]) -> None:
        self._main = main
        self._responses = responses
        # By the process that runs them.
        self._requests: dict[int, _Request] = {}
        self._parent = os.getpid()

    def run(self) -> int:
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            pending = b""
            while True:
                ready = {key.fd for key, _ in selector.select()}
                if woken in ready:
                    os.read(woken, 4096)
                    self._answer_ended()
                if 0 in ready:
                    received = os.read(0, 1 << 16)
                    if not received:
                        break
                    *lines, pending = (pending + received).split(b"\n")
                    for line in filter(bytes.strip, lines):
                        self._take(json.loads(line))
        for process in self._requests:
            os.kill(process, signal.SIGKILL)
        return 0

    def _take(self, message: dict[str, Any]) -> None:
        """Begins a request, or cancels one."""
        # JSON omits fields with default values.
        number = message.get("requestId", 0)
        if message.get("cancel"):
            for process, request in self._requests.items():
                if request.id == number:
                    request.is_cancelled = True
                    os.kill(process, signal.SIGKILL)
            return
        output = tempfile.TemporaryFile()  # noqa: SIM115  # open until the request is answered
        process = os.fork()
        if process == 0:
            self._work(message.get("arguments", []), output.fileno())
        self._requests[process] = _Request(number, output)

    def _work(self, arguments: list[str], output: int) -> NoReturn:
        """Handles a request in a separate process."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        status = 1
        try:
            # When Bazel stops a worker that it no longer needs, its requests must end, too.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self._parent:
                os._exit(1)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(self._responses.fileno())
            status = self._main(arguments)
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            flush_all()
            # Ends this process without the exit handlers and buffers that are copies of the worker's.
            os._exit(status)

    def _answer_ended(self) -> None:
        """Answers the requests whose processes have ended."""
        while self._requests:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            request = self._requests.pop(process, None)
            if request is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            with request.output as file:
                file.seek(0)
                output = file.read().decode("utf-8", "replace")
            if code < 0 and not request.is_cancelled:
                output += f"ended by signal {-code} ({signal.Signals(-code).name})\n"
                if -code == signal.SIGKILL:
                    output += "The machine may be out of memory: --jobs=1 lets Bazel do one thing at a time.\n"
            response = {"requestId": request.id, "exitCode": code if code >= 0 else 128 - code, "output": output}
            if request.is_cancelled:
                response["wasCancelled"] = True
            self._responses.write(json.dumps(response) + "\n")
            self._responses.flush()
