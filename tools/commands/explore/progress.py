"""Shows in one line of a terminal how far a build of Bazel's is, and how long it will about take."""

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tools.quiet.console import UserError, printable

_ACTIONS = re.compile(r"\[([\d,]+) / ([\d,]+)\] (.*)")
# Lines that Bazel repeats.
_STATES = re.compile(r"(Loading|Analyzing|Computing|INFO|Starting local|\s+Fetching|\s+currently)\b")
_EXPORT = re.compile(r"Exporting //(\S*):(\S+) for ")
# Begin and end of each pipeline, as shares of the time of an export to int8, measured on five networks.
_SHARES = {"quantized": (0.5, 0.72), "edge": (0.72, 0.9), "packed": (0.9, 1.0)}
_PASS = re.compile(rf"pass (\d+) of (\d+) \(cortex_m, ({'|'.join(_SHARES)})\)")
_LAYER = re.compile(r"layer (\d+) of (\d+) ")
_STEP = re.compile(r"^(?:pass|layers?) .*", re.MULTILINE)
_SECONDS = re.compile(r"; (\d+)s\b")
_IMAGE = re.compile(rb'^\{"id":\{"targetCompleted":\{"label":"[^"]*_on_', re.MULTILINE)


def find_bazel(workspace: Path) -> str:
    for program in (os.environ.get("BAZELW_PROGRAM", ""), str(workspace / "bazelw"), "bazelisk", "bazel"):
        if found := shutil.which(program):
            return found
    raise UserError(
        "there is no Bazel: neither bazelw in the workspace nor bazelisk or bazel on PATH; name it with --bazel"
    )


class Progress:
    """Tells states of a build from messages.

    Args:
        workspace: where Bazel builds.
        events: the file of events that Bazel writes, if images are counted.
        images: how many are built.
        clock: seconds that pass.
    """

    def __init__(
        self, workspace: Path, events: Path = Path(), images: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._workspace, self._events, self._images, self._clock = workspace, events, images, clock
        self._first: tuple[float, int] | None = None
        self._layer: tuple[float, int] | None = None
        self._read = self._built = 0

    def _count(self) -> int:
        """Returns how many images are built, by the lines that Bazel has written since the last time."""
        if self._images and self._events.exists():
            with self._events.open("rb") as file:
                file.seek(self._read)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read += len(whole)
            self._built += len(_IMAGE.findall(whole))
        return self._built

    def state(self, line: str) -> str | None:
        """Returns the state that a line of Bazel's describes; None if it is a message."""
        found = _ACTIONS.match(line)
        if found is None:
            return line.strip() if not line.strip() or _STATES.match(line) else None
        done, total = (int(number.replace(",", "")) for number in found.groups()[:2])
        now = self._clock()
        begin, first = self._first = self._first or (now, done)
        left = ""
        built = self._count()
        if self._images and done > first:
            # By the actions it is too little, since Bazel counts those that it has come to; by the images too much,
            # since the first ones build what others share. The geometric mean was right to a third on 17 boards, from
            # the fourth image on.
            rest = (total - done) / (done - first)
            seconds = (now - begin) * ((rest * (self._images - built) / built) ** 0.5 if built else rest)
            left = f", {'about' if built else 'more than'} {_duration(seconds)} left"
        images = f"{built} of {self._images} images, " if self._images else ""
        return f"{images}{done:,} of {total:,} actions{left}: {self._step(found[3])}"

    def _step(self, action: str) -> str:
        """Returns what Bazel says of an action, before it the last line of its log if it is an export."""
        found = _EXPORT.match(action)
        logs = self._workspace.glob(f"bazel-out/*/bin/{found[1]}/{found[2]}.export.log") if found else ()
        # The log of an export to another core is older.
        newest = max(logs, key=lambda log: log.stat().st_mtime, default=None)
        text = newest.read_text(encoding="utf-8", errors="replace") if newest else ""
        # torch writes there, too.
        lines = _STEP.findall(text)
        step = printable(lines[-1]) if lines else ""
        return f"{_with_time_left(step, action)}{self._layers_left(step)}; {action}" if lines else action

    def _layers_left(self, step: str) -> str:
        """Returns how long the rest of the layers about takes whose costs are measured, from the second one on."""
        found = _LAYER.match(step)
        if found is None:
            self._layer = None
            return ""
        number, count = map(int, found.groups())
        now = self._clock()
        begin, first = self._layer = self._layer or (now, number)
        seconds = (now - begin) * (count - number) / max(1, number - first)
        return f", about {_duration(seconds)} left for layers" if number > first else ""

    def show(self, lines: Iterable[str], put: Callable[[str], object]) -> None:
        """Draws the state as it changes, and hands on messages."""
        for line in lines:
            state = self.state(line)
            if state is None:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
                put(line)
            else:
                width = shutil.get_terminal_size().columns - 1
                print(f"\r\x1b[K{state[:width]}", end="", file=sys.stderr, flush=True)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"


def _with_time_left(step: str, action: str) -> str:
    """Adds to a pass of an export how long the passes about take from it on, by the seconds that Bazel says of it."""
    found, seconds = _PASS.match(step), _SECONDS.search(action)
    if found is None or seconds is None:
        return step
    begin, end = _SHARES[found[3]]
    share = begin + (end - begin) * (int(found[1]) - 0.5) / int(found[2])
    return f"{step}, about {_duration(int(seconds[1]) * (1 - share) / share)} left"
