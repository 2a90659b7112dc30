import struct
from pathlib import Path

import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.schema import Double, DoubleList, EValue, Int, IntList, Program, String, Tensor

from tools.pipeline.export.backends.portable import to_edge
from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.options import Options
from tools.pipeline.export.plan.emission import emit
from tools.pipeline.export.plan.plan_passes import optimize_plan
from tools.pipeline.export.plan.serialize import serialize
from tools.pipeline.export.testing import export_source, model_source


def emitted(model: torch.nn.Module, *inputs: torch.Tensor) -> tuple[Program, list[bytes]]:
    program = emit(to_edge(capture(model.eval(), inputs))).program
    optimize_plan(program.execution_plan[0])
    return program, [buffer.storage for buffer in program.constant_buffer]


def test_executorch_reads_what_was_written() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3, padding=1), torch.nn.LeakyReLU(-0.5), torch.nn.Flatten(), torch.nn.Linear(48, 5)
    )
    program, constants = emitted(model, torch.randn(1, 1, 4, 4))
    plan = program.execution_plan[0]
    plan.values += [
        EValue(Int(-(2**62))),
        EValue(Double(float("-inf"))),
        EValue(String("text")),
        EValue(DoubleList([0.5])),
    ]
    read = deserialize_pte_binary(serialize(program, constants)).program
    read_plan = read.execution_plan[0]
    for value in plan.values:
        if isinstance(value.val, Tensor):
            value.val.requires_grad = False
    assert read.version == program.version
    assert read_plan.name == "forward"
    assert read_plan.values == plan.values
    assert (read_plan.inputs, read_plan.outputs) == (plan.inputs, plan.outputs)
    assert read_plan.operators == plan.operators
    assert read_plan.chains[0].instructions == plan.chains[0].instructions
    assert read_plan.non_const_buffer_sizes == plan.non_const_buffer_sizes
    # Behind each constant the reader sees the padding up to the next one.
    assert [len(buffer.storage) for buffer in read.constant_buffer][1:] == [112, 16, 960, 20]
    for buffer, constant in zip(read.constant_buffer, constants, strict=True):
        assert buffer.storage.startswith(constant)


def test_constants_are_aligned_in_the_file() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(1, 3), torch.nn.Linear(3, 1))
    program, constants = emitted(model, torch.randn(1, 1))
    file = serialize(program, constants)
    magic, _, program_size, base, size = struct.unpack_from("<4sIQQQ", file, 8)
    assert magic == b"eh00"
    assert base % 16 == 0
    assert 0 <= base - program_size < 16
    assert base + size == len(file)
    for constant in constants[1:]:
        # The bytes of random weights occur once.
        assert file.index(constant) % 16 == 0


def test_is_smaller_than_what_executorch_writes() -> None:
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).eval()
    inputs = (torch.randn(1, 1),)
    theirs = to_edge_transform_and_lower(capture(model, inputs)).to_executorch(
        ExecutorchBackendConfig(segment_alignment=16)
    )
    program, constants = emitted(model, *inputs)
    assert len(serialize(program, constants)) < 0.6 * len(theirs.buffer)


def test_equal_lists_are_written_once() -> None:
    program, constants = emitted(torch.nn.ReLU(), torch.randn(2, 3))
    size = len(serialize(program, constants))
    program.execution_plan[0].values.append(EValue(IntList([77] * 100)))
    one = len(serialize(program, constants)) - size
    program.execution_plan[0].values.append(EValue(IntList([77] * 100)))
    assert len(serialize(program, constants)) - size - one <= 8 < one


def test_initial_states_lie_behind_the_constants() -> None:
    program, constants = emitted(torch.nn.Linear(3, 1), torch.randn(1, 3))
    states = [b"", b"one", b"three"]
    for own in (constants, constants[:1]):
        read = deserialize_pte_binary(serialize(program, own, states))
        assert read.mutable_data is not None
        assert [buffer.storage for buffer in read.mutable_data] == states
        for buffer, constant in zip(read.program.constant_buffer, own, strict=True):
            assert buffer.storage.startswith(constant)


def test_program_without_constants_has_no_segment(tmp_path: Path) -> None:
    result = export_source(tmp_path, model_source("return torch.softmax(x, 1)", "(torch.randn(2, 2),)"))
    assert b"eh00" not in result.program
    assert len(result.program) <= 560
    assert result.largest_error() < 1e-6


@pytest.mark.parametrize("dtype", ["int16", "float16", "bool"])
def test_dtypes(dtype: str, tmp_path: Path) -> None:
    inputs = f"(torch.tensor([[0, 1, 2], [3, 4, 5]]).to(torch.{dtype}),)"
    result = export_source(tmp_path, model_source("return torch.cat([x, x[:1]]).t()", inputs))
    assert result.largest_error() == 0
    assert str(result.golden["input_0"].dtype) == dtype


def test_a_program_without_operators_has_bytes_behind_its_tables(tmp_path: Path) -> None:
    result = export_source(
        tmp_path, model_source("return x", "(torch.randn(2, 3),)"), options=Options("cortex-m4", "cortex_m", "int8")
    )
    assert not result.operators and result.program.endswith(bytes(8))
