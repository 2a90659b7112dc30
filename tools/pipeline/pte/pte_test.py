"""Programs that were exported elsewhere; //conformance/old_programs runs images of one."""

import json
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tools.artifacts.golden.golden import read_golden
from tools.artifacts.manifest.manifest import read_manifest
from tools.artifacts.program.program import load
from tools.pipeline.link.interface import find_method
from tools.pipeline.pte.__main__ import main
from tools.quiet.testing import given_file

CNN = Path(os.environ["CNN"])
PROGRAMS = Path(os.environ["PROGRAMS"])
PACKED = given_file("PACKED", ".pte")


NPU = Path(os.environ["NPU"])
# The command that sets OFM_BASE0.
_OFM_BASE0 = 0x4010
STOCK_EXAMPLES, STOCK_U55, STOCK_U65 = (Path(os.environ[f"STOCK_{name}"]) for name in ("EXAMPLES", "U55", "U65"))


def _take(folder: Path, program: Path, npu: Path | None = None, **examples: np.ndarray) -> int:
    """Takes a program; the examples are written to a file if there are any."""
    arguments = ["--program", str(program), "--name", "net", "--log", str(folder / "log")]
    for kind, name in (("manifest", "net.manifest.json"), ("golden", "net.golden.npz"), ("output", "net.pte")):
        arguments += [f"--{kind}", str(folder / name)]
    if examples:
        np.savez(folder / "examples.npz", **examples)
        arguments += ["--examples", str(folder / "examples.npz")]
    if npu:
        arguments += ["--npu", str(npu)]
    return main(arguments)


def test_a_program_has_what_executorch_computes(tmp_path: Path) -> None:
    assert _take(tmp_path, CNN) == 0
    assert (tmp_path / "net.pte").read_bytes() == CNN.read_bytes()
    manifest = read_manifest(tmp_path / "net.manifest.json")
    assert (manifest.name, manifest.core, manifest.keeps_state) == ("net", "portable", False)
    assert "aten::convolution" in [operator.name for operator in manifest.operators]
    assert len(manifest.calls) >= len(manifest.operators)
    golden = read_golden(tmp_path / "net.golden.npz")
    assert golden.inputs[0].any()
    assert np.isfinite(golden.outputs[0]).all()


def test_the_users_examples_count(tmp_path: Path) -> None:
    assert _take(tmp_path, CNN) == 0
    made = read_golden(tmp_path / "net.golden.npz")
    x, y = 2 * made.inputs[0][0], made.outputs[0][0]
    assert _take(tmp_path, CNN, input_0=x) == 0
    other = read_golden(tmp_path / "net.golden.npz")
    assert np.array_equal(other.inputs[0][0], x)
    assert not np.array_equal(other.outputs[0][0], y)
    # The user's outputs become the expected ones.
    assert _take(tmp_path, CNN, input_0=x, output_0=y) == 0
    assert np.array_equal(read_golden(tmp_path / "net.golden.npz").outputs[0][0], y)


def _shape_of(path: Path) -> np.ndarray:
    folder = path.parent
    assert _take(folder, CNN) == 0
    return read_golden(folder / "net.golden.npz").inputs[0][0]


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("input_1", lambda x: x, "has no array input_0, which the program has; it has input_1"),
        ("input_0", lambda x: x.astype(np.float64), "input_0 has dtype float64, and the program takes torch.float32"),
        ("input_0", lambda x: x[..., :1], "input_0 has the shape ["),
    ],
)
def test_examples_that_do_not_fit_are_refused(tmp_path, capfd, key, change, message) -> None:
    made = tmp_path / "made"
    made.mkdir()
    x = _shape_of(made / "x")
    assert callable(change)
    assert _take(tmp_path, CNN, **{key: change(x)}) == 1
    assert message in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("net")] == []


def test_what_is_no_such_program_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.pte").write_text("text" * 20, encoding="utf-8")
    for program, message in (
        (tmp_path / "text.pte", "is not an ExecuTorch program; pass a .pte file"),
        (tmp_path / "missing.pte", "No such file or directory"),
        (PACKED, "laid out the layers of operator torch_fusion::"),
        (PROGRAMS / "missing_operator.pte", "ExecuTorch's runtime on this machine can't run it ("),
    ):
        assert _take(tmp_path, program) == 1
        error = capfd.readouterr().err
        assert message in error
        # The last line may name the log.
        assert any(line.startswith("pte: error: ") for line in error.splitlines()[-2:])
    assert {path.name for path in tmp_path.iterdir()} == {"log", "text.pte"}


def _npu(folder: Path, **changed: object) -> Path:
    """The description of the board's NPU, with other values."""
    path = folder / "npu.json"
    path.write_text(json.dumps(json.loads(NPU.read_text(encoding="utf-8")) | changed), encoding="utf-8")
    return path


def test_delegates_for_the_boards_npu_are_computed_by_its_model(tmp_path: Path) -> None:
    examples = np.load(STOCK_EXAMPLES)
    assert _take(tmp_path, STOCK_U55, NPU, input_0=examples["input_0"]) == 0
    assert (tmp_path / "net.pte").read_bytes() == STOCK_U55.read_bytes()
    # PyTorch's quantized module in floating point rounds differently from integers, by one step.
    output = read_golden(tmp_path / "net.golden.npz").outputs[0][0]
    method = find_method(load(STOCK_U55))
    dequantize = method.chains[0].instructions[-1].instr_args
    step = method.values[dequantize.args[1]].val.double_val
    assert 1e-4 < step < 0.02
    assert np.abs(output - examples["output_0"]).max() <= 1.01 * step
    assert np.ptp(output) > 10 * step
    # With the user's outputs, nothing is computed.
    assert _take(tmp_path, STOCK_U55, NPU, **examples) == 0
    assert np.array_equal(read_golden(tmp_path / "net.golden.npz").outputs[0][0], examples["output_0"])


def _changed(folder: Path, change: Callable[[bytearray, bytes], None]) -> Path:
    """The program with another delegate."""
    file = load(STOCK_U55)
    content = file.delegate(find_method(file).delegates[0].processed)
    changed = bytearray(content)
    change(changed, content)
    data = file.data.replace(content, bytes(changed))
    assert data != file.data
    path = folder / "changed.pte"
    path.write_bytes(data)
    return path


def _set_output_base(changed: bytearray, content: bytes) -> None:
    """Makes a command place a tensor far beyond the memory."""
    struct.pack_into("<I", changed, content.index(struct.pack("<I", _OFM_BASE0)) + 4, 0x00F0_0000)


def _misname_block(changed: bytearray, content: bytes) -> None:
    at = content.index(b"weight_data")
    changed[at : at + 6] = b"height"


def _set_shape(changed: bytearray, content: bytes) -> None:
    """Sets the shape to rows of pixels, as in programs of older releases, whose runtime reorders the elements."""
    at = content.index(struct.pack("<6i", 1, 1, 1, 3, 8, 8))
    struct.pack_into("<6i", changed, at, 1, 1, 1, 8, 8, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set_output_base, "reaches beyond its memory: .*bus error: the NPU"),
        (_misname_block, "delegate 0 is corrupted: block b'height_data"),
        (_set_shape, r"argument 0 of delegate 0 has the sizes \[1, 3, 8, 8\] as it lies in memory, and the NPU's are"),
    ],
)
def test_damaged_delegates_are_refused(tmp_path, capfd, change, message) -> None:
    # Whatever outputs there are to compare with.
    assert _take(tmp_path, _changed(tmp_path, change), NPU, **np.load(STOCK_EXAMPLES)) == 1
    assert re.search(message, capfd.readouterr().err)
    assert not list(tmp_path.glob("net*"))


def test_delegates_that_are_not_for_the_boards_npu_are_refused(tmp_path, capfd) -> None:
    u65 = {"accelerator": "ethos-u65-256"}
    for program, npu, message in (
        (STOCK_U55, None, 'has a delegate of EthosUBackend, for an Ethos-U; give the pte_program backend = "ethos_u"'),
        (STOCK_U55, {"accelerator": "ethos-u55-256"}, "is for ethos-u55-128, and the board has ethos-u55-256"),
        (STOCK_U55, u65, "delegate 0 is for ethos-u55-128, and the board has ethos-u65-256"),
        (STOCK_U55, {"arena_bytes": 1024}, "bytes, and arena_bytes of the board's NPU are 1,024"),
        (STOCK_U65, u65, "a memory mode that gives the NPU a fast memory of its own (Dedicated_Sram)"),
        (CNN, {}, "has no delegate of EthosUBackend"),
    ):
        description = _npu(tmp_path, **npu) if isinstance(npu, dict) else npu
        assert _take(tmp_path, program, description) == 1
        assert message in capfd.readouterr().err
    assert not list(tmp_path.glob("net*"))
