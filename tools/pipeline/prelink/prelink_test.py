import os
import re
from pathlib import Path

import pytest

from tools.artifacts.program import load
from tools.pipeline.plan import make_plan
from tools.pipeline.prelink import PrelinkError, method_layout, program_source

FOLDER = Path(os.environ["PROGRAMS"])
KERNELS = ["test::sum.out", "test::inspect", "test::increment.out", "test::at_least.out"]
# Programs that are refused, and what the message says.
REFUSED = {
    "constant_output": "writes to the constant value 2",
    "delegate": "SomeBackend",
    "huge_tensor": "larger than the address space",
    "missing_operator": "not in the image's kernel table",
    "negative_size": "the shape of tensor . is corrupted",
    "outside_planned": "lies outside its planned memory",
}


def _source(name: str, kernels: list[str] = KERNELS) -> str:
    path = FOLDER / f"{name}.pte"
    return "\n".join(program_source(name, path, load(path), kernels, 4)[0])


def _is_hand_made(path: Path) -> bool:
    return all(operator.name.startswith("test::") for operator in load(path).program.execution_plan[0].operators)


@pytest.mark.parametrize(
    "path", sorted(p for p in FOLDER.glob("*.pte") if _is_hand_made(p)), ids=lambda path: path.stem
)
def test_programs(path: Path) -> None:
    if path.stem in REFUSED:
        with pytest.raises(PrelinkError, match=REFUSED[path.stem]):
            _source(path.stem)
        return
    source = _source(path.stem)
    labels = re.findall(r"^(\.L\w+):$", source, re.MULTILINE)
    assert len(labels) == len(set(labels))
    words = "\n".join(line for line in source.splitlines() if line.startswith(".word"))
    assert set(re.findall(r"\.L\w+", words)) <= set(labels)


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
    # Of two arguments, as the result repeats the output; the index is above the lowest 16 bits.
    assert re.search(rf"^\.word {2 << 2 | 2 << 16}, ", _source("increment"), re.MULTILINE)
    with pytest.raises(PrelinkError, match="operator test::increment.out is not in the image's kernel table"):
        _source("increment", ["test::sum.out"])


def test_the_arena_is_smaller_than_the_loaders() -> None:
    for name in ("increment", "lists", "cnn", "softmax_dynamic"):
        path = FOLDER / f"{name}.pte"
        assert make_plan(path, "cortex-m4", prelinked=True).method < make_plan(path, "cortex-m4").method
