"""Lists what reads files that others made, each with a good file of it."""

import io
import itertools
import json
import lzma
import os
import resource
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.bad_files.mutations import mutated_bytes, mutated_members, mutated_value
from tools.artifacts.board.board import read_board
from tools.artifacts.board.testing import board_json
from tools.artifacts.elf_image.testing import CODE, elf
from tools.artifacts.golden.golden import read_golden
from tools.artifacts.image_index.image_index import read_image_index
from tools.artifacts.intel_hex.writer import intel_hex
from tools.artifacts.manifest.manifest import read_manifest
from tools.artifacts.memory_plan.memory_plan import MemoryPlan, memory_plan_json, read_memory_plan
from tools.artifacts.profile.profile import read_profile
from tools.artifacts.program import load
from tools.artifacts.signed_program.signed_program import SignedProgram, load_private_key, load_public_key, sign
from tools.artifacts.testing import FORMATS
from tools.artifacts.uf2.uf2 import uf2
from tools.commands.flash.uf2 import copy_uf2
from tools.commands.infer.infer import fit, load_samples
from tools.commands.infer.protocol import Client, Device, FrameReader, TensorSpec, encode_frame
from tools.commands.monitor.monitor import LinePrinter
from tools.commands.netron.netron import server
from tools.commands.new_model.no_model_file import model_file_text
from tools.commands.packages.audit import debian_findings, python_findings
from tools.commands.packages.packages import DEBIAN, Package
from tools.commands.profile import profile
from tools.commands.update.update import read_update
from tools.commands.verify import verify
from tools.pipeline.compile import compile as compiler
from tools.pipeline.link import link
from tools.pipeline.linker_script import linker_script
from tools.pipeline.model_file.model_file import ModelFile
from tools.pipeline.pte.pte import take
from tools.pipeline.registry.catalog import KERNELS, read_catalog
from tools.pipeline.registry.registry import origins_of
from tools.quiet.console import UserError, printable
from tools.verify.budget.budget import Measures, baseline_json, markdown, over, read_baseline
from tools.verify.exploration import exploration
from tools.verify.run_pte.run_pte import RunError, encode_inputs, load_input, note_of_methods

_MODEL = {"".join(Path(path).suffixes): Path(path).absolute() for path in os.environ["MODEL"].split()}
_FILES = {"program": _MODEL[".pte"], "manifest": _MODEL[".manifest.json"], "golden": _MODEL[".golden.npz"]}

_FILE_NAMES = [file.name for file in _FILES.values()]

# Bytes that no file of these kinds can honestly make a tool take.
_MEMORY_LIMIT = 1 << 30

# The bytes that are put at every offset of a file: in a program, left out fields of tables and huge numbers; in an
# array, the end of a word of Python.
_EVERYWHERE = {".pte": (b"\0\0", b"\0\0\0\x40"), ".npy": (b",",)}


class Reader(NamedTuple):
    """A reader of files.

    Attributes:
        name: of a file, as a user may call it.
        good: what a file holds: bytes, or a value of JSON.
        read: reads a file.
    """

    name: str
    good: Any
    read: Callable[[Path], object]

    def kinds(self, count: int, seed: int = 1) -> list[Iterator[bytes]]:
        """Returns for each way to damage a file so many that are damaged that way."""
        if not isinstance(self.good, bytes):
            changed = (json.dumps(value).encode() for value in mutated_value(self.good, count, seed))
            return [changed, mutated_bytes(json.dumps(self.good).encode(), count, seed)]
        members = [mutated_members(self.good, count, seed)] if zipfile.is_zipfile(io.BytesIO(self.good)) else []
        return [mutated_bytes(self.good, count, seed), *members]

    def damaged(self, count: int, seed: int = 1) -> Iterator[bytes]:
        """Yields damaged files."""
        if isinstance(self.good, bytes):
            for changed in _EVERYWHERE.get(Path(self.name).suffix, ()):
                for at in range(0, len(self.good), len(changed)):
                    yield self.good[:at] + changed + self.good[at + len(changed) :]
        else:
            yield b"[" * 100_000
        yield from itertools.chain(*self.kinds(count, seed))

    def try_on(self, content: bytes, folder: Path) -> None:
        """Reads a file of some content. A failure is a UserError that names the file, or one that it doesn't fit."""
        path = folder / self.name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        try:
            with redirect_stdout(io.StringIO()):
                self.read(path)
        except UserError as error:
            message = str(error)
            # A board with too much or too little of something is an error of its BUILD file, not of board.json.
            names = (path.name, path.with_suffix(".py").name, f"{path.parent}:", *_FILE_NAMES)
            is_named = any(name in message for name in names) or message.startswith("linker_script: error: board ")
            # One of operators names these, and their lines of the model.
            is_named |= message.startswith("compile: error:") and " operator " in message
            assert is_named, f"{message!r} names no file"
            assert "Traceback" not in message
        except Exception as error:
            raise AssertionError(f"{content[:2000]!r}") from error


@contextmanager
def limited_memory() -> Iterator[None]:
    """Limits memory: a request of more than a gibibyte gets a MemoryError."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + _MEMORY_LIMIT, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _exit_status_of(main: Callable[[list[str]], int], *arguments: object) -> Callable[[Path], None]:
    """Returns a reader: the program, with the file in place of None. Its message becomes a UserError."""

    def read(path: Path) -> None:
        with redirect_stderr(io.StringIO()) as said:
            status = main([str(path if argument is None else argument) for argument in arguments])
        # NumPy warns of headers that Python 2 wrote, and reads them.
        if "error: " in said.getvalue():
            assert status == 1
            raise UserError(said.getvalue())

    return read


def _linked(**files: None) -> Callable[[Path], None]:
    """Returns the step that links a program, with one of its files in the place of None."""
    given = _FILES | files
    method = ("--method", "forward", "x", given["manifest"], "--golden", "forward", given["golden"])
    return _step(link.main, given["program"], *method)


def _compiled(**files: None) -> Callable[[Path], None]:
    """Returns the step that compiles a program, with one of its files in the place of None."""
    given = _FILES | files
    names = ("--name", "x", "--manifest", given["manifest"], "--golden", given["golden"])
    return _step(compiler.main, given["program"], *names, "--memory", "smallest")


def _step(main: Callable[[list[str]], int], program: Path | None, *options: object) -> Callable[[Path], None]:
    folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
    return _exit_status_of(main, "--program", program, "--core", "host", *options, "--output", folder)


def _copy_to_drive(path: Path) -> None:
    """Copies a UF2 file to a drive, which takes it only if numbers, addresses and marks of its blocks are right."""
    drive, mounts, good = path.parent / "drive", path.parent / "mounts", READERS["UF2"].good
    drive.mkdir(exist_ok=True)
    (drive / "INFO_UF2.TXT").write_text("Board-ID: RP2350\n")
    (drive / path.name).unlink(missing_ok=True)
    mounts.write_text(f"/dev/sda1 {drive} vfat rw 0 0\n")
    copy_uf2(path, mounts)
    copied = (drive / path.name).read_bytes()
    assert [copied[at : at + 32] for at in range(0, len(copied), 512)] == [
        good[at : at + 32] for at in range(0, len(good), 512)
    ]


def _check_budget(path: Path) -> None:
    baseline = read_baseline(path, "//:update")
    now = Measures({"flash": 3000, "ms": 2.5}, {"flash": {"kernels": 2000}, "ms": {"fc": 2.5}})
    over({"flash": 10, "ms": 1}, now, baseline, "//:update")
    markdown("net", {"flash": 10}, now, baseline)


def _prepare_run(path: Path) -> None:
    """Prepares a program's run, for which a command has no other program."""
    try:
        encode_inputs(path, [])
        note_of_methods(path, None)
    except RunError as error:
        raise UserError(f"{path.name}: {error}") from error


def _load_model(path: Path) -> None:
    """Loads a model file's text around a file."""
    file = path.with_suffix(".py")
    file.write_text(model_file_text(path, "torch.nn.Identity", ["1,4"]))
    model = ModelFile(file)
    model.model()
    model.example_inputs()


def _new_model(path: Path) -> None:
    model_file_text(path, "torch.nn.Linear", ["1,4"])


def _verify(path: Path) -> None:
    image = path.parent / "ours.elf"
    image.write_bytes(elf())
    _exit_status_of(verify.main, "--file", image, None)(path)


class _Answers:
    """A device that gives a file's answers, each behind a byte with its length, whatever it is asked."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._answers = io.BytesIO(path.read_bytes())
        self._requests = FrameReader()
        self._sent = b""

    def write(self, data: bytes) -> None:
        for request in self._requests.feed(data):
            status, *answer = self._answers.read(next(iter(self._answers.read(1)), 0)) or [0]
            header = bytes([request[0] | 0x80, status, *request[2:4]])
            self._sent += encode_frame(header + bytes(answer))

    def read(self, timeout: float) -> bytes:
        sent, self._sent = self._sent, b""
        return sent

    def close(self) -> None:
        pass


def _infer(path: Path) -> None:
    """Asks a device for an inference."""
    try:
        client = Client(_Answers(path), patience=0.02)
        client.infer([np.zeros(spec.shape, spec.dtype) for spec in client.device.inputs])
        client.close()
    except UserError as error:
        raise UserError(f"{path.name}: {error}") from error


def _profiled(path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    profile.table(profile.parse(text, _FILES["manifest"], "tiny"))


def _monitor(path: Path) -> None:
    shown: list[str] = []
    printer = LinePrinter(None, shown.append)
    printer.feed(path.read_bytes())
    printer.end_line()
    assert "".join(shown) == printable("".join(shown))


def _audit(path: Path) -> None:
    """Asks for a package's advisories, and for its version in Debian; what is no answer is a line of the output."""
    package = Package("net", "1.0", "", "", DEBIAN, ("torch",), ())
    listing = "'https://deb.example/debian-security/dists/stable-security/main/binary-amd64/Packages.xz' x 0"
    python_findings([package], "https://pypi.example/simple", lambda _: path.read_bytes())
    debian_findings([package], listing, lambda _: path.read_bytes())
    debian_findings([package], listing, lambda _: lzma.compress(path.read_bytes()))


def _saved(save: Callable[..., object], value: object) -> bytes:
    file = io.BytesIO()
    save(value, file)
    return file.getvalue()


def _readers() -> Iterator[tuple[str, str, Any, Callable[[Path], object]]]:
    """Yields names of readers, names of files, what these hold, and functions that read them."""
    yield from ((each.name + each.kind, "x.json", json.loads(each.write(each.record)), each.read) for each in FORMATS)
    manifest = json.loads(_FILES["manifest"].read_text())
    program, golden = _FILES["program"].read_bytes(), _FILES["golden"].read_bytes()
    with np.load(_FILES["golden"]) as arrays:
        samples = {name: array[:2] if array.ndim else array for name, array in arrays.items()}

    advisories = {"vulnerabilities": [{"id": "CVE-1", "fixed_in": ["1.1"], "withdrawn": None}]}
    yield "advisories", "advisories.json", advisories, _audit
    yield "advisories, Debian", "Packages", b"Package: net\nVersion: 1.1\n\nPackage: x\nVersion: 2", _audit
    yield "array", "x.npy", _saved(lambda value, file: np.save(file, value), np.ones(3)), load_input
    spec = TensorSpec(samples["input_0"].dtype, samples["input_0"].shape[1:], 0, 0)
    device = Device("net", 0, 0, 1, 0, 1, (spec,), (spec,))
    yield "arrays", "x.npz", golden, lambda path: fit(load_samples(path, device)[1][0][0], spec, path.name)
    baseline = json.loads(baseline_json(Measures({"flash": 9}, {"flash": {"x": 9}})))
    yield "baseline", "budget.json", baseline, _check_budget
    yield "board", "board.json", board_json(), read_board
    linker = _exit_status_of(linker_script.main, "--board", None, "--output", os.devnull)
    yield "board, linker script", "board.json", board_json(), linker
    answers = [
        struct.pack("<BBBBB5I", 0, 1, 1, 1, 0, 32, 8, 100, 7, 1000) + b"tiny",
        *2 * [struct.pack("<BbBHIIii", 0, 6, 2, 0, 0, 8, 1, 2)],
        b"\0",
        bytes(1 + 16),
        b"\0",
    ]
    answered = b"".join(bytes([len(answer)]) + answer for answer in answers)
    yield "console, inference", "console", answered, _infer
    yield "console, monitor", "console", b"FAULT: usage\r\npc 0x08000004 lr 0x08000008\r\n\x1b[2J> ", _monitor
    measured = b"profile 0: 3000 cycles, 46 us\r\nPASS\r\n"
    yield "console, profile", "console", measured, _profiled
    yield "ELF", "image.elf", elf(), _verify
    sample = {name: array[0] for name, array in samples.items() if array.ndim}
    one = _saved(lambda value, file: np.savez(file, **value), sample)
    yield "examples", "x.npz", one, lambda path: take(_FILES["program"], "net", path)
    yield "golden", "x.golden.npz", golden, read_golden
    yield "golden, link", "x.golden.npz", golden, _linked(golden=None)
    yield "Intel HEX", "image.hex", intel_hex([(0x08000000, CODE)], 0x08000005).encode(), _verify
    fields = ("board", "elf", "plan", "description", "report", "golden", "manifest", "model")
    index = {"format": "index of images", "version": 1, "images": [dict.fromkeys(fields, "x")]}
    yield "image index", "images.json", index, read_image_index
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    yield "key, private", "key.pem", private, load_private_key
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    yield "key, public", "key.pub", public, load_public_key
    entries = yaml.safe_load(next(KERNELS.glob("prim/operators.yaml")).read_text())
    yield "kernel table", "group/operators.yaml", entries[:6], lambda path: read_catalog(path.parents[1])
    text = yaml.safe_dump(entries[:6]).encode()
    yield "kernel table, text", "group/operators.yaml", text, lambda path: read_catalog(path.parents[1])
    yield "manifest, compile", "x.manifest.json", manifest, _compiled(manifest=None)
    yield "manifest, link", "x.manifest.json", manifest, _linked(manifest=None)
    console = "profile 0: 1 instructions,\n"
    yield "manifest, profile", "x.json", manifest, lambda path: profile.table(profile.parse(console, path, "tiny"))
    yield "manifest, registry", "x.json", manifest, lambda path: origins_of([read_manifest(path)])
    image = {"program": 0, "board": "desk", "rows": [[5, 6]], "untimed": "", "clock_hz": 9, "accuracy": 0.5}
    memories = {"memories": {name: {"used": 9} for name in ("flash", "RAM")}}
    page = {"programs": [{"name": "net"}], "images": [image | memories]}
    explored = _exit_status_of(exploration.main, "--budget", "flash=9,ms=5", "--page", None)
    yield "page", "page.json", page, explored
    plan = json.loads(memory_plan_json(MemoryPlan("host", 64, (64, 128), 0, 1, 8, 2, 1)))
    yield "plan", "plan.json", plan, read_memory_plan
    yield "profile", "profile.json", [{"index": 0, "count": 5, "cycles": 6}], read_profile
    yield "program", "x.pte", program, load
    yield "program, compile", "x.pte", program, _compiled(program=None)
    yield "program, examples", "x.pte", program, lambda path: take(path, "net", _FILES["golden"])
    yield "program, link", "x.pte", program, _linked(program=None)
    yield "program, netron", "x.pte", program, lambda path: server(path).server_close()
    yield "program, run", "x.pte", program, _prepare_run
    header = json.dumps({"weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    yield "safetensors", "x.safetensors", len(header).to_bytes(8, "little") + header + bytes(8), _load_model
    signed = sign(SignedProgram(2, "leaf sensor", bytes(40)), key)
    yield "signed program", "net.update", signed, read_update
    exported = torch.export.export(torch.nn.Linear(4, 2).eval(), (torch.zeros(1, 4),))
    yield "exported", "x.pt2", _saved(torch.export.save, exported), _load_model
    yield "state dict", "x.pt", _saved(torch.save, torch.nn.Linear(4, 2).state_dict()), _load_model
    yield "module", "x.pt", _saved(torch.save, torch.nn.Linear(4, 2)), _new_model
    config = {"architectures": ["BertModel"], "vocab_size": 9}
    yield "transformers", "folder/config.json", config, lambda path: _new_model(path.parent)
    yield "UF2", "image.uf2", uf2(bytes(range(256)) * 5, 0x10000000, 0xE48BFF59), _copy_to_drive


READERS = {name: Reader(*rest) for name, *rest in _readers()}
