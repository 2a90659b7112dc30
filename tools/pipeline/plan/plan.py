"""Models what the runtime allocates when it loads a method.

Of a .pte, follows runtime/executor/method.cpp (Builder) and runtime/executor/value_parser.cpp step by step; their
static_asserts hold the sizes below. What a program takes that was linked at build time is known to
tools/pipeline/prelink. Tests hold the sums, on the host and on the emulated cores.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.abi.layouts.layouts import EVALUE_SIZE, tensor_size
from tools.artifacts.core.core import POINTER_SIZES
from tools.artifacts.memory_plan.memory_plan import MemoryPlan
from tools.artifacts.program.program import read
from tools.pipeline.prelink import PrelinkError, method_layout
from tools.quiet.console import UserError

_SHARED_STRIDES = 4


class PlanError(UserError):
    """A program that the runtime would not load; the message says why."""


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
        kind = type(value).__name__
        if kind == "Tensor":
            self.tensor(value)
        elif kind in ("String", "DoubleList", "BoolList"):
            self.words(2)  # ArrayRef
        elif kind in ("IntList", "TensorList", "OptionalTensorList"):
            count = len(value.items or [])
            self.words(3)  # BoxedEvalueList
            self.words(count)  # EValue*
            if kind == "IntList":
                self.arena.take(count, 8, 8)
            elif kind == "TensorList":
                self.words(count)  # Tensor
            else:
                self.words(2 * count)  # std::optional<Tensor>

    def tensor(self, tensor: Any) -> None:
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


def _pte_arena_size(plan: Any, pointer: int) -> int:
    """Bytes that loading a method from a .pte takes of the method allocator."""
    values = plan.values or []
    chains = plan.chains or []
    arena = _Arena()
    arena.take(len(values), EVALUE_SIZE, 8)
    parser = _Values(arena, pointer)
    for value in values:
        parser.parse(value.val)
    arena.take(max(len(chains), 1), 8 * pointer, pointer)  # Chain
    arena.take(len(plan.operators or []), pointer, pointer)  # OpFunction
    calls = [
        len(instruction.instr_args.args or [])
        for chain in chains
        for instruction in chain.instructions or []
        if type(instruction.instr_args).__name__ == "KernelCall"
    ]
    arena.take(max(calls, default=0), pointer, pointer)  # EValue*
    arena.take(2 * len(plan.inputs or []), 1, 1)  # bool
    return arena.used


def make_plan(program: Path, core: str, method: str = "forward", prelinked: bool = False) -> MemoryPlan:
    """Returns the sizes of the arenas that a method of a program needs on a core.

    Args:
      program: the .pte file.
      core: a key of tools.artifacts.core.core.POINTER_SIZES.
      method: the method's name; a program with a single method needs none.
      prelinked: whether the program is linked at build time, or loaded from its .pte.

    Raises:
      PlanError: the runtime doesn't load such a method.
      tools.artifacts.program.ProgramError: the file is no program.
    """
    if core not in POINTER_SIZES:
        raise PlanError(f"core {core} is unknown; the cores are {', '.join(POINTER_SIZES)}")
    pointer = POINTER_SIZES[core]
    plans = read(program).execution_plan
    found = plans if len(plans) == 1 else [plan for plan in plans if plan.name == method]
    if not found:
        names = ", ".join(str(plan.name) for plan in plans)
        raise PlanError(f"{program} has no method {method}; its methods are {names}")
    plan = found[0]
    if plan.delegates:
        names = ", ".join(sorted({str(delegate.id) for delegate in plan.delegates}))
        raise PlanError(f"{program} uses delegates, which the runtime does not support: {names}")
    values = plan.values or []
    try:
        method_size = method_layout(plan).arena_size(pointer) if prelinked else _pte_arena_size(plan, pointer)
    except PrelinkError as error:
        raise PlanError(f"{program}: {error}") from error
    return MemoryPlan(
        core=core,
        method=method_size,
        # The first buffer stands for the constants, which are in the program.
        planned=tuple((plan.non_const_buffer_sizes or [])[1:]),
        # The kernels need no scratch memory.
        temp=0,
        operators=len(plan.operators or []),
        values=len(values),
        tensors=sum(type(value.val).__name__ == "Tensor" for value in values),
        instructions=sum(len(chain.instructions or []) for chain in plan.chains or []),
    )
