"""Calls functions that may abort the process, such as by a failed assertion, in a child process."""

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def in_a_child(function: Callable[[], bytes], error_type: type[Exception]) -> bytes:
    """Calls a function in a child process and returns its result.

    Raises `error_type` if the child ends early or the function raises.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result"
        child = os.fork()
        if child == 0:
            status = 1
            try:
                result.write_bytes(function())
                status = 0
            # The function may raise anything, and exits if it doesn't like its arguments.
            except BaseException as error:
                result.write_text(str(error) or type(error).__name__)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status < 0:
            raise error_type(f"it ended with {signal.Signals(-status).name}")
        if status > 0:
            raise error_type(result.read_text())
        return result.read_bytes()
