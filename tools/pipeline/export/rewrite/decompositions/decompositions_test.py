import functools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator

from tools.pipeline.export.backends.portable import to_edge
from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.plan.emission import emit
from tools.pipeline.export.rewrite.decompositions.decompositions import decompose
from tools.pipeline.registry.catalog import read_catalog

_F = nn.functional
# Recorded before any test runs.
_COMPILER_IS_IMPORTED = "torch._inductor.lowering" in sys.modules
_NAN = float("nan")
_LARGE = 3 * torch.eye(20) + torch.linspace(-0.1, 0.1, 400).reshape(20, 20)


def _volume(*shape: int) -> Tensor:
    return torch.randn(shape or (2, 3, 6, 7, 8), generator=torch.Generator().manual_seed(0))


_IMAGES = _volume(2, 3, 7, 8)
_PLACES = torch.tensor([[0, 2, 2, 0, 5, 2], [1, 1, 3, 0, 3, 3], [4, 4, 4, 4, 4, 4]])
_TABLE = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
_BAGS = torch.tensor([[0, 2, 5, 2], [1, 1, 3, 0]])
_WEIGHTS = torch.tensor([[1.0, -2.0, 0.5, 3.0], [0.0, 1.0, 1.0, 2.0]])
# Bags of 3, 0 and 5 elements.
_OFFSETS = torch.tensor([0, 3, 3])

_SIGNS = torch.tensor([1.0, -1.0, 1.0])
_LABELS = torch.tensor([[1, 3, -1, 0, 0], [2, -1, 0, 4, 0]])

_TOKENS = _volume(2, 5, 4)
_PAIRS = _volume(6, 4, 3)
_SEEN = torch.ones(5, 5, dtype=torch.bool).tril()
# The last query sees nothing.
_BLIND = _SEEN & (torch.arange(5)[:, None] < 4)
_attention = _F.scaled_dot_product_attention

_INF = math.inf
_LIMITS = torch.tensor([-1.0, 0.0, 0.5, 2.0])
_EXTREMES = torch.tensor([
    [3.0, 0.0, -0.0, 1e30, 1e-30, -2.0, _NAN, 1.0, -_INF],
    [-4.0, -0.0, 0.0, 1e30, -0.0, _INF, 1.0, _NAN, 2.0],
])  # fmt: skip
_MATRICES = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(2)) - 5 * torch.eye(3).flip(0)
_SMALLER = _MATRICES[..., :2, 1:]

# Calls and their inputs by topic; each topic becomes one program.
_CALLS: dict[str, dict[str, tuple[Callable[..., object], Tensor]]] = {
    "powers": {
        "of numbers": (lambda x: tuple(x**exponent for exponent in (2, 3, 0.5, -0.5, -1, -2, 1.5, 0)), _EXTREMES),
        "squares": (lambda x: (x.square(), x.double().pow(3.0), x.half() ** 2, x.abs().half() ** 0.5), _IMAGES),
        "of integers": (lambda x: (x**2, x.square(), x.to(torch.int8) ** 3), _PLACES),
        "norms": (lambda x: (x.norm(dim=-1), _F.normalize(x, dim=1), x.norm(), x.norm(3, 0), x.norm(p=1)), _IMAGES),
    },
    "attention": {
        "without a mask": (lambda x: _attention(x, x * 2, x - 1), _TOKENS),
        "causal": (lambda x: _attention(x, x[:, :3], x[:, :3], is_causal=True, scale=0.3), _TOKENS),
        "seen": (lambda x: _attention(x, x, x, _SEEN), _TOKENS),
        "mask": (lambda x: _attention(x, x, x, torch.full((5, 5), -torch.inf).triu(1)), _TOKENS),
        "bilinear": (lambda x: _F.bilinear(x, x[..., 1:], _PAIRS, _PAIRS[:, 0, 0]), _TOKENS),
        "cumprod": (lambda x: (torch.cumprod(x, -2), x[0, 0].cumprod(0), (x > 0).cumprod(1)), _TOKENS),
        "baddbmm": (lambda x: torch.baddbmm(_SEEN[:4, :4].float(), x.mT, x, beta=0.5, alpha=2), _TOKENS),
    },
    "assignments to diagonals": {
        "filled": (lambda x: x.relu().clone().fill_diagonal_(7.0), _IMAGES[0, 0]),
        "written": (lambda x: (y := x.clone(), y.diagonal(-1).mul_(2))[0], _IMAGES[0, 0]),
        "of images": (lambda x: torch.diagonal_scatter(x, x[..., 0], 0, 2, 3), _IMAGES[..., :4, :4]),
        "strided": (lambda x: torch.as_strided_scatter(x, x[:2, :2], (2, 2), (3, 2), 1), _IMAGES[0, 0]),
    },
    "attention of queries that may see nothing": {
        "constant": (lambda x: _attention(x, x, x, _BLIND), _TOKENS),
        "computed": (lambda x: _attention(x, x, x, x[:, :, :1] > 0), _TOKENS),
    },
    "pooling of three dimensions": {
        "max_pool3d": (lambda x: _F.max_pool3d(x, 2), _volume()),
        "max_pool3d padded": (lambda x: _F.max_pool3d(x, (3, 2, 3), (2, 1, 2), (1, 1, 0), ceil_mode=True), _volume()),
        "max_pool3d dilated": (lambda x: _F.max_pool3d(x, 2, 1, dilation=(2, 1, 3)), _volume(3, 6, 7, 8)),
        "max_pool3d indices": (lambda x: tuple(_F.max_pool3d(x, 3, 2, 1, return_indices=True)), _volume()),
        "max_pool3d equals": (lambda x: tuple(_F.max_pool3d(x, 3, 2, return_indices=True)), _volume().round()),
        "avg_pool3d": (lambda x: _F.avg_pool3d(x, 2), _volume()),
        "avg_pool3d padded": (lambda x: _F.avg_pool3d(x, 3, 2, 1, ceil_mode=True), _volume()),
        "avg_pool3d inside": (lambda x: _F.avg_pool3d(x, 3, 2, 1, count_include_pad=False), _volume(3, 6, 7, 8)),
        "avg_pool3d divisor": (lambda x: _F.avg_pool3d(x, (1, 2, 3), divisor_override=5), _volume()),
        "local_response_norm": (lambda x: _F.local_response_norm(x, 2), _volume(1, 6, 5, 4)),
    },
    "adaptive pooling": {
        "adaptive_avg_pool3d": (lambda x: _F.adaptive_avg_pool3d(x, (2, 3, 5)), _volume()),
        "adaptive_avg_pool3d of all": (lambda x: _F.adaptive_avg_pool3d(x, 1), _volume()),
        "adaptive_max_pool1d": (lambda x: _F.adaptive_max_pool1d(x, 5), _volume(3, 8)),
        "adaptive_max_pool2d": (lambda x: _F.adaptive_max_pool2d(x, (3, 4)), _volume(2, 3, 6, 8)),
        "adaptive_max_pool2d uneven": (lambda x: _F.adaptive_max_pool2d(x, (4, 3)), _volume(2, 3, 6, 7)),
        "adaptive_max_pool2d indices": (
            lambda x: tuple(_F.adaptive_max_pool2d(x, (4, 3), return_indices=True)),
            _volume(2, 3, 6, 7).round(),
        ),
        "adaptive_max_pool3d": (lambda x: _F.adaptive_max_pool3d(x, (2, 7, 4)), _volume()),
        "adaptive_max_pool3d uneven": (lambda x: _F.adaptive_max_pool3d(x, (4, 3, 5)), _volume()),
    },
    "order": {
        "sort": (lambda x: tuple(torch.sort(x, 1, descending=True)), _volume(3, 9)),
        "sort equals": (lambda x: torch.sort(x, dim=0, stable=True).values, _volume(20).round()),
        "argsort": (lambda x: torch.argsort(x, dim=-1, stable=True), _volume(3, 9)),
        "msort": (torch.msort, _volume(3, 9)),
        "kthvalue": (lambda x: tuple(torch.kthvalue(x, 3, 1)), _volume(3, 9)),
        "median": (torch.median, _volume(3, 8)),
        "median of a dim": (lambda x: tuple(torch.median(x, 1)), _volume(3, 8)),
        "median with NaN": (
            lambda x: tuple(torch.median(x, 1, keepdim=True)),
            torch.tensor([[1.0, _NAN, _NAN], [3.0, 1.0, 2.0]]),
        ),
        "median of integers": (lambda x: torch.median(x, 1).values, torch.tensor([[4, 1, 3, 2], [7, 7, 0, 9]])),
        "nanmedian": (torch.nanmedian, torch.tensor([[1.0, _NAN, 0.0], [3.0, _NAN, 2.0]])),
        "mode": (lambda x: torch.mode(x).values, _PLACES),
        "mode of a dim": (lambda x: x.gather(0, torch.mode(x, 0, True).indices), _PLACES.float()),
        "nanmedian of a dim": (
            lambda x: torch.nanmedian(x, 1).values,
            torch.tensor([[1.0, _NAN, 0.0], [_NAN, _NAN, _NAN], [3.0, 1.0, 2.0]]),
        ),
        "quantile": (lambda x: torch.quantile(x, 0.3, 1), _volume(3, 9)),
    },
    "prefixes": {
        "cummax": (lambda x: (*torch.cummax(x, 1), *torch.cummax(x[0], 0)), _volume(3, 9).round()),
        "cummin": (lambda x: tuple(torch.cummin(x, -1)), torch.tensor([[3.0, 1.0, 1.0, _NAN, 0.0, _NAN]])),
        "cummax of integers": (lambda x: tuple(torch.cummax(x, 0)), torch.tensor([3, 1, 3, 7, 2])),
        "logcumsumexp": (lambda x: torch.logcumsumexp(x, 0), _volume(7, 3) * 40),
        "bucketize": (lambda x: torch.bucketize(x, _LIMITS), torch.tensor([[-9.0, -1.0, 0.5], [2.0, 9.0, _NAN]])),
        "bucketize right": (lambda x: torch.bucketize(x, _LIMITS, out_int32=True, right=True), _volume(3, 4).round()),
        "searchsorted": (lambda x: torch.searchsorted(x.sort(-1)[0], x.round()), _volume(3, 4)),
        "searchsorted sorter": (lambda x: torch.searchsorted(x[0], x, sorter=x.argsort(-1)[0]), _volume(1, 5)),
        "histc": (lambda x: torch.histc(x, 5, -1, 1), _volume(50)),
    },
    "images": {
        "bicubic": (lambda x: _F.interpolate(x, size=(9, 5), mode="bicubic"), _IMAGES),
        "bicubic by factors": (lambda x: _F.interpolate(x, scale_factor=(2.3, 0.4), mode="bicubic"), _IMAGES),
        "bicubic of corners": (lambda x: _F.interpolate(x, size=(9, 1), mode="bicubic", align_corners=True), _IMAGES),
        "bicubic of a row": (lambda x: _F.interpolate(x[:, :, :1], size=(3, 24), mode="bicubic"), _IMAGES),
        "bicubic of long rows": (lambda x: _F.interpolate(x, (8, 60), mode="bicubic"), _volume(1, 2, 5, 70)),
        "bicubic smoothed": (lambda x: _F.interpolate(x, size=(3, 12), mode="bicubic", antialias=True), _IMAGES),
        "bicubic smoothed corners": (
            lambda x: _F.interpolate(x, size=(3, 5), mode="bicubic", antialias=True, align_corners=True),
            _IMAGES,
        ),
        "rrelu": (lambda x: _F.rrelu(x, 0.1, 0.4), _IMAGES),
    },
    "grids": {
        "affine_grid": (lambda x: _F.affine_grid(x, (2, 3, 4, 5), align_corners=False), _volume(2, 2, 3)),
        "affine_grid of one": (lambda x: _F.affine_grid(x[:1], (1, 3, 5, 1), align_corners=True), _volume(2, 2, 3)),
        "affine_grid of volumes": (lambda x: _F.affine_grid(x, (2, 3, 4, 2, 5), align_corners=False), _volume(2, 3, 4)),
    },
    "pairs": {
        "hypot": (lambda x: torch.hypot(x[0], x[1]), _EXTREMES),
        "fake quantization": (
            lambda x: (
                torch.fake_quantize_per_tensor_affine(x, 0.03, 7, -128, 127),
                torch.fake_quantize_per_tensor_affine(x, torch.tensor(0.5), torch.tensor(3).int(), 0, 15),
                torch.fake_quantize_per_channel_affine(x, _TABLE[:3, 0].abs(), torch.arange(3).int(), 1, -8, 7),
            ),
            _IMAGES,
        ),
        "copysign": (lambda x: torch.copysign(x[0], x[1]), _EXTREMES),
        "signbit": (lambda x: torch.signbit(x[:, :6]), _EXTREMES),
        "fmin": (lambda x: torch.fmin(x[0], x[1]), _EXTREMES),
        "fmax": (lambda x: torch.fmax(x[0], x[1]), _EXTREMES),
        "logaddexp2": (lambda x: torch.logaddexp2(x[0] * 9, x[1]), _volume(2, 9)),
        "logaddexp2 of infinities": (lambda x: torch.logaddexp2(x, x.flip(0)), torch.tensor([1.0, _INF, -_INF, _INF])),
    },
    "sparse products": {
        "mm": (lambda x: torch.sparse.mm(x, x.T), _TABLE),
        "addmm": (lambda x: torch.sparse.addmm(x, _LARGE[:6, :6], x, beta=2.0, alpha=0.5), _TABLE),
    },
    "small matrices": {
        # Its largest pivots are not on the diagonal.
        "inv": (torch.linalg.inv, _MATRICES),
        "solve": (lambda x: torch.linalg.solve(x, x[..., :2] * 2), _SMALLER),
        "solve a vector": (lambda x: torch.linalg.solve(x, x[:, 0] + 1), _SMALLER[0]),
        "solve from the right": (lambda x: torch.linalg.solve(x, x[:, 1:] * 2, left=False), _SMALLER),
        "solve_triangular": (
            lambda x: torch.linalg.solve_triangular(x + 3 * torch.eye(3), x[..., :1], upper=True),
            _MATRICES,
        ),
        "unitriangular": (
            lambda x: torch.linalg.solve_triangular(x, x[..., :1, :], upper=False, left=False, unitriangular=True),
            _SMALLER,
        ),
        "det": (lambda x: (torch.linalg.det(x), torch.det(x[0])), _SMALLER),
        "slogdet": (lambda x: tuple(torch.linalg.slogdet(x)), _SMALLER),
        "cholesky": (lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(2)), _SMALLER),
        "solve for a constant": (lambda x: torch.linalg.solve(_LARGE, x), _volume(20, 2)),
        "solve a vector for a constant": (lambda x: torch.linalg.solve(_LARGE, x), _volume(20)),
        "solve_triangular for a constant": (
            lambda x: torch.linalg.solve_triangular(_LARGE.tril(), x, upper=False, left=False, unitriangular=True),
            _volume(2, 20) / 20,
        ),
        "cholesky_solve for a constant": (
            lambda x: torch.cholesky_solve(x, _LARGE.triu(), True) + torch.cholesky_solve(x, _LARGE.triu(), upper=True),
            _volume(20, 20),
        ),
        "cholesky_solve": (
            lambda x: torch.cholesky_solve(x[..., :1], torch.linalg.cholesky(x @ x.mT + torch.eye(2))),
            _SMALLER,
        ),
        "cholesky_inverse": (lambda x: torch.cholesky_inverse(x.triu() + 3 * torch.eye(2), upper=True), _SMALLER),
        "matrix_exp": (
            lambda x: torch.cat([torch.matrix_exp(x / 4), torch.linalg.matrix_exp(9 * (x - x.mT))]),
            _SMALLER,
        ),
        "cholesky upper": (lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(2), upper=True), _SMALLER),
    },
    "scatter_reduce": {
        f"{reduce} {kind} {dtype} {dim}": (
            lambda x, args=(reduce, kind == "with", dim), dtype=dtype: (
                (x * 4)
                .to(dtype)
                .scatter_reduce(args[2], _PLACES, (x.flip(0) * 3).to(dtype), args[0], include_self=args[1])
            ),
            _volume(3, 6),
        )
        for reduce in ("sum", "mean", "amax", "amin", "prod")
        for kind, dtype, dim in (("with", torch.float32, 1), ("without", torch.float32, -1), ("with", torch.int32, 1))
    },
    "in place": {
        "scatter_reduce_": (lambda x: (x * 2).scatter_reduce_(1, _PLACES, x, "amax"), _volume(3, 6)),
        "put_": (lambda x: (x * 2).put_(torch.tensor([[3, -1], [0, 7]]), x[:, :2] - 1), _volume(2, 4)),
        "put_ of sums": (lambda x: torch.zeros(5).put_(torch.tensor([3, 1, 3]), x, accumulate=True), _volume(3)),
        "exp2_": (lambda x: (x * 2).exp2_(), _volume(3)),
    },
    "decomposition of a constant": {"svd": (lambda x: x @ torch.linalg.svd(_TABLE)[2], _volume(3, 4))},
    "distances": {
        "cosine_embedding_loss": (lambda x: _F.cosine_embedding_loss(x, x.flip(1), _SIGNS, 0.1), _volume(3, 4)),
        "cosine_embedding_loss of one": (lambda x: _F.cosine_embedding_loss(x, x.exp(), _SIGNS[0]), _volume(4)),
        "dist": (lambda x: (torch.dist(x, x.exp()), torch.dist(x[0], x, 3)), _volume(3, 4)),
        "hinge_embedding_loss": (
            lambda x: [_F.hinge_embedding_loss(x, _SIGNS, reduction=each) for each in ("none", "mean", "sum")],
            2 * _volume(4, 3),
        ),
        "multilabel_margin_loss": (
            lambda x: [_F.multilabel_margin_loss(x, _LABELS, reduction=each) for each in ("none", "mean", "sum")],
            _volume(2, 5),
        ),
        "vander": (lambda x: (torch.vander(x), torch.vander(x, 3, True), torch.vander(x, 1)), _volume(4)),
        "multilabel_margin_loss of one": (lambda x: _F.multilabel_margin_loss(x, _LABELS[0]), _volume(5)),
        "ldexp": (lambda x: torch.ldexp(x, torch.tensor([3, -2, 0, 1])), _volume(3, 4)),
    },
    "frequencies": {
        "fftfreq": (lambda x: x[:8] * torch.fft.fftfreq(8, 0.5), torch.linspace(-2, 2, 9)),
        "rfftfreq": (lambda x: x[:5] * torch.fft.rfftfreq(9), torch.linspace(-2, 2, 9)),
        "sinc": (
            lambda x: (torch.sinc(torch.cat([x, torch.zeros(1)])), torch.sinc(x.to(torch.int32))),
            torch.linspace(-2, 2, 9),
        ),
    },
    "windows": {
        "unfold": (lambda x: _F.unfold(x, 3, padding=1), _IMAGES),
        "unfold apart": (lambda x: _F.unfold(x, (2, 3), dilation=(2, 1), padding=(0, 2), stride=(1, 2)), _IMAGES),
        "unfold one image": (lambda x: _F.unfold(x[0], 2), _IMAGES),
        "unfold patches": (lambda x: _F.unfold(x, (2, 3), stride=(2, 3)), _IMAGES),
        "unfold padded patches": (lambda x: _F.unfold(x, 3, padding=1, stride=3), _IMAGES),
        "fold": (lambda x: _F.fold(_F.unfold(x, 3, padding=1), (7, 8), 3, padding=1), _IMAGES),
        "fold apart": (
            lambda x: _F.fold(_F.unfold(x, (2, 3), (2, 1), (0, 2), (1, 2)), (7, 8), (2, 3), (2, 1), (0, 2), (1, 2)),
            _IMAGES,
        ),
        "fold patches": (
            lambda x: _F.fold(_F.unfold(x, (2, 3), stride=(2, 3)), (7, 8), (2, 3), stride=(2, 3)),
            _IMAGES,
        ),
        "max_unpool1d": (lambda x: _F.max_unpool1d(*_F.max_pool1d(x, 2, return_indices=True), 2), _TOKENS),
        "max_unpool2d": (lambda x: _F.max_unpool2d(*_F.max_pool2d(x, 2, return_indices=True), 2), _IMAGES),
        "max_unpool2d of overlapping windows": (
            lambda x: _F.max_unpool2d(*_F.max_pool2d(x, 3, 2, 1, return_indices=True), 3, 2, 1, x.shape[2:]),
            _IMAGES,
        ),
        "max_unpool3d": (
            lambda x: _F.max_unpool3d(*_F.max_pool3d(x, 2, return_indices=True), 2, output_size=x.shape[1:]),
            _IMAGES,
        ),
        "fold padded patches": (lambda x: _F.fold(_F.unfold(x, 3, 1, 1, 3), (7, 8), 3, 1, 1, 3), _IMAGES),
    },
    "indices that are computed": {
        "select": (lambda x: x[:, x[0, :, 0].argmax()], _TOKENS),
        "from the end": (lambda x: x[0, :, -x[0, 1].argmax() - 1], _TOKENS),
        "of an index": (lambda x: x[1, x[0].argmax(0)[x[1, 0].argmax()]], _TOKENS),
        "in a loop": (lambda x: torch.stack([x[1, step] for step in x[0].argmax(0)]), _TOKENS),
    },
    "bags": {
        "embedding_bag": (lambda x: _F.embedding_bag(x, _TABLE), _BAGS),
        "embedding_bag sum": (lambda x: _F.embedding_bag(x, _TABLE, mode="sum", padding_idx=2), _BAGS),
        "embedding_bag weighted": (
            lambda x: _F.embedding_bag(x, _TABLE, mode="sum", per_sample_weights=_WEIGHTS),
            _BAGS,
        ),
        "embedding_bag max": (lambda x: _F.embedding_bag(x, _TABLE, mode="max"), _BAGS),
        "embedding_bag max of parts": (lambda x: _F.embedding_bag(x, _TABLE, _OFFSETS, mode="max"), _BAGS.reshape(-1)),
        "embedding_bag parts": (lambda x: _F.embedding_bag(x, _TABLE, _OFFSETS), _BAGS.reshape(-1)),
        "embedding_bag last": (
            lambda x: _F.embedding_bag(x, _TABLE, torch.tensor([0, 3, 8]), include_last_offset=True),
            _BAGS.reshape(-1),
        ),
    },
}


class Calls(nn.Module):
    def __init__(self, functions: Sequence[Callable[..., object]]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *inputs: Tensor) -> tuple[object, ...]:
        return tuple(function(x) for function, x in zip(self.functions, inputs, strict=True))


@functools.cache
def _lowered(topic: str) -> tuple[tuple[object, ...], set[str]]:
    """Runs the edge program of a topic's calls; returns its results, and the operators of the emitted program."""
    functions, inputs = zip(*_CALLS[topic].values(), strict=True)
    program = to_edge(capture(Calls(functions), inputs))
    results = program.module()(*inputs)
    plan = emit(program).program.execution_plan[0]
    return results, {f"{operator.name}.{operator.overload}" for operator in plan.operators}


@pytest.mark.parametrize("topic", _CALLS)
def test_decompositions_give_what_eager_gives_by_operators_that_there_are(topic: str) -> None:
    functions, inputs = zip(*_CALLS[topic].values(), strict=True)
    results, operators = _lowered(topic)
    for name, result, expected in zip(_CALLS[topic], results, Calls(functions)(*inputs), strict=True):
        torch.testing.assert_close(result, expected, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}")
    assert operators <= set(read_catalog())


_DRAWN = {
    "bernoulli": (lambda x: (x + 0.3).bernoulli(), 0.3, 0.46),
    "bernoulli_": (lambda x: x.clone().bernoulli_(0.3), 0.3, 0.46),
    "exponential_": (lambda x: x.clone().exponential_(4), 0.25, 0.25),
    "geometric_": (lambda x: x.clone().geometric_(0.4), 2.5, 1.94),
    "gumbel_softmax": (lambda x: _F.gumbel_softmax(x.reshape(-1, 2), hard=True), 0.5, 0.5),
    "log_normal_": (lambda x: x.clone().log_normal_(0.1, 0.2).log(), 0.1, 0.2),
    "multinomial": (lambda x: (x.reshape(-1, 2) + torch.tensor([1.0, 3.0])).multinomial(1).float(), 0.75, 0.43),
    "multinomial, again": (lambda x: (x[:4] + torch.tensor([1.0, 0, 0, 3])).multinomial(9999, True).float(), 2.25, 1.3),
    "normal": (lambda x: torch.normal(x + 3, 2.0), 3, 2),
    "normal of numbers": (lambda x: x + torch.normal(3.0, 2.0, (20000,)), 3, 2),
    "normal_": (lambda x: x.clone().normal_(3, 2), 3, 2),
    "rand_like": (lambda x: torch.rand_like(x), 0.5, 0.289),
    "randint": (lambda x: x + torch.randint(1, 4, (20000,)), 2, 0.816),
    "randint_like": (lambda x: torch.randint_like(x, 4) - torch.randint_like(x, 1, 3), 0, 1.22),
    "randn_like": (lambda x: torch.randn_like(x), 0, 1),
    "randperm": (lambda x: x + torch.randperm(20000) / 20000, 0.5, 0.289),
    "sample": (lambda x: torch.distributions.Categorical(logits=x.reshape(-1, 2)).sample().float(), 0.5, 0.5),
    "uniform_": (lambda x: x.clone().uniform_(-1, 1), 0, 0.577),
}


def test_random_numbers_are_made_of_those_that_there_are() -> None:
    """Their means and deviations are those of PyTorch's; ExecuTorch has kernels of rand() and randn()."""
    inputs = (torch.zeros(20000),) * len(_DRAWN)
    program = to_edge(capture(Calls([call for call, _, _ in _DRAWN.values()]), inputs))
    drawn = [
        node for node in program.graph.nodes if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    ]
    assert {node.target._op for node in drawn} == {torch.ops.aten.rand.default, torch.ops.aten.randn.default}
    torch.manual_seed(0)
    for name, result, (_, mean, deviation) in zip(_DRAWN, program.module()(*inputs), _DRAWN.values(), strict=True):
        values = result.double()
        assert abs(values.mean() - mean) < 0.03 and abs(values.std() - deviation) < 0.03, name


def test_permutations_and_draws_without_repetition_have_each_number_once() -> None:
    calls = Calls([lambda x: torch.randperm(9) + x.long(), lambda x: (x + 1).multinomial(9)])
    for result in to_edge(capture(calls, (torch.zeros(9),) * 2)).module()(torch.zeros(9), torch.zeros(9)):
        assert sorted(result.tolist()) == list(range(9))


def test_grids_are_matrix_products() -> None:
    # Elsewhere they would be products and sums of each pixel.
    assert not {"aten::mul", "aten::sum"} & {operator.partition(".")[0] for operator in _lowered("grids")[1]}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_norm_may_have_weights_of_float32(dtype: torch.dtype) -> None:
    layer = nn.LayerNorm(8).eval()
    nn.init.normal_(layer.weight)
    model = nn.Sequential(nn.ReLU(), layer)
    x = _volume(3, 8).to(dtype)
    program = to_edge(capture(model, (x,)))
    torch.testing.assert_close(program.module()(x), model(x))


@pytest.mark.parametrize("topic", ["attention", "attention of queries that may see nothing"])
def test_attention_looks_for_queries_that_see_nothing_where_there_may_be_some(topic: str) -> None:
    searched = {"aten::any", "aten::where"} & {operator.partition(".")[0] for operator in _lowered(topic)[1]}
    assert len(searched) == (0 if topic == "attention" else 2)


@pytest.mark.parametrize("is_given", [False, True])
def test_layers_of_a_transformer_take_masks_without_a_look_at_their_values(is_given: bool) -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(5)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.mask = encoder, nn.Buffer(mask)

        def forward(self, x: Tensor, given: Tensor) -> Tensor:
            return self.encoder(x, mask=given if is_given else self.mask)

    program = to_edge(capture(Model(), (_TOKENS, mask)))
    torch.testing.assert_close(program.module()(_TOKENS, mask), Model()(_TOKENS, mask))


def test_other_programs_stay_as_they_are() -> None:
    program = capture(Calls([lambda x: _F.max_pool2d(torch.relu_(x + 1), 2)]), (_volume(1, 3, 4, 4),))
    assert decompose(program) is program


def test_operators_that_write_to_their_arguments_are_decomposed() -> None:
    # PyTorch's compiler does that, and only then is it imported.
    assert not _COMPILER_IS_IMPORTED
    from torch.export._remove_auto_functionalized_pass import unsafe_remove_auto_functionalized_pass

    @torch.library.custom_op("decompositions_test::double", mutates_args={"x"})
    def double(x: Tensor) -> None:
        x.mul_(2)

    class Doubles(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x + 1
            double(y)
            return y

    program = torch.export.export(Doubles(), (torch.ones(3),)).run_decompositions({})
    targets = [node.target for node in program.graph.nodes]
    assert any(isinstance(target, HigherOrderOperator) for target in targets)
    result = unsafe_remove_auto_functionalized_pass(program)
    targets = [node.target for node in result.graph.nodes]
    assert torch.ops.decompositions_test.double.default in targets
    assert not any(isinstance(target, HigherOrderOperator) for target in targets)


@pytest.mark.parametrize("module", ["tools.pipeline.export", "tools.pipeline.model_file.model_file"])
def test_the_compiler_needs_no_folder_of_its_name(tmp_path: Path, module: str) -> None:
    # Another user may have made it in a TMPDIR of all.
    environment = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    environment |= {"TMPDIR": str(tmp_path), "USER": "me", "LOGNAME": "me"}
    (tmp_path / "torchinductor_me").touch()
    subprocess.run([sys.executable, "-c", f"import {module}, torch._dynamo"], env=environment, check=True)


def test_a_matrix_that_is_computed_from_state_is_no_constant() -> None:
    class Filter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("covariance", torch.eye(2))

        def forward(self, x: Tensor) -> Tensor:
            factor = torch.linalg.cholesky(self.covariance + torch.eye(2))
            self.covariance.add_(x.T @ x)
            return torch.cholesky_solve(x.T, factor)

    inputs = [_volume(1, 2), 2 * _volume(1, 2)]
    model, program = Filter(), capture(Filter(), (inputs[0],)).module()
    for x in inputs:
        torch.testing.assert_close(program(x), model(x))
