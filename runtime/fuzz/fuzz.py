"""Runs the fuzzer of programs: for some time or some programs, or a single program again."""

import re
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.quiet.console import UserError

from .make_seeds import TRAILER

_COUNTS = struct.Struct("<QQQ")

_LONGEST_PROGRAM = 4 << 20
_MEMORY_LIMIT_MB = 4096
"""Memory beyond this is taken for a leak or an allocation that trusts its input."""
_TIME_LIMIT_S = 120
"""The limit for a program with its three executions. Large networks take seconds under the sanitizers."""
_PROGRESS_INTERVAL_S = 30
_INTERRUPTED = 72
"""libFuzzer's status after Ctrl-C."""

_PULSE = re.compile(r"^#(\d+)\s+(?:[A-Z]+|pulse)\s.*cov: (\d+)")


@dataclass(frozen=True)
class Counts:
    """The numbers of programs from a seed, of those that loaded, and of those that executed three times."""

    programs: int
    loaded: int
    executed: int


@dataclass(frozen=True)
class Outcome:
    """The result of a run of the fuzzer.

    Attributes:
      counts: by seed.
      reproducer: the program for which a sanitizer or a check failed, if there is one.
      report: the failure.
      interrupted: whether Ctrl-C ended it.
    """

    counts: dict[str, Counts]
    reproducer: Path | None
    report: str
    interrupted: bool = False

    @property
    def total(self) -> Counts:
        """Returns the counts of all seeds."""
        counts = self.counts.values()
        return Counts(sum(c.programs for c in counts), sum(c.loaded for c in counts), sum(c.executed for c in counts))


def _read_counts(path: Path, names: list[str]) -> dict[str, Counts]:
    return {name: Counts(*numbers) for name, numbers in zip(names, _COUNTS.iter_unpack(path.read_bytes()), strict=True)}


def _environment(seeds: Path) -> dict[str, str]:
    environment = {"TORCH_FUSION_FUZZ_SEEDS": str(seeds.resolve())}
    # A fault names its source lines.
    for program in Path.cwd().glob("../*host_clang/tools/addr2line"):
        environment["ASAN_SYMBOLIZER_PATH"] = str(program.resolve())
    return environment


def fuzz(
    fuzzer: Path,
    seeds: Path,
    output: Path,
    *,
    runs: int = -1,
    seconds: int = 0,
    random_seed: int = 1,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Makes programs of seeds and runs them, until there is a fault or it has been enough.

    Args:
      fuzzer: the `host_fuzzer`.
      seeds: the folder of a `fuzz_seeds`.
      output: folder for the reproducer of a fault.
      runs: programs to run; -1 for no limit.
      seconds: time to take; 0 for no limit.
      random_seed: another one gives other programs.
      say: gets a line of progress from time to time.

    Raises:
      UserError: the fuzzer ended without a fault, but not because it was enough.
    """
    names = (seeds / "names.txt").read_text(encoding="utf-8").split()
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        counts_file = Path(folder, "counts")
        counts_file.write_bytes(bytes(_COUNTS.size * len(names)))
        Path(folder, "corpus").mkdir()
        before = set(output.iterdir())
        command = [
            str(fuzzer.resolve()),
            f"-runs={runs}",
            f"-max_total_time={seconds}",
            f"-seed={random_seed}",
            f"-timeout={_TIME_LIMIT_S}",
            # With a lower limit, libFuzzer would store slow inputs of a busy machine together with faults.
            f"-report_slow_units={_TIME_LIMIT_S}",
            f"-rss_limit_mb={_MEMORY_LIMIT_MB}",
            f"-max_len={_LONGEST_PROGRAM}",
            # Programs keep their length.
            "-len_control=0",
            "-detect_leaks=0",
            # Slow inputs are tried less often in a timed run. A fixed count of runs must repeat the same ones.
            f"-entropic_scale_per_exec_time={int(seconds > 0)}",
            f"-artifact_prefix={output.resolve()}/",
            str(Path(folder, "corpus")),
            str((seeds / "corpus").resolve()),
        ]
        environment = _environment(seeds) | {"TORCH_FUSION_FUZZ_COUNTS": str(counts_file)}
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", env=environment
        )
        report: list[str] = []
        begin = last = time.monotonic()
        interrupted = False
        assert process.stderr is not None
        try:
            for line in process.stderr:
                pulse = _PULSE.match(line)
                if pulse is None:
                    report.append(line)
                    continue
                report.clear()
                now = time.monotonic()
                if now - last >= _PROGRESS_INTERVAL_S:
                    last = now
                    total = Outcome(_read_counts(counts_file, names), None, "").total
                    rate = int(pulse[1]) / (now - begin)
                    say(f"{_sum_up(total)}; {rate:.0f} a second, {int(pulse[2]):,} branches reached")
        except KeyboardInterrupt:
            # The fuzzer got it, too, and ends.
            interrupted = True
            report.clear()
        status = process.wait()
        counts = _read_counts(counts_file, names)
    found = sorted(set(output.iterdir()) - before)
    if found:
        return Outcome(counts, found[0], "".join(report))
    if status not in (0, _INTERRUPTED):
        raise UserError(f"{fuzzer} ended with status {status}:\n{''.join(report)}")
    return Outcome(counts, None, "", interrupted)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _sum_up(counts: Counts) -> str:
    loaded, executed = _share(counts.loaded, counts.programs), _share(counts.executed, counts.programs)
    return f"{counts.programs:,} programs: {loaded} loaded, {executed} executed three times"


def table(outcome: Outcome) -> str:
    """Returns the counts of each seed as text, and their sum."""
    width = max(len(name) for name in outcome.counts)
    lines = [f"{'seed':{width}} {'programs':>12} {'loaded':>12} {'executed':>12}"]
    lines += [f"{name:{width}} {c.programs:12,} {c.loaded:12,} {c.executed:12,}" for name, c in outcome.counts.items()]
    return "\n".join([*lines, _sum_up(outcome.total)])


def explain(outcome: Outcome, seeds: Path) -> str:
    """Explains a fault: the report, the seed, and how to run the program again."""
    path = outcome.reproducer
    assert path is not None
    data = path.read_bytes()
    origin = ""
    if len(data) >= TRAILER.size:
        mark, number, _ = TRAILER.unpack(data[-TRAILER.size :])
        names = (seeds / "names.txt").read_text(encoding="utf-8").split()
        if mark == b"SEED" and number < len(names):
            origin = f", made of {names[number]}"
    return f"{outcome.report}fault: {path}{origin}\nAgain: ./bazelw run //runtime/fuzz -- --replay {path}"


def replay(fuzzer: Path, seeds: Path, program: Path) -> int:
    """Runs one program, a reproducer or any .pte, with the sanitizers' reports on stderr. Returns the exit status."""
    if not program.is_file():
        raise UserError(f"{program} is no file; pass a reproducer that the fuzzer wrote, or a .pte file")
    command = [str(fuzzer.resolve()), f"-timeout={_TIME_LIMIT_S}", str(program.resolve())]
    with tempfile.TemporaryDirectory() as folder:
        status = subprocess.run(
            [*command, f"-artifact_prefix={folder}/"], env=_environment(seeds), check=False
        ).returncode
    print(f"{program}: {'no fault' if status == 0 else 'fault'}", file=sys.stderr)
    return 0 if status == 0 else 1
