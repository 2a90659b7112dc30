"""Shows a user the output of a tool, and keeps everything else elsewhere.

torch, torchao and executorch print warnings when they are imported and used, from Python, from C++ and from
subprocesses. `quiet` sends all of that to a log file by redirecting the file descriptors; what the tool itself has
to say goes to the real stderr through a `Console`.
"""

import contextlib
import ctypes
import errno
import io
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO


class UserError(Exception):
    """A mistake in what the user gave: the message names the thing, the cause and the next step."""


def system_error(error: OSError, path: Path | str | None = None, advice: str = "") -> str:
    """Says in one line what the system refused: the file if there is one, the cause, the next step where it is known.

    Args:
      error: the system's.
      path: the file or folder, where the error may name none, as that of a write doesn't.
      advice: the next step, unless a disk is full.
    """
    file = path or error.filename
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "free some space, then start it again"
    return (f"{file}: " if file else "") + f"{error.strerror or error}" + (f"; {advice}" if advice else "")


def printable(text: str) -> str:
    """The text with escapes in place of control characters, but for line ends and tabs.

    Names out of a file or from a device must not move the cursor, recolour the terminal or turn the reading direction.
    """
    return "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text)


def user_path(text: str) -> Path:
    """A path as the user means it: `bazel run` changes the directory and says where the user was."""
    return Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."), text)


class Console:
    """The user's terminal, which stays reachable while stdout and stderr go to a log.

    Args:
      log: file descriptor of the log.
      out, err: descriptors of the real stdout and stderr.
      lost: errors of writes to the log.

    Attributes:
      noted: bytes of the log that are notes.
    """

    def __init__(self, log: int, out: int, err: int, lost: Sequence[OSError] = ()) -> None:
        self.noted = 0
        self._lost = lost
        self._log = log
        self._out = out
        self._err = err

    def say(self, text: str) -> None:
        """Prints one message of the tool's own on the real stderr."""
        os.write(self._err, (printable(text.rstrip("\n")) + "\n").encode("utf-8", "replace"))

    def note(self, text: str) -> None:
        """Writes a line into the log."""
        self.noted += os.write(self._log, (text + "\n").encode())

    def hold_log(self) -> None:
        """Raises the first error of a write to the log."""
        flush_all()
        for error in self._lost:
            raise error

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Connects stdout and stderr to the user again, for code whose output the user wants to see.

        Where stderr is no terminal, progress bars become a line every ten seconds and a last one.
        """
        _redirect(self._out, self._err)
        plain = sys.stderr
        sparse = None if os.isatty(self._err) else SparseProgress(plain)
        sys.stderr = sparse or plain
        try:
            yield
        finally:
            if sparse is not None:
                sparse.finish()
            sys.stderr = plain
            _redirect(self._log, self._log)


class SilentConsole(Console):
    """Records a tool's messages for another program; output of the user's code goes to that program's own."""

    def __init__(self) -> None:
        self.said: list[str] = []

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        yield

    def say(self, text: str) -> None:
        self.said.append(text)


class SparseProgress(io.TextIOBase):
    """A text stream that turns a progress bar, drawn again and again after a carriage return, into a few lines.

    Args:
      stream: where the lines go.
      interval: seconds between two lines of one bar.
      clock: seconds that pass.
    """

    def __init__(self, stream: TextIO, interval: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._interval = interval
        self._clock = clock
        self._last_shown = clock()
        self._bar = ""

    def write(self, text: str) -> int:
        # A carriage return begins a state of the bar; a newline ends the bar or is part of other text.
        before, carriage_return, state = text.rpartition("\r")
        if not carriage_return and not self._bar:
            return self._stream.write(text)
        if state.strip():
            self._bar = state.strip()
        if state.endswith("\n"):
            self.finish()
        elif self._clock() - self._last_shown >= self._interval:
            self._stream.write(self._bar + "\n")
            self._last_shown = self._clock()
        return len(before) + len(carriage_return) + len(state)

    def flush(self) -> None:
        self._stream.flush()

    def finish(self) -> None:
        """Shows the last state of the bar, if one is being drawn."""
        if self._bar:
            self._stream.write(self._bar + "\n")
            self._bar = ""
            self._last_shown = self._clock()
        self._stream.flush()


class _LogFile(io.FileIO):
    """A descriptor whose errors are kept for later: C++ of PyTorch that warns by Python aborts at an exception."""

    def __init__(self, descriptor: int, lost: list[OSError]) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._lost = lost

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self._lost.append(error)
            return len(data)


# Consoles of the tools that run, the innermost last.
_quiet: list[Console] = []


def note_progress(text: str) -> None:
    """Writes how far a long step is into the log of the tool that runs it, which whoever waits can follow."""
    if _quiet:
        _quiet[-1].note(text)


@contextlib.contextmanager
def quiet(log: Path) -> Iterator[Console]:
    """Sends file descriptors 1 and 2 to `log` (created or emptied) and yields a Console on the real ones."""
    log.parent.mkdir(parents=True, exist_ok=True)
    out, err = os.dup(1), os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    lost: list[OSError] = []
    streams = sys.stdout, sys.stderr
    _quiet.append(Console(file, out, err, lost))
    try:
        _redirect(file, file)
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(
                io.BufferedWriter(_LogFile(number, lost)), "utf-8", errors="backslashreplace", line_buffering=True
            )
            for number in (1, 2)
        )
        yield _quiet[-1]
    finally:
        _quiet.pop()
        flush_all()
        sys.stdout, sys.stderr = streams
        _redirect(out, err)
        for descriptor in (file, out, err):
            os.close(descriptor)


def flush_or_drop(stream: TextIO) -> None:
    """Passes on what Python holds of an output, or drops it where that can't be (a full disk, nobody who reads it)."""
    try:
        stream.flush()
    except OSError:
        # It would be tried again later, and at the latest when Python ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()


def flush_all() -> None:
    """Passes on what Python and C hold of the outputs; C would write it when the process ends."""
    flush_or_drop(sys.stdout)
    flush_or_drop(sys.stderr)
    ctypes.CDLL(None).fflush(None)


def _redirect(out: int, err: int) -> None:
    # Buffered text belongs to the old destination.
    flush_all()
    os.dup2(out, 1)
    os.dup2(err, 2)


def comes_from(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether an exception is of a kind, or was made of one that is."""
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False


def end_process(status: int) -> NoReturn:
    """Ends the process, also where code of the user's left threads running that would keep it for ever."""
    left = [thread for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()]
    if not left:
        sys.exit(status)
    sys.stdout.flush()
    names = ", ".join(thread.name for thread in left)
    print(f"note: ended with threads of the model file still running: {names}", file=sys.stderr, flush=True)
    os._exit(status)


def _log_traceback() -> None:
    # On a full disk the message to the user is all there is.
    with contextlib.suppress(OSError):
        traceback.print_exc()


def run_quietly(step: Callable[[Console], None], log: Path, tool: str) -> int:
    """Runs `step` with everything but its console in `log`; returns the exit status for the shell.

    A UserError, and what the system refuses, become one message. Anything else is a fault of the tool itself: one line
    and the traceback in the log.
    Both name the log, unless a UserError has no other cause and nothing was printed: only notes are in the log then.
    """
    try:
        return _run_quietly(step, log, tool)
    except OSError as error:
        # The log itself cannot be written.
        print(f"{tool}: error: {system_error(error)}", file=sys.stderr)
        return 1


def _run_quietly(step: Callable[[Console], None], log: Path, tool: str) -> int:
    with quiet(log) as console:
        try:
            step(console)
            console.hold_log()
        except UserError as error:
            sys.stdout.flush()
            sys.stderr.flush()
            has_printed = log.stat().st_size > console.noted
            if not has_printed and error.__cause__ is None:
                console.say(f"{tool}: error: {error}")
                return 1
            # The cause helps whoever reads the log; the user's message stands alone.
            _log_traceback()
            console.say(f"{tool}: error: {error}\n  ({'what torch printed' if has_printed else 'traceback'}: {log})")
            return 1
        except SystemExit as error:
            # The user's code has called sys.exit(): a tool's own call comes before any step.
            _log_traceback()
            console.say(
                f"{tool}: error: a call of sys.exit({error.code!r}) ended it; let the model raise an error instead\n"
                f"  (traceback: {log})"
            )
            return 1
        except OSError as error:
            _log_traceback()
            console.say(f"{tool}: error: {system_error(error)}\n  (traceback: {log})")
            return 1
        except Exception as error:
            _log_traceback()
            # Python makes another error of an interrupt (Ctrl-C) where a class is being defined.
            if comes_from(error, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            console.say(f"{tool}: internal error: {type(error).__name__}: {error}\n  (traceback: {log})")
            return 1
    return 0
