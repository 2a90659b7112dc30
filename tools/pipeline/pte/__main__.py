import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from tools.artifacts.ethos_u.npu import read_npu
from tools.quiet.console import Console, run_quietly


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pte", description="Takes a program that was exported elsewhere.")
    parser.add_argument("--program", type=Path, required=True, help="the .pte")
    parser.add_argument("--name", required=True, help="what it is called, a C identifier")
    parser.add_argument("--examples", type=Path, help="input_0, ... and output_0, ... of one sample (.npz)")
    parser.add_argument("--npu", type=Path, help="the board's NPU (.json), for a program with delegates for it")
    parser.add_argument("--manifest", type=Path, required=True, help="where the manifest is written")
    parser.add_argument("--golden", type=Path, required=True, help="where golden inputs and outputs are written")
    parser.add_argument("--output", type=Path, required=True, help="where the program is written")
    parser.add_argument("--log", type=Path, required=True, help="where what torch and ExecuTorch print is written")
    arguments = parser.parse_args(argv)

    def step(console: Console) -> None:
        # Imported here: torch and ExecuTorch print on import.
        from tools.pipeline.pte.pte import take

        npu = read_npu(arguments.npu) if arguments.npu else None
        manifest, golden, notes = take(arguments.program, arguments.name, arguments.examples, npu)
        for note in notes:
            console.say(f"pte: {arguments.program}: {note}")
        arguments.manifest.write_text(manifest, encoding="utf-8")
        arguments.golden.write_bytes(golden)
        shutil.copyfile(arguments.program, arguments.output)

    return run_quietly(step, arguments.log, "pte")
