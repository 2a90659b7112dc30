"""Tests that layers in forms outside ExecuTorch's quantizer run in int8, in the layout that kernels read."""

import functools
import tempfile
from pathlib import Path

import numpy
import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.options import Options
from tools.pipeline.export.pipelines import CORTEX_M
from tools.pipeline.export.testing import Result, export_source, functions, model_source

# Case: constructor, forward(), inputs.
_LAYERS = {
    "chain": (
        "self.a = nn.Conv1d(4, 8, 5, stride=2, padding=2); self.n = nn.BatchNorm1d(8)\n"
        "self.b = nn.Conv1d(8, 8, 3, groups=8, dilation=2); self.f = nn.Linear(8, 3)",
        "y = self.b(F.max_pool1d(F.relu6(self.n(self.a(x))), 2))\n"
        "return self.f(F.adaptive_avg_pool1d(y, 1).flatten(1))",
        "(torch.randn(1, 4, 64),)",
    ),
    "causal": (
        "self.a = nn.Conv1d(4, 8, 3, padding=4, dilation=2); self.f = nn.Linear(8, 3)",
        "return self.f(self.a(x)[..., :-4].relu().mean(-1))",
        "(torch.randn(1, 4, 20),)",
    ),
    "causal, from one channel": (
        "self.a = nn.Conv1d(1, 8, 5, stride=2); self.b = nn.Conv1d(8, 8, 5, stride=2)",
        "return self.b(F.pad(self.a(F.pad(x, (4, 0))).relu(), (4, 0))).transpose(1, 2)",
        "(torch.randn(1, 1, 16),)",
    ),
    "circular": (
        "self.a = nn.Conv2d(2, 4, 1); self.b = nn.Conv2d(4, 4, 3, padding=(1, 2), padding_mode='circular')",
        "return self.b(self.a(x).relu())",
        "(torch.randn(1, 2, 6, 5),)",
    ),
    "rotated": (
        "self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 4)",
        "return self.b(torch.roll(self.a(x), (-2, 1, 3), (1, -2, 1)).relu())",
        "(torch.randn(1, 4, 5, 6),)",
    ),
    "shifted": (
        "self.a = nn.Conv1d(4, 8, 3, padding=1); self.f = nn.Linear(8, 3)",
        "y = F.pad(self.a(x), (-2, 3))\nreturn self.f(y.transpose(1, 2) + F.pad(y.transpose(1, 2), (0, 0, 1, -1)))",
        "(torch.randn(1, 4, 20),)",
    ),
    "normalized": (
        "self.a = nn.Conv1d(4, 8, 3, padding=1); self.n = nn.GroupNorm(2, 8); self.u = nn.ConvTranspose1d(8, 4, 2, 2)",
        "return x + self.u(F.max_pool1d(F.leaky_relu(self.n(self.a(x))), 2))",
        "(torch.randn(1, 4, 20),)",
    ),
    "average": (
        "self.a = nn.Conv1d(4, 8, 3, padding='valid')",
        "return F.avg_pool1d(F.pad(self.a(x), (1, 2)), 3)",
        "(torch.randn(1, 4, 20),)",
    ),
    "same": (
        "self.a = nn.Conv2d(3, 4, (3, 4), padding='same'); self.b = nn.Conv2d(4, 4, 3, padding=(0, 1))",
        "return self.b(F.pad(self.a(x), (1, 1, 2, 2))).mean((2, 3))",
        "(torch.randn(1, 3, 8, 8),)",
    ),
    "shuffled": (
        "self.a = nn.Conv2d(3, 8, 3); self.b = nn.Conv2d(2, 2, 3, padding=1)",
        "y = F.pixel_shuffle(self.a(x), 2)\nreturn self.b(y) + y",
        "(torch.randn(1, 3, 8, 8),)",
    ),
    "spread": (
        "self.a = nn.Conv2d(3, 4, 3, padding=1); self.u = nn.ConvTranspose2d(4, 8, (2, 3), (2, 3))\n"
        "self.b = nn.Conv2d(12, 4, 3)",
        "y = F.relu(self.a(x))\nreturn self.b(torch.cat([F.relu(self.u(y)), F.interpolate(y, size=(16, 24))], 1))",
        "(torch.randn(1, 3, 8, 8),)",
    ),
    "volumes": (
        "self.a = nn.Conv3d(2, 4, 3, (2, 1, 1), (1, 0, 1)); self.n = nn.BatchNorm3d(4)\n"
        "self.b = nn.Conv3d(4, 6, (3, 2, 1), dilation=(2, 1, 1)); self.c = nn.Conv3d(6, 4, 1, (2, 1, 1))",
        "y = F.max_pool3d(F.relu(self.n(self.a(x))), (1, 2, 2), padding=(0, 1, 0), ceil_mode=True)\n"
        "y = self.c(F.avg_pool3d(self.b(y), (2, 1, 2), 1, padding=(1, 0, 0)))\n"
        "return torch.cat([y.flatten(1), F.adaptive_avg_pool3d(y, 1).flatten(1)], 1)",
        "(torch.randn(1, 2, 14, 7, 8),)",
    ),
    "rows and columns": (
        "self.a = nn.Conv2d(3, 6, 3); self.f = nn.Linear(6, 6)",
        "y = self.a(x)\nreturn self.f((y.mean(2, keepdim=True) + y).amax(3).transpose(1, 2)) + self.f(y.mean(3).mT)",
        "(torch.randn(1, 3, 8, 7),)",
    ),
    "image without a batch": (
        "self.a = nn.Conv2d(3, 8, 3); self.u = nn.ConvTranspose2d(8, 4, 4, 2, 1); self.f = nn.Linear(16, 3)",
        "y = F.max_pool2d(F.relu(self.a(x)), 2)\n"
        "z = F.relu6(self.u(y) * self.a.bias[:4, None, None]).flatten(1).amax(1)\n"
        "return self.f(torch.cat([y.mean((1, 2)), z, F.adaptive_avg_pool2d(y, 1)[:4].flatten()]))",
        "(torch.randn(3, 8, 8),)",
    ),
    "vector": (
        "self.a, self.n, self.b = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 3)",
        "return self.b(F.gelu(self.n(self.a(x))).view(2, 8).flatten())",
        "(torch.randn(8),)",
    ),
    "one channel": (
        "self.n = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True),\n"
        "    nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 4, 1), nn.Flatten(), nn.Linear(256, 3))",
        "return self.n(x)",
        "(torch.randn(1, 1, 8, 8),)",
    ),
    "attention": (
        "self.qkv = nn.Linear(16, 48); self.p = nn.Linear(16, 16)",
        "q, k, v = self.qkv(x).reshape(1, 8, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)\n"
        "y = (q @ k.transpose(-2, -1) * 0.5).softmax(-1) @ v\nreturn self.p(y.transpose(1, 2).reshape(1, 8, 16))",
        "(torch.randn(1, 8, 16),)",
    ),
    "matrix and vector": (
        "self.m = nn.Parameter(torch.randn(16, 5)); self.b = nn.Parameter(torch.randn(5))",
        "return torch.addmm(self.b, x, self.m)",
        "(torch.randn(3, 16),)",
    ),
    "matrix times vector": (
        "self.f = nn.Linear(6, 8); self.q = nn.Parameter(torch.randn(8))",
        "return torch.softmax(torch.tanh(self.f(x)) @ self.q, dim=1)",
        "(torch.randn(2, 5, 6),)",
    ),
    "vector times matrix": (
        "self.f = nn.Linear(6, 8); self.q = nn.Parameter(torch.randn(5))",
        "return self.q @ self.f(x)",
        "(torch.randn(2, 5, 6),)",
    ),
    "one matrix times many": (
        "self.f = nn.Linear(6, 8); self.m = nn.Parameter(torch.randn(3, 4, 5))",
        "return self.m @ self.f(x)",
        "(torch.randn(1, 5, 6),)",
    ),
    "many times one matrix": (
        "self.f = nn.Linear(6, 4); self.g = nn.Linear(6, 3)",
        "y = self.f(x)\nreturn y[:, :2] @ self.g(x)[0].reshape(4, 3)",
        "(torch.randn(2, 4, 6),)",
    ),
    "rounded up": (
        "self.a = nn.Conv2d(3, 4, 3); self.b = nn.Conv2d(4, 4, 3)",
        "return self.b(F.max_pool2d(self.a(x).relu(), 3, 2, ceil_mode=True))",
        "(torch.randn(1, 3, 18, 18),)",
    ),
    "rounded up, of negative numbers": (
        "self.a = nn.Conv2d(3, 4, 3); self.b = nn.Conv2d(4, 4, 3)",
        "return self.b(F.max_pool2d(self.a(x), (3, 2), 2, (1, 0), ceil_mode=True))",
        "(torch.randn(1, 3, 18, 17),)",
    ),
    "padding that poolings ignore": (
        "self.a, self.b, self.c = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3), nn.Conv1d(4, 4, 3)",
        "y = F.max_pool2d(F.pad(self.a(x), (1, 1, 1, 1), value=-1e4), 3, 2)\n"
        "y = F.max_pool2d(F.pad(self.b(y), (0, 1, 2, 0), value=float('-inf')), 3, 1)\n"
        "y = F.max_pool2d(F.pad(y.relu(), (1, 1, 1, 1)), 3, 1)\n"
        "z = F.max_pool1d(F.pad(self.c(y.flatten(2)), (1, 2), value=torch.finfo(torch.float32).min), 4, 3)\n"
        "return torch.cat([z, F.pad(self.b(y), (1, 0, 2, 1), value=-1e4).amax((2, 3))[:, :, None]], 2)",
        "(torch.randn(1, 3, 16, 17),)",
    ),
    "slopes": (
        "self.a, self.b, self.c = nn.Conv2d(3, 8, 3), nn.Linear(8, 6), nn.Conv1d(1, 5, 200, stride=100)\n"
        "self.p, self.q, self.r, self.s = nn.PReLU(8), nn.PReLU(6), nn.PReLU(5), nn.PReLU()\n"
        "[nn.init.uniform_(each.weight, -least, 2) for least, each in enumerate((self.p, self.q, self.r))]",
        "y = F.max_pool2d(self.p(self.a(x)), 2)\n"
        "return self.s(self.r(self.c(self.q(self.b(y.flatten(2).transpose(1, 2)).transpose(1, 2)).reshape(1, 1, -1))))",
        "(torch.randn(1, 3, 18, 18),)",
    ),
    "pooled to a size": (
        "self.a = nn.Conv2d(3, 4, 3); self.pool = nn.AdaptiveAvgPool2d((2, 4)); self.f = nn.Linear(32, 3)",
        "return self.f(self.pool(self.a(x)).flatten(1))",
        "(torch.randn(1, 3, 10, 10),)",
    ),
    "pooled without a batch": (
        "self.a = nn.Conv2d(3, 8, 3); self.f = nn.Linear(16, 3)",
        "y = F.max_pool3d(self.a(x).view(1, 4, 2, 8, 8), 2)\nreturn self.f(F.avg_pool2d(y.view(4, 4, 4), 2).flatten())",
        "(torch.randn(1, 3, 10, 10),)",
    ),
    "sequence of one channel": (
        "self.a = nn.Conv1d(1, 8, 9, stride=4); self.f = nn.Linear(8, 3)",
        "return self.f(self.a(x).relu().mean(-1))",
        "(torch.randn(1, 1, 64),)",
    ),
    "upsampled": (
        "self.a = nn.Conv2d(3, 8, 3, 2, 1); self.b = nn.Conv2d(8, 4, 3, padding=1)",
        "return self.b(F.interpolate(F.interpolate(self.a(x), scale_factor=2), (7, 11), mode='nearest-exact'))",
        "(torch.randn(1, 3, 8, 8),)",
    ),
    "padded with elements": (
        "self.a = nn.Conv2d(3, 8, 3); self.b = nn.Conv2d(8, 4, 3); self.c = nn.Conv2d(4, 4, 3)",
        "y = self.b(F.pad(self.a(x).relu(), (1, 2, 0, 1), mode='reflect'))\n"
        "return self.c(F.pad(y, (-1, 2, 1, 1), mode='replicate'))",
        "(torch.randn(1, 3, 8, 8),)",
    ),
    "sequence upsampled": (
        "self.a = nn.Conv1d(3, 8, 3); self.b = nn.Conv1d(8, 4, 3, padding=1, padding_mode='reflect')",
        "return self.b(F.interpolate(self.a(x).relu(), scale_factor=3))",
        "(torch.randn(1, 3, 18),)",
    ),
    "gates, and a place's numbers": (
        "self.a = nn.Conv2d(3, 8, 3); self.g = nn.Conv2d(8, 1, 1); self.p = nn.Parameter(torch.randn(6, 6)); "
        "self.s = nn.Parameter(torch.tensor(0.5)); self.b = nn.Conv2d(8, 4, 3)",
        "y = self.a(x).relu()\nreturn self.b((y * torch.sigmoid(self.g(y)) + self.p) * self.s)",
        "(torch.randn(1, 3, 8, 8),)",
    ),
    "sums of pairs": (
        "self.a = nn.Linear(8, 12); self.b = nn.Linear(8, 12); self.c = nn.Linear(12, 3)",
        "return self.c(torch.relu(self.a(x).unsqueeze(2) + self.b(x).unsqueeze(1)))",
        "(torch.randn(1, 6, 8),)",
    ),
    "images normalized": (
        "self.a, self.b = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3); self.n = nn.BatchNorm2d(8); "
        "nn.init.uniform_(self.n.weight, -2, 2); nn.init.uniform_(self.n.bias); "
        "self.m, self.s = nn.Parameter(torch.rand(1, 3, 1, 1)), nn.Parameter(1 + torch.rand(3, 1, 1))",
        "x = (x * 0.5 - self.m) / self.s\nreturn self.b(self.n(torch.tanh(self.a(x))).relu())",
        "(torch.randn(1, 3, 8, 8),)",
    ),
    "sequences normalized": (
        "self.a, self.b = nn.Conv1d(3, 8, 3), nn.Conv1d(8, 4, 3); self.n = nn.BatchNorm1d(8); "
        "nn.init.uniform_(self.n.weight, -2, 2); self.t = nn.Parameter(torch.rand(4, 1))",
        "y = torch.sigmoid(self.a(x))\nreturn self.t - self.b(1 - self.n(y) * 2)",
        "(torch.randn(1, 3, 18),)",
    ),
    "gates": (
        "self.a, self.b = nn.Conv1d(4, 16, 3), nn.Conv1d(8, 16, 3, padding=1); self.f = nn.Linear(8, 3)",
        "y = F.glu(self.a(x), 1)\np, q = self.b(y).chunk(2, -2)\n"
        "return self.f((y + torch.tanh(p) * torch.sigmoid(q)).mean(2))",
        "(torch.randn(1, 4, 22),)",
    ),
    "parts of channels": (
        "self.a, self.b, self.c = nn.Conv1d(4, 12, 1), nn.Conv1d(4, 4, 3, padding=1), nn.Conv1d(16, 8, 1); "
        "self.f = nn.Linear(8, 3)",
        "p, q, r = self.a(x).split((4, 4, 4), 1)\ny = torch.cat([p, self.b(p + q), r], 1)\n"
        "g = y.amax(2, keepdim=True)[:, :4].expand(-1, -1, 20)\n"
        "return self.f(self.c(torch.cat([y, g], 1)).max(2)[0])",
        "(torch.randn(1, 4, 20),)",
    ),
    "steps first, as an image one pixel wide": (
        "self.a = nn.Linear(6, 8); self.c = nn.Conv2d(8, 8, (3, 1), padding=(1, 0), groups=8)",
        "y = self.a(x)\nreturn y + self.c(y.transpose(1, 2).unsqueeze(-1)).squeeze(-1).transpose(1, 2)",
        "(torch.randn(1, 20, 6),)",
    ),
    "tokens": (
        "self.a = nn.Linear(6, 8); self.c = nn.Conv2d(8, 8, 3, padding=1, groups=8); self.b = nn.Linear(8, 6)",
        "y = self.a(x).transpose(1, 2).reshape(-1, 8, 4, 5)\nreturn self.b((y + self.c(y)).flatten(2).transpose(1, 2))",
        "(torch.randn(1, 20, 6),)",
    ),
}

# Operators whose images must be channels-last.
_IMAGE_OPERATORS = {
    "cortex_m::quantized_avg_pool2d",
    "cortex_m::quantized_conv2d",
    "cortex_m::quantized_depthwise_conv2d",
    "cortex_m::quantized_max_pool2d",
    "cortex_m::quantized_transpose_conv2d",
    "torch_fusion::convolution",
    "torch_fusion::depthwise_convolution",
}


@functools.cache
def exported(case: str) -> Result:
    """Exports a case with int8 inputs and outputs, as for a device."""
    init, forward, inputs = _LAYERS[case]
    source = "import torch.nn.functional as F\n" + model_source(forward, inputs, init)
    source += functions(calibration_inputs=f"[example_inputs(), *({inputs} for _ in range(8))]")
    with tempfile.TemporaryDirectory() as folder:
        return export_source(Path(folder), source, options=Options("cortex-m4", "cortex_m", "int8"))


@pytest.mark.parametrize("case", _LAYERS)
def test_nothing_stays_in_floating_point(case: str) -> None:
    result = exported(case)
    assert result.said == []
    (output,) = result.manifest["outputs"]
    numbers = (result.golden["output_0"].astype(numpy.float32) - output["zero_point"]) * output["scale"]
    eager = result.golden["eager_0"]
    # A few quantization steps, whose ranges are wider than that of the only sample.
    assert numpy.abs(numbers - eager).max() <= 0.05 * (eager.max() - eager.min())


@pytest.mark.parametrize("case", _LAYERS)
def test_images_lie_as_the_kernels_read_them(case: str) -> None:
    for first, *_, last in exported(case).calls(*_IMAGE_OPERATORS):
        for image in (first, last):
            # Dimensions of size 1 have no order.
            order = [dim for dim in image.dim_order if image.sizes[dim] > 1]
            assert order == [dim for dim in (0, 2, 3, 1) if image.sizes[dim] > 1]


def test_a_chain_of_layers_is_laid_out_once() -> None:
    operators = exported("chain").operators
    assert operators["torch_fusion::transposed"] == 1
    assert operators["torch_fusion::convolution"] == 1


@pytest.mark.parametrize("case", ["steps first, as an image one pixel wide", "tokens"])
def test_transpositions_that_move_nothing_are_views(case: str) -> None:
    assert exported(case).operators.keys() == {
        "torch_fusion::linear_rows",
        "torch_fusion::depthwise_convolution",
        "cortex_m::quantized_add",
    }


@pytest.mark.parametrize(
    ("case", "selections", "copies"),
    [("upsampled", 4, 1), ("padded with elements", 4, 1), ("sequence upsampled", 2, 2), ("shuffled", 0, 1)],
)
def test_elements_are_repeated_and_moved_as_they_lie(case: str, selections: int, copies: int) -> None:
    operators = exported(case).operators
    assert operators.get("aten::index_select", 0) == selections
    # The input is copied to channels-last, and a sequence that is an output back.
    assert operators.get("torch_fusion::transposed", 0) <= copies
    assert operators["torch_fusion::convolution"] >= 2


@pytest.mark.parametrize("case", ["gates", "parts of channels"])
def test_parts_of_sequences_lie_as_their_layers_do(case: str) -> None:
    operators = exported(case).operators
    # Only the input is copied.
    assert operators["torch_fusion::transposed"] == 1
    assert not operators.keys() & {"aten::amax", "aten::glu", "cortex_m::transpose"}


@pytest.mark.parametrize(("case", "layers"), [("images normalized", (3, 1)), ("sequences normalized", (2, 2))])
def test_factors_and_terms_of_channels_are_one_layer(case: str, layers: tuple[int, int]) -> None:
    operators = exported(case).operators
    names = ("torch_fusion::convolution", "torch_fusion::depthwise_convolution")
    # Layers of three channels are packed without groups.
    assert tuple(operators[name] for name in names) == layers
    assert not operators.keys() & {"cortex_m::quantized_mul", "cortex_m::quantized_add", "aten::sub", "aten::mul"}


def test_padding_that_poolings_ignore_is_theirs() -> None:
    operators = exported("padding that poolings ignore").operators
    assert operators["cortex_m::quantized_max_pool2d"] == 5
    assert "cortex_m::pad" not in operators


def test_slopes_of_channels_are_one_operator_behind_a_pooling() -> None:
    plan = deserialize_pte_binary(exported("slopes").program).program.execution_plan[0]
    calls = [plan.operators[instruction.instr_args.op_index].name for instruction in plan.chains[0].instructions]
    kept = [name.partition("::")[2] for name in calls]
    assert [name for name in kept if "pool" in name or "relu" in name or "activation" in name] == [
        "quantized_max_pool2d", "quantized_prelu", "quantized_prelu", "quantized_prelu", "quantized_activation",
    ]  # fmt: skip


def test_zeros_around_an_image_are_the_padding_of_the_convolution() -> None:
    operators = exported("same").operators
    assert operators["cortex_m::pad"] == 1
    assert operators["torch_fusion::convolution"] == 2


def test_pixels_of_a_transposed_convolution_that_do_not_overlap_are_those_of_one_layer() -> None:
    operators = exported("spread").operators
    # Their activation is fused into that layer.
    assert operators["torch_fusion::convolution"] == 3
    assert not operators.keys() & {"cortex_m::quantized_transpose_conv2d", "aten::clamp"}


def test_a_layer_without_a_batch_computes_its_activation() -> None:
    assert exported("vector").operators.keys() == {
        "torch_fusion::linear",
        "torch_fusion::quantized_layer_norm",
        "cortex_m::quantized_activation",
    }


def test_a_causal_convolution_computes_what_is_used_only() -> None:
    result = exported("causal")
    assert "aten::slice_copy" not in result.operators
    assert [entry["macs"] for entry in result.manifest["instructions"] if entry["macs"]][0] == 20 * 8 * 4 * 3


class _Gain(torch.nn.Module):
    """A model whose gains and weights are inputs with names that PyTorch gives to constants."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)

    def forward(
        self, x: torch.Tensor, b_gain: torch.Tensor, p_weight: torch.Tensor, c_up: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        scaled = self.layer(x) * b_gain
        root = torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)
        up = torch.nn.functional.conv_transpose2d(x, c_up, stride=2)
        return scaled, self.norm(torch.nn.functional.conv2d(x, p_weight)), up, x / root * p_weight[0, 0, 0, 0]


def test_inputs_are_no_constants_whatever_their_names() -> None:
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 6, 6), torch.randn(1, 4, 1, 1), torch.randn(4, 3, 3, 3), torch.randn(3, 5, 2, 2))
    model = _Gain().eval()
    program = CORTEX_M.run(capture(model, inputs))
    for result, expected in zip(program.module()(*inputs), model(*inputs), strict=True):
        assert torch.allclose(result, expected, atol=1e-5)
    # The quantizer would skip a layer with computed weights.
    (gain,) = [node for node in program.graph.find_nodes(op="placeholder") if node.name == "b_gain"]
    assert [user.target for user in gain.users] == [torch.ops.aten.mul.Tensor]
    weights = [node.args[1] for node in program.graph.nodes if node.target == torch.ops.aten.conv2d.default]
    assert len(weights) >= 2 and all(weight.op == "placeholder" for weight in weights)
