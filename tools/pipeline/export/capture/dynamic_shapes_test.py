"""Programs whose tensors have sizes that are known at run time only."""

from pathlib import Path

import pytest
import torch

from tools.pipeline.export.options import Options
from tools.pipeline.export.testing import export_source, functions, model_source, run_program
from tools.quiet.console import UserError

_FORWARD = "y = self.net(x.transpose(1, 2))\nreturn torch.softmax(y, -1), y.mean(1), torch.cat([x, x * 2], 2)"


def _source(largest: str, example: int, forward: str = _FORWARD, net: str = "nn.Linear(3, 5)") -> str:
    source = model_source(forward, f"(torch.randn(1, 3, {example}),)", f"self.net = {net}")
    dims = f'{{"x": {{2: torch.export.Dim("steps", min=2, max={largest})}}}}'
    return source + functions(dynamic_shapes=dims)


def test_one_program_takes_every_size_up_to_the_bound(tmp_path: Path) -> None:
    result = export_source(tmp_path, _source("16", 16))
    scope: dict = {}
    exec(_source("16", 16), scope)
    for steps in (2, 5, 16):
        x = torch.randn(1, 3, steps)
        for actual, wanted in zip(run_program(result.program, [x]), scope["model"]()(x), strict=True):
            torch.testing.assert_close(actual, wanted)


@pytest.mark.parametrize(
    ("largest", "message"),
    [
        ("32", "example_inputs() gives input 0 the shape [1, 3, 16]; with dynamic_shapes() it must be the largest"),
        ("None", "dynamic_shapes() gives a size no upper bound"),
    ],
)
def test_what_cannot_be_planned_is_refused(largest: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        export_source(tmp_path, _source(largest, 16))
    assert message in str(error.value)


def test_int8_programs_have_one_shape(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="takes no dynamic_shapes"):
        export_source(tmp_path, _source("16", 16), options=Options(core="cortex_m4", backend="cortex_m"))


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        ("return self.net(x.transpose(1, 2))[0]", r"does not take; PyTorch finds that it takes steps = 16\. A"),
        ("return x.reshape(1, 3, -1, 2)", r"it takes _steps = Dim\('_steps', min=1, max=8\), steps = 2\*_steps\."),
    ],
)
def test_sizes_that_the_model_does_not_take(forward: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        export_source(tmp_path, _source("16", 16, forward, "nn.LSTM(3, 5, batch_first=True)"))


_MASKED = "return x if mask is None else x * mask"


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ('{"x": {2: dim}, "mask": {1: dim}}', "names 'mask', but example_inputs() gives x; leave 'mask' out"),
        ('{"x": {3: dim}}', "'x' has no dimension 3; its shape in example_inputs() is [1, 3, 16]."),
        ('{"x": (None, dim)}', "'x' must be a dict by dimension"),
        ('{"x": {2: "steps"}}', "'x': dimension 2 must be a torch.export.Dim or None, not a str."),
        ('{"x": {2: 8}}', "'x': dimension 2 is 8, but 16 in example_inputs()."),
        ("(None, None)", "or a tuple with an entry for each of x, not a tuple (None, None)."),
        ("dim", "dynamic_shapes() must return a dict by input"),
    ],
)
def test_what_names_no_size_of_the_example(shapes: str, message: str, tmp_path: Path) -> None:
    source = model_source(_MASKED, "(torch.randn(1, 3, 16),)", arguments="x, mask=None")
    source += 'dim = torch.export.Dim("steps", min=2, max=16)\n' + functions(dynamic_shapes=shapes)
    with pytest.raises(UserError) as error:
        export_source(tmp_path, source)
    assert message in str(error.value)


def test_an_argument_that_is_not_given_has_no_sizes(tmp_path: Path) -> None:
    source = model_source(_MASKED, "(torch.randn(1, 16),)", arguments="x, mask=None")
    dims = '{"x": {1: torch.export.Dim("steps", min=2, max=16)}, "mask": None}'
    assert export_source(tmp_path, source + functions(dynamic_shapes=dims)).largest_error() == 0
