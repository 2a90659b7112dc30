"""Decides where the values of a compiled method are: in flash, used as they are, or in RAM."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tools.quiet.console import UserError

# The operator that writes the input image, row by row, see stream.py.
NEXT_ROWS = "torch_fusion::next_rows.out"
_LISTS = ("IntList", "TensorList", "OptionalTensorList")


class LayoutError(UserError):
    """A program that can't be compiled; the message says why."""


@dataclass(frozen=True)
class Instruction:
    """An instruction of a method.

    Attributes:
      kind: the schema's name: KernelCall, DelegateCall, MoveCall, JumpFalseCall or FreeCall; NEXT_ROWS.
      values: the values it refers to: a call's arguments, or a move's target and source.
      operator: the index of a kernel call's operator, or of a delegate, in the plan.
      destination: the index of a jump's destination among all instructions of the method.
    """

    kind: str
    values: tuple[int, ...]
    operator: int = 0
    destination: int = 0


@dataclass(frozen=True)
class MethodLayout:
    """The locations of a method's values. All are indices of values in the plan.

    Attributes:
      plan: the program's method.
      code: the instructions of all chains.
      tensors: tensors in RAM, whose shape, memory or both the program or its user may change.
      values: other values in RAM, but for lists, which are made for each call.
      constants: what else the method refers to.
    """

    plan: Any
    code: tuple[Instruction, ...]
    tensors: tuple[int, ...]
    values: tuple[int, ...]
    constants: tuple[int, ...]


def kind_of(value: Any) -> str:
    """Returns the schema's name of a value's kind."""
    return type(value.val).__name__ if value.val is not None else "Null"


def tensor_problem(tensor: Any) -> str | None:
    """Explains why the loader of .pte files refuses a tensor, regardless of its dtype and shape; None if it doesn't."""
    if tensor.storage_offset:
        return "has a storage offset"
    if int(tensor.shape_dynamism) not in (0, 1):
        return "has a dynamic shape without bounds; give each dynamic dimension of the export an upper bound"
    if tensor.extra_tensor_info is not None and int(tensor.extra_tensor_info.location) != 0:
        return "is stored outside the program; export it without external constants"
    return None


def is_constant(value: Any) -> bool:
    """Whether a value is a tensor whose data stays in the program."""
    return kind_of(value) == "Tensor" and value.val.allocation_info is None and value.val.data_buffer_idx != 0


def elements(value: Any) -> list[int]:
    """Returns the values that a list refers to; -1 for None."""
    return list(value.val.items or []) if kind_of(value) in _LISTS else []


def method_layout(plan: Any) -> MethodLayout:
    """Lays out a method of a program from tools.artifacts.program.

    Raises:
      LayoutError: a jump of the method is corrupted.
    """
    values = plan.values or []
    code = tuple(_instructions(plan))
    interface = [*(plan.inputs or []), *(plan.outputs or [])]
    changing = set(interface)
    for instruction in code:
        if instruction.kind == "MoveCall":
            changing.add(instruction.values[0])
        elif instruction.kind == "KernelCall" and instruction.values:
            # An operator on numbers has its result last.
            last = instruction.values[-1]
            if kind_of(values[last]) in ("Null", "Int", "Double", "Bool"):
                changing.add(last)

    used: dict[int, None] = dict.fromkeys(interface)
    for instruction in code:
        used.update(dict.fromkeys(instruction.values))
    for index in list(used):
        used.update(dict.fromkeys(item for item in elements(values[index]) if item >= 0))

    def is_in_ram(index: int) -> bool:
        kind = kind_of(values[index])
        if kind == "Tensor":
            return not is_constant(values[index])
        return (
            index in changing
            or kind in ("TensorList", "OptionalTensorList")
            or (kind == "IntList" and any(is_in_ram(item) for item in elements(values[index])))
        )

    ram = [index for index in used if is_in_ram(index)]
    tensors = [i for i in ram if kind_of(values[i]) == "Tensor"]
    # Together in the order of the program, in which tensors of one shape are.
    return MethodLayout(
        plan=plan,
        code=code,
        tensors=tuple(sorted(tensors)),
        values=tuple(sorted(i for i in set(ram) - set(tensors) if kind_of(values[i]) not in _LISTS)),
        constants=tuple(sorted(set(used) - set(ram))),
    )


def _instructions(plan: Any) -> list[Instruction]:
    result: list[Instruction] = []
    for chain in plan.chains or []:
        first = len(result)
        count = len(chain.instructions or [])
        for instruction in chain.instructions or []:
            args = instruction.instr_args
            kind = type(args).__name__
            if kind == "KernelCall":
                name = plan.operators[args.op_index].name or ""
                arguments = _without_results(plan, name, args.args or [])
                kind = NEXT_ROWS if name == NEXT_ROWS.partition(".")[0] else kind
                result.append(Instruction(kind, tuple(arguments), operator=args.op_index))
            elif kind == "MoveCall":
                result.append(Instruction(kind, (args.move_to, args.move_from)))
            elif kind == "JumpFalseCall":
                if not 0 <= args.destination_instruction <= count:
                    raise LayoutError(
                        f"method {plan.name}: instruction {len(result)} jumps to instruction "
                        f"{args.destination_instruction} of {count}: the program is corrupted"
                    )
                destination = first + args.destination_instruction
                result.append(Instruction(kind, (args.cond_value_index,), destination=destination))
            elif kind == "FreeCall":
                result.append(Instruction(kind, (args.value_index,)))
            else:
                result.append(Instruction(kind, tuple(args.args or []), operator=args.delegate_index))
    return result


def _without_results(plan: Any, name: str, arguments: Sequence[int]) -> Sequence[int]:
    """Returns a call's arguments without the results at the end, which repeat its outputs."""
    if name.startswith("executorch_prim::") or len(arguments) < 2:
        return arguments
    last = arguments[-1]
    if last == arguments[-2]:
        return arguments[:-1]
    items = elements(plan.values[last])
    if kind_of(plan.values[last]) == "TensorList" and items == list(arguments[-1 - len(items) : -1]):
        return arguments[:-1]
    return arguments
