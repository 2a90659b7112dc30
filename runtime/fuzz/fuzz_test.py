"""Tests that programs derived from the models' cause no faults, and the report of a fault."""

import os
import sys
from pathlib import Path

import pytest

from runtime.fuzz.__main__ import main
from runtime.fuzz.fuzz import Outcome, explain, fuzz, table
from runtime.fuzz.make_seeds import TRAILER

FUZZER = Path(os.environ["FUZZER"])
SEEDS = Path(os.environ["SEEDS"])
NAMES = (SEEDS / "names.txt").read_text().split()

RUNS = 20_000

# Programs of the runtime's tests that run, with features that no model has: lists, control flow, several methods, named
# data, state. Most of the others must be refused.
_OF_THE_RUNTIME = ("increment", "lists", "loop", "methods", "move", "named_data", "number_input", "state", "view")

# The fuzzer's NPU is an Ethos-U55, which refuses their commands.
_OF_OTHER_NPUS = ("u65.", "u65_dedicated_sram.", "u85.")


def runs(name: str) -> bool:
    """Returns whether the unchanged program must run."""
    if name.startswith(_OF_OTHER_NPUS):
        return False
    return not name.startswith("runtime.") or name.removeprefix("runtime.programs.") in _OF_THE_RUNTIME


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return fuzz(FUZZER, SEEDS, tmp_path_factory.mktemp("faults"), runs=RUNS)


def test_no_program_gives_a_fault(outcome: Outcome) -> None:
    assert outcome.reproducer is None, explain(outcome, SEEDS)
    assert outcome.total.programs >= RUNS - 10
    print(table(outcome))


def test_every_seed_takes_part(outcome: Outcome) -> None:
    assert min(counts.programs for counts in outcome.counts.values()) >= RUNS // len(NAMES) // 10


def test_programs_reach_execution_and_validation(outcome: Outcome) -> None:
    # Kernels only see programs that pass validation, and validation must refuse some.
    whole = {name: counts for name, counts in outcome.counts.items() if runs(name)}
    total = Outcome(whole, None, "").total
    assert 0.15 <= total.loaded / total.programs <= 0.9
    assert total.executed / total.programs >= 0.1
    for name, counts in whole.items():
        assert counts.loaded, f"nothing that was made of {name} loaded"


def test_every_seed_runs_as_it_is(tmp_path: Path) -> None:
    outcome = fuzz(FUZZER, SEEDS, tmp_path, runs=0)
    assert {name: (c.programs, c.executed) for name, c in outcome.counts.items() if runs(name)} == {
        name: (1, 1) for name in NAMES if runs(name)
    }


def fuzzer_with_fault(tmp_path: Path) -> Path:
    """Makes a program that behaves like a fuzzer that finds a fault in an input derived from the second seed."""
    fuzzer = tmp_path / "fuzzer"
    reproducer = tmp_path / "reproducer"
    reproducer.write_bytes(b"program" + TRAILER.pack(b"SEED", 1, 0))
    fuzzer.write_text(f"""#!/bin/sh
for argument; do case $argument in -artifact_prefix=*) cp {reproducer} "${{argument#*=}}crash-1";; esac; done
printf '#100\\tpulse  cov: 10 ft: 20\\nERROR: AddressSanitizer: SEGV\\n' >&2
exit 77
""")
    fuzzer.chmod(0o755)
    return fuzzer


def test_a_fault_is_reported_with_the_way_to_run_it_again(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("FUZZER", str(fuzzer_with_fault(tmp_path)))
    faults = tmp_path / "faults"
    assert main(["--runs", "100", "--output", str(faults)]) == 1
    out = capsys.readouterr().out
    assert "ERROR: AddressSanitizer: SEGV\n" in out
    assert f"fault: {faults}/crash-1, made of {NAMES[1]}\n" in out
    assert f"./bazelw run //runtime/fuzz -- --replay {faults}/crash-1" in out


def test_ctrl_c_ends_it_with_what_has_been_counted(tmp_path, monkeypatch, capsys) -> None:
    # The signal comes when progress has been told, and not before.
    fuzzer, told = tmp_path / "fuzzer", tmp_path / "told"
    os.mkfifo(told)
    fuzzer.write_text(f"#!/bin/sh\necho '#1 pulse cov: 1' >&2\nread -r line <'{told}'\nkill -INT $PPID\nexit 72\n")
    fuzzer.chmod(0o755)
    monkeypatch.setenv("FUZZER", str(fuzzer))
    monkeypatch.setattr("runtime.fuzz.fuzz._PROGRESS_INTERVAL_S", 0)

    def tell(line: str, flush: bool = False) -> None:
        sys.stdout.write(f"{line}\n")
        if flush:
            told.write_text("told\n")

    monkeypatch.setattr("runtime.fuzz.__main__.print", tell, raising=False)
    # tools/quiet/start.py turns it into one line and status 130.
    with pytest.raises(KeyboardInterrupt):
        main(["--minutes", "1", "--output", str(tmp_path / "faults")])
    streams = capsys.readouterr()
    assert "0 programs: - loaded, - executed three times\n" in streams.out
    assert streams.err == ""


def test_a_fuzzer_that_does_not_start_is_an_error(tmp_path, monkeypatch, capsys) -> None:
    fuzzer = tmp_path / "fuzzer"
    fuzzer.write_text("#!/bin/sh\necho 'no such library' >&2\nexit 127\n")
    fuzzer.chmod(0o755)
    monkeypatch.setenv("FUZZER", str(fuzzer))
    assert main(["--runs", "1", "--output", str(tmp_path / "faults")]) == 1
    assert f"error: {fuzzer} ended with status 127:\nno such library\n" in capsys.readouterr().err


def test_replay(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seed = next((SEEDS / "corpus").glob("*_softmax"))
    assert main(["--replay", str(seed)]) == 0
    assert "no fault" in capfd.readouterr().err
    assert main(["--replay", str(tmp_path / "missing")]) == 1
    assert "missing is no file" in capfd.readouterr().err
