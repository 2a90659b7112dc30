"""Measures the error of int8 against floating point on held-out inputs.

Usage: bazel run //conformance/networks:accuracy [-- NAME...]

The networks of trained.py are exported as `torch_program` does it, with everything in int8 that can be, and the program
is run in Python on inputs that were not used for calibration. It prints the signal-to-noise ratio of the worst output
of each, the accuracies of those that classify, and median, worst and number below 30 dB of all. With --results a run
that was interrupted goes on, and --against compares with the results of another one, such as of another commit.
"""

import argparse
import io
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy

from conformance.networks import trained
from conformance.networks.sweep import snr
from tools.pipeline.export.export import export
from tools.pipeline.export.options import Options
from tools.pipeline.train.train import train
from tools.quiet.console import SilentConsole, UserError, user_path
from tools.quiet.tool import run_tool

_CORE = "cortex-m4"
# A usual error of int8.
_USUAL = 30


@dataclass(frozen=True)
class Outcome:
    """The result of a network.

    Attributes:
      snr_db: the worst output's, on the evaluation set.
      accuracies: those of floating point and int8, for a trained network.
    """

    snr_db: float
    accuracies: tuple[float, float] | None = None


def measure(name: str, activation_range: str) -> Outcome:
    """Trains and exports a network, and compares it with floating point."""
    console, path = SilentConsole(), Path(trained.__file__)
    with tempfile.TemporaryDirectory() as folder:
        weights = None
        if name in trained.TRAINED:
            weights = Path(folder) / "weights"
            weights.write_bytes(train(path, console, (), name))
        options = Options(_CORE, "cortex_m", activation_range=activation_range, entry=name)
        exported = export(path, name, options, weights, console)
    with numpy.load(io.BytesIO(exported.golden)) as arrays:
        golden = dict(arrays)
    outputs = len(json.loads(exported.manifest)["outputs"])
    accuracies = None
    if weights is not None:
        assert exported.report is not None
        accuracy = json.loads(exported.report)["accuracy"]
        accuracies = accuracy["float32"], accuracy["int8"]
    return Outcome(
        min(snr(golden[f"eager_{index}"], golden[f"output_{index}"]) for index in range(outputs)), accuracies
    )


def _read(path: Path) -> dict[str, Outcome]:
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            name, outcome = json.loads(line)
            accuracies = outcome["accuracies"]
            found[name] = Outcome(outcome["snr_db"], None if accuracies is None else (accuracies[0], accuracies[1]))
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise UserError(f"{path}:{number} is no result of this tool ({error}); remove the file.") from error
    return found


def summary(ratios: Sequence[float]) -> str:
    """Returns median, worst and number below what is usual."""
    below = sum(ratio < _USUAL for ratio in ratios)
    return (
        f"{len(ratios)} networks: median {statistics.median(ratios):.1f} dB, worst {min(ratios):.1f}, {below} < 30 dB"
    )


def _accuracy(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help="networks; all without")
    parser.add_argument("--activation-range", default="auto", help="as torch_program has it")
    parser.add_argument("--results", type=user_path, help="where outcomes are kept, and taken from")
    parser.add_argument("--against", type=user_path, help="results to compare with")
    options = parser.parse_args(arguments)
    there_are = trained.entries()
    unknown = sorted(set(options.name) - there_are.keys())
    if unknown:
        parser.error(f"no network {', '.join(unknown)}; there are {', '.join(there_are)}")
    known = _read(options.results) if options.results is not None and options.results.exists() else {}
    before = {} if options.against is None else _read(options.against)
    pairs = []
    for name in options.name or there_are:
        if name not in known:
            known[name] = measure(name, options.activation_range)
            if options.results is not None:
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([name, asdict(known[name])]) + "\n")
        outcome = known[name]
        text = f"{name}: {outcome.snr_db:.1f} dB"
        if name in before:
            text += f", before {before[name].snr_db:.1f}"
            pairs.append((before[name].snr_db, outcome.snr_db))
        if outcome.accuracies is not None:
            text += f", accuracy float32 {outcome.accuracies[0]:.4f}, int8 {outcome.accuracies[1]:.4f}"
        print(text, flush=True)
    print(summary([known[name].snr_db for name in options.name or there_are]))
    if pairs:
        print(f"before, {summary([first for first, _ in pairs])}")
        better, worse = (sum(sign * (second - first) > 1 for first, second in pairs) for sign in (1, -1))
        print(f"by more than 1 dB {better} better, {worse} worse, by at most {max(a - b for a, b in pairs):.1f} dB")
    return 0


if __name__ == "__main__":
    sys.exit(run_tool("accuracy", _accuracy, sys.argv[1:]))
