import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir._serialize._program import deserialize_pte_binary

from tools.artifacts.program import ProgramError, constant_bytes, load, read
from tools.artifacts.program.program import ScalarType, Tensor, unwritten_bytes
from tools.artifacts.program.program_schema import AllocationDetails, JumpFalseCall, KernelCall

FOLDER = Path(os.environ["PROGRAMS"])
NAMES = sorted(path.stem for path in FOLDER.glob("*.pte"))


def _plain(value: object) -> object:
    """A value as lists, dicts and numbers, with what ExecuTorch's reader and ours write differently made equal."""
    if dataclasses.is_dataclass(value):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__} | fields
    if isinstance(value, bytes | list | tuple):
        return [_plain(item) for item in value]
    return value


@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_executorch(name: str) -> None:
    path = FOLDER / f"{name}.pte"
    expected = deserialize_pte_binary(path.read_bytes()).program
    actual = read(path)
    assert len(actual.execution_plan) == len(expected.execution_plan)
    for ours, theirs in zip(actual.execution_plan, expected.execution_plan, strict=True):
        for field in ("name", "inputs", "outputs", "operators", "non_const_buffer_sizes", "container_meta_type"):
            assert _plain(getattr(ours, field)) == _plain(getattr(theirs, field)), field
        assert len(ours.values) == len(theirs.values)
        for our_value, their_value in zip(ours.values, theirs.values, strict=True):
            assert _plain(our_value.val) == _plain(their_value.val)
        assert [_plain(chain.instructions) for chain in ours.chains] == [
            _plain(chain.instructions) for chain in theirs.chains
        ]
    # ExecuTorch's reader moves constants from their segment into buffers, without the padding after them.
    for ours, theirs in zip(load(path).constants()[1:], expected.constant_buffer[1:], strict=True):
        assert ours.startswith(bytes(theirs.storage))


def test_constant_bytes() -> None:
    assert constant_bytes(FOLDER / "increment.pte") == 0
    assert constant_bytes(FOLDER / "constant.pte") == 8
    assert constant_bytes(FOLDER / "inline_constant.pte") == 8


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"none\.pte: No such file or directory; pass a \.pte file"):
        load(tmp_path / "none.pte")


def test_foreign_and_other_version(tmp_path: Path) -> None:
    path = tmp_path / "other.pte"
    path.write_bytes(b"this is a text file and no program")
    with pytest.raises(ProgramError, match="not an ExecuTorch program"):
        read(path)
    data = bytearray((FOLDER / "constant.pte").read_bytes())
    data[7] = ord("3")
    path.write_bytes(data)
    with pytest.raises(ProgramError, match="ET13 is not ET12"):
        read(path)


def test_complex_tensors_are_named(tmp_path: Path) -> None:
    class Spectrum(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft(x).abs()

    path = tmp_path / "spectrum.pte"
    exported = torch.export.export(Spectrum(), (torch.zeros(8),))
    edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    path.write_bytes(edge.to_executorch().buffer)
    with pytest.raises(ProgramError, match=r"spectrum\.pte has a tensor of complex64, which no runtime takes; export"):
        load(path)


def test_every_flipped_byte_is_read_or_refused(tmp_path: Path) -> None:
    good = (FOLDER / "lists.pte").read_bytes()
    path = tmp_path / "flipped.pte"
    for i in range(len(good)):
        data = bytearray(good)
        data[i] ^= 0xFF
        path.write_bytes(data)
        try:
            program = load(path).program
        except ProgramError:
            continue
        # Whoever reads it follows these without looking.
        for plan in program.execution_plan:
            calls = [i.instr_args for chain in plan.chains or [] for i in chain.instructions or []]
            arguments = [index for call in calls if hasattr(call, "args") for index in call.args or []]
            assert all(0 <= i < len(plan.values) for i in [*(plan.inputs or []), *(plan.outputs or []), *arguments])


def _planned(dtype: ScalarType, size: int, offset: int) -> Any:
    tensor = Tensor.__new__(Tensor)
    tensor.scalar_type, tensor.sizes, tensor.allocation_info = dtype, [size], AllocationDetails(1, offset, 0)
    return SimpleNamespace(val=tensor)


def test_scratch_memory_and_branches_need_not_be_written() -> None:
    call, jump = KernelCall.__new__(KernelCall), JumpFalseCall.__new__(JumpFalseCall)
    call.op_index, call.args = 0, [0, 2, 1]
    operator = SimpleNamespace(name="torch_fusion::convolution")
    instructions = [SimpleNamespace(instr_args=call)]
    plan: Any = SimpleNamespace(
        inputs=[0],
        outputs=[1],
        operators=[operator],
        values=[_planned(ScalarType.CHAR, 8, 0), _planned(ScalarType.FLOAT, 2, 8), _planned(ScalarType.BYTE, 10, 16)],
        chains=[SimpleNamespace(instructions=instructions)],
        non_const_buffer_sizes=[0, 26],
    )
    assert unwritten_bytes(plan) == 10
    # Another operator that reads bytes needs them written.
    operator.name = "aten::add"
    assert unwritten_bytes(plan) == 0
    instructions.append(SimpleNamespace(instr_args=jump))
    assert unwritten_bytes(plan) == 10
