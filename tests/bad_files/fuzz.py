"""Fuzzes what reads files that others made: readers by name, each for some seconds.

A finding is an error other than one that names the file, a reader that takes 30 seconds, or one that takes gigabytes.
It ends the run; the file is in the folder of findings, and --replay reads it again.
"""

import argparse
import hashlib
import os
import random
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["tools", "elftools", "intelhex", "numpy.lib", "zipfile"]):
    from tests.bad_files.readers import READERS, Reader
from tools.quiet.console import user_path
from tools.quiet.tool import option_parser, run_tool


def _fuzz(reader: Reader, seconds: int, output: Path) -> None:
    """Fuzzes a reader; libFuzzer ends the process."""
    folder = Path(tempfile.mkdtemp(prefix="bad_files-"))
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, content in enumerate(reader.damaged(30)):
        (corpus / str(number)).write_bytes(content)
    output.mkdir(parents=True, exist_ok=True)

    def read(data: bytes) -> None:
        try:
            reader.try_on(data, folder)
        except AssertionError:
            path = output / hashlib.sha256(data).hexdigest()[:16]
            path.write_bytes(data)
            traceback.print_exc()
            print(f"{path}: a finding", file=sys.stderr)
            os._exit(1)

    def mutate(data: bytes, limit: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < 0.5:
            return atheris.Mutate(data, limit)
        *_, changed = chance.choice(reader.kinds(1, seed))
        return changed[:limit]

    size = max(path.stat().st_size for path in corpus.iterdir())
    options = [f"-max_total_time={seconds}", f"-max_len={size}", "-timeout=30", "-rss_limit_mb=4000"]
    options += [f"-artifact_prefix={output}/", str(corpus)]
    atheris.Setup(["fuzz", *options], read, custom_mutator=mutate)
    atheris.Fuzz()


def _run(arguments: argparse.Namespace) -> None:
    reader = READERS[arguments.reader]
    if arguments.replay:
        with tempfile.TemporaryDirectory() as folder:
            reader.try_on(arguments.replay.read_bytes(), Path(folder))
    else:
        _fuzz(reader, arguments.seconds, arguments.output)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    parser = option_parser("fuzz", __doc__)
    parser.add_argument("reader", choices=READERS, help="what reads")
    parser.add_argument("--seconds", type=int, default=600, help="how long (default: %(default)s)")
    parser.add_argument("--output", type=user_path, default=user_path("file_findings"), help="folder of findings")
    parser.add_argument("--replay", type=user_path, metavar="FILE", help="read this file")
    return run_tool("fuzz", _run, parser.parse_args(argv))
