"""Tests that common expressions in forward() export, and that all of their operators have kernels.

//conformance tests that the kernels compute eager mode's results.
"""

from pathlib import Path

import pytest

from tools.artifacts.program.program import operator_name
from tools.pipeline.export.testing import export_source, model_source
from tools.pipeline.registry.catalog import read_catalog

# One model for each topic, with the expressions as its outputs.
_EXPRESSIONS = {
    "arithmetic": """
        x + 1, 1 - x, x * 2.5, x / 3, x // 0.3, x % 0.7, -x, x ** 2, p ** 0.5, 2 ** x, x ** 3, p ** (-1), p ** x,
        torch.square(x), torch.float_power(p, 2).float(), torch.fmod(x, 0.4), torch.remainder(x, p),
        torch.true_divide(x, p), torch.addcmul(x, x, p), torch.addcdiv(x, x, p), torch.lerp(x, p, 0.3),
        torch.reciprocal(p), torch.rsqrt(p), torch.sqrt(p), torch.clamp(x, -0.5, 0.5), x.clamp_min(0),
        x.clip(max=0.2), torch.abs(x), torch.sign(x), torch.frac(x), torch.trunc(x), torch.round(x), torch.floor(x),
        torch.ceil(x)
    """,
    "functions": """
        torch.exp(x), torch.exp2(x), torch.expm1(x), torch.log(p), torch.log2(p), torch.log10(p), torch.log1p(p),
        torch.logaddexp(x, p), torch.sin(x), torch.cos(x), torch.tan(x), torch.asin(x.clamp(-1, 1)),
        torch.acos(x.clamp(-1, 1)), torch.atan(x), torch.atan2(x, p), torch.sinh(x), torch.cosh(x), torch.tanh(x),
        torch.asinh(x), torch.acosh(p + 1), torch.atanh(x.clamp(-0.9, 0.9)), torch.erf(x), torch.sigmoid(x),
        torch.logit(x.sigmoid()), torch.nan_to_num(x), torch.deg2rad(x), torch.sinc(x), torch.softmax(x, 1),
        F.log_softmax(x, -1), torch.special.expit(x), torch.xlogy(x, p)
    """,
    "activations": """
        F.relu(x), F.relu6(x), F.leaky_relu(x, 0.1), F.elu(x), F.selu(x), F.celu(x), F.gelu(x), F.gelu(x,
        approximate='tanh'), F.silu(x), F.mish(x), F.softplus(x), F.softsign(x), F.tanhshrink(x), F.hardshrink(x),
        F.softshrink(x), F.hardtanh(x), F.hardsigmoid(x), F.hardswish(x), F.logsigmoid(x), F.threshold(x, 0.1, 0.0),
        F.glu(v), F.prelu(x, torch.tensor([0.1, 0.2, 0.3])), F.normalize(v), F.softmin(v, -1)
    """,
    "reductions": """
        x.sum(), x.sum(1), x.mean((2, 3)), x.mean(-1, keepdim=True), x.max(), x.min(), x.max(1).values,
        x.min(-1).indices, x.amax((1, 2)), x.amin(-1), x.argmax(), x.argmin(1), x.var(-1), x.std((2, 3)),
        torch.var_mean(x, 1)[1], x.prod(-1), x.norm(), torch.linalg.vector_norm(x, dim=1), x.norm(p=1, dim=-1),
        torch.logsumexp(x, 1), x.cumsum(-1), (x > 0).any(), (x > 0).all(-1), x.count_nonzero(1),
        torch.linalg.norm(v), v.topk(3).values, v.topk(3, largest=False).indices, v.argmax(-1),
        F.cosine_similarity(v, v + 1), F.mse_loss(v, v * 0.5), F.l1_loss(v, v * 0.5), torch.cdist(v, v + 1), (v *
        v).sum(-1).sqrt()
    """,
    "shapes": """
        x.flatten(1), x.reshape(2, -1), x.view(6, 64), x.permute(0, 2, 3, 1), x.transpose(1, 2), v.t(),
        x.unsqueeze(0), x[:, :1].squeeze(1), x.expand(2, 3, 8, 8), v.repeat(1, 2), v.repeat_interleave(2, 1),
        torch.cat([x, x], 1), torch.stack([v, v], 1), x.chunk(3, 1)[1], x.split([1, 2], 1)[1], x.unbind(1)[0], x[:,
        1], x[..., ::2], x[0], x[:, [2, 0]], x.flip(-1), torch.roll(x, 1, -1), torch.rot90(v), x.narrow(2, 1, 3),
        v.unfold(1, 4, 2), F.pad(v, (1, 2)), F.pad(x, (1, 1, 1, 1), mode='reflect'), torch.tile(v, (1, 2)),
        x.movedim(1, -1), torch.broadcast_to(v[:, :1], (2, 16)), v.view(2, 4, 4).diagonal(dim1=1, dim2=2), v.view(2,
        4, 4).tril(), torch.triu(v), F.one_hot(i % 4, 4), torch.meshgrid(v[0], v[1], indexing='ij')[0],
        v.unflatten(1, (4, 4)), x.swapaxes(1, 3), torch.hstack([v, v]), torch.vstack([v, v]), torch.column_stack([v,
        v])
    """,
    "indices": """
        v.gather(1, i), v.index_select(1, i[0, :3]), torch.where(v > 0, v, -v), v.masked_fill(v > 0, 0.0), v[i % 2],
        v.scatter(1, i, 0.5), v.scatter_add(1, i, v), torch.take_along_dim(v, i, 1), i + 1, i // 3, i % 5,
        i.float(), i.to(torch.int32), i > 3, i & 1, i << 1, torch.bitwise_right_shift(i, 1), ~(i > 2),
        i >> i % 2, i << i % 3,
        torch.logical_and(v > 0, v < 1),
        torch.maximum(v, -v), torch.minimum(v, v * 2), v.isnan(), torch.isfinite(v), v == v, torch.arange(5) + i[0,
        :5], torch.zeros_like(v) + v, torch.ones(2, 16) * v, torch.full((2, 16), 3.0) - v, torch.eye(3),
        torch.linspace(0, 1, 5), v.new_zeros(3), torch.tensor(2.0) * v, torch.outer(v[0], v[1]), torch.cross(v[:,
        :3], v[:, 3:6], dim=1)
    """,
    "matrices": """
        v @ v.t(), torch.mm(v, v.t()), v.view(2, 4, 4) @ v.view(2, 4, 4), torch.bmm(v.view(2, 4, 4), v.view(2, 4,
        4)), torch.matmul(x, x.transpose(-1, -2)), v[0] @ v[1], torch.dot(v[0], v[1]), v @ v[0],
        torch.einsum('bi,bj->bij', v, v), torch.einsum('bchw,bchw->bc', x, x), torch.baddbmm(v.view(2, 4, 4),
        v.view(2, 4, 4), v.view(2, 4, 4)), F.linear(v, torch.ones(3, 16)), torch.kron(v, torch.ones(1, 2)),
        F.scaled_dot_product_attention(x, x, x)
    """,
    "images": """
        F.max_pool2d(x, 2), F.avg_pool2d(x, 3, 1, 1), F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (3, 5)),
        F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 5), mode='bilinear'), F.interpolate(x,
        scale_factor=0.5, mode='bilinear', align_corners=True), F.pixel_shuffle(torch.cat([x, x[:, :1]], 1), 2),
        F.pixel_unshuffle(x, 2), F.channel_shuffle(torch.cat([x, x[:, :1]], 1), 2), F.unfold(x, 3, padding=1),
        F.grid_sample(x, torch.zeros(2, 4, 4, 2), align_corners=False), F.instance_norm(x), F.layer_norm(x, (8, 8)),
        F.group_norm(x, 3), F.batch_norm(x, torch.zeros(3), torch.ones(3)), F.lp_pool2d(p, 2, 2), F.max_pool1d(v,
        2), F.avg_pool1d(v, 2), F.interpolate(v.unsqueeze(1), scale_factor=2), F.conv1d(v.unsqueeze(1),
        torch.ones(2, 1, 3)), F.fold(torch.ones(1, 12, 4), (4, 4), 2, stride=2), F.rms_norm(v, (16,))
    """,
}

_INPUTS = "(torch.randn(2, 3, 8, 8), torch.randn(2, 16), torch.randint(0, 16, (2, 16)))"


@pytest.mark.parametrize("group", _EXPRESSIONS)
def test_expressions_export_to_operators_with_kernels(group: str, tmp_path: Path) -> None:
    forward = f"p = x.abs() + 0.5\nreturn ({' '.join(_EXPRESSIONS[group].split())},)"
    source = "import torch.nn.functional as F\n" + model_source(forward, _INPUTS, arguments="x, v, i")
    result = export_source(tmp_path, source)
    kernels = read_catalog()
    names = {operator_name(entry["name"], entry["overload"]) for entry in result.manifest["operators"]}
    assert names - kernels.keys() == set()


def test_what_no_device_has_a_kernel_for_may_make_constants(tmp_path: Path) -> None:
    init = "self.positions = nn.Parameter(torch.randn(1, 4, 7, 7))"
    resized = "F.interpolate(self.positions, size=x.shape[2:], mode='bicubic', antialias=True)"
    source = model_source(f"return x + {resized}", "(torch.rand(1, 4, 5, 5),)", init)
    result = export_source(tmp_path, "import torch.nn.functional as F\n" + source)
    assert result.operators == {"aten::add": 1}
    assert result.largest_error() < 1e-6
