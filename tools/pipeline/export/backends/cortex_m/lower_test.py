import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.target_config import CortexMTargetConfig
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.scalar_type import ScalarType
from executorch.exir.schema import IntList
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from tools.pipeline.export.backends.cortex_m import lower, pack
from tools.pipeline.export.ir.operators import SOFTMAX
from tools.pipeline.export.options import Options
from tools.pipeline.export.pipelines import CORTEX_M
from tools.pipeline.export.plan.manifest import Parameters
from tools.pipeline.export.quantize.accuracy import Cost, blamed, is_stream
from tools.pipeline.export.quantize.quantize import Quantized
from tools.pipeline.export.quantize.report import far_outputs
from tools.pipeline.export.testing import Result, export_source, functions, model_source
from tools.quiet.console import UserError

_CNN = """
self.layers = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(),
    nn.Conv2d(8, 8, 3, groups=8, padding=1), nn.Hardtanh(-0.5, 0.5), nn.MaxPool2d(2), nn.AvgPool2d(2), nn.Flatten(),
    nn.Linear(32, 6), nn.BatchNorm1d(6), nn.Softmax(1))
for module in self.modules():
    if hasattr(module, "running_mean"):
        module.running_mean.normal_()
        module.running_var.uniform_(0.5, 2)
"""


def exported(
    folder: Path, forward: str, inputs: str, init: str = "pass", core: str = "cortex-m4", more: str = "", **options: Any
) -> Result:
    """A model quantized and lowered to plain operators for a core, unless the options say otherwise."""
    source = model_source(forward, inputs, init) + more
    return export_source(folder, source, options=Options(core, "cortex_m", **({"packed": False} | options)))


def numbers(golden: dict[str, numpy.ndarray], entry: dict[str, Any], name: str) -> numpy.ndarray:
    """Dequantizes an int8 array."""
    assert golden[name].dtype == numpy.int8
    return (golden[name].astype(numpy.float32) - entry["zero_point"]) * entry["scale"]


@pytest.fixture(scope="module")
def cnn(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """_CNN, exported once for the tests that read it."""
    return exported(tmp_path_factory.mktemp("cnn"), "return self.layers(x)", "(torch.randn(1, 3, 8, 8),)", _CNN)


def test_layers_say_where_they_come_from(cnn: Result) -> None:
    operators = [entry["name"] for entry in cnn.manifest["operators"]]
    found = {entry["origin"].split()[0]: entry["macs"] for entry in cnn.manifest["instructions"]}
    assert found["layers.0"] == 8 * 8 * 8 * 3 * 9
    assert found["layers.4"] == 8 * 8 * 8 * 9
    assert found["layers.9"] == 32 * 6
    assert operators[cnn.manifest["instructions"][0]["operator"]] == "cortex_m::quantize_per_tensor"


def test_layers_that_no_line_calls_say_where_they_are_made(tmp_path: Path) -> None:
    made = "return nn.Sequential(\n        nn.Linear(4, 4),\n        nn.Tanh(),\n    ).eval()"
    source = f"import torch\nfrom torch import nn\n\ndef model():\n    {made}\n"
    result = export_source(tmp_path, source + functions(example_inputs="(torch.rand(1, 4),)"))
    found = [entry["origin"].replace(f"{tmp_path}/", "") for entry in result.manifest["instructions"]]
    assert found == ["0 (Linear) at my_model.py:6", "1 (Tanh) at my_model.py:7"]


def test_layers_of_a_container_say_where_they_are_made(tmp_path: Path) -> None:
    layers = "self.net = nn.Sequential(\n            nn.Linear(4, 4),\n            nn.Tanh(),\n        )"
    result = export_source(tmp_path, model_source("return torch.exp(self.net(x))", "(torch.rand(1, 4),)", layers))
    lines = (tmp_path / "my_model.py").read_text().splitlines()
    for entry in result.manifest["instructions"]:
        layer, _, place = entry["origin"].rpartition(" at ")
        wanted = {"net.0 (Linear)": "nn.Linear", "net.1 (Tanh)": "nn.Tanh"}.get(layer, "torch.exp")
        assert wanted in lines[int(place.rpartition(":")[2]) - 1], entry["origin"]


def test_operators_say_which_pass_made_them(cnn: Result, tmp_path: Path) -> None:
    assert {entry["made_by"] for entry in cnn.manifest["instructions"]} == {"substitute_operators"}
    layers = "self.norm = nn.LayerNorm(8); self.attention = nn.MultiheadAttention(8, 2, batch_first=True)"
    forward = "x = self.norm(x); return self.attention(x, x, x, need_weights=False)[0]"
    source = model_source(forward, "(torch.randn(1, 4, 8),)", layers)
    for options, wanted in (
        (Options("cortex-m4", "cortex_m"), {"torch_fusion::quantized_layer_norm": "lower_norms"}),
        (Options(), {"aten::linear": "torch.export", "aten::bmm": "to_edge", "aten::mul": "decompose_attention"}),
    ):
        result = export_source(tmp_path, source, options=options)
        calls = result.manifest["instructions"]
        made = {result.manifest["operators"][call["operator"]]["name"]: call["made_by"] for call in calls}
        assert wanted.items() <= made.items(), made


def test_a_model_without_operators_returns_its_input(tmp_path: Path) -> None:
    options = Options("cortex-m4", "cortex_m", io="int8", float_where_faster=True)
    result = export_source(tmp_path, model_source("return x", "(torch.rand(1, 5),)"), options=options)
    assert not result.operators
    assert numpy.array_equal(result.golden["output_0"], result.golden["input_0"])


def test_inputs_that_the_model_changes_are_golden_as_they_were_given(tmp_path: Path) -> None:
    forward = (
        "y.add_(1)\nx[:, 0] = 0\nreturn self.conv(nn.functional.relu_(x)).mean(-1) * y.view(-1).clamp_(-1, 2).sum()"
    )
    inputs = "(torch.randn(1, 3, 6, 6), torch.randn(2))"
    source = model_source(forward, inputs, "self.conv = nn.Conv2d(3, 4, 3)", "x, y")
    result = export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m", io="int8"))
    torch.manual_seed(1)
    for name, given in (("input_0", torch.randn(1, 3, 6, 6)), ("input_1", torch.randn(2))):
        entry = result.manifest["inputs"][int(name[-1])]
        assert numpy.abs(numbers(result.golden, entry, name) - given.numpy()).max() <= entry["scale"] * 0.51
    found = numbers(result.golden, result.manifest["outputs"][0], "output_0")
    assert numpy.abs(found - result.golden["eager_0"]).max() < 0.1


def test_int8_border_gives_the_integers_of_the_float_border(cnn: Result, tmp_path: Path) -> None:
    inside = exported(
        tmp_path, "return self.layers(x)", "(torch.randn(1, 3, 8, 8),)", _CNN, core="cortex-m55", io="int8"
    )
    assert inside.manifest["core"] == "cortex-m55"
    assert numpy.array_equal(numbers(inside.golden, inside.manifest["outputs"][0], "output_0"), cnn.golden["output_0"])
    assert cnn.manifest["outputs"][0]["scale"] == inside.manifest["outputs"][0]["scale"]


def test_inputs_that_are_read_in_floating_point_or_not_at_all_stay_so_beside_those_of_int8(tmp_path: Path) -> None:
    source = model_source(
        "return self.layer(x), y > 0, y.double().std()",
        "(torch.randn(1, 4), torch.randn(1, 4), torch.randn(2))",
        "self.layer = nn.Linear(4, 3)",
        "x, y, unread",
    )
    result = export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m", io="int8"))
    assert [entry["dtype"] for entry in result.manifest["inputs"]] == ["Char", "Float", "Float"]
    assert numpy.array_equal(result.golden["output_1"], result.golden["eager_1"])
    said = [text.partition("io = 'int8', but ")[2] for text in result.said if "io = 'int8'" in text]
    assert said[0].startswith("input 1 is read in floating point at ") and said[0].endswith(", and stays so.")
    assert said[1] == "input 2 is not read, and stays so."
    assert said[2].startswith("output 2 comes in floating point from ")
    assert numpy.allclose(result.golden["output_2"], result.golden["eager_2"], rtol=1e-6)
    with pytest.raises(UserError, match="io = 'int8', but input 0 is read in floating point at .*; use io = 'float32'"):
        exported(tmp_path, "return x > 0", "(torch.randn(1, 4),)", io="int8")


def test_loops_in_floating_point_are_estimated_with_all_of_their_steps(tmp_path: Path) -> None:
    forward = (
        "from torch._higher_order_ops.map import map\nreturn map(lambda t: nn.functional.relu(self.a(t)) @ self.b, x)"
    )
    init = "self.a = nn.Linear(8, 24); self.b = nn.Parameter(torch.randn(24, 3))"
    result = exported(tmp_path, forward, "(torch.randn(9, 1, 8),)", init, packed=True, float_where_faster=True)
    # A step has 8 * 24 + 24 * 3 products.
    said = [int(number.replace(",", "")) for text in result.said for number in re.findall("about ([0-9,]+) ins", text)]
    assert all(number > 9 * 8 * 24 for number in said), result.said


def test_places_of_maxima_alone(tmp_path: Path) -> None:
    """Maxima with indices are computed in floating point, the layer before them in int8."""
    forward = "y = self.conv(x)\nreturn y.max(1)[1], nn.functional.max_pool2d(y, 2, return_indices=True)[1]"
    result = exported(tmp_path, forward, "(torch.randn(1, 4, 16, 16),)", "self.conv = nn.Conv2d(4, 16, 3)", io="int8")
    assert {"aten::max", "aten::argmax"} & result.operators.keys()
    assert "aten::max_pool2d_with_indices" in result.operators
    assert "cortex_m::quantized_conv2d" in result.operators
    for index in range(2):
        assert (result.golden[f"output_{index}"] == result.golden[f"eager_{index}"]).mean() > 0.8


class _Network(NamedTuple):
    """A network, and what its program must be.

    Attributes:
      forward, inputs, init: parts of the model file; `inputs` is the one tensor.
      calls: how often the program calls each of these operators.
      least: the least signal-to-noise ratio of each output against eager mode, in dB.
      said, unsaid: texts that one message has, and that none has.
      options: further arguments of exported().
    """

    forward: str
    inputs: str
    init: str = "pass"
    calls: Mapping[str, int] = {}
    least: float = 20
    said: str = ""
    unsaid: str = "Please report"
    options: Mapping[str, Any] = {"packed": True}


_PACKED = {"packed": True}
_FASTER = {"packed": True, "float_where_faster": True}
_CALIBRATED = {"more": functions(calibration_inputs="[example_inputs()]")}
_IMAGE = "torch.randn(1, 3, 8, 8)"
_THREE = "self.a, self.b, self.c = (nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))"
_NONE_BETTER = "no operator has an int8 form that takes fewer instructions."
_BETWEEN = "return self.b(self.layer(self.a(x)))"
_NETWORKS = {
    "product of two numbers": _Network(
        "x, y = x.unbind()\nreturn torch.stack([2 * (x * y) - x, .5 - x ** 2, 1 / (y + 4)])", "torch.randn(2)"
    ),
    "products of four numbers": _Network(
        "w, x, y, z = x.unbind()\nreturn torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z)])", "torch.randn(4)"
    ),
    "numbers with numbers of Python": _Network(
        "x = self.layer(x)\nreturn 3 - x[0] / 2, torch.where(x[1] > 0, x[1], 2.0), -x.mean()",
        "torch.randn(4)",
        "self.layer = nn.Linear(4, 3)",
    ),
    # By minus infinity, by large numbers, filled, and chosen.
    "masks are no data": _Network(
        """
s, v = self.q(x) @ self.k(x).transpose(-2, -1), self.v(x)
infinite, upper = float("-inf"), torch.ones(6, 6).triu(1)
masked = s + torch.full((6, 6), infinite).triu(1), s + torch.full((6, 6), -1e9).triu(1)
masked += s.masked_fill(upper > 0, infinite), torch.where(upper > 0, torch.finfo(torch.float32).min, s)
return tuple(each.softmax(-1) @ v for each in masked)
""",
        "torch.randn(2, 6, 8)",
        "self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))",
        {"cortex_m::quantized_batch_matmul": 5},
        options=_CALIBRATED,
    ),
    "maximum of what is not masked": _Network(
        "seen = self.body(x).masked_fill(torch.arange(12).unsqueeze(1) % 3 < 2, -1e9)\n"
        "return self.head(seen.max(dim=1).values), self.head(seen.amax(1))",
        "torch.randn(2, 12, 8)",
        "self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 3)",
        {"torch_fusion::linear": 2, "torch_fusion::linear_rows": 1},
    ),
    # The biases of the last layer are far larger than its other terms, which happens in untrained networks.
    **{
        f"activations fade before biases of {bias}": _Network(
            "return self.head(self.third(self.second(self.first(x).relu()).relu()).relu().mean((2, 3)))",
            _IMAGE,
            f"""
self.first, self.second, self.third = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 3)
self.head = nn.Linear(8, 4)
for layer in (self.first, self.second, self.third):
    nn.init.zeros_(layer.bias)
    layer.weight.data *= 1e-3
self.head.bias.data *= {bias}
""",
            unsaid="floating point",
        )
        for bias in (0, 1000)
    },
    **{
        f"many rows on a {core}": _Network(
            "return self.one(self.many(x).mean(1))",
            "torch.randn(1, 5, 16)",
            "self.many, self.one = nn.Linear(16, 8), nn.Linear(8, 8)",
            {"torch_fusion::linear": 2 - rows, "torch_fusion::linear_rows": rows, "cortex_m::dequantize_per_tensor": 0},
            options={"core": core} | _PACKED,
        )
        for core, rows in (("cortex-m4", 1), ("cortex-m55", 0))
    },
    "recurrent layer in floating point": _Network(
        "return self.out(self.lstm(x)[0][:, -1])",
        "torch.randn(1, 5, 4)",
        "self.lstm = nn.LSTM(4, 8, batch_first=True)\nself.out = nn.Linear(8, 2)",
        {"torch_fusion::lstm": 1, "torch_fusion::linear": 1, "cortex_m::dequantize_per_tensor": 0},
        said="lstm (LSTM) at my_model.py",
        options={"keep_float": ("lstm",)} | _PACKED,
    ),
    # The slices connect all parts with each other; torchao's ranges must not recurse endlessly.
    "ranges shared in a circle": _Network(
        """
x = self.first(x)
parts = [*x.chunk(2, 1), *x[:, ::2].split(2, 1), x[:, 4:], *x.reshape(1, 2, 4, 8, 8).unbind(1), *x.split((1, 7), 1)]
return torch.cat([self.second(part) if part.shape[1] == 4 else part for part in parts], 1)
""",
        _IMAGE,
        "self.first = nn.Conv2d(3, 8, 1); self.second = nn.Conv2d(4, 4, 1)",
        unsaid="floating point",
    ),
    "grouped convolution of three dimensions": _Network(
        "return self.out(self.layer(x).mean((2, 3, 4)))",
        "torch.randn(1, 2, 6, 6, 6)",
        "self.layer = nn.Conv3d(2, 4, 3, groups=2); self.out = nn.Linear(4, 3)",
        said="layer (",
    ),
    "maxima of a dilated window": _Network(
        _BETWEEN,
        "torch.randn(1, 3, 18, 17)",
        "self.a = nn.Conv2d(3, 8, 3); self.layer = nn.MaxPool2d(2, dilation=2); self.b = nn.Conv2d(8, 8, 1)",
        said="layer (",
    ),
    # Its result has the layout that the next convolution reads.
    "pooling to a size that does not divide": _Network(
        _BETWEEN,
        "torch.randn(1, 3, 18, 17)",
        "self.a = nn.Conv2d(3, 8, 3); self.layer = nn.AdaptiveAvgPool2d((3, 5)); self.b = nn.Conv2d(8, 8, 1)",
        said="layer (",
    ),
    "layer's result written into zeros": _Network(
        "y = torch.zeros(1, 4, 8, 8)\ny[:, :, 1:-1, 1:-1] = self.a(x)\nreturn self.b(y)",
        "torch.randn(1, 2, 6, 6)",
        "self.a = nn.Conv2d(2, 4, 1); self.b = nn.Conv2d(4, 4, 3)",
    ),
    # They are other numbers each time.
    "random numbers": _Network(
        "return self.fc(x) + torch.rand(1)",
        "torch.randn(2, 64)",
        "self.fc = nn.Linear(64, 24)",
        {"aten::rand": 1, "torch_fusion::linear": 1},
        -20,
    ),
    "floating point is hardly faster": _Network(
        "return self.out(self.layers(x).mean(-1))",
        "torch.randn(1, 3, 256)",
        "self.layers = nn.Sequential(nn.Conv1d(3, 16, 9, stride=4), nn.PReLU(), nn.MaxPool1d(2), "
        "nn.Conv1d(16, 32, 5), nn.PReLU())\nself.out = nn.Linear(32, 4)",
        {"torch_fusion::convolution": 2},
        unsaid="instructions",
        options=_FASTER,
    ),
    "nothing for int8 in a layer": _Network(
        "return self.c(x)",
        "torch.randn(1, 1, 4, 6, 6)",
        "self.c = nn.ConvTranspose3d(1, 4, 3, 2)",
        {"aten::convolution": 1, "cortex_m::quantize_per_tensor": 0},
        100,
        _NONE_BETTER,
        "would take",
        _FASTER,
    ),
    "nothing for int8 in a function": _Network(
        "return x.cumsum(1)",
        "torch.randn(2, 12)",
        calls={"aten::cumsum": 1, "cortex_m::quantize_per_tensor": 0},
        least=100,
        said=_NONE_BETTER,
        unsaid="would take",
        options=_FASTER,
    ),
    "costs of groups of channels are numbers": _Network(
        "a = self.a(x)\ny = self.up(self.b(nn.functional.max_pool1d(a, 2)))\n"
        "return x - self.out(self.c(torch.cat([y, a], 1)))",
        "torch.randn(1, 1, 64)",
        "c = lambda i, o: nn.Sequential(nn.Conv1d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.LeakyReLU(0.1))\n"
        "self.a, self.b, self.c, self.out = c(1, 8), c(8, 16), c(24, 8), nn.Conv1d(8, 1, 1)\n"
        "self.up = nn.ConvTranspose1d(16, 16, 2, 2)",
        options={"float_growth": 16384} | _FASTER,
    ),
    "groups between int8 convolutions": _Network(
        "return self.c(self.b(self.a(x)))",
        "torch.randn(1, 3, 12, 12)",
        "self.a = nn.Conv2d(3, 8, 3); self.b = nn.Conv2d(8, 8, 3, groups=4); self.c = nn.Conv2d(8, 16, 3)",
        {"torch_fusion::convolution": 3, "aten::convolution": 0},
        options=_FASTER,
    ),
    "function of integers": _Network(
        "return nn.functional.gelu(x)",
        "torch.randn(1, 16)",
        calls={"cortex_m::quantized_activation": 1, "cortex_m::quantize_per_tensor": 0},
        options={"io": "int8"} | _PACKED,
    ),
    # A large one is not packed where vectors have no kernel for it.
    "groups without a kernel of vectors": _Network(
        "return self.layers(x)",
        "torch.randn(1, 8, 16, 16)",
        "self.layers = nn.Sequential(nn.Conv2d(8, 8, 3, dilation=2, groups=8), nn.Conv2d(8, 16, 3, groups=8), "
        "nn.Conv2d(16, 16, 3, groups=8), nn.Conv2d(16, 10, 1), nn.Conv2d(10, 10, 3, groups=10), "
        "nn.Conv2d(10, 40, 1), nn.Conv2d(40, 40, 3, groups=5))",
        {"torch_fusion::convolution": 6, "cortex_m::quantized_conv2d": 1},
        options={"core": "cortex-m55"} | _PACKED,
    ),
    "few groups, many groups and one per channel": _Network(
        "return self.groups(self.wide(self.many(self.few(x))))",
        "torch.randn(1, 8, 7, 7)",
        "self.few = nn.Conv2d(8, 6, 3, groups=2); self.many = nn.Conv2d(6, 6, 3, groups=6)\n"
        "self.wide = nn.Conv2d(6, 48, 1); self.groups = nn.Conv2d(48, 96, 3, groups=12)",
        {
            "torch_fusion::convolution": 2,
            "torch_fusion::grouped_convolution": 1,
            "torch_fusion::depthwise_convolution": 1,
        },
    ),
    # Vectors have no kernel for several outputs per channel.
    **{
        f"channels of several images on a {core}": _Network(
            "return self.two(self.one(x))",
            "torch.randn(3, 8, 9, 9)",
            "self.one = nn.Conv2d(8, 8, 3, groups=8); self.two = nn.Conv2d(8, 16, 3, groups=8)",
            {"torch_fusion::depthwise_convolution": 2 - vectors, "torch_fusion::convolution": vectors},
            options={"core": core} | _PACKED,
        )
        for core, vectors in (("cortex-m4", 0), ("cortex-m55", 1))
    },
    "some channels are copied once": _Network(
        "return self.fc(self.conv(x)[:, :7].mean((2, 3)))",
        "torch.randn(1, 3, 7, 7)",
        "self.conv = nn.Conv2d(3, 8, 3); self.fc = nn.Linear(7, 2)",
        {"aten::slice_copy": 1, "dim_order_ops::_clone_dim_order": 0},
    ),
    "powers that would make int8 useless": _Network(
        "return self.head(torch.relu(self.conv(x)).clamp(min=1e-6).pow(8).mean((2, 3)).pow(1 / 8))",
        "torch.randn(1, 2, 10, 10)",
        "self.conv, self.head = nn.Conv2d(2, 8, 3), nn.Linear(8, 3)",
        {"torch_fusion::convolution": 1, "aten::pow": 2},
        15,
    ),
    # A result has no dimensions; the constants can't be viewed as they lie.
    "comparisons of inputs and constants": _Network(
        """
h = self.body(x)
ones = torch.full_like(h[:, :1], 0.5) * torch.ones_like(h[:, :1]) + 0.25 * torch.zeros_like(x[:, :1])
ones = ones + self.attention(self.queries, self.queries, self.queries, need_weights=False)[0][:, 0, :1]
return -0.5 * torch.sum(1 + h), torch.where(x[:, :1] > 0.01, h, -h.abs()), self.head(torch.cat([h, ones], 1))
""",
        "torch.cat([torch.full((4, 1), 0.011), torch.full((4, 1), 0.009), torch.randn(4, 6)], 1)",
        "self.body, self.head = nn.Linear(8, 8), nn.Linear(9, 3)\n"
        "self.queries, self.attention = nn.Parameter(torch.rand(4, 1, 4)), nn.MultiheadAttention(4, 2)",
        least=30,
    ),
    # Positions and masks have no scale.
    "integers and booleans beside floating point": _Network(
        """
y, i = self.body(x).relu(), x.argsort(-1)
both = torch.maximum(y, i), torch.cat([y, i]), torch.where(i > 0, y, i), y.clamp(max=i)
return y + i, self.head(y * (i > 1)), i - y, *both
""",
        "torch.randn(3, 8)",
        "self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 16)",
        least=30,
        unsaid="Please report",
    ),
    # Deep untrained networks without normalization have such activations.
    "numbers that no factor reaches": _Network(
        "y = self.a(x) * self.s\nreturn self.b(nn.functional.avg_pool2d(y, 4) * 2.0 ** 90)",
        _IMAGE,
        "self.a = nn.Conv2d(3, 8, 1); self.b = nn.Conv2d(8, 4, 1); self.s = 2.0 ** -90",
        {"cortex_m::quantized_avg_pool2d": 0},
    ),
    "state that begins with zeros": _Network(
        """
h = torch.zeros(x.size(0), 8)
for step in range(2):
    gate, value = (self.new(x[:, step]) + self.old(h)).chunk(2, 1)
    h = torch.sigmoid(gate) * h + torch.tanh(value)
return h
""",
        "torch.randn(2, 2, 4)",
        "self.new, self.old = nn.Linear(4, 16), nn.Linear(8, 16)",
        {"cortex_m::quantized_mul": 1},
    ),
    "one layer on far apart ranges": _Network(
        "return self.fc(x), self.fc(0.01 * x)",
        "torch.randn(1, 16)",
        "self.fc = nn.Linear(16, 16, bias=False)",
        {"torch_fusion::linear": 2, "cortex_m::dequantize_per_tensor": 0},
    ),
    # Averages over channels and powers of them are cheaper in int8.
    "averages over channels": _Network(
        "return self.layers(x)",
        "torch.randn(1, 3, 16, 16)",
        "self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.LocalResponseNorm(3), nn.Conv2d(8, 8, 3))",
        {"cortex_m::quantized_avg_pool2d": 1, "cortex_m::quantized_activation": 1, "aten::pow": 0},
        35,
        options=_FASTER,
    ),
    # The scores of attention vanish in a deep untrained network.
    "softmax of numbers that hardly differ": _Network(
        "return self.b(torch.softmax(self.a(x) * 2.0 ** -60, -1))",
        "torch.randn(1, 8)",
        "self.a, self.b = nn.Linear(8, 4), nn.Linear(4, 4)",
        {"aten::_softmax": 1, "torch_fusion::linear": 2},
    ),
    "convolution by computed weights": _Network(
        "return self.b(nn.functional.conv2d(self.a(x), self.w(x.mean((2, 3))).view(4, 4, 1, 1)).relu())",
        "torch.randn(1, 4, 8, 8)",
        "self.a, self.b, self.w = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3), nn.Linear(4, 16)",
        {"aten::convolution": 1, "torch_fusion::convolution": 2},
        25,
    ),
    "linear layer by computed weights": _Network(
        "y = self.a(x).flatten(2)\n"
        "return nn.functional.linear(y, nn.functional.relu(self.m(y.mean((0, 1))).view(3, 64)))",
        "torch.randn(1, 4, 8, 8)",
        "self.a, self.m = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(64, 192)",
        {"aten::linear": 1, "torch_fusion::convolution": 1},
        25,
    ),
    **{
        f"layer of {dtype}": _Network(
            f"return self.b(self.a(x).relu().to(torch.{dtype})).float()",
            "torch.randn(1, 8)",
            f"self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 3).to(torch.{dtype})",
            {"torch_fusion::linear": 1, "aten::linear": 1, "cortex_m::quantize_per_tensor": 0},
            25,
            options=_PACKED,
        )
        for dtype in ("float16", "float64")
    },
    "constants of float64 by channel": _Network(
        "return self.a(((x - self.mean) / self.deviation).float())",
        "torch.randn(1, 4, 8, 8)",
        f"{_THREE}\nself.mean, self.deviation = torch.randn(2, 4, 1, 1, dtype=torch.float64).abs()",
        {"torch_fusion::convolution": 1, "aten::sub": 1},
        25,
    ),
    "places of a pooling": _Network(
        "y, places = nn.functional.max_pool2d(self.a(x).relu(), 2, return_indices=True)\n"
        "return self.c(nn.functional.max_unpool2d(self.b(y), places, 2))",
        "torch.randn(1, 4, 8, 8)",
        _THREE,
        {"torch_fusion::convolution": 3},
        15,
    ),
    "layers that clamp share a range": _Network(
        "y = self.a(x).relu()\nreturn torch.cat([y, torch.clamp(self.b(y), -0.1, 0.2), self.c(y)], 1)",
        "torch.randn(1, 4, 8, 8)",
        _THREE,
        {"aten::clamp": 0},
        25,
    ),
    "a layer with slope and bounds shares a range": _Network(
        "return self.out(torch.cat([x, nn.functional.hardsigmoid(self.gate(x))], 1))",
        "torch.randn(1, 8)",
        "self.gate, self.out = nn.Linear(8, 8), nn.Linear(16, 3)",
        {"torch_fusion::linear_table": 1, "torch_fusion::linear": 1, "cortex_m::dequantize_per_tensor": 0},
        25,
    ),
    "differences of layers": _Network(
        "y = self.a(x)\nreturn y - self.b(y) - y.mean((2, 3), keepdim=True)",
        "torch.randn(1, 4, 8, 8)",
        _THREE,
        {"aten::sub": 0, "cortex_m::quantized_add": 2},
        25,
    ),
    "operands with a factor, and a division": _Network(
        "y, z = self.a(x), self.b(x)\nreturn torch.add(y, z, alpha=2), torch.sub(y, z, alpha=2), y / (z.abs() + 2)",
        "torch.randn(1, 4, 8, 8)",
        _THREE,
        {"aten::add": 1, "aten::sub": 1, "aten::div": 1},
        30,
    ),
    "an input read in both forms": _Network(
        "return self.linear(torch.cat([x.amax(-1), x.std(-1)], 1))",
        "torch.randn(1, 3, 8)",
        "self.linear = nn.Linear(6, 4)",
        {"cortex_m::quantize_per_tensor": 0, "torch_fusion::linear": 1},
        25,
    ),
    "a clamp behind a transposed product": _Network(
        "return nn.functional.relu(self.matrix @ self.linear(x)) @ self.matrix",
        "torch.randn(1, 8, 6)",
        "self.linear = nn.Linear(6, 8)\nself.register_buffer('matrix', torch.rand(8, 8))",
        # Its price in int8 has no calls that quantize, dequantize or clamp, and is less than that in floating point.
        {"aten::clamp": 0, "torch_fusion::linear_rows": 1, "torch_fusion::linear_transposed": 2},
        25,
        options=_FASTER,
    ),
    "attention over the channels of an averaged input": _Network(
        "q, k, v = (part.view(1, 2, 4, -1) for part in self.qkv(nn.functional.avg_pool2d(x, 2)).chunk(3, 1))\n"
        "return ((q @ k.mT) * self.t).softmax(-1) @ v",
        _IMAGE,
        "self.qkv, self.t = nn.Conv2d(3, 24, 1), nn.Parameter(torch.rand(2, 1, 1))",
        {
            "aten::avg_pool2d": 1,
            "aten::slice_copy": 0,
            "cortex_m::quantized_mul": 1,
            "torch_fusion::convolution": 1,
            "torch_fusion::transposed": 2,
        },
        25,
    ),
    "a function behind a layer in the line of a spectrum": _Network(
        "return nn.functional.gelu(self.linear(x + torch.fft.irfft(torch.fft.rfft(x))))",
        "torch.randn(2, 8)",
        "self.linear = nn.Linear(8, 4)",
        {"aten::gelu": 0},
        25,
    ),
    "a layer and its view between operators in floating point": _Network(
        "y = self.linear(x)\nreturn y.std(1), y.view(4, 8).std(0), y.permute(0, 1).unsqueeze(0).std(2)",
        "torch.randn(4, 8)",
        "self.linear = nn.Linear(8, 8)",
        {"aten::var": 3, "cortex_m::dequantize_per_tensor": 0},
        unsaid="no line of the model",
    ),
    "bounds that are infinite": _Network(
        "return torch.clamp(self.linear(x), 0.1, float('inf')) + torch.clamp(self.linear(x), float('-inf'), 0.5)",
        "torch.randn(4, 8)",
        "self.linear = nn.Linear(8, 8)",
        {"torch_fusion::linear_rows": 2},
    ),
    "a layer and its view, whose numbers would take more memory beside another layer's": _Network(
        "y = self.a(x)\na, b = y.std(1), self.b(x).std(1)\nreturn a, b, y.view(32, 128).std(1)",
        "torch.randn(64, 8)",
        "self.a, self.b = nn.Linear(8, 64), nn.Linear(8, 64)",
        {"aten::var": 3, "cortex_m::dequantize_per_tensor": 3},
    ),
    "a product between operators in floating point": _Network(
        "return self.linear(x).exp().sum(1) * 0.5",
        "torch.randn(1, 8)",
        "self.linear = nn.Linear(8, 4)",
        {"aten::mul": 1, "cortex_m::quantized_mul": 0},
    ),
}


@pytest.mark.parametrize("network", _NETWORKS.values(), ids=_NETWORKS)
def test_networks_have_the_operators_and_results_that_they_need(network: _Network, tmp_path: Path) -> None:
    result = exported(tmp_path, network.forward, f"({network.inputs},)", network.init, **network.options)
    assert {name: result.operators.get(name, 0) for name in network.calls} == network.calls
    for index in range(len(result.manifest["outputs"])):
        assert result.golden[f"output_{index}"].shape == result.golden[f"eager_{index}"].shape
        assert result.decibels(index) > network.least
    assert not network.said or any(network.said in text for text in result.said)
    assert not any(network.unsaid in text for text in result.said)
    for image, *_ in result.calls("torch_fusion::convolution", "cortex_m::quantized_conv2d"):
        assert image.scalar_type == ScalarType.CHAR
        order = [dim for dim in image.dim_order if image.sizes[dim] > 1]
        assert order == [dim for dim in (0, 2, 3, 1) if image.sizes[dim] > 1]


_SHARED = """
y = self.linear(x)
return (
    y + nn.functional.hardswish(y), y + y.relu(), y + y.clamp(-0.25),
    # Here the relu shares its range with x.
    torch.minimum(x, (x + x).relu()),
)
"""


def test_activations_of_what_others_read_too(tmp_path: Path) -> None:
    init = "self.linear = nn.Linear(8, 8)"
    result = exported(tmp_path, _SHARED, "(torch.randn(4, 8),)", init, io="int8", **_CALIBRATED)
    assert result.operators.keys() >= {"cortex_m::quantized_activation", "aten::clamp"}
    assert not any("floating point" in text for text in result.said)
    for index, output in enumerate(result.manifest["outputs"]):
        error = numpy.abs(numbers(result.golden, output, f"output_{index}") - result.golden[f"eager_{index}"]).max()
        assert error < 2.5 * output["scale"]


# Hardswish becomes a clamp, for the layer's range, and a table.
_BESIDE_LAYERS = """
y = nn.functional.hardswish(self.conv(x))
joined = torch.cat([self.window, y], 2)
self.window = joined[..., -3:]
return (
    self.out(joined), nn.functional.hardswish(self.linear(x)), torch.clamp(n + 4, max=6), torch.relu(n + n),
    nn.functional.relu6(n + 1),
)
"""


def test_activations_behind_layers_and_of_integers(tmp_path: Path) -> None:
    init = (
        "self.conv, self.out, self.linear = nn.Conv1d(2, 8, 1), nn.Conv1d(8, 2, 4), nn.Linear(4, 4)\n"
        "self.window = nn.Buffer(torch.zeros(1, 8, 3))"
    )
    inputs = "(torch.randn(1, 2, 4), torch.tensor([-5, 1]))"
    more = functions(calibration_inputs="[(4 * torch.randn(1, 2, 4), torch.tensor([-5, 1])) for _ in range(8)]")
    source = model_source(_BESIDE_LAYERS, inputs, init, "x, n") + more
    result = export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m", packed=False))
    assert not any("floating point:" in text or "report" in text for text in result.said)
    assert result.operators["cortex_m::quantized_activation"] == 2
    assert all(result.decibels(index) > 25 for index in range(2))
    for index in range(2, 5):
        assert numpy.array_equal(result.golden[f"output_{index}"], result.golden[f"eager_{index}"])


def test_integers_of_eight_bits_are_no_quantized_numbers(tmp_path: Path) -> None:
    """Sensors give such."""
    forward = "d = x - x[:, :, :1] // 2\nreturn self.conv(d.float() / 64), d * x"
    inputs = "(torch.arange(-32, 32, dtype=torch.int8).reshape(1, 1, 8, 8),)"
    result = exported(tmp_path, forward, inputs, "self.conv = nn.Conv2d(1, 4, 3)")
    assert 30 < result.decibels() < numpy.inf
    assert numpy.array_equal(result.golden["output_1"], result.golden["eager_1"])


def test_the_larger_of_two_images_lies_as_they_do(tmp_path: Path) -> None:
    init = "self.conv = nn.Conv2d(3, 3, 3, padding=1)"
    result = exported(tmp_path, "return torch.maximum(self.conv(x), x)", "(torch.randn(1, 3, 5, 4),)", init, io="int8")
    assert result.operators == {"cortex_m::quantized_conv2d": 1, "cortex_m::maximum": 1}
    assert result.manifest["outputs"][0]["dim_order"] == [0, 2, 3, 1]


def test_calibration_inputs_set_the_ranges(tmp_path: Path) -> None:
    more = functions(calibration_inputs="[(torch.full((1, 4), value),) for value in (-3.0, 3.0)]")
    arguments = "return self.linear(x)", "(torch.rand(1, 4),)", "self.linear = nn.Linear(4, 4)"
    wide = exported(tmp_path, *arguments, more=more)
    narrow = exported(tmp_path, *arguments)
    # Ranges from so few samples are widened, but at most to twice the observed range.
    assert 6 / 255 < wide.manifest["inputs"][0]["scale"] < 12.1 / 255
    assert narrow.manifest["inputs"][0]["scale"] < 2.02 / 255
    assert not any("calibration_inputs" in text for text in wide.said)
    assert any("has no calibration_inputs()" in text for text in narrow.said)


def test_a_layer_that_stays_in_float_is_said_once_however_many_operators_it_is(tmp_path: Path) -> None:
    init = "self.attention = nn.MultiheadAttention(8, 2, batch_first=True)"
    mask = "torch.full((4, 4), float('-inf')).triu(1)"
    forward = f"return self.attention(x, x, x, attn_mask={mask}, need_weights=False)[0]"
    result = exported(tmp_path, forward, "(torch.randn(1, 4, 8),)", init)
    said = [text for text in result.said if "floating point" in text]
    assert len(said) == 1 and "attention (MultiheadAttention) at my_model.py" in said[0] and "aten::" not in said[0]


_BAD = {
    "nan": ("[(torch.full((1, 4), float('nan')),)]", "sample 0: tensor 0 holds NaN or infinity"),
    "shape": ("[(torch.rand(1, 4),), (torch.rand(2, 4),)]", "sample 1 is a tuple (float32[2, 4])"),
    "dtype": ("[(torch.ones(1, 4, dtype=torch.int32),)]", "sample 0 is a tuple (int32[1, 4])"),
    "zero_range": ("[(torch.zeros(1, 4),)]", "input x: always 0"),
    "one_value": ("[(torch.full((1, 4), -9.0),)]", "input x: always -9"),
    "overflow": ("[(torch.full((1, 4), 3e38),)]", "makes NaN or infinity at linear (Linear)"),
    "empty": ("[]", "calibration_inputs() returned no samples"),
    "no_tuple": ("[torch.rand(1, 4)]", "sample 0 must be a tuple of at least one tensor"),
}


@pytest.mark.parametrize("case", _BAD)
def test_bad_calibration_is_refused(case: str, tmp_path: Path) -> None:
    inputs, message = _BAD[case]
    init = "self.linear = nn.Linear(4, 4)\nself.linear.weight.data.fill_(2)\nself.relu = nn.ReLU()"
    with pytest.raises(UserError) as caught:
        exported(
            tmp_path,
            "return self.relu(self.linear(x))",
            "(torch.rand(1, 4),)",
            init,
            more=functions(calibration_inputs=inputs),
        )
    assert message in str(caught.value)


def test_a_state_without_a_range_has_the_name_of_its_buffer(tmp_path: Path) -> None:
    init = "self.out, self.window = nn.Linear(4, 4), nn.Buffer(torch.zeros(1, 4))"
    forward = "joined = torch.cat([self.window, x])\nself.window = joined[1:]\nreturn self.out(joined)"
    with pytest.raises(UserError, match="buffer window: always 0\n  input 0: always 0\n"):
        exported(tmp_path, forward, "(torch.zeros(1, 4),)", init)


# A table holds what a function of infinity makes of it, which needs no note.
_NOT_FINITE = {
    "table": ("torch.nan_to_num(torch.log(x.sign()), -1.0, None, -2.0)", False),
    "maximum": ("torch.zeros(4, 8).scatter_reduce(1, self.at, x, reduce='amax', include_self=False)", True),
    "sum": ("torch.nan_to_num(torch.log(x) + self.body(x), 1.0, 2.0, -2.0)", True),
}


@pytest.mark.parametrize("case", _NOT_FINITE)
def test_infinity_on_the_way_to_finite_outputs_stays_in_floating_point(case: str, tmp_path: Path) -> None:
    value, is_said = _NOT_FINITE[case]
    init = "self.body, self.head, self.at = nn.Linear(8, 8), nn.Linear(8, 3), torch.arange(8).expand(4, 8) // 3"
    forward = f"y = self.body(x).relu()\nm = {value}\nreturn self.head(y + m)"
    result = exported(tmp_path, forward, "(torch.randn(4, 8),)", init)
    assert "cortex_m::quantized_linear" in result.operators and result.decibels() > 30
    assert any("floating point, as it makes or takes NaN or infinity" in text for text in result.said) == is_said


# Networks before training have such constants, and so does a layer whose ReLU is dead.
_CONSTANT = {
    "zero_weights": ("self.branch.weight.data *= 0\nself.branch.bias.data *= 0", "x + self.branch(x)", False),
    "zero_scale": ("self.scale = nn.Parameter(torch.zeros(1))", "x + self.branch(x) * self.scale", False),
    "dead": ("nn.init.constant_(self.branch.bias, -100.0)", "x + self.branch(x).relu()", True),
}


@pytest.mark.parametrize("case", _CONSTANT)
def test_what_is_always_the_same_is_quantized_and_said_if_it_depends_on_the_samples(case: str, tmp_path: Path) -> None:
    init, forward, is_said = _CONSTANT[case]
    init = f"self.branch, self.head = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 8, 1)\n{init}"
    result = exported(tmp_path, f"return self.head({forward})", "(torch.randn(1, 4, 6, 6),)", init)
    eager = result.golden["eager_0"]
    assert numpy.abs(result.golden["output_0"] - eager).max() < 0.03 * numpy.ptp(eager)
    assert not any("floating point" in text for text in result.said)
    assert any("one value alone in 1 tensor, " in text for text in result.said) == is_said


_CONVERTED = """
import torch
from torch import nn
import tools.pipeline.export.backends.cortex_m.dialect
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


def model():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).eval()
    program = torch.export.export(net, example_inputs())
    prepared = prepare_pt2e(program.module(check_guards=False), CortexMQuantizer())
    prepared(torch.full((1, 4), 2.0))
    prepared(torch.full((1, 4), -2.0))
    return convert_pt2e(prepared)


def example_inputs():
    return (torch.tensor([[0.5, -0.25, 1.0, 0.0]]),)
"""


def test_a_model_that_is_quantized_already_passes_through(tmp_path: Path) -> None:
    result = export_source(tmp_path, _CONVERTED, options=Options("cortex-m4", "cortex_m", io="int8", packed=False))
    assert result.operators == {"cortex_m::quantized_linear": 2}
    assert result.manifest["inputs"][0]["scale"] == pytest.approx(4 / 255, rel=0.02)
    # The module computes with the same scales, rounding differently at most.
    error = numbers(result.golden, result.manifest["outputs"][0], "output_0") - result.golden["eager_0"]
    assert numpy.abs(error).max() <= 1.01 * result.manifest["outputs"][0]["scale"]
    assert any("is quantized already" in text for text in result.said)
    assert result.report is not None
    assert [layer["scheme"] for layer in result.report["layers"]] == ["fused", "int8", "int8"]
    assert not any("snr_db" in layer for layer in result.report["layers"])


def test_the_report_measures_layers_and_names_what_stays_in_float(tmp_path: Path) -> None:
    init = "self.conv = nn.Conv2d(2, 4, 3)\nself.norm = nn.LayerNorm(36)\nself.head = nn.Linear(36, 3)"
    samples = "[(torch.randn(1, 2, 5, 5),) for _ in range(20)], torch.arange(20) % 3"
    more = functions(evaluation_set=samples, labels="['left', 'right', 'none']")
    forward = "return self.head(self.norm(self.conv(x).relu().flatten(1)))"
    result = exported(tmp_path, forward, "(torch.randn(1, 2, 5, 5),)", init, more=more)
    report = result.report
    assert report is not None
    layers = {layer["place"].split()[0]: layer for layer in report["layers"] if layer["operator"] != "aten::clone"}
    assert layers["conv"]["weight"]["scheme"] == "per channel" and layers["conv"]["weight"]["scales"] == 4
    assert layers["norm"]["scheme"] == "float32" and "no int8 form" in layers["norm"]["reason"]
    assert layers["head"]["scheme"] == "int8"
    assert 25 < layers["head"]["snr_db"] < 60
    outputs, eager = (result.golden[name].reshape(20, 3).argmax(axis=1) for name in ("output_0", "eager_0"))
    labels = numpy.arange(20) % 3
    confusions = numpy.zeros((2, 3, 3), int)
    numpy.add.at(confusions[0], (labels, eager), 1)
    numpy.add.at(confusions[1], (labels, outputs), 1)
    assert report["accuracy"] == {
        "classes": ["left", "right", "none"],
        "float32_confusion": confusions[0].tolist(),
        "int8_confusion": confusions[1].tolist(),
        "samples": 20,
        "float32": float((eager == labels).mean()),
        "int8": float((outputs == labels).mean()),
    }


@pytest.mark.parametrize(("start", "dtype"), [("-torch.inf", ScalarType.FLOAT), ("0.0", ScalarType.CHAR)])
def test_a_running_maximum_is_int8_if_int8_holds_its_first_value(start: str, dtype: ScalarType, tmp_path: Path) -> None:
    init = f"self.register_buffer('peak', torch.full((1, 4), {start})); self.layer = nn.Linear(4, 4)"
    forward = """
x = self.layer(x)
self.peak.copy_(torch.maximum(self.peak, x))
return x + self.peak
"""
    result = exported(tmp_path, forward, "(torch.randn(1, 4),)", init)
    assert [call[0].scalar_type for call in result.calls("aten::copy_")] == [dtype]


@pytest.mark.parametrize(("core", "linear"), [("cortex-m4", "linear_rows"), ("cortex-m55", "linear")])
def test_what_takes_fewer_instructions_in_floating_point_stays_there_and_is_returned_as_it_is(
    core: str, linear: str, tmp_path: Path
) -> None:
    forward, inputs, init = "return self.fc(x).softmax(-1)", "(torch.randn(8, 64),)", "self.fc = nn.Linear(64, 24)"
    chosen = exported(tmp_path, forward, inputs, init, core=core, packed=True, float_where_faster=True)
    assert list(chosen.operators) == [
        "cortex_m::quantize_per_tensor",
        f"torch_fusion::{linear}",
        "cortex_m::dequantize_per_tensor",
        "aten::_softmax",
    ]
    assert set(chosen.operators.values()) == {1}
    assert any(text.endswith("stays in floating point, for fewer instructions") for text in chosen.said)
    everywhere = exported(tmp_path, forward, inputs, init, core=core, packed=True)
    assert "cortex_m::softmax" in everywhere.operators


def test_a_program_that_takes_fewer_instructions_without_int8_has_none_unless_it_is_too_large(tmp_path: Path) -> None:
    init = "self.a = nn.Conv2d(3, 16, 3, 2, 1); self.b = nn.Conv2d(16, 16, 3, groups=8)"
    forward, inputs = "return self.b(self.a(x).relu()).sigmoid()", "(torch.randn(1, 3, 12, 12),)"

    def export(**options: Any) -> Result:
        return exported(tmp_path, forward, inputs, init, packed=True, **options)

    small = export(float_where_faster=True)
    assert "torch_fusion::convolution" in small.operators
    (said,) = [text for text in small.said if "the program is int8, for about " in text]
    assert "; floating point would take about " in said and said.endswith(" chooses it.")
    growth = int(said.partition("float_growth = ")[2].partition(" ")[0])
    chosen = export(float_where_faster=True, float_growth=growth)
    # The program is that many bytes larger, and returns PyTorch's results.
    sizes = [len(result.program) + sum(result.manifest["planned_buffers"]) for result in (small, chosen)]
    assert sizes[1] - sizes[0] == growth
    assert set(chosen.operators) == {"aten::convolution", "aten::relu", "aten::sigmoid"}
    assert chosen.largest_error() < 1e-5
    assert (chosen.golden["eager_0"] == chosen.golden["output_0"]).all()
    (said,) = [text for text in chosen.said if "everything stays in floating point, for about" in text]
    assert "; int8 would take about " in said and said.endswith(" float_where_faster = False chooses it.")
    # Integer inputs and outputs stay, but the build prints the same estimates.
    integers = export(float_where_faster=True, float_growth=growth, io="int8")
    assert integers.program == export(io="int8").program
    (said,) = [text for text in integers.said if "the program is int8, for about " in text]
    assert said.endswith(' backend = "portable" chooses it.')
    assert chosen.report is not None
    assert {layer["scheme"] for layer in chosen.report["layers"]} == {"float32"}
    assert chosen.report["notes"][0].startswith("everything stays in floating point")


def test_a_few_bytes_of_memory_alone_don_t_make_a_program_int8(tmp_path: Path) -> None:
    forward, init = "return self.a @ (self.a @ x).relu()", "self.a = nn.Buffer(torch.randn(12, 12))"
    chosen, int8 = (
        exported(tmp_path, forward, "(torch.randn(12, 2),)", init, packed=True, float_where_faster=choice)
        for choice in (True, False)
    )
    assert "torch_fusion::linear" in int8.operators and not any("linear" in name for name in chosen.operators)
    assert len(chosen.program) <= len(int8.program)
    assert 0 < sum(chosen.manifest["planned_buffers"]) - sum(int8.manifest["planned_buffers"]) < 512


def test_what_stays_in_floating_point_takes_no_more_memory_than_int8_does(tmp_path: Path) -> None:
    forward = 'return nn.functional.interpolate(self.c(x).relu(), (40, 40), mode="nearest-exact")'
    inputs, init = "(torch.randn(1, 3, 24, 24),)", "self.c = nn.Conv2d(3, 4, 3, padding=1)"
    chosen, int8 = (
        exported(tmp_path, forward, inputs, init, packed=True, float_where_faster=choice) for choice in (True, False)
    )
    assert chosen.manifest["planned_buffers"] == int8.manifest["planned_buffers"]


@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
def test_convolutions_with_long_kernels_and_strides_are_packed_and_what_is_longer_is_named(core, tmp_path) -> None:
    init = (
        "self.image = nn.Conv2d(1, 8, (512, 1), (4, 1), (254, 0)); self.sound = nn.Conv1d(1, 6, 256, stride=128)\n"
        "self.long = nn.Conv1d(1, 4, 8, stride=1025)"
    )
    forward = "return self.image(x[..., None]), self.sound(x[0]), self.long(x[0])"
    source = model_source(forward, "(torch.randn(1, 1, 2048),)", init)
    result = export_source(tmp_path, source, options=Options(core, "cortex_m"))
    assert result.operators["torch_fusion::convolution"] == 2
    # A convolution of one channel is depthwise, too.
    assert result.operators["cortex_m::quantized_depthwise_conv2d"] == 1
    said = result.said[-1]
    assert "long (Conv1d) at " in said and "has too long a kernel or stride for a packed layer" in said
    # The estimates agree.
    assert pack.has_window((6, 1, 256, 1), (1, 128), (0, 0), (1, 1))
    assert not pack.has_window((4, 1, 8, 1), (1, 1025), (0, 0), (1, 1))


@pytest.mark.parametrize(
    ("part", "moves"),
    [
        ("[..., 1:]", 1),
        # The rows are contiguous anyway.
        ("[:, :, 1:].relu()", 0),
        (".split((1, 6), -1)[1].sigmoid()", 1),
        (".amax((2, 3), keepdim=True).expand(1, 8, 2, 3)", 1),
    ],
)
def test_parts_of_images_lie_as_the_layer_behind_them_reads_them(part: str, moves: int, tmp_path: Path) -> None:
    init = "self.a = nn.Conv2d(3, 8, 3); self.b = nn.LazyConv2d(8, (2, 1))"
    init += f"; self.b(self.a(torch.zeros(1, 3, 9, 9)){part})"
    result = exported(tmp_path, f"return self.b(self.a(x){part})", "(torch.randn(1, 3, 9, 9),)", init, packed=True)
    assert sum(result.operators.get(name, 0) for name in ("aten::slice_copy", "aten::expand_copy")) == moves
    assert not any(name.startswith("dim_order_ops") for name in result.operators)
    for image, *_ in result.calls("torch_fusion::convolution"):
        order = [dim for dim in image.dim_order if image.sizes[dim] > 1]
        assert order == [dim for dim in (0, 2, 3, 1) if image.sizes[dim] > 1]


def test_named_layers_stay_in_floating_point_with_what_is_inside_them(tmp_path: Path) -> None:
    init = "self.body = nn.Linear(8, 8); self.head = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))"
    forward, inputs = "return self.head(self.body(x))", "(torch.randn(2, 8),)"
    result = exported(tmp_path, forward, inputs, init, packed=True, keep_float=("head",))
    assert result.operators["torch_fusion::linear"] == 1 and result.operators["aten::linear"] == 2
    with pytest.raises(UserError, match="keep_float names 'tail', which is no layer of the model; it has head"):
        exported(tmp_path, forward, inputs, init, packed=True, keep_float=("tail",))


def test_layers_that_cost_most_stay_in_floating_point_until_the_demanded_ratio_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One weight that is far larger than the others leaves these few of the integers.
    init = """
self.body, self.middle, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)
with torch.no_grad():
    self.middle.weight[0, 0] = 40
    self.head.weight[:, 0] = 0
"""
    forward, inputs = "return self.head(self.middle(torch.relu(self.body(x))))", "(torch.randn(16, 8),)"
    transform, transformed = CortexMQuantizer.transform_for_annotation, list[GraphModule]()

    def transform_for_annotation(self: CortexMQuantizer, module: GraphModule) -> GraphModule:
        transformed.append(module)
        return transform(self, module)

    monkeypatch.setattr(CortexMQuantizer, "transform_for_annotation", transform_for_annotation)
    result = exported(tmp_path, forward, inputs, init, packed=True, min_snr=30)
    # A trial annotates the graph again, and doesn't transform it.
    assert len(transformed) == 1
    (note,) = (text for text in result.said if "layers stay in floating point that cost most accuracy" in text)
    assert result.operators["aten::linear"] + result.operators["torch_fusion::linear_rows"] == 3
    assert "torch_fusion::linear_rows" in result.operators
    assert result.decibels() > 29, note
    with pytest.raises(UserError, match=r"min_snr = 200, but the outputs reach [\d.]+ dB \([\d.]+ dB all in int8\)"):
        exported(tmp_path, forward, inputs, init, packed=True, min_snr=200)


def test_layers_that_cost_most_stay_in_floating_point_until_the_demanded_accuracy_is_reached(tmp_path: Path) -> None:
    # Both classes have large scores, whose quantization step exceeds their difference.
    init = """
self.body, self.middle, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)
with torch.no_grad():
    self.head.bias.fill_(100)
"""
    more = """

def evaluation_set():
    samples = [(torch.randn(1, 8, generator=torch.Generator().manual_seed(i)),) for i in range(64)]
    with torch.no_grad():
        return samples, torch.tensor([int(network(*sample).argmax()) for sample in samples])


torch.manual_seed(0)
network = model()


def model():
    return network


def calibration_inputs():
    return evaluation_set()[0][:16]
"""
    forward, inputs = "return self.head(self.middle(torch.relu(self.body(x))))", "(torch.randn(1, 8),)"
    alone = exported(tmp_path, forward, inputs, init, more=more, packed=True)
    demanded = exported(tmp_path, forward, inputs, init, more=more, packed=True, min_accuracy=0.98)
    assert alone.report is not None and demanded.report is not None
    assert alone.report["accuracy"]["int8"] < 0.95
    assert demanded.report["accuracy"]["int8"] >= 0.98
    assert "torch_fusion::linear" in demanded.operators and "aten::linear" in demanded.operators
    (note,) = (text for text in demanded.said if "layers stay in floating point that cost most accuracy" in text)
    assert "of 64 evaluation samples right" in note
    more = more.replace("int(network", "1 - int(network")
    with pytest.raises(UserError, match='min_accuracy = "0.5", but in floating point it is 0: demand less'):
        exported(tmp_path, forward, inputs, init, more=more, packed=True, min_accuracy=0.5)
    with pytest.raises(UserError, match="needs evaluation_set"):
        exported(tmp_path, forward, inputs, init, packed=True, min_accuracy=0.5)


def test_sums_of_residual_branches_stay_in_floating_point_with_what_normalizes_them(tmp_path: Path) -> None:
    # The first row, which the result is of, is far smaller than the others, as a token of a class is at first.
    init = """
self.token = nn.Parameter(0.01 * torch.randn(1, 1, 16))
self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(5))
self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
self.head = nn.Linear(16, 4)
with torch.no_grad():
    for layer in self.layers:
        layer.weight.mul_(0.004)
        layer.bias.mul_(0.004)
"""
    forward = """
h = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
for norm, layer in zip(self.norms, self.layers):
    h = h + layer(norm(h) + norm(h).mean(1, keepdim=True))
return self.head(self.norms[4](h)[:, 0])
"""
    more = functions(calibration_inputs="[(torch.randn(1, 8, 16),) for _ in range(4)]")
    result = exported(tmp_path, forward, "(torch.randn(1, 8, 16),)", init, more=more, packed=True, min_snr=20)
    (note,) = (text for text in result.said if "layers stay in floating point that cost most accuracy" in text)
    assert result.decibels() > 19, note
    assert result.operators["torch_fusion::linear_rows"] >= 3
    assert result.operators["aten::add"] >= 3 and result.operators["aten::native_layer_norm"] >= 4


def test_a_layer_that_makes_an_int8_program_useless_wherever_it_is_computed_is_named(tmp_path: Path) -> None:
    # The result is a difference of numbers that differ less than a step of int8, which any layer before it has.
    init = "self.head = nn.Linear(16, 2)\nwith torch.no_grad():\n    self.head.weight[:, 8:] = -self.head.weight[:, :8]"
    result = exported(tmp_path, "return self.head(torch.relu(100 + 0.1 * x))", "(torch.randn(4, 16),)", init)
    (note,) = (text for text in result.said if "no layers that stay in floating point bring that" in text)
    assert "dB all in int8) against floating point, less than 15 dB" in note
    assert "Most of the noise is made at" in note and "my_model.py:1" in note and "calibration_inputs()" in note
    result = exported(tmp_path, "return self.head(torch.relu(100 + 0.1 * x))", "(torch.randn(4, 16),)", init, io="int8")
    (note,) = (text for text in result.said if "less than 15 dB. Most of the noise is made at" in text)
    assert "my_model.py:1" in note and 'io = "float32", with which the build leaves such layers' in note


# The logarithm of a sound level, and a cell with state; the stream begins quietly.
_LEVELS = """
levels = (self.filters(x).square() + 1e-8).log10()
h, c = self.cell(levels, {state})
{keep}
return torch.sigmoid(20 * self.head(h)){more}
"""
_LEVELS_FILES = """


def stream(seed, count):
    random = torch.Generator().manual_seed(seed)
    loud = torch.rand(count, 1, 1, generator=random) ** 4
    loud[:12] = 0.01
    return [(sample,) for sample in loud * torch.randn(count, 1, 16, generator=random)]
""" + functions(calibration_inputs="stream(2, 48)", evaluation_set="stream(3, 48), torch.zeros(48).long()")


def test_noise_that_is_made_at_one_place_is_told_once() -> None:
    noise = (("m.py:1", 0.3), ("fc (Linear)", 0.2), ("m.py:1", 0.1), ("sum_1", 0.3), ("sub", 0.1))
    ranked = [Cost(frozenset((place,)), share, frozenset()) for place, share in noise]
    assert blamed(ranked[:3]) == "m.py:1 (67%), fc (Linear) (33%)"
    assert blamed(ranked[3:]) == "operators that no line of the model has written (100%)"


def test_a_stream_is_measured_over_its_whole_length_with_its_own_state(tmp_path: Path) -> None:
    init = "self.filters, self.cell, self.head = nn.Linear(16, 12), nn.LSTMCell(12, 8), nn.Linear(8, 1)\n"
    init += "self.register_buffer('h', torch.zeros(1, 8)); self.register_buffer('c', torch.zeros(1, 8))"
    forward = _LEVELS.format(state="(self.h, self.c)", keep="self.h.copy_(h); self.c.copy_(c)", more="")
    result = exported(tmp_path, forward, "(torch.randn(1, 16),)", init, more=_LEVELS_FILES, packed=True)
    # Ranges that the quiet start doesn't show stay in floating point.
    assert result.operators["torch_fusion::quantized_lstm"] == result.operators["aten::log10"] == 1
    assert result.decibels() > 25
    (note,) = (text for text in result.said if " dB " in text)
    assert note.startswith("export: note:") and "output, over a stream of 48 calls" in note
    assert re.search(r"; probabilities are off by [\d.e-]+ in the mean, by [\d.e-]+ at most; \d of 48 decisions", note)


def test_a_model_is_a_stream_that_is_given_the_state_of_its_cell() -> None:
    class Cell(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = torch.nn.GRUCell(4, 4)

        def forward(self, x: torch.Tensor, *state: torch.Tensor) -> torch.Tensor:
            return self.cell(x, *state)

    for inputs in ((torch.rand(1, 4),) * 2, (torch.rand(1, 4),)):
        folded = CORTEX_M.run(torch.export.export(Cell().eval(), inputs)).module(check_guards=False)
        assert is_stream(Quantized(folded, [], [], {}, floating=folded)) == (len(inputs) > 1)


def test_ranges_of_few_samples_are_widened_but_not_beyond_what_an_activation_can_give(tmp_path: Path) -> None:
    samples = "[(sample,) for sample in torch.randn({}, 1, 8, generator=torch.Generator().manual_seed({}))]"
    labelled = f"{samples.format(64, 3)}, torch.zeros(64, dtype=torch.long)"
    more = functions(calibration_inputs=samples.format(8, 2), evaluation_set=labelled)
    init = "self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 3)"
    forward = "return self.head(nn.functional.relu6(8 * self.body(x)))"
    result = exported(tmp_path, forward, "(torch.randn(1, 8),)", init, more=more)
    layer = next(each for each in result.report["layers"] if each["operator"] == "aten::hardtanh")
    assert layer["output"]["scale"] == pytest.approx(6 / 255, rel=1e-3)
    assert "aten::clamp" not in result.operators and "aten::hardtanh" not in result.operators
    assert result.decibels() > 30


def test_comparisons_of_int8_layers_with_numbers_compare_the_numbers(tmp_path: Path) -> None:
    forward = """
h = self.body(x).relu()
return h, (h > 0).any(), (h >= 0).all(dim=1), (0.1 > self.head(h)).sum(), h.eq(-1).any(), (self.head(h) != 9).sum()
"""
    init = "self.body, self.head = nn.Linear(13, 17), nn.Linear(17, 5); self.head.bias.data += 4"
    result = exported(tmp_path, forward, "(torch.randn(1, 13),)", init)
    assert "cortex_m::quantized_linear" in result.operators
    for index in range(1, 6):
        assert (result.golden[f"output_{index}"] == result.golden[f"eager_{index}"]).all()


def test_a_softmax_stays_in_floating_point_whose_results_are_too_small_for_its_resolution(tmp_path: Path) -> None:
    init = "self.body = nn.Conv2d(1, 2, 3, padding=1); self.head = nn.Linear(4, 4)"
    forward = """
places = torch.softmax(self.body(x).flatten(2), -1)
classes = torch.softmax(self.head(x[0, 0, :4, :4]), -1)
return (places * torch.linspace(0, 1, 256)).sum(-1), classes
"""
    result = exported(tmp_path, forward, "(torch.randn(1, 1, 16, 16),)", init)
    assert (result.operators["aten::_softmax"], result.operators["cortex_m::softmax"]) == (1, 1)
    assert result.decibels() > 30
    reasons = [layer.get("reason", "") for layer in result.report["layers"] if layer["operator"] == "aten::softmax"]
    assert [reason for reason in reasons if reason] == [
        "the resolution of an int8 softmax, 1/256, is too coarse for its results"
    ]


def test_outputs_that_are_far_from_those_in_floating_point_are_named() -> None:
    eager = [[torch.tensor([1.0, -2.0]), torch.arange(10), torch.ones(3)]]
    near = [[torch.tensor([1.0, -1.9]), torch.arange(10), torch.tensor([100, 100, 99], dtype=torch.int8)]]
    far = [[torch.tensor([0.0, -2.0]), torch.arange(10).roll(1), torch.tensor([0, 0, 0], dtype=torch.int8)]]
    parameters, names = [None, None, Parameters(0.01, 0)], ["scores", "output_1", "output_2"]
    options = Options("cortex-m4", "cortex_m")
    assert far_outputs(eager, near, parameters, names, options) == ()
    scores, indices, integers = far_outputs(eager, far, parameters, names, options)
    told = far_outputs(eager, near, parameters, names, options, stream=[True, False, False])
    assert re.search("a stream of 1 call: .* dB .*; probabilities are off by 0.05 in the mean, by 0.1", told[0])
    assert "; values are off by" in told[1]
    assert scores.startswith("scores, over 1 sample: 7.0 dB against floating point; more calibration samples")
    assert indices.startswith("output_1, over 1 sample: 0 of 10 elements are those of floating point")
    assert integers.startswith("output_2, over 1 sample: 0.0 dB")
    # Each of these is an attribute of that backend.
    for backend, io, helps in (
        ("cortex_m", "float32", "samples, keep_float or min_snr bring"),
        ("cortex_m", "int8", 'samples, keep_float or io = "float32" bring'),
        ("ethos_u", "float32", 'samples or io = "int16" bring'),
        ("ethos_u", "int16", "samples bring"),
    ):
        assert helps in far_outputs(eager, far, parameters, names, Options("cortex-m55", backend, io))[0]


def test_functions_with_steps_are_named_where_int8_moves_values_across_a_step(tmp_path: Path) -> None:
    forward = "y = self.head(x)\nreturn (y * 200).round().to(torch.int16), y.argmax(1), (y * 150).to(torch.int64)"
    result = exported(tmp_path, forward, "(torch.randn(4, 20),)", "self.head = nn.Linear(20, 30)")
    said = [text for text in result.said if "are those of floating point" in text]
    assert len(said) == 2 and "; round at my_model.py:12 jumps, and a small error of int8 before" in said[0]
    assert "; to at my_model.py:12 jumps" in said[1]


def test_functions_with_steps_read_the_inputs_as_they_are(tmp_path: Path) -> None:
    functions = (
        "torch.remainder(x, 0.7) * 2", "(x * 20).to(torch.int64)", "(x[:, 1:3] * 3).round()", "x % 1",
        "torch.bucketize(x, torch.tensor([-0.5, 0.0, 0.5]))", "x.flatten().sign()",
        "torch.div(x, 0.3, rounding_mode='floor')",
    )  # fmt: skip
    forward = f"return self.one(x) + self.two(x) + x.floor(), {', '.join(functions)}"
    init = "self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)"
    result = exported(tmp_path, forward, "(torch.randn(4, 8),)", init, float_where_faster=False)
    for index, function in enumerate(functions, 1):
        assert numpy.array_equal(result.golden[f"output_{index}"], result.golden[f"eager_{index}"]), function


def test_linear_layers_read_contiguous_tensors_of_four_dimensions(tmp_path: Path) -> None:
    # The joint network of a transducer adds all pairs of rows.
    init = "self.rows, self.columns, self.joint = nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(4, 3)"
    forward = "return self.joint(torch.tanh(self.rows(x).unsqueeze(2) + self.columns(x).unsqueeze(1)))"
    result = exported(tmp_path, forward, "(torch.randn(1, 5, 6),)", init, packed=True)
    read = [call[0] for call in result.calls("torch_fusion::linear", "torch_fusion::linear_rows")]
    assert [list(tensor.dim_order) for tensor in read] == [[0, 1, 2], [0, 1, 2], [0, 1, 2, 3]]


def test_few_results_of_linear_layers_are_looked_up_and_dequantized_in_the_same_call(tmp_path: Path) -> None:
    init = "self.a, self.b, self.c = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 80)"
    forward = "x = torch.nn.functional.elu(self.a(x).view(8)).view(1, 8)\nreturn self.b(x).view(3), self.c(x)"
    separate = exported(tmp_path, forward, "(torch.randn(1, 6),)", init)
    together = exported(tmp_path, forward, "(torch.randn(1, 6),)", init, packed=True)
    assert together.operators == {
        "cortex_m::quantize_per_tensor": 1,
        "torch_fusion::linear_table": 1,
        "torch_fusion::linear": 2,
        "cortex_m::dequantize_per_tensor": 1,
    }
    for name in ("output_0", "output_1"):
        assert numpy.array_equal(separate.golden[name], together.golden[name])


def test_an_empty_part_of_an_image_is_an_output(tmp_path: Path) -> None:
    forward = "return self.conv(x), x[:, :0], torch.split(self.conv(x), [0, 4], 1)[0]"
    result = exported(tmp_path, forward, f"({_IMAGE},)", "self.conv = nn.Conv2d(3, 4, 3)", packed=True)
    assert [output["shape"] for output in result.manifest["outputs"]] == [[1, 4, 6, 6], [1, 0, 8, 8], [1, 0, 6, 6]]
    assert result.decibels(0) > 30


def test_numbers_beside_tensors_in_floating_point_have_no_dimensions(tmp_path: Path) -> None:
    init = "self.linear = nn.Linear(8, 4)\nself.register_buffer('mean', torch.zeros(1, 8))"
    forward = "self.mean.mul_(0.9).add_(0.1 * x)\nreturn self.linear(x - self.mean)"
    result = exported(tmp_path, forward, "(torch.randn(1, 8),)", init, packed=True)
    assert [[*number.sizes] for _, number, *_ in result.calls("aten::mul")] == [[], []]
    # The difference is one of floating point.
    assert result.operators["aten::sub"] == result.operators["torch_fusion::linear"] == 1 and result.decibels() > 25


@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
def test_linear_layers_quantize_a_few_inputs_and_results_are_transposed(core: str, tmp_path: Path) -> None:
    init = "self.a, self.b, self.c = nn.Linear(6, 8), nn.Linear(6, 3), nn.Linear(6, 80)"
    forward = "return self.a(x).mT, self.b(x.std(1)), self.c(x.var(1))"
    inputs = "(torch.randn(2, 7, 6),)"
    separate = exported(tmp_path, forward, inputs, init, core=core)
    together = exported(tmp_path, forward, inputs, init, packed=True, core=core)
    kinds = ("torch_fusion::transposed", "cortex_m::quantize_per_tensor", "cortex_m::dequantize_per_tensor")
    assert [together.operators[kind] for kind in kinds] == [1, 1, 2]
    assert "aten::permute_copy" not in together.operators
    for name in ("output_0", "output_1", "output_2"):
        assert numpy.array_equal(separate.golden[name], together.golden[name])


def test_images_are_viewed_and_reduced_as_they_lie_in_memory(tmp_path: Path) -> None:
    init = "self.conv = nn.Conv2d(3, 8, 1); self.pool = nn.Conv2d(8, 8, 1); self.out = nn.Linear(16, 3)"
    forward = """
x = self.pool(nn.functional.adaptive_avg_pool2d(self.conv(x), 1))
x = nn.functional.interpolate(x, size=(4, 4), mode="bilinear")
x = torch.cat([x.max(1, keepdim=True)[0].view(-1, 16), x.mean(1).view(-1, 16)])
return self.out(x)
"""
    result = exported(tmp_path, forward, "(torch.randn(1, 3, 4, 4),)", init)
    assert all(isinstance(call[1], IntList) for call in result.calls("aten::amax"))
    assert all(list(call[-1].dim_order) == [0, 2, 3, 1] for call in result.calls("aten::upsample_bilinear2d"))


# Two layers that are called several times, each time on tensors of another range.
def test_a_layer_that_is_called_several_times_is_in_the_program_once(tmp_path: Path) -> None:
    forward = "for _ in range(3):\n    x = x + 0.3 * self.b(torch.relu(self.a(x)))\nreturn x"
    init = "self.a = nn.Linear(16, 48); self.b = nn.Linear(48, 16)"
    more = functions(calibration_inputs="[(torch.randn(1, 16),) for _ in range(20)]")
    result = exported(tmp_path, forward, "(torch.randn(1, 16),)", init, more=more, packed=True)
    kinds = ("convolution", "linear", "linear_table")
    calls = result.calls(*(f"torch_fusion::{kind}" for kind in kinds))
    assert len(calls) >= 4
    assert len({packed.data_buffer_idx for _, packed, *_ in calls}) == 2
    eager, outputs = result.golden["eager_0"].astype(float), result.golden["output_0"].astype(float)
    assert ((outputs - eager) ** 2).sum() < 0.01 * (eager**2).sum()


@pytest.mark.parametrize("accumulate", [True, False])
def test_an_assignment_that_adds_stays_in_floating_point(tmp_path: Path, accumulate: bool) -> None:
    forward = f"x = self.fc(x)\nreturn self.fc(x.index_put((torch.tensor([0, 2, 0]),), x[1:4], {accumulate}))"
    result = exported(tmp_path, forward, "(torch.randn(5, 4) + 2,)", "self.fc = nn.Linear(4, 4)")
    eager, outputs = result.golden["eager_0"].astype(float), result.golden["output_0"].astype(float)
    assert ((outputs - eager) ** 2).sum() < 0.01 * (eager**2).sum()
    assert any("stays in floating point" in text for text in result.said) == accumulate


@pytest.mark.parametrize(
    ("targets", "says", "left"),
    [
        ((), "all but layers with weights stays in floating point", {"aten::_softmax", "aten::native_layer_norm"}),
        # Only the place that fails stays.
        (
            SOFTMAX,
            "stays in floating point, as int8 of it can't be lowered (AttributeError: 'Node' has no",
            {"aten::_softmax", "torch_fusion::quantized_layer_norm"},
        ),
    ],
    ids=["anywhere", "at a place"],
)
def test_what_passes_cannot_lower_stays_in_floating_point(targets, says, left, tmp_path, monkeypatch) -> None:
    to_cortex_m = lower.to_cortex_m
    refused = []

    def refuse(node: Node | None) -> None:
        # The node in the frame of the error is its place.
        raise AttributeError("'Node' has no attribute 'shape'")

    def refuse_once(program: ExportedProgram, target: CortexMTargetConfig) -> ExportedProgram:
        if not refused:
            refused.append(program)
            refuse(next((node for node in program.graph.nodes if node.target in targets), None))
        return to_cortex_m(program, target)

    monkeypatch.setattr(lower, "to_cortex_m", refuse_once)
    init = "self.layers = nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1), nn.Linear(8, 8), nn.LayerNorm(8))"
    result = exported(tmp_path, "return self.layers(x)", "(torch.randn(1, 8),)", init, packed=True)
    (told,) = [said for said in result.said if "Please report this" in said]
    assert says in told and "AttributeError: 'Node' has no attribute 'shape'" in told
    assert not targets or "layers.1 (Softmax) at my_model.py" in told
    assert left | {"torch_fusion::linear"} <= set(result.operators)


def test_arithmetic_of_quantized_integers_stays_in_floating_point(tmp_path: Path, monkeypatch) -> None:
    """It would take them for numbers."""
    to_cortex_m = lower.to_cortex_m
    lowered = []

    def without_a_scale(program: ExportedProgram, target: CortexMTargetConfig) -> ExportedProgram:
        edge = to_cortex_m(program, target)
        linear = exir_ops.edge.cortex_m.quantized_linear.default
        for node in [] if lowered else edge.graph.find_nodes(op="call_function", target=linear):
            with edge.graph.inserting_after(node):
                negative = edge.graph.call_function(exir_ops.edge.aten.neg.default, (node,))
            negative.meta = {key: value for key, value in node.meta.items() if not key.endswith("_qparams")}
            node.replace_all_uses_with(negative, lambda user, made=negative: user is not made)
        lowered.append(edge)
        return edge

    monkeypatch.setattr(lower, "to_cortex_m", without_a_scale)
    result = exported(tmp_path, "return self.a(x)", "(torch.randn(2, 8),)", "self.a = nn.Linear(8, 4)")
    assert len(lowered) == 2
    assert "cortex_m::quantized_linear" not in result.operators


def test_an_operator_without_a_kernel_is_refused_by_its_line(tmp_path: Path) -> None:
    # ExecuTorch has a variant of it for programs, but no kernel.
    with pytest.raises(
        UserError, match=r"no kernel for .* does here:\n  torch.histc from my_model.py:\d+ \(`return torch.histc"
    ):
        exported(tmp_path, "return torch.histc(self.a(x), 4)", "(torch.randn(2, 8),)", "self.a = nn.Linear(8, 4)")


def test_layers_that_are_packed_wrong_are_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = pack.pack
    wrong = lambda layer, *rest: right(dataclasses.replace(layer, weight=-layer.weight), *rest)  # noqa: E731
    monkeypatch.setattr(pack, "pack", wrong)
    with pytest.raises(RuntimeError, match="output 0 is another one with packed layers"):
        exported(tmp_path, "return self.layer(x)", "(torch.randn(1, 8),)", "self.layer = nn.Linear(8, 8)", packed=True)
