import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tools.artifacts.manifest.manifest import manifest_json, read_manifest
from tools.artifacts.memory_plan.memory_plan import MemoryPlan
from tools.artifacts.program.program import ProgramFile, ScalarType, Tensor
from tools.pipeline.link import link as link_module
from tools.pipeline.link.header import Embedded, header
from tools.pipeline.link.interface import Interface, TensorSpec
from tools.pipeline.link.link import main
from tools.pipeline.link.source import source

PROGRAMS = Path(os.environ["PROGRAMS"])


def _tensor(dtype: ScalarType, sizes: list[int]) -> Tensor:
    tensor = Tensor.__new__(Tensor)
    tensor.scalar_type, tensor.sizes, tensor.dim_order = dtype, sizes, list(range(len(sizes)))
    tensor.shape_dynamism, tensor.allocation_info = 0, None
    return tensor


class Files:
    """A program with a Float [2, 3] input, a scalar Long input and a Float [2] output, with its other files."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.program = folder / "tiny.pte"
        self.program.write_bytes(bytes(range(100)))
        self.manifest = folder / "manifest.json"
        self.write_manifest()
        self.golden = folder / "golden.npz"
        self.header, self.source = folder / "tiny_pte.h", folder / "tiny_pte.S"
        self.plan = folder / "tiny.plan.json"
        values = [_tensor(ScalarType.FLOAT, [2, 3]), _tensor(ScalarType.LONG, []), _tensor(ScalarType.FLOAT, [2])]
        # It is in the second buffer.
        values[2].allocation_info = SimpleNamespace(memory_id=2, memory_offset_low=8)
        self.values = [SimpleNamespace(val=value) for value in values]
        plan = SimpleNamespace(
            name="forward",
            inputs=[0, 1],
            outputs=[2],
            values=self.values,
            operators=[],
            chains=[],
            delegates=[],
            non_const_buffer_sizes=[0, 40, 32],
        )
        program = SimpleNamespace(execution_plan=[plan])
        monkeypatch.setattr(link_module, "load", lambda path: ProgramFile(path, program, path.read_bytes(), 0, 0))

    def write_golden(self, **changes: np.ndarray) -> None:
        arrays = {
            "version": np.array(1),
            "input_0": np.arange(12, dtype=np.float32).reshape(2, 2, 3),
            "input_1": np.array([7, 8], dtype=np.int64),
            "output_0": np.array([[0.5, 1.5], [2, 3]], dtype=np.float32),
        }
        np.savez(self.golden, **(arrays | changes))

    def write_manifest(self, **changes: object) -> None:
        content = {
            "name": "tiny",
            "core": "cortex-m4",
            "operators": [],
            "instructions": [],
            "inputs": [{}, {}],
            "outputs": [{}],
            "keeps_state": False,
        }
        self.manifest.write_text(manifest_json(content | changes), encoding="utf-8")

    def run(self, *more: str, name: str = "tiny") -> int:
        return main(
            [
                *("--program", str(self.program), "--core", "cortex-m4", "--output", str(self.folder)),
                *("--method", "forward", name, str(self.manifest), *more),
            ]
        )


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    return Files(tmp_path, monkeypatch)


def _constant(text: str, name: str) -> str:
    return re.search(rf"{name}(?:\[\])? = ([^;]*);", text)[1]


def test_the_header_has_sizes_arenas_and_specs(files: Files) -> None:
    plan = MemoryPlan("cortex-m4", 185, (40, 32), 8, operators=3, values=9, tensors=5, instructions=4)
    inputs = (TensorSpec(ScalarType.FLOAT, (2, 3), (0, 1)), TensorSpec(ScalarType.LONG, (), ()))
    interface = Interface(inputs, (TensorSpec(ScalarType.FLOAT, (2,), (0,)),))
    manifest = read_manifest(files.manifest)
    text = header(Embedded("tiny", "forward", "tiny", b"123456789", plan, interface, manifest, has_example=False))
    assert "#define TINY_PTE_SIZE 9\n#define TINY_PTE_ALIGNMENT 16\n" in text
    assert "#define TINY_PTE_METHOD_ARENA_SIZE 185\n" in text
    # The second buffer begins at a multiple of 16, and the arena ends with it.
    assert "#define TINY_PTE_PLANNED_ARENA_SIZE 80\n" in text
    assert _constant(text, "kPlannedBufferOffsets") == "{0, 48}"
    assert _constant(text, "kOperatorCount") == "3"
    assert (_constant(text, "kPteSize"), _constant(text, "kPteCrc32")) == ("9", "0xcbf43926")
    assert _constant(text, "kInputs") == (
        "{{6, 2, 6, 24, 0, kInput0Sizes, kInput0DimOrder}, {4, 0, 1, 8, 32, kInput1Sizes, kInput1DimOrder}}"
    )
    assert _constant(text, "kInputNbytes") == "{24, 8}"
    assert _constant(text, "kOutputNbytes") == "{8}"
    assert _constant(text, "kInput1Sizes") == "nullptr"
    assert _constant(text, "kHasExample") == "false"
    assert _constant(text, "kExampleInputs") == "nullptr"


def test_a_buffer_in_another_memory_has_an_array_of_its_own(files: Files) -> None:
    plan = MemoryPlan("cortex-m4", 185, (40,), 0, 3, 9, 5, 4, memories={"sram2": 48})
    manifest = read_manifest(files.manifest)
    text = header(Embedded("tiny", "forward", "tiny", b"", plan, Interface((), ()), manifest, has_example=False))
    assert "#define TINY_PTE_PLANNED_ARENA_SIZE 40\n" in text
    assert "extern unsigned char tiny_pte_sram2[48];\n" in text
    assert (_constant(text, "kNumPlannedBuffers"), _constant(text, "kPlannedBufferSizes")) == ("2", "{40, 48}")
    assert "  if (index == 1) {\n    return tiny_pte_sram2;\n  }\n" in text
    assert '.section .arena.sram2, "aw", %nobits\n' in source("tiny", None, None, plan.memories)


def test_arenas_of_an_npu_are_whole_lines_of_a_cache(files: Files) -> None:
    plan = MemoryPlan("cortex-m55", 185, (40, 40), 64, operators=3, values=9, tensors=5, instructions=4)
    interface = Interface((), ())
    manifest = read_manifest(files.manifest)
    text = header(Embedded("tiny", "forward", "tiny", b"", plan, interface, manifest, False, arena_alignment=32))
    assert "#define TINY_PTE_PLANNED_ARENA_SIZE 96\n" in text
    assert "#define TINY_PTE_ARENA_ALIGNMENT 32\n" in text


def test_the_source_includes_the_file_and_repeats_no_byte(files: Files) -> None:
    files.program.write_bytes(bytes(4 << 20))
    assert files.run() == 0
    text = files.source.read_text(encoding="utf-8")
    assert f'.incbin "{files.program}"' in text
    assert ".balign 16" in text and ".global tiny_pte_data" in text
    assert files.source.stat().st_size + files.header.stat().st_size < 10_000


def test_the_example_is_the_first_sample(files: Files) -> None:
    files.write_golden()
    assert files.run("--golden", "forward", str(files.golden)) == 0
    source = files.source.read_text(encoding="utf-8")
    arrays = {
        name: bytes(int(byte) for byte in body.replace(".byte ", "").replace("\n", ",").strip(",").split(","))
        for name, body in re.findall(r"^(tiny_pte_example_\w+):\n((?:\.byte .*\n)+)", source, flags=re.MULTILINE)
    }
    assert arrays == {
        "tiny_pte_example_input_0": struct.pack("<6f", *range(6)),
        "tiny_pte_example_input_1": struct.pack("<q", 7),
        "tiny_pte_example_output_0": struct.pack("<2f", 0.5, 1.5),
    }
    header = files.header.read_text(encoding="utf-8")
    assert _constant(header, "kHasExample") == "true"
    assert _constant(header, "kExampleInputs") == "{tiny_pte_example_input_0, tiny_pte_example_input_1}"


def test_the_plan_is_what_the_header_says(files: Files) -> None:
    assert files.run() == 0
    plan = json.loads(files.plan.read_text(encoding="utf-8"))
    assert (plan["core"], plan["planned"], plan["values"]) == ("cortex-m4", [40, 32], 3)
    assert plan["outputs"] == [48 + 8]
    assert f"#define TINY_PTE_METHOD_ARENA_SIZE {plan['method']}\n" in files.header.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["", "2x", "a-b", "a b", "über"])
def test_a_name_that_is_no_identifier(files: Files, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert files.run(name=name) == 1
    assert "is no C identifier" in capsys.readouterr().err


def test_a_golden_file_of_another_model(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.write_golden(input_0=np.zeros((1, 4), dtype=np.float32), input_1=np.zeros(1), output_0=np.zeros((1, 2)))
    assert files.run("--golden", "forward", str(files.golden)) == 1
    error = capsys.readouterr().err
    assert "input_0 is float32 [4], in the program FLOAT [2, 3]; it is another model's" in error


def test_a_golden_file_with_too_many_arrays(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.write_golden(output_1=np.zeros((2, 2), dtype=np.float32))
    assert files.run("--golden", "forward", str(files.golden)) == 1
    assert "has 2 outputs, the program 1" in capsys.readouterr().err


def test_an_input_of_a_dtype_that_the_runtime_lacks(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.values[0].val.scalar_type = ScalarType.QINT8
    assert files.run() == 1
    assert "input 0 has the unsupported dtype QINT8; make it one of BYTE, CHAR" in capsys.readouterr().err


def test_an_input_that_is_no_tensor(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.values[0].val = SimpleNamespace()
    assert files.run() == 1
    assert "input 0 is of type SimpleNamespace, not a tensor" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"not a program at all", b"\x7fELF" + bytes(60)])
def test_a_program_that_is_none(files, monkeypatch, capsys, content) -> None:
    monkeypatch.undo()
    files.program.write_bytes(content)
    assert files.run() == 1
    error = capsys.readouterr().err
    assert error.startswith("link: error: ") and "tiny.pte" in error and error.count("\n") == 1
    assert not files.header.exists() and not files.plan.exists()


def test_a_program_that_is_missing(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    files.program.unlink()
    assert files.run() == 1


def test_scales_and_zero_points_of_the_manifest_are_constants(files: Files) -> None:
    files.write_manifest(outputs=[{"scale": 0.1, "zero_point": -3}])
    assert files.run() == 0
    header = files.header.read_text()
    assert "inline constexpr float kOutputScales[] = {0.1f};" in header
    assert "inline constexpr int32_t kOutputZeroPoints[] = {-3};" in header
    assert "inline constexpr float kInputScales[] = {0.0f" in header


def test_names_of_the_manifest_are_constants(files: Files) -> None:
    files.write_manifest(outputs=[{"name": "features_mean"}])
    assert files.run() == 0
    header = files.header.read_text()
    assert "inline constexpr size_t kOutput_features_mean = 0;" in header
    assert "kInput_" not in header


@pytest.mark.parametrize("keeps_state", [False, True])
def test_a_program_keeps_state_if_its_manifest_says_so(files: Files, keeps_state: bool) -> None:
    files.write_manifest(keeps_state=keeps_state)
    assert files.run() == 0
    assert _constant(files.header.read_text(), "kKeepsState") == str(keeps_state).lower()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"core": "cortex-m55"}, "the program is lowered for cortex-m55, the image is for cortex-m4"),
        ({"inputs": []}, "other inputs or outputs than the program"),
        ({"outputs": 3}, "is no manifest"),
        ({"outputs": [{"name": "a = 0; int b"}]}, "an input or output has the name"),
    ],
)
def test_a_manifest_that_does_not_fit(files, capsys, changes, message) -> None:
    files.write_manifest(**changes)
    assert files.run() == 1
    assert message in capsys.readouterr().err
    assert not files.header.exists()


def test_the_example_lies_in_the_programs_dim_order(files: Files) -> None:
    files.write_golden(dim_order_input_0=np.array([1, 0], dtype=np.uint8))
    assert files.run("--golden", "forward", str(files.golden)) == 0
    values = np.array([0, 3, 1, 4, 2, 5], dtype=np.float32).tobytes()
    assert ".byte " + ",".join(map(str, values)) in files.source.read_text()


def _link(program: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The command as the rule runs it, on a program of runtime/tests."""
    command = [sys.executable, "-m", "tools.quiet.start", "link", "tools.pipeline.link"]
    command += ["--program", str(PROGRAMS / f"{program}.pte"), "--core", "cortex-m4", "--output", str(folder), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _manifest(folder: Path) -> str:
    path = folder / "manifest.json"
    content = {"name": "x", "core": "portable", "operators": [], "instructions": [], "keeps_state": False}
    path.write_text(manifest_json(content | {"inputs": [{}], "outputs": [{}]}), encoding="utf-8")
    return str(path)


def test_methods_of_a_program_share_its_bytes(tmp_path: Path) -> None:
    manifest = _manifest(tmp_path)
    methods = ["--method", "forward", "pair", manifest, "--method", "another", "pair_another", manifest]
    assert _link("methods", tmp_path, *methods).returncode == 0
    assert "pair_pte_data:" in (tmp_path / "pair_pte.S").read_text()
    assert "pte_data" not in (tmp_path / "pair_another_pte.S").read_text()
    further = (tmp_path / "pair_another_pte.h").read_text()
    assert "data() { return pair_pte_data; }" in further and 'kMethodName[] = "another"' in further
    plans = [json.loads((tmp_path / f"{name}.plan.json").read_text()) for name in ("pair", "pair_another")]
    assert [plan["instructions"] for plan in plans] == [1, 2]


def test_delegates_are_refused(tmp_path: Path) -> None:
    result = _link("delegate", tmp_path, "--method", "forward", "x", _manifest(tmp_path))
    assert result.returncode == 1
    assert "delegate.pte" in result.stderr and "SomeBackend" in result.stderr and "Traceback" not in result.stderr
    assert not (tmp_path / "x_pte.h").exists()


def test_delegates_take_what_their_backend_says(tmp_path: Path) -> None:
    options = ["--method", "forward", "x", _manifest(tmp_path)]
    sizes = []
    for method, temp in ((0, 0), (24, 100)):
        assert _link("delegate", tmp_path, *options, "--backend", "SomeBackend", str(method), str(temp)).returncode == 0
        plan = json.loads((tmp_path / "x.plan.json").read_text())
        sizes.append((plan["method"], plan["temp"]))
    assert (sizes[1][0] - sizes[0][0], sizes[1][1] - sizes[0][1]) == (24, 100)


def test_a_corrupted_delegate_is_refused(tmp_path: Path) -> None:
    options = ["--method", "forward", "x", _manifest(tmp_path), "--backend", "EthosUBackend", "48", "0"]
    result = _link("delegate_npu", tmp_path, *options)
    assert result.returncode == 1
    assert "delegate 0 is corrupted" in result.stderr and "export the model again" in result.stderr
    assert not (tmp_path / "x_pte.h").exists()
