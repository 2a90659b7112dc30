import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.artifacts.graph.graph import Step, Value
from tools.artifacts.manifest.manifest import Call, Manifest, Operator, read_manifest
from tools.artifacts.program.program import Program, ProgramFile, ScalarType, Tensor, load
from tools.artifacts.program.program_schema import (
    AllocationDetails,
    Chain,
    EValue,
    ExecutionPlan,
    Instruction,
    KernelCall,
    TensorList,
)
from tools.artifacts.program.program_schema import Operator as ProgramOperator
from tools.pipeline.graph.graph import make_graph
from tools.quiet.console import UserError


def _make(table: Any, **fields: Any) -> Any:
    """A table of the schema of which only some fields matter."""
    return table(**dict.fromkeys(table.__dataclass_fields__) | fields)


def _tensor(dtype: ScalarType, sizes: list[int], offset: int | None = None, data: int = 0) -> Any:
    place = None
    if offset is not None:
        place = _make(AllocationDetails, memory_id=1, memory_offset_low=offset, memory_offset_high=0)
    return _make(Tensor, scalar_type=dtype, sizes=sizes, data_buffer_idx=data, allocation_info=place)


def _file(*calls: tuple[int, list[int]]) -> ProgramFile:
    values = [
        _tensor(ScalarType.CHAR, [1, 4], offset=0),
        _tensor(ScalarType.CHAR, [8], data=1),
        _tensor(ScalarType.BYTE, [5], offset=16),
        _tensor(ScalarType.CHAR, [1, 4], offset=32),
        _make(TensorList, items=[0, 3]),
        _tensor(ScalarType.FLOAT, [1, 8], offset=40),
    ]
    plan = _make(
        ExecutionPlan,
        name="forward",
        values=[_make(EValue, val=value) for value in values],
        inputs=[0],
        outputs=[5],
        chains=[
            _make(
                Chain,
                instructions=[
                    _make(Instruction, instr_args=_make(KernelCall, op_index=operator, args=arguments))
                    for operator, arguments in calls
                ],
            )
        ],
        operators=[
            _make(ProgramOperator, name="torch_fusion::linear", overload="out"),
            _make(ProgramOperator, name="aten::cat", overload="out"),
            _make(ProgramOperator, name="aten::add_", overload=""),
        ],
        delegates=[],
        non_const_buffer_sizes=[0, 72],
    )
    constants = [SimpleNamespace(storage=b""), SimpleNamespace(storage=bytes(16))]
    return ProgramFile(Path("net.pte"), _make(Program, execution_plan=[plan], constant_buffer=constants), b"", 0, 0)


def _manifest(count: int) -> Manifest:
    operator = Operator("torch_fusion::linear", "out", ())
    calls = tuple(Call(0, f"layer{index} (Linear)", 32) for index in range(count))
    return Manifest("net", "cortex-m4", (operator,), calls, (), (), False, ("", "fc.weight", "", "", ""))


def test_operands_results_scratch_and_constants() -> None:
    # Besides its operands an operator has its result twice: where it writes to, and what it returns.
    graph = make_graph(_file((0, [0, 1, 2, 3, 3]), (1, [4, 5, 5]), (2, [5, 0, 5, 5])), "forward", _manifest(3))
    assert graph.steps == (
        Step("torch_fusion::linear", "layer0 (Linear)", 32, 0, (0, 1), (3,), (2,)),
        Step("aten::cat", "layer1 (Linear)", 32, 1, (0, 3), (5,)),
        # One that writes to its own operand reads it, too.
        Step("aten::add_", "layer2 (Linear)", 32, 2, (5, 0), (5,)),
    )
    # So does one whose operand is a view, which nothing wrote under this name.
    in_place = make_graph(_file((2, [3, 1, 3, 3])), "forward", _manifest(1))
    assert (in_place.steps[0].reads, in_place.steps[0].writes) == ((3, 1), (3,))
    assert graph.planned == 80
    assert graph.tensors[1] == Value("int8", (8,), 8, data=1, stored=16, parameter="fc.weight")
    assert graph.tensors[5] == Value("float32", (1, 8), 32, offset=40)


def test_tensors_in_several_memories() -> None:
    program, manifest = (
        next(path for path in map(Path, os.environ["PROGRAM"].split()) if path.name == f"sine{suffix}")
        for suffix in (".pte", ".manifest.json")
    )
    graph = make_graph(load(program), "forward", read_manifest(manifest), rooms={"dtcm": 64, "ram": 4096})
    offsets = [tensor.offset for tensor in graph.tensors.values() if tensor.offset is not None]
    output = graph.tensors[graph.outputs[0]].offset
    assert output is not None and output < graph.planned - 64 <= max(offsets) < graph.planned


def test_manifest_of_another_program() -> None:
    with pytest.raises(
        UserError, match=r"net.pte has 1 operator calls and its manifest 2; pass the files of one program"
    ):
        make_graph(_file((0, [0, 1, 2, 3, 3])), "forward", _manifest(2))
