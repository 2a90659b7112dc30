"""Refuses programs that the runtime refuses when it loads or executes them: a compiled program is not checked again."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools.artifacts.packed_layer.packed_layer import problem_of
from tools.artifacts.program.program import ProgramFile, operator_name
from tools.pipeline.compile.layout import Instruction, LayoutError, MethodLayout, elements, is_constant, kind_of
from tools.pipeline.registry.catalog import Kernel

_VIEW = "executorch_prim::et_view.default"


def check_method(file: ProgramFile, layout: MethodLayout, kernels: Mapping[str, Kernel]) -> None:
    """Performs the checks that the device doesn't.

    Args:
      file: the program.
      kernels: those of its operators, by name.

    Raises:
      LayoutError: an instruction changes what must stay, writes to a constant, or has no constant where its kernel
        needs one; a loop does not end; an output never has memory.
    """
    _Checks(file, layout, kernels).run()


class _Checks:
    def __init__(self, file: ProgramFile, layout: MethodLayout, kernels: Mapping[str, Kernel]) -> None:
        self.path = file.path
        self.constants = file.constants()
        self.layout = layout
        self.kernels = kernels
        self.values: Sequence[Any] = layout.plan.values or []
        self.moved_to = {i.values[0] for i in layout.code if i.kind == "MoveCall"}
        self.tensors = self._possible_tensors()

    def run(self) -> None:
        for place, instruction in enumerate(self.layout.code):
            problem = self._problem(instruction)
            if problem:
                raise LayoutError(f"program {self.path}: instruction {place} {problem}")
        self._check_loops()
        self._check_outputs()

    def _name(self, instruction: Instruction) -> str:
        operator = self.layout.plan.operators[instruction.operator]
        return operator_name(operator.name, operator.overload)

    def _kernel(self, instruction: Instruction) -> Kernel:
        return self.kernels[self._name(instruction)]

    def _is_view(self, instruction: Instruction) -> bool:
        return instruction.kind == "KernelCall" and self._name(instruction) == _VIEW and len(instruction.values) > 2

    def _possible_tensors(self) -> list[set[int]]:
        """Returns, for each value, the values whose memory it may have during execution, by moves and views."""
        possible = [{index} for index in range(len(self.values))]
        sources = [(i.values[0], i.values[1]) for i in self.layout.code if i.kind == "MoveCall"]
        sources += [(i.values[2], i.values[0]) for i in self.layout.code if self._is_view(i)]
        changes = True
        while changes:
            changes = False
            for to, source in sources:
                if not possible[source] <= possible[to]:
                    possible[to] |= possible[source]
                    changes = True
        return possible

    def _problem(self, instruction: Instruction) -> str | None:
        """Explains why an instruction is refused; None if it isn't."""
        if instruction.kind == "KernelCall":
            return self._problem_of_call(instruction)
        if instruction.kind == "MoveCall":
            to, source = instruction.values
            return self._problem_of_change(to) or self._problem_of_move(to, source)
        if instruction.kind == "FreeCall":
            return self._problem_of_memory(instruction.values[0])
        if instruction.kind == "DelegateCall":
            return self._problem_of_delegate(instruction)
        return None

    def _problem_of_change(self, index: int) -> str | None:
        if index in (self.layout.plan.inputs or []):
            return f"changes the input value {index}"
        return f"changes the constant value {index}" if is_constant(self.values[index]) else None

    def _problem_of_memory(self, index: int) -> str | None:
        if index in self.moved_to:
            return f"changes the memory of value {index}, which is another one's after a move"
        return self._problem_of_change(index)

    def _problem_of_move(self, to: int, source: int) -> str | None:
        if kind_of(self.values[to]) != "Tensor":
            return None
        if kind_of(self.values[source]) != "Tensor":
            return f"moves value {source}, which is no tensor, to the tensor {to}"
        target, given = self.values[to].val, self.values[source].val
        if (target.scalar_type, len(target.sizes or [])) != (given.scalar_type, len(given.sizes or [])):
            return f"moves tensor {source} to tensor {to} of another dtype or number of dimensions"
        return None

    def _problem_of_call(self, instruction: Instruction) -> str | None:
        kernel = self._kernel(instruction)
        if not instruction.values:
            return "has no arguments"
        if self._is_view(instruction):
            return self._problem_of_memory(instruction.values[2])
        for position in kernel.results:
            index = instruction.values[position] if position < len(instruction.values) else None
            if index is None:
                continue
            if kind_of(self.values[index]) == "Tensor":
                return f"makes the tensor {index} a number"
            problem = self._problem_of_change(index)
            if problem:
                return problem
        for index in self._written(instruction, kernel):
            for source in sorted(self.tensors[index]):
                if is_constant(self.values[source]):
                    return f"writes to the constant value {source}"
        for position in kernel.constants:
            if position < len(instruction.values) and not is_constant(self.values[instruction.values[position]]):
                return f"takes value {instruction.values[position]}, which has to be a constant"
            if position in kernel.packed and position < len(instruction.values):
                index = self.values[instruction.values[position]].val.data_buffer_idx
                problem = problem_of(self.constants[index]) if index < len(self.constants) else None
                if problem:
                    return f"takes a packed layer that is corrupted: {problem}"
        return None

    def _problem_of_delegate(self, instruction: Instruction) -> str | None:
        delegates = self.layout.plan.delegates or []
        if instruction.operator >= len(delegates):
            return f"calls delegate {instruction.operator} of {len(delegates)}"
        for index in instruction.values:
            # Only the backend knows which arguments it writes to.
            for source in sorted(self.tensors[index]):
                if is_constant(self.values[source]):
                    return f"gives the constant value {source} to a delegate, which might write to it"
        return None

    def _written(self, instruction: Instruction, kernel: Kernel) -> Iterator[int]:
        """Yields the tensors that a call writes to."""
        for position in kernel.writes or [len(instruction.values) - 1]:
            if 0 <= position < len(instruction.values):
                index = instruction.values[position]
                if kind_of(self.values[index]) == "Tensor":
                    yield index
                elif kind_of(self.values[index]) == "TensorList":
                    yield from elements(self.values[index])

    def _check_loops(self) -> None:
        calls = [i for i in self.layout.code if i.kind in ("KernelCall", "DelegateCall")]
        changing = {index for i in calls for index in i.values} | self.moved_to
        for place, instruction in enumerate(self.layout.code):
            if instruction.kind == "JumpFalseCall" and instruction.destination <= place:
                condition = self.values[instruction.values[0]]
                is_false = kind_of(condition) == "Bool" and not condition.val.bool_val
                if is_false and instruction.values[0] not in changing:
                    raise LayoutError(f"program {self.path}: the loop that instruction {place} ends does not end")

    def _check_outputs(self) -> None:
        freed = {i.values[0] for i in self.layout.code if i.kind == "FreeCall"}
        written = {
            index
            for instruction in self.layout.code
            if instruction.kind == "KernelCall" and not self._is_view(instruction)
            for index in self._written(instruction, self._kernel(instruction))
        }
        for instruction in self.layout.code:
            if instruction.kind == "DelegateCall":
                written.update(instruction.values)
        viewed = {instruction.values[2] for instruction in self.layout.code if self._is_view(instruction)}
        has_memory = written | set(self.layout.plan.inputs or [])
        for place, output in enumerate(self.layout.plan.outputs or []):
            sources = [index for index in self.tensors[output] if kind_of(self.values[index]) == "Tensor"]
            for index in sources:
                value = self.values[index]
                is_replaced = index in self.moved_to or index in viewed
                is_there = value.val.allocation_info is not None or is_constant(value) or 0 in (value.val.sizes or [])
                if index in freed or not (is_there or is_replaced or index in has_memory):
                    raise LayoutError(f"program {self.path}: output {place} has no memory after an execution")
            unplanned = output in sources and self.values[output].val.allocation_info is None
            if unplanned and output in self.moved_to and any(is_constant(self.values[index]) for index in sources):
                # Who gave it memory once more would give that to the constant.
                raise LayoutError(
                    f"program {self.path}: output {place} may be a constant, and has no planned memory; "
                    "export it with memory for outputs"
                )
