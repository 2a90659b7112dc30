"""Starts a Python program for `py_tool`'s launcher: `start.py NAME MODULE ARGUMENTS...`, as `python -m MODULE` does.

Ctrl-C at any moment, also while the program's modules are imported, ends it with one line and status 130. Output that
nobody reads, or that a full disk doesn't take, ends it as tools/quiet/tool.py does, wherever it is printed.
"""

import errno
import os
import runpy
import signal
import sys
from types import FrameType
from typing import NoReturn

# As a shell says it of a program that SIGINT ended.
_INTERRUPTED = 128 + signal.SIGINT
_OF_OUTPUT = (errno.EDQUOT, errno.ENOSPC, errno.EPIPE)


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

    sys.argv = [module, *arguments]
    try:
        try:
            # The launcher ignores the signal until there is something that handles it.
            signal.signal(signal.SIGINT, interrupt)
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        finally:
            # What is left to do is Python's: it waits for threads, and would show our exception with a traceback.
            signal.signal(signal.SIGINT, signal.SIG_DFL if interrupted else end)
            if not interrupted:
                # Else a full disk would only be met when Python ends.
                sys.stdout.flush()
    except SystemExit:
        raise
    except BaseException as error:
        # Also what Python makes of an interrupt, such as a RuntimeError where a class is being defined.
        if interrupted:
            os.write(2, line)
            sys.exit(_INTERRUPTED)
        if isinstance(error, OSError) and error.errno in _OF_OUTPUT:
            from tools.quiet.tool import run_tool

            sys.exit(run_tool(name, _raise, error))
        raise


def _raise(error: OSError) -> NoReturn:
    raise error


if __name__ == "__main__":
    main()
