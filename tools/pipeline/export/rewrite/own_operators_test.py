from pathlib import Path

import pytest
import torch
from torch.utils import _pytree as pytree

from tools.pipeline.export.options import Options
from tools.pipeline.export.rewrite.own_operators import keep_recurrent_layers
from tools.pipeline.export.testing import export_source, model_source
from tools.pipeline.model_file.sample_calls import SampleCalls
from tools.quiet.console import UserError

_INPUT = "(torch.randn(1, 3, 9, 8),)"


@pytest.mark.parametrize("pool", ["2", "3, stride=2, padding=1, ceil_mode=True", "(2, 3), dilation=2"])
def test_unread_indices_of_a_pooling_take_no_memory(pool: str, tmp_path: Path) -> None:
    source = model_source(
        "return self.net(x)", _INPUT, f"self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d({pool}))"
    )
    result = export_source(tmp_path, source)
    assert result.operators == {"aten::convolution": 1, "torch_fusion::max_pool2d": 1}
    assert result.manifest["planned_buffers"] == [result.manifest["live_bytes_lower_bound"]]
    # All tensors are float32: there are no indices.
    assert {entry["dtype"] for entry in result.manifest["tensors"]} == {"Float"}
    assert result.largest_error() < 1e-5


def test_indices_that_are_read_are_computed(tmp_path: Path) -> None:
    forward = "return nn.functional.max_pool2d(x, 2, return_indices=True)"
    result = export_source(tmp_path, model_source(forward, _INPUT))
    assert result.operators == {"aten::max_pool2d_with_indices": 1}
    assert result.largest_error() == 0


_RECURRENT = [
    ("LSTM(4, 8)", "(torch.randn(5, 2, 4),)", 1),
    ("LSTM(4, 8, num_layers=2, bidirectional=True, bias=False, batch_first=True)", "(torch.randn(2, 5, 4),)", 4),
    ("LSTM(4, 8, bidirectional=True)", "(torch.randn(5, 2, 4), (torch.randn(2, 2, 8), torch.randn(2, 2, 8)))", 2),
    ("GRU(4, 8, num_layers=3)", "(torch.randn(5, 1, 4),)", 3),
    ("GRU(4, 8, bidirectional=True, batch_first=True)", "(torch.randn(2, 5, 4), torch.randn(2, 2, 8))", 2),
    ("GRU(4, 8, bias=False)", "(torch.randn(5, 4),)", 1),
]


@pytest.mark.parametrize(("layer", "inputs", "calls"), _RECURRENT, ids=[case[0] for case in _RECURRENT])
def test_a_recurrent_layer_is_one_call_per_direction_that_computes_the_same(layer, inputs, calls) -> None:
    torch.manual_seed(0)
    module = eval(f"torch.nn.{layer}").eval()
    values = eval(inputs)
    with torch.no_grad():
        expected = pytree.tree_leaves(module(*values))
    program = keep_recurrent_layers(torch.export.export(module, values, strict=False))
    names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    kind = layer.partition("(")[0].lower()
    assert names.count(f"torch_fusion.{kind}.default") == calls
    assert f"aten.{kind}.input" not in names
    for actual, wanted in zip(pytree.tree_leaves(program.module()(*values)), expected, strict=True):
        torch.testing.assert_close(actual, wanted)


def test_a_recurrent_layer_takes_one_instruction_whatever_its_steps(tmp_path: Path) -> None:
    init = "self.layer = nn.LSTM(4, 8)"
    short, long = (
        export_source(tmp_path, model_source("return self.layer(x)[0]", f"(torch.randn({steps}, 1, 4),)", init))
        for steps in (2, 40)
    )
    assert short.operators == long.operators == {"torch_fusion::lstm": 1}
    # Sizes that differ need not be written once more.
    assert abs(len(long.program) - len(short.program)) < 64


def test_a_recurrent_layer_with_a_projection_is_unrolled(tmp_path: Path) -> None:
    init = "self.layer = nn.LSTM(4, 8, proj_size=3)"
    result = export_source(tmp_path, model_source("return self.layer(x)[0]", "(torch.randn(3, 1, 4),)", init))
    assert "torch_fusion::lstm" not in result.operators
    assert result.largest_error() < 1e-6


_OPERATORS = """
import torch

@torch.library.custom_op("mine::scan", mutates_args=())
def scan(
    x: torch.Tensor, factor: float, shift: float = 0.0, *, reverse: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    y = (x.flip(-1) if reverse else x).cumsum(-1) * factor + shift
    return y, y.sum(-1)

@scan.register_fake
def _(x, factor, shift=0.0, *, reverse=False):
    return x.new_empty(x.shape), x.new_empty(x.shape[:-1])

@torch.library.custom_op("mine::grow", mutates_args=("x",))
def grow(x: torch.Tensor) -> None:
    x.add_(1)

@torch.library.custom_op("mine::wrong", mutates_args=())
def wrong(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

@wrong.register_fake
def _(x):
    return x.new_empty(x.shape + (1,))

def sample_inputs():
    return [(torch.randn(2, 3),)]
"""


def test_an_operator_of_a_users_own_is_one_call_on_contiguous_tensors(tmp_path: Path) -> None:
    (tmp_path / "scan_operators.py").write_text(_OPERATORS)
    forward = "return torch.ops.mine.scan(self.net(x.to(memory_format=torch.channels_last)), 2.0, reverse=True)"
    source = "import scan_operators\n" + model_source(forward, _INPUT, "self.net = nn.Conv2d(3, 4, 3)")
    result = export_source(tmp_path, source, options=Options(operators=("mine::scan",)))
    assert result.operators["mine::scan"] == 1
    (operator,) = [entry for entry in result.manifest["operators"] if entry["name"] == "mine::scan"]
    assert operator["overload"] == "out"
    assert sorted(operator["dim_orders"]) == [[0, 1, 2], [0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("operator", "says"),
    [
        ("mine::grow", "operator mine::grow writes to its arguments; return new tensors instead"),
        ("mine::none", "registers no operator mine::none: import the file that does"),
    ],
)
def test_an_operator_that_has_no_place_in_a_program(operator: str, says: str, tmp_path: Path) -> None:
    source = _OPERATORS.replace("def sample_inputs", "def unused") + model_source("return x", _INPUT)
    with pytest.raises(UserError, match=says):
        export_source(tmp_path, source, options=Options(operators=(operator,)))


def test_a_fake_implementation_that_contradicts_the_eager_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scan_operators.py"
    path.write_text(_OPERATORS)
    with pytest.raises(UserError, match=r"mine::wrong with sample 0, a tuple \(float32\[2, 3\]\): "):
        SampleCalls("mine::wrong", str(path))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"there is no function sample_inputs\(\)"),
        ("def sample_inputs():\n    return []\n", "must return a list of at least one tuple, not a list"),
        ("def sample_inputs():\n    return [(1.0,)]\n", "no call has a tensor among its arguments"),
        ("raise ValueError('no')\n", "importing it failed: ValueError: no"),
    ],
)
def test_an_operators_file_without_samples(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises(UserError, match=says):
        SampleCalls("mine::scan", str(path))
