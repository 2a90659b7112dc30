"""Starts a Python program for `py_tool`'s launcher: `start.py NAME MODULE ARGUMENTS...`, as `python -m MODULE` does.

Ctrl-C at any moment, also while the program's modules are imported, ends it with one line and status 130.
"""

import os
import runpy
import signal
import sys
from types import FrameType
from typing import NoReturn

# As a shell says it of a program that SIGINT ended.
_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    interrupted = False
    _, name, module, *arguments = sys.argv
    line = f"\n{name}: interrupted\n".encode()

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    def end(_signal: int, _frame: FrameType | None) -> NoReturn:
        os.write(2, line)
        os._exit(_INTERRUPTED)

    # The launcher ignores the signal until there is something that handles it.
    signal.signal(signal.SIGINT, interrupt)
    sys.argv = [module, *arguments]
    try:
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        finally:
            # What is left to do is Python's: it waits for threads, and would show our exception with a traceback.
            signal.signal(signal.SIGINT, signal.SIG_DFL if interrupted else end)
    except SystemExit:
        raise
    except BaseException:
        # Also what Python makes of an interrupt, such as a RuntimeError where a class is being defined.
        if not interrupted:
            raise
        os.write(2, line)
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
