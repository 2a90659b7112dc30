"""Starts a Python program for `py_tool`'s launcher: `start.py NAME MODULE ARGUMENTS...`.

It imports the module and calls its main(): what the program pickles is found by the module's name then. A module
without main(), or that asks for `__name__ == "__main__"` itself, runs as with `python -m MODULE`. Of a package, the
module is its `__main__`, or else the one with the package's name.

Ctrl-C at any moment, also while the program's modules are imported, ends it with one line and status 130. Output that
nobody reads, or that a full disk doesn't take, ends it as tools/quiet/tool.py does, wherever it is printed.
"""

import atexit
import contextlib
import errno
import importlib
import importlib.util
import os
import runpy
import signal
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, FrameType
from typing import NoReturn

# A shell reports this status of a program that SIGINT ended.
_INTERRUPTED = 128 + signal.SIGINT
_OF_OUTPUT = (errno.EDQUOT, errno.ENOSPC, errno.EPIPE)


def main() -> None:
    interrupted = False
    # Python ends with this status after a traceback.
    status = 1
    _, name, module, *arguments = sys.argv
    line = f"\n{name}: interrupted\n".encode()

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    def end(_signal: int, _frame: FrameType | None) -> NoReturn:
        os.write(2, line)
        os._exit(_INTERRUPTED)

    def finish() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)

    # The first is called as the last, after the threads have ended. What Python has left to do then is to take itself
    # apart: Ctrl-C would end it without a word, and destructors of modules whose globals are gone print tracebacks.
    atexit.register(finish)
    sys.argv = [module, *arguments]
    try:
        try:
            # The launcher ignores the signal until there is something that handles it.
            signal.signal(signal.SIGINT, interrupt)
            sys.exit(_run(module))
        finally:
            # Python only has to wait for threads now; it would show our exception with a traceback.
            signal.signal(signal.SIGINT, signal.SIG_DFL if interrupted else end)
            if not interrupted:
                # Else a full disk would only be met when Python ends.
                sys.stdout.flush()
    except SystemExit as end_of_program:
        status = _status(end_of_program.code)
        raise
    except BaseException as error:
        # Also what Python makes of an interrupt, such as a RuntimeError where a class is being defined.
        if interrupted:
            os.write(2, line)
            status = _INTERRUPTED
            sys.exit(status)
        if isinstance(error, OSError) and error.errno in _OF_OUTPUT:
            from tools.quiet.tool import run_tool

            status = run_tool(name, _raise, error)
            sys.exit(status)
        raise


def _run(module: str) -> str | int | None:
    """Runs a program and returns its status as sys.exit() takes it."""
    spec = importlib.util.find_spec(module)
    if spec is not None and spec.submodule_search_locations is not None:
        main = importlib.util.find_spec(f"{module}.__main__")
        spec = main or importlib.util.find_spec(f"{module}.{module.rpartition('.')[2]}")
    if spec is not None and _is_started_by_main(spec):
        return importlib.import_module(spec.name).main()
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


def _is_started_by_main(spec: ModuleSpec) -> bool:
    """Tells without importing a module whether it defines main() and nothing for `__name__ == "__main__"`."""
    code = spec.loader.get_code(spec.name) if isinstance(spec.loader, SourceFileLoader) else None
    if code is None or "__main__" in code.co_consts:
        return False
    return any(isinstance(item, CodeType) and item.co_name == "main" for item in code.co_consts)


def _status(code: object) -> int:
    """Returns the status that sys.exit(code) ends a program with (Python library reference, sys.exit)."""
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1


def _raise(error: OSError) -> NoReturn:
    raise error


if __name__ == "__main__":
    main()
