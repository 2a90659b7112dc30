"""Makes the programs that the runtime's tests load: exported models, and programs put together by hand.

For a program NAME there are NAME.pte and NAME.plan.json, for the host.
"""

import contextlib
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.exir._serialize._flatbuffer_program import _program_to_flatbuffer
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir._serialize._program import PTEFile, serialize_pte_binary
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.schema import (
    AllocationDetails,
    BackendDelegate,
    BackendDelegateDataReference,
    BackendDelegateInlineData,
    Bool,
    BoolList,
    Buffer,
    Chain,
    ContainerMetadata,
    DataLocation,
    DelegateCall,
    Double,
    DoubleList,
    EValue,
    ExecutionPlan,
    ExtraTensorInfo,
    FreeCall,
    Instruction,
    Int,
    IntList,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    Null,
    Operator,
    OptionalTensorList,
    Program,
    ScalarType,
    String,
    SubsegmentOffsets,
    Tensor,
    TensorDataLocation,
    TensorList,
    TensorShapeDynamism,
)
from torch import nn
from torch.export import Dim, export

from tools.artifacts.memory_plan.memory_plan import memory_plan_json
from tools.artifacts.program import load
from tools.pipeline.link.backends import Backend
from tools.pipeline.link.interface import find_method
from tools.pipeline.link.plan import make_plan
from tools.quiet.console import UserError

# The backends of delegate_test.cpp, and one that is missing there.
_BACKENDS = [Backend("SomeBackend", 4, 16), Backend("OtherBackend", 0, 0)]


# ---- exported models ----


class Softmax(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1)


class Add(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b


def _export(model: nn.Module, inputs: tuple[torch.Tensor, ...], dynamic: object = None, **config: object) -> bytes:
    edge = to_edge(
        export(model.eval(), inputs, dynamic_shapes=dynamic, strict=True),
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    return edge.to_executorch(ExecutorchBackendConfig(**config)).buffer


def _exported() -> dict[str, bytes]:
    unplanned = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
    row, rows = torch.ones(2, 3), torch.ones(2, 2)
    return {
        "softmax": _export(Softmax(), (rows,)),
        "softmax_dynamic": _export(Softmax(), (rows,), ({0: Dim("batch", min=1, max=8)},)),
        "add_unplanned": _export(Add(), (row, row), memory_planning_pass=unplanned),
    }


# ---- programs put together by hand ----

INCREMENT, AT_LEAST, INSPECT, SUM, VIEW, NUMEL = range(6)
"""Indices of the operators that runtime/tests/test_kernels.cpp has kernels for."""

_OPERATORS = [
    Operator("test::increment", "out"),
    Operator("test::at_least", "out"),
    Operator("test::inspect", ""),
    Operator("test::sum", "out"),
    Operator("executorch_prim::et_view", "default"),
    Operator("aten::sym_numel", ""),
]


def _tensor(
    sizes: list[int],
    offset: int | None,
    scalar_type: ScalarType = ScalarType.FLOAT,
    constant: int = 0,
    dynamism: TensorShapeDynamism = TensorShapeDynamism.STATIC,
    info: ExtraTensorInfo | None = None,
    dim_order: list[int] | None = None,
) -> Tensor:
    return Tensor(
        scalar_type=scalar_type,
        storage_offset=0,
        sizes=sizes,
        dim_order=dim_order or list(range(len(sizes))),
        requires_grad=False,
        layout=0,
        data_buffer_idx=constant,
        allocation_info=None if offset is None else AllocationDetails(1, offset, 0),
        shape_dynamism=dynamism,
        extra_tensor_info=info,
    )


def _plan(
    values: list[object],
    instructions: list[object],
    inputs: list[int] | None = None,
    outputs: list[int] | None = None,
    planned: int = 64,
    name: str = "forward",
    delegates: list[BackendDelegate] | None = None,
    chains: int = 1,
) -> ExecutionPlan:
    return ExecutionPlan(
        name=name,
        container_meta_type=ContainerMetadata("in", "out"),
        values=[EValue(value) for value in values],
        inputs=[0] if inputs is None else inputs,
        outputs=[1] if outputs is None else outputs,
        chains=[Chain([], [], [Instruction(instruction) for instruction in instructions], None)] * chains,
        operators=_OPERATORS,
        delegates=delegates or [],
        non_const_buffer_sizes=[0, planned],
    )


def _program(*plans: ExecutionPlan, constants: list[bytes] | None = None) -> Program:
    return Program(
        version=0,
        execution_plan=list(plans),
        constant_buffer=[Buffer(b""), *[Buffer(constant) for constant in constants or []]],
        backend_delegate_data=[],
        segments=[],
        constant_segment=SubsegmentOffsets(0, []),
    )


def _serialize(
    program: Program, mutable_data: list[bytes] | None = None, named: dict[str, bytes] | None = None
) -> bytes:
    file = PTEFile(program=program)
    if mutable_data is not None:
        file.mutable_data = [Buffer(b""), *[Buffer(data) for data in mutable_data]]
    if named is not None:
        store = NamedDataStore()
        for key, data in named.items():
            store.add_named_data(key, data)
        file.named_data = store.get_named_data_store_output()
    return bytes(serialize_pte_binary(file))


def _x_and_y() -> list[object]:
    """Returns input and output of most programs: two planned vectors of 2 elements."""
    return [_tensor([2], 0), _tensor([2], 16)]


def _floats(*values: float) -> bytes:
    return torch.tensor(values, dtype=torch.float32).numpy().tobytes()


def _increment_constant(output: int) -> Program:
    values = [*_x_and_y(), _tensor([2], None, constant=1)]
    return _program(_plan(values, [KernelCall(INCREMENT, [2, output, output])]), constants=[_floats(10, 20)])


def _dtypes() -> bytes:
    types = [
        ScalarType.BYTE,
        ScalarType.CHAR,
        ScalarType.SHORT,
        ScalarType.INT,
        ScalarType.LONG,
        ScalarType.HALF,
        ScalarType.FLOAT,
        ScalarType.DOUBLE,
        ScalarType.BOOL,
        ScalarType.BFLOAT16,
        ScalarType.UINT16,
    ]
    values = [*_x_and_y(), *[_tensor([3], 32, scalar_type) for scalar_type in types]]
    return _serialize(_program(_plan(values, [])))


def _lists() -> bytes:
    values = [
        *_x_and_y(),
        Int(3),
        Int(-4),
        IntList([2, 3, 2]),
        DoubleList([0.5, -1.5]),
        BoolList([True, False, True]),
        String("text"),
        Null(),
        TensorList([0, 1]),
        OptionalTensorList([0, -1, 8]),
        Double(2.5),
        Bool(True),
    ]
    return _serialize(_program(_plan(values, [KernelCall(INSPECT, [4, 5, 6, 7, 9, 10, 8, 11, 12, 1, 1])])))


def _made() -> dict[str, Callable[[], bytes]]:
    """Makes programs by name; runtime/tests/*_test.cpp explain the purpose of each."""
    counter = ExtraTensorInfo(fully_qualified_name="counter")
    elsewhere = ExtraTensorInfo(fully_qualified_name="counter", mutable_data_segments_idx=1)

    def with_state(index: int, info: ExtraTensorInfo, data: bytes) -> bytes:
        values = [*_x_and_y(), _tensor([2], 32, constant=index, info=info)]
        calls = [KernelCall(INCREMENT, [2, 2, 2]), KernelCall(SUM, [0, 2, 1, 1])]
        return _serialize(_program(_plan(values, calls)), mutable_data=[data])

    external = ExtraTensorInfo(fully_qualified_name="weight", location=TensorDataLocation.EXTERNAL)
    unbounded = TensorShapeDynamism.DYNAMIC_UNBOUND
    loop = [
        KernelCall(INCREMENT, [0, 0, 0]),
        KernelCall(AT_LEAST, [0, 2, 2]),
        JumpFalseCall(2, 0),
        KernelCall(INCREMENT, [0, 1, 1]),
    ]
    increment = [KernelCall(INCREMENT, [0, 1, 1])]
    constant = _tensor([2], None, constant=1)
    # These are for a view: values 3 to 5, a number, the size made of it, and the tensor that becomes the view.
    view = [Int(2), IntList([3]), _tensor([2], 32)]

    def with_constant(instructions: list[object], *values: object, outputs: list[int] | None = None) -> bytes:
        plan = _plan([*_x_and_y(), constant, *values], instructions, outputs=outputs)
        return _serialize(_program(plan, constants=[_floats(10, 20)]))

    def with_delegate(
        arguments: Sequence[int] = (0, 1), called: int = 0, data: int = 0, name: str = "SomeBackend"
    ) -> bytes:
        reference = BackendDelegateDataReference(DataLocation.INLINE, data)
        specs = [CompileSpec("unused", b""), CompileSpec("by", struct.pack("<f", 1.5))]
        delegate = BackendDelegate(name, reference, specs)
        plan = _plan([*_x_and_y(), constant], [DelegateCall(called, list(arguments))], delegates=[delegate])
        program = _program(plan, constants=[_floats(10, 20)])
        program.backend_delegate_data = [BackendDelegateInlineData(b"blob")]
        return _serialize(program)

    return {
        "increment": lambda: _serialize(_program(_plan(_x_and_y(), increment))),
        "constant": lambda: _serialize(_increment_constant(1)),
        "constant_output": lambda: _serialize(_increment_constant(2)),
        # ExecuTorch's format before release 0.4: constants within the flatbuffer, no extended header.
        "inline_constant": lambda: bytes(_program_to_flatbuffer(_increment_constant(1)).data),
        "loop": lambda: _serialize(_program(_plan([*_x_and_y(), _tensor([1], 32, ScalarType.BOOL)], loop))),
        "endless": lambda: _serialize(_program(_plan([*_x_and_y(), Bool(False)], [JumpFalseCall(2, 0)]))),
        "move": lambda: _serialize(_program(_plan([*_x_and_y(), Null()], [MoveCall(0, 2)], outputs=[2]))),
        "chains": lambda: _serialize(_program(_plan(_x_and_y(), increment, chains=3))),
        "jump_outside": lambda: _serialize(_program(_plan([*_x_and_y(), Bool(False)], [JumpFalseCall(2, 9)]))),
        # Values that an instruction must not change: an input, a constant, a value that shares another one's memory.
        "move_to_input": lambda: with_constant([*increment, MoveCall(2, 0)]),
        "move_to_constant": lambda: with_constant([*increment, MoveCall(1, 2)]),
        "free_input": lambda: _serialize(_program(_plan(_x_and_y(), [*increment, FreeCall(0)]))),
        "free_constant": lambda: with_constant([*increment, FreeCall(2)]),
        "view_as_input": lambda: with_constant([*increment, KernelCall(VIEW, [2, 4, 0])], *view),
        "view_as_constant": lambda: with_constant([*increment, KernelCall(VIEW, [1, 4, 2])], *view),
        "view_of_moved": lambda: with_constant([MoveCall(0, 5), KernelCall(VIEW, [2, 4, 5]), *increment], *view),
        "free_of_moved": lambda: with_constant([*increment, FreeCall(5), MoveCall(2, 5)], *view),
        "view_of_null": lambda: with_constant([MoveCall(0, 6), KernelCall(VIEW, [2, 4, 6])], *view, Null()),
        "number_as_input": lambda: _serialize(_program(_plan(_x_and_y(), [*increment, KernelCall(NUMEL, [1, 0])]))),
        "number_as_output": lambda: _serialize(_program(_plan(_x_and_y(), [*increment, KernelCall(NUMEL, [0, 1])]))),
        "number_as_number_input": lambda: _serialize(
            _program(_plan([*_x_and_y(), Int(7)], [*increment, KernelCall(NUMEL, [0, 2])], [0, 2]))
        ),
        "move_number": lambda: _serialize(_program(_plan([*_x_and_y(), Int(7)], [*increment, MoveCall(2, 1)]))),
        "move_dtype": lambda: _serialize(
            _program(_plan([*_x_and_y(), _tensor([2], 32, ScalarType.INT)], [*increment, MoveCall(2, 1)]))
        ),
        # Values that may be moved, viewed and counted.
        "number": lambda: _serialize(_program(_plan([*_x_and_y(), Int(7)], [*increment, KernelCall(NUMEL, [0, 2])]))),
        "view": lambda: with_constant([KernelCall(VIEW, [0, 4, 5]), KernelCall(INCREMENT, [5, 1, 1])], *view),
        "move_tensor": lambda: with_constant([KernelCall(INCREMENT, [0, 5, 5]), MoveCall(5, 1)], *view),
        # A move makes a constant the output of a kernel.
        "moved_constant_output": lambda: with_constant([MoveCall(2, 5), KernelCall(INCREMENT, [0, 5, 5])], *view),
        # Outputs without memory.
        "free_output": lambda: _serialize(_program(_plan(_x_and_y(), [*increment, FreeCall(1)]))),
        "move_nothing": lambda: _serialize(_program(_plan([*_x_and_y(), _tensor([2], None)], [MoveCall(2, 1)]))),
        "unplanned_output": lambda: _serialize(_program(_plan([_tensor([2], 0), _tensor([2], None)], increment))),
        # An output that is an input, by a move, and one that is a constant.
        "moved_output": lambda: _serialize(_program(_plan([_tensor([2], 0), _tensor([2], None)], [MoveCall(0, 1)]))),
        "moved_constant": lambda: with_constant([MoveCall(2, 3)], _tensor([2], None), outputs=[3]),
        "free": lambda: _serialize(
            _program(_plan([*_x_and_y(), _tensor([2], 32)], [FreeCall(2), KernelCall(INCREMENT, [2, 1, 1])]))
        ),
        "free_number": lambda: _serialize(_program(_plan([*_x_and_y(), Int(1)], [FreeCall(2)]))),
        "lists": _lists,
        "dtypes": _dtypes,
        "delegate": with_delegate,
        "delegate_npu": lambda: with_delegate(name="EthosUBackend"),
        "delegate_missing": lambda: with_delegate(name="OtherBackend"),
        "delegate_index": lambda: with_delegate(called=1),
        "delegate_data": lambda: with_delegate(data=1),
        "delegate_arguments": lambda: with_delegate((0,)),
        "delegate_constant": lambda: with_delegate((0, 2)),
        "external": lambda: _serialize(_program(_plan([*_x_and_y(), _tensor([2], None, info=external)], increment))),
        "unbounded": lambda: _serialize(
            _program(_plan([*_x_and_y(), _tensor([2], None, dynamism=unbounded)], increment))
        ),
        "state": lambda: with_state(1, counter, _floats(100, 200)),
        "state_index": lambda: with_state(2, counter, _floats(100, 200)),
        "state_segment": lambda: with_state(1, elsewhere, _floats(100, 200)),
        "state_size": lambda: with_state(1, counter, _floats(100)),
        "methods": lambda: _serialize(
            _program(_plan(_x_and_y(), increment), _plan(_x_and_y(), increment * 2, name="another"))
        ),
        "number_input": lambda: _serialize(
            _program(
                _plan([*_x_and_y(), Int(7), Double(0.5), Bool(True), Null(), String("s")], increment, [0, *range(2, 7)])
            )
        ),
        "no_instructions": lambda: _serialize(_program(_plan(_x_and_y(), []))),
        "channels_last": lambda: _serialize(
            _program(_plan([_tensor([1, 2, 2, 2], 0, dim_order=[0, 2, 3, 1]), _tensor([1, 2, 2, 2], 32)], increment))
        ),
        "empty_tensor": lambda: _serialize(_program(_plan([_tensor([0, 2], 0), _tensor([0, 2], 0)], increment))),
        "huge_empty_tensor": lambda: _serialize(
            _program(_plan([_tensor([0, 4096, 8192], 0), _tensor([2], 0)], increment))
        ),
        "huge_tensor": lambda: _serialize(_program(_plan([_tensor([65536, 65536], 0), _tensor([2], 0)], increment))),
        "negative_size": lambda: _serialize(_program(_plan([_tensor([-2], 0), _tensor([2], 0)], increment))),
        "outside_planned": lambda: _serialize(_program(_plan([_tensor([2], 0), _tensor([2], 60)], increment))),
        "misaligned_plan": lambda: _serialize(_program(_plan([_tensor([2], 0), _tensor([2], 18)], increment))),
        "missing_operator": lambda: _serialize(_program(_plan(_x_and_y(), [KernelCall(INCREMENT, [0, 1, 1])]))).replace(
            b"test::increment", b"test::unwritten"
        ),
        "named_data": lambda: _serialize(_program(_plan(_x_and_y(), increment)), named={"key": b"named bytes"}),
    }


def make_programs(folder: Path) -> None:
    """Writes all programs into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    programs = _exported() | {name: make() for name, make in _made().items()}
    for name, data in programs.items():
        path = folder / f"{name}.pte"
        path.write_bytes(data)
        # Programs that the runtime refuses to load have no plan.
        with contextlib.suppress(UserError):
            file = load(path)
            plan = memory_plan_json(make_plan(file, find_method(file), "host", backends=_BACKENDS))
            (folder / f"{name}.plan.json").write_text(plan, encoding="utf-8")
