"""Inputs and outputs of programs, before a runner is started."""

from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

from tools.verify.run_pte import run_pte
from tools.verify.run_pte.run_pte import RunError, _encode_tensor
from tools.verify.run_pte.values import encode


@pytest.mark.parametrize(("sizes", "order"), [([1] * 17, None), ([2, 3], [0, 0]), ([2, -3], None)])
def test_a_shape_that_cannot_be_passed(sizes: list[int], order: list[int] | None) -> None:
    tensor = SimpleNamespace(scalar_type=6, sizes=sizes, dim_order=order, shape_dynamism=0)
    with pytest.raises(RunError, match=f"input 0 has {len(sizes)} dimensions .* at most 16 can be passed"):
        _encode_tensor(0, tensor, None)


def test_as_many_dimensions_as_can_be_passed() -> None:
    tensor = SimpleNamespace(scalar_type=6, sizes=[1] * 16, dim_order=None, shape_dynamism=0)
    assert _encode_tensor(0, tensor, None)


class Int:
    """A value as a program has it."""

    def __init__(self, number: int) -> None:
        self.int_val = number


class Null:
    """A value as a program has it."""


def test_a_number_is_the_one_that_the_program_was_exported_with(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [SimpleNamespace(val=Int(7))]
    plan = SimpleNamespace(name="forward", values=values, inputs=[0], outputs=[0])
    monkeypatch.setattr(run_pte, "read", lambda _: SimpleNamespace(execution_plan=[plan]))
    (encoded,) = run_pte.encode_inputs(Path("numbers.pte"), [])
    assert encoded == encode(numpy.asarray(7), 4, ())


def test_an_output_that_is_none_is_named() -> None:
    plan = SimpleNamespace(values=[SimpleNamespace(val=Null())], outputs=[0])
    with pytest.raises(RunError, match="output 0 is of type Null, which cannot be returned"):
        run_pte.check_outputs(plan)


def test_parts_for_another_processor_are_named() -> None:
    of_runtime = "the image has no backend XnnpackBackend; give its torch_backend to the image's `backends`"
    assert "parts for XnnpackBackend, which run_pte has not; lower the model without" in run_pte.for_this_command(
        of_runtime
    )


def test_the_method_of_several_that_is_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [SimpleNamespace(name=name) for name in ("encode", "forward")]
    for count, method, lines in (
        (1, None, []),
        (2, None, ["method encode, the first one; others by --method: forward"]),
        (2, "forward", ["method forward; others by --method: encode"]),
    ):
        program = SimpleNamespace(execution_plan=plans[:count])
        monkeypatch.setattr(run_pte, "read", lambda _, program=program: program)
        assert run_pte.note_of_methods(Path("several.pte"), method) == lines
