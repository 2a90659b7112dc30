"""How every tool ends: with a status for the shell, and one message where what it was given doesn't work."""

import argparse
import select
import sys
import textwrap
from collections.abc import Callable
from typing import Any, NoReturn

from .console import UserError, flush_or_drop, printable, system_error

# A shell reports this status of a program that SIGPIPE ended.
_NOBODY_READS = 141


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Ends the tool with one line, in place of argparse's usage and a line."""
        self.exit(2, f"{self.prog}: error: {printable(message)} (all options: -- --help)\n")


class _Formatter(argparse.HelpFormatter):
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Fits the paragraphs of a description into the terminal; examples, which are indented, stay as they are."""
        parts = text.strip().split("\n\n")
        return "\n\n".join(part if part.startswith(" ") else textwrap.fill(part, width) for part in parts)


def option_parser(tool: str, description: str | None) -> argparse.ArgumentParser:
    """Returns the parser of a tool's command line, whose help has the paragraphs of the description."""
    return _Parser(prog=tool, description=description, formatter_class=_Formatter)


def run_tool(tool: str, run: Callable[..., int | None], *arguments: Any) -> int:
    """Calls `run` with the arguments; returns the exit status for the shell.

    A UserError, and what the system refuses (a full disk, a folder that can't be written to), become one message on
    stderr. Anything else is a fault of the tool's own and keeps its traceback.

    Args:
      tool: the name that the message begins with.
      run: does the work; returns the status, or None for success.
    """
    try:
        status = run(*arguments) or 0
        # Else a full disk would only be met when Python ends.
        sys.stdout.flush()
        return status
    except UserError as error:
        message = str(error)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _has_no_reader(1):
            # Whoever read the output, such as `head`, has enough.
            flush_or_drop(sys.stdout)
            return _NOBODY_READS
        message = system_error(error)
    flush_or_drop(sys.stdout)
    print(f"{tool}: error: {printable(message)}", file=sys.stderr)
    return 1


def _has_no_reader(pipe: int) -> bool:
    poll = select.poll()
    poll.register(pipe, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
