"""Models the runtime's allocations when it loads a method.

Follows runtime/executor/method.cpp (Builder) and runtime/executor/value_parser.cpp step by step; their static_asserts
hold the sizes below. Tests hold the sums, on the host and on the emulated cores.
"""

from collections.abc import Sequence
from typing import Any

from tools.abi.layouts.layouts import EVALUE_SIZE, tensor_size
from tools.artifacts.core.core import POINTER_SIZES
from tools.artifacts.memory_plan.memory_plan import MemoryPlan
from tools.artifacts.program.program import ProgramFile, calls_of, output_places, unwritten_bytes
from tools.artifacts.program.program_schema import (
    BoolList,
    DelegateCall,
    DoubleList,
    IntList,
    KernelCall,
    OptionalTensorList,
    String,
    Tensor,
    TensorList,
)
from tools.pipeline.link.backends import Backend, delegate_arenas
from tools.quiet.console import UserError

_SHARED_STRIDES = 4


class PlanError(UserError):
    """A program that the runtime would refuse to load; the message explains why."""


class _Arena:
    def __init__(self) -> None:
        self.used = 0

    def take(self, count: int, size: int, alignment: int) -> None:
        self.used = (self.used + alignment - 1) // alignment * alignment + count * size


class _Values:
    """TensorParser of runtime/executor/value_parser.cpp."""

    def __init__(self, arena: _Arena, pointer: int) -> None:
        self.arena = arena
        self.pointer = pointer
        self.shared: list[tuple[tuple[int, ...], tuple[int, ...]] | None] = [None] * _SHARED_STRIDES
        self.next_shared = 0

    def words(self, count: int) -> None:
        self.arena.take(count, self.pointer, self.pointer)

    def parse(self, value: Any) -> None:
        if isinstance(value, Tensor):
            self.tensor(value)
        elif isinstance(value, String | DoubleList | BoolList):
            self.words(2)  # ArrayRef
        elif isinstance(value, IntList | TensorList | OptionalTensorList):
            count = len(value.items or [])
            self.words(3)  # BoxedEvalueList
            self.words(count)  # EValue*
            if isinstance(value, IntList):
                self.arena.take(count, 8, 8)
            elif isinstance(value, TensorList):
                self.words(count)  # Tensor
            else:
                self.words(2 * count)  # std::optional<Tensor>

    def tensor(self, tensor: Tensor) -> None:
        self.arena.take(1, tensor_size(self.pointer), self.pointer)  # TensorImpl
        sizes = tuple(tensor.sizes or [])
        if int(tensor.shape_dynamism) != 0:
            self.arena.take(len(sizes), 4, 4)
            self.arena.take(len(sizes), 4, 4)
        elif len(sizes) > 1:
            shape = (sizes, tuple(tensor.dim_order or b""))
            if shape not in self.shared:
                self.arena.take(len(sizes), 4, 4)
                self.shared[self.next_shared] = shape
                self.next_shared = (self.next_shared + 1) % _SHARED_STRIDES


def _arena_size(plan: Any, pointer: int) -> int:
    """Bytes that loading a method takes of the method allocator."""
    values = plan.values or []
    arena = _Arena()
    arena.take(len(values), EVALUE_SIZE, 8)
    parser = _Values(arena, pointer)
    for value in values:
        parser.parse(value.val)
    arena.take(max(len(plan.chains or []), 1), 8 * pointer, pointer)  # Chain
    arena.take(len(plan.operators or []), pointer, pointer)  # OpFunction
    arguments = [len(call.args or []) for call in calls_of(plan) if isinstance(call, KernelCall | DelegateCall)]
    arena.take(max(arguments, default=0), pointer, pointer)  # EValue*
    arena.take(2 * len(plan.inputs or []), 1, 1)  # bool
    return arena.used


def make_plan(
    file: ProgramFile, method: Any, core: str, backends: Sequence[Backend] = (), memories: Sequence[str] = ()
) -> MemoryPlan:
    """Returns the sizes of the arenas that a method of a program needs on a core.

    Args:
      file: the program.
      method: a result of find_method().
      core: a key of tools.artifacts.core.core.POINTER_SIZES.
      backends: what runs its delegates.
      memories: the board's memories that have its last planned buffers.

    Raises:
      PlanError: the runtime refuses such a method.
    """
    if core not in POINTER_SIZES:
        raise PlanError(f"core {core} is unknown; the cores are {', '.join(POINTER_SIZES)}")
    pointer = POINTER_SIZES[core]
    values = method.values or []
    # The kernels need no scratch memory.
    arena, temp = delegate_arenas(file, method, _arena_size(method, pointer), backends, pointer)
    # The first buffer is reserved for the constants, which are in the program.
    buffers = (method.non_const_buffer_sizes or [])[1:]
    count = len(buffers) - len(memories)
    return MemoryPlan(
        core=core,
        method=arena,
        planned=tuple(buffers[:count]),
        temp=temp,
        operators=len(method.operators or []),
        values=len(values),
        tensors=sum(isinstance(value.val, Tensor) for value in values),
        instructions=len(calls_of(method)),
        outputs=output_places(method),
        unwritten=unwritten_bytes(method, count),
        memories=dict(zip(memories, buffers[count:], strict=True)),
    )
