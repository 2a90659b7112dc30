"""Runs a program with VGF on this machine and compares its outputs with the golden ones."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tools.artifacts.golden.golden import read_golden
from tools.artifacts.program.program import read
from tools.quiet.console import UserError
from tools.quiet.tool import run_tool
from tools.verify.vgf.vulkan import run


def check(program: Path, golden_file: Path, atol: float, rtol: float, timeout: float) -> str:
    """Compares all samples; returns what can be said of it in a line.

    Raises:
      UserError: an output differs by more than `atol + rtol * |expected|`, or the program could not be run.
    """
    golden = read_golden(golden_file)
    backends = [delegate.id for delegate in read(program).execution_plan[0].delegates or []]
    others = sorted({*backends} - {"VgfBackend"})
    if others:
        raise UserError(
            f"{program} has parts for {', '.join(others)}, and this runs those for VGF; make it with "
            'torch_program(backend = "vgf").'
        )
    if not backends:
        raise UserError(
            f'{program} has no part in VGF: it was made with another backend than "vgf", or, as the build said, all of '
            "the model stays on portable kernels."
        )
    samples = [[array[sample] for array in golden.inputs] for sample in range(golden.samples)]
    results = run(program, samples, timeout)
    largest = 0.0
    for sample, outputs in enumerate(results):
        for index, (array, expected) in enumerate(zip(outputs, golden.outputs, strict=True)):
            wanted = expected[sample]
            if array.shape != wanted.shape or array.dtype != wanted.dtype:
                raise UserError(
                    f"output {index} of sample {sample} is {array.dtype} {list(array.shape)}, expected "
                    f"{wanted.dtype} {list(wanted.shape)}."
                )
            close = np.isclose(array.astype(float), wanted.astype(float), rtol=rtol, atol=atol, equal_nan=True)
            if not close.all():
                first = tuple(int(axis) for axis in np.argwhere(~close)[0])
                raise UserError(
                    f"{(~close).sum()} of {close.size} elements of output {index} of sample {sample} differ by more "
                    f"than {atol:g} + {rtol:g} * |expected|; the first at {list(first)}: {array[first]}, expected "
                    f"{wanted[first]}."
                )
            finite = np.isfinite(wanted.astype(float))
            differences = np.abs(array.astype(float) - wanted.astype(float))[finite]
            largest = max(largest, float(differences.max(initial=0)))
    return f"PASS {len(results)} samples, {len(backends)} delegates, largest difference {largest:g}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="vgf_test", description=__doc__)
    parser.add_argument("--program", type=Path, required=True, help="the .pte")
    parser.add_argument("--golden", type=Path, required=True, help="its .golden.npz")
    parser.add_argument("--atol", type=float, default=0, help="absolute tolerance")
    parser.add_argument("--rtol", type=float, default=0, help="relative tolerance")
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="when a run counts as hung")
    return run_tool("vgf_test", _run, parser.parse_args(argv))


def _run(options: argparse.Namespace) -> None:
    print(check(options.program, options.golden, options.atol, options.rtol, options.timeout))
