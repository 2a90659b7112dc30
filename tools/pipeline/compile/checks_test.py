"""The compiler refuses the programs that the runtime refuses when it loads or executes them."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tools.artifacts.manifest.manifest import Manifest
from tools.artifacts.program import load
from tools.pipeline.compile.checks import check_method
from tools.pipeline.compile.layout import LayoutError, method_layout
from tools.pipeline.compile.program import make_method
from tools.pipeline.registry.catalog import Kernel, read_catalog
from tools.quiet.console import UserError

FOLDER = Path(os.environ["PROGRAMS"])
NUMEL = read_catalog()["aten::sym_numel"]


KERNELS = [
    *(
        replace(NUMEL, operator=f"test::{name}", results=())
        for name in ["sum.out", "inspect", "increment.out", "at_least.out", "unwritten.out"]
    ),
    NUMEL,
    read_catalog()["executorch_prim::et_view.default"],
]
MANIFEST = Manifest("program", "portable", (), (), (), (), False)
# Programs that are refused, and what the message says.
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
    "delegate": "SomeBackend, which compiled models can.t call; use torch_firmware with engine = .loaded. and backends",
    "delegate_arguments": "SomeBackend, which",
    "delegate_data": "SomeBackend, which",
    "delegate_missing": "OtherBackend, which",
    "delegate_npu": "delegate 0 is corrupted: it ends at byte 4",
    "delegate_index": "calls delegate 1 of 1",
    "huge_tensor": "lies outside its planned memory",
    "negative_size": "has a corrupted shape",
    "state_index": "has no initial state 2: it is corrupted",
    "state_segment": "has no initial state 1: it is corrupted",
    "state_size": "initial state 1 has no 8 bytes: it is corrupted",
    "outside_planned": "lies outside its planned memory",
}


def _check(name: str, kernels: Sequence[Kernel] = KERNELS) -> None:
    file = load(FOLDER / f"{name}.pte")
    for plan in file.program.execution_plan:
        layout = method_layout(plan)
        check_method(file, layout, {kernel.operator: kernel for kernel in kernels})
        method = make_method(file, layout, MANIFEST)
        for index in layout.tensors:
            method.initial_state(index)


def _is_hand_made(path: Path) -> bool:
    # Their operators are the same ones, used or not.
    return load(path).program.execution_plan[0].operators[0].name.startswith("test::")


@pytest.mark.parametrize(
    "path", sorted(p for p in FOLDER.glob("*.pte") if _is_hand_made(p)), ids=lambda path: path.stem
)
def test_programs(path: Path) -> None:
    if path.stem in REFUSED:
        with pytest.raises(UserError, match=REFUSED[path.stem]):
            _check(path.stem)
    else:
        _check(path.stem)


def test_what_kernels_ask_of_their_arguments() -> None:
    # Increments constant 2, and input 0; both write to value 1.
    increment = replace(KERNELS[2], writes=(1,))
    _check("constant", [replace(increment, constants=(0,))])
    for name, kernel, message in (
        ("constant", replace(increment, writes=(0, 1)), "instruction 0 writes to the constant value 2"),
        ("increment", replace(increment, constants=(0,)), "instruction 0 takes value 0, which has to be a constant"),
        ("constant", replace(increment, constants=(0,), packed=(0,)), "a packed layer that is corrupted: it"),
    ):
        with pytest.raises(LayoutError, match=message):
            _check(name, [kernel])


def test_constants_take_no_ram() -> None:
    layout = method_layout(load(FOLDER / "constant.pte").program.execution_plan[0])
    # Input and output; the constant is used where it is.
    assert (layout.tensors, layout.values, layout.constants) == ((0, 1), (), (2,))
