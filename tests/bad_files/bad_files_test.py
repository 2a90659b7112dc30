"""Files that a tool reads may hold anything: it reads them, or says in one error which one is wrong, and how."""

import io
import json
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.bad_files.mutations import mutated_bytes, mutated_value
from tools.artifacts.board.board import read_board
from tools.artifacts.board.testing import board_json
from tools.artifacts.golden.golden import read_golden
from tools.artifacts.image_index.image_index import read_image_index
from tools.artifacts.manifest.manifest import read_manifest
from tools.artifacts.memory_plan.memory_plan import MemoryPlan, memory_plan_json, read_memory_plan
from tools.artifacts.program import load
from tools.artifacts.quantization_report.quantization_report import (
    Accuracy,
    Layer,
    QParams,
    QuantizationReport,
    Weight,
    quantization_report_json,
    read_quantization_report,
)
from tools.artifacts.size_report.size_report import Memory, SizeReport, read_size_report, size_report_json
from tools.artifacts.uf2.uf2 import uf2
from tools.commands.flash.uf2 import copy_uf2
from tools.commands.infer.infer import load_arrays
from tools.commands.profile import profile
from tools.pipeline.link import link
from tools.pipeline.linker_script import linker_script
from tools.pipeline.registry.catalog import KERNELS, read_catalog
from tools.pipeline.registry.registry import origins_of
from tools.quiet.console import UserError

MUTANTS = 300

MODEL = {"".join(Path(path).suffixes): Path(path) for path in os.environ["MODEL"].split()}
PROGRAM, MANIFEST, GOLDEN = MODEL[".pte"], MODEL[".manifest.json"], MODEL[".golden.npz"]
OPERATORS = next(KERNELS.glob("prim/operators.yaml"))

PLAN = memory_plan_json(MemoryPlan("host", 64, (64, 128), 0, 1, 8, 2, 1))
MEMORY = Memory(10, 100, {"kernels": 6, "runtime": 4})
SIZES = size_report_json(SizeReport("image", "sine", "tiny", "cortex-m4", MEMORY, MEMORY))
LAYER = Layer("fc", "aten::linear", "int8", "", Weight("per tensor", 1, 0.1, 0.1), QParams(0.1, 3), 40.0)
QUANTIZATION = quantization_report_json(QuantizationReport("sine", "cortex-m4", 8, (LAYER,), Accuracy(9, 0.9, 0.8)))
IMAGES: dict[str, object] = {
    "format": "index of images",
    "version": 1,
    "images": [dict.fromkeys(("board", "elf", "plan", "description", "report", "golden", "manifest", "model"), "x")],
}

# Bytes that no file of these kinds can honestly make a tool take.
MEMORY_LIMIT = 1 << 30


def holds(read: Callable[[Path], object], path: Path, content: bytes, others: tuple[str, ...] = ()) -> None:
    """Reads a file of some content. A failure is a UserError that names the file, or one that it doesn't fit."""
    path.write_bytes(content)
    try:
        read(path)
    except UserError as error:
        message = str(error)
        # A board with too much or too little of something is an error of its BUILD file, not of board.json.
        named = any(name in message for name in (path.name, *others))
        assert named or message.startswith("linker_script: error: board "), f"{message!r} names no file"
        assert "Traceback" not in message
    except Exception as error:
        raise AssertionError(f"{content[:2000]!r}") from error


@pytest.fixture(scope="module", autouse=True)
def limited_memory() -> Iterator[None]:
    """Limits memory: a request of more than MEMORY_LIMIT gets a MemoryError."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_LIMIT, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def exit_status_of(main: Callable[[list[str]], int], *arguments: object) -> Callable[[Path], None]:
    """Returns a reader: the program, with the file in place of None. Status 1 becomes the UserError that it printed."""

    def read(path: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            said = io.StringIO()
            patch.setattr("sys.stderr", said)
            status = main([str(path if argument is None else argument) for argument in arguments])
        if status:
            assert status == 1
            assert "error: " in said.getvalue()
            raise UserError(said.getvalue())

    return read


FILES = {"program": PROGRAM, "manifest": MANIFEST, "golden": GOLDEN}


def linked(**files: Path | None) -> Callable[[Path], None]:
    """Returns the step that links a program, with one of its files in the place of None."""
    given = FILES | files
    options = [
        *("--program", given["program"], "--core", "host"),
        *("--method", "forward", "x", given["manifest"], "--golden", "forward", given["golden"]),
    ]
    return exit_status_of(link.main, *options, "--output", os.environ["TEST_TMPDIR"])


JSON = {
    "board": (board_json(), read_board),
    "board, linker script": (board_json(), exit_status_of(linker_script.main, "--board", None, "--output", os.devnull)),
    "manifest, header": (json.loads(MANIFEST.read_text()), linked(manifest=None)),
    "manifest, profile": (
        json.loads(MANIFEST.read_text()),
        lambda path: profile.table(profile.parse("profile 0: 1 instructions,\n", path, "tiny")),
    ),
    "manifest, registry": (json.loads(MANIFEST.read_text()), lambda path: origins_of([read_manifest(path)])),
    "plan": (json.loads(PLAN), read_memory_plan),
    "size report": (json.loads(SIZES), read_size_report),
    "quantization report": (json.loads(QUANTIZATION), read_quantization_report),
    "image index": (IMAGES, read_image_index),
}


@pytest.mark.parametrize("name", JSON)
def test_json(name: str, tmp_path: Path) -> None:
    value, read = JSON[name]
    path = tmp_path / "file.json"
    for changed in mutated_value(value, MUTANTS):
        holds(read, path, json.dumps(changed).encode())
    for content in mutated_bytes(json.dumps(value).encode(), MUTANTS):
        holds(read, path, content)
    holds(read, path, b"[" * 100_000)


def test_kernel_table(tmp_path: Path) -> None:
    path = tmp_path / "group" / "operators.yaml"
    path.parent.mkdir()

    def read(_: Path) -> None:
        read_catalog(tmp_path)

    entries = yaml.safe_load(OPERATORS.read_text())
    for changed in mutated_value(entries[:6], MUTANTS):
        holds(read, path, yaml.safe_dump(changed, allow_unicode=True).encode())
    for content in mutated_bytes(OPERATORS.read_bytes()[:1500], MUTANTS):
        holds(read, path, content)


def test_golden(tmp_path: Path) -> None:
    good = GOLDEN.read_bytes()
    with np.load(GOLDEN) as data:
        uncompressed = io.BytesIO()
        np.savez(uncompressed, **{name: array[:2] if array.ndim else array for name, array in data.items()})
    for read in (read_golden, load_arrays, linked(golden=None)):
        for content in [
            *mutated_bytes(good, MUTANTS // 2),
            *mutated_bytes(uncompressed.getvalue(), MUTANTS // 2, seed=2),
        ]:
            holds(read, tmp_path / "file.golden.npz", content)


def test_program(tmp_path: Path) -> None:
    for read in (load, linked(program=None)):
        for content in mutated_bytes(PROGRAM.read_bytes(), MUTANTS):
            holds(read, tmp_path / "file.pte", content, others=(GOLDEN.name, MANIFEST.name))


def test_uf2_reaches_the_drive_only_if_it_is_one(tmp_path: Path) -> None:
    drive = tmp_path / "drive"
    drive.mkdir()
    (drive / "INFO_UF2.TXT").write_text("Board-ID: RP2350\n")
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 {drive} vfat rw 0 0\n")
    good = uf2(bytes(range(256)) * 5, 0x10000000, 0xE48BFF59)
    path = tmp_path / "image.uf2"
    for content in mutated_bytes(good, MUTANTS):
        (drive / path.name).unlink(missing_ok=True)
        holds(lambda file: copy_uf2(file, mounts), path, content)
        if (drive / path.name).exists():
            # Whatever is left as it was is the blocks' numbers, addresses and marks.
            assert len(content) == len(good)
            assert [content[at : at + 32] for at in range(0, len(good), 512)] == [
                good[at : at + 32] for at in range(0, len(good), 512)
            ]
    holds(lambda file: copy_uf2(file, mounts), path, good)
    assert (drive / path.name).read_bytes() == good
