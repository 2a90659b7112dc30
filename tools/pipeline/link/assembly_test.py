import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.abi.layouts.layouts import INSTRUCTION_KINDS, TAGS
from tools.artifacts.kernel_table.kernel_table import Kernel
from tools.artifacts.program import load
from tools.artifacts.program.program_schema import InstructionArguments, KernelTypes
from tools.pipeline.link.assembly import program_source
from tools.pipeline.link.layout import PrelinkError, method_layout
from tools.quiet.console import UserError

FOLDER = Path(os.environ["PROGRAMS"])
OPERATORS = ["test::sum.out", "test::inspect", "test::increment.out", "test::at_least.out"]
KERNELS = [
    *(Kernel(name, "", (), None, 1) for name in [*OPERATORS, "executorch_prim::et_view.default"]),
    Kernel("aten::sym_numel", "", (), None, 1, results=(1,)),
]
# Programs that are refused, and a part of the message.
REFUSED = {
    "constant_output": "instruction 0 writes to the constant value 2",
    "moved_constant_output": "instruction 1 writes to the constant value 2",
    "move_to_input": "instruction 1 changes the input value 0",
    "move_to_constant": "instruction 1 changes the constant value 2",
    "number_as_input": "makes the tensor 0 a number",
    "number_as_output": "makes the tensor 1 a number",
    "number_as_number_input": "changes the input value 2",
    "move_number": "moves value 2, which is no tensor, to the tensor 1",
    "move_dtype": "moves tensor 2 to tensor 1 of another dtype",
    "move_nothing": "output 0 has no memory",
    "moved_constant": "output 0 may be a constant, and has no planned memory",
    "free_input": "changes the input value 0",
    "free_constant": "changes the constant value 2",
    "free_output": "output 0 has no memory",
    "free_of_moved": "changes the memory of value 5, which is another one's after a move",
    "view_as_input": "changes the input value 0",
    "view_as_constant": "changes the constant value 2",
    "view_of_moved": "changes the memory of value 5",
    "view_of_null": "changes the memory of value 6",
    "endless": "the loop that instruction 0 ends does not end",
    "jump_outside": "instruction 0 jumps to instruction 9 of 1",
    "delegate_constant": "gives the constant value 2 to a delegate",
    "delegate_data": "has no delegate data 1",
    "delegate_index": "calls delegate 1 of 1",
    "huge_tensor": "larger than the address space",
    "missing_operator": "not in the image's kernel table",
    "negative_size": "the shape of tensor . is corrupted",
    "state_index": "has no initial state 2: it is corrupted",
    "state_segment": "has no initial state 1: it is corrupted",
    "state_size": "initial state 1 lies outside its segment",
    "outside_planned": "lies outside its planned memory",
}


def test_the_names_by_which_values_and_instructions_are_told_are_all_of_the_schema() -> None:
    # //tools/abi/layouts compares their values on the device with the headers.
    assert set(TAGS) == {kind.name for kind in KernelTypes} - {"NONE"}
    assert {*INSTRUCTION_KINDS, "DelegateCall"} == {kind.name for kind in InstructionArguments} - {"NONE"}


def _source(name: str, kernels: Sequence[Kernel] = KERNELS) -> str:
    file = load(FOLDER / f"{name}.pte")
    layouts = [method_layout(plan) for plan in file.program.execution_plan]
    return "\n".join(program_source(name, file, layouts, kernels, 4)[0])


def _is_hand_made(path: Path) -> bool:
    # The operators of hand-made programs are the same ones, used or not.
    return load(path).program.execution_plan[0].operators[0].name.startswith("test::")


@pytest.mark.parametrize(
    "path", sorted(p for p in FOLDER.glob("*.pte") if _is_hand_made(p)), ids=lambda path: path.stem
)
def test_programs(path: Path) -> None:
    if path.stem in REFUSED:
        with pytest.raises(UserError, match=REFUSED[path.stem]):
            _source(path.stem)
        return
    source = _source(path.stem)
    labels = re.findall(r"^(\.L\w+):$", source, re.MULTILINE)
    assert len(labels) == len(set(labels))
    words = "\n".join(line for line in source.splitlines() if line.startswith(".word"))
    assert set(re.findall(r"\.L\w+", words)) <= set(labels)


def _increment_with(**positions: tuple[int, ...]) -> list[Kernel]:
    return [Kernel("test::increment.out", "", (), None, 1, **positions)]


def test_what_kernels_ask_of_their_arguments() -> None:
    # Increments constant 2, and input 0; both write to value 1.
    _source("constant", _increment_with(writes=(1,), constants=(0,)))
    for name, kernels, message in (
        ("constant", _increment_with(writes=(0, 1)), "instruction 0 writes to the constant value 2"),
        ("increment", _increment_with(constants=(0,)), "instruction 0 takes value 0, which has to be a constant"),
        ("constant", _increment_with(constants=(0,), packed=(0,)), "a packed layer that is corrupted: it is no packed"),
    ):
        with pytest.raises(PrelinkError, match=message):
            _source(name, kernels)


def test_constants_take_no_ram() -> None:
    plan = load(FOLDER / "constant.pte").program.execution_plan[0]
    layout = method_layout(plan)
    # Input and output; the constant is used where it is.
    assert (layout.tensors, layout.values, layout.lists, layout.constants) == ((0, 1), (), (), (2,))


def test_lists_take_ram_only_where_their_elements_do() -> None:
    plan = load(FOLDER / "lists.pte").program.execution_plan[0]
    kinds = [type(plan.values[index].val).__name__ for index in method_layout(plan).lists]
    assert kinds == ["TensorList", "OptionalTensorList"]


def test_kernels_are_called_by_their_place_in_the_table() -> None:
    # Two arguments, because the result repeats the output; the index is above the lowest 16 bits.
    assert re.search(rf"^\.word {2 << 2 | 2 << 16}, ", _source("increment"), re.MULTILINE)
    with pytest.raises(PrelinkError, match="operator test::increment.out is not in the image's kernel table"):
        _source("increment", KERNELS[:1])
