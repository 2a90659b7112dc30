"""Networks of rows as networks of images, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.ir.signature import user_inputs, varying
from tools.pipeline.export.pipelines import VGF_FORMS

_aten = torch.ops.aten
_X = (2, 4, 12)


class _Network(nn.Module):
    def __init__(self, function: Callable[[_Network, Tensor], Tensor | tuple[Tensor, ...]]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.a = nn.Conv1d(4, 6, 3, padding=1)
        self.b = nn.Conv1d(6, 6, 3, padding=2, dilation=2, groups=2)
        self.c = nn.Conv1d(6, 4, 1)
        self.up = nn.ConvTranspose1d(6, 6, 4, 2, 1)
        self.norm = nn.GroupNorm(2, 6)
        self.batch_norm = nn.BatchNorm1d(6)
        self.prelu = nn.PReLU(6)
        self.head = nn.Linear(6, 3)
        self.of_channels_and_steps = nn.Parameter(torch.randn(6, 12))
        self.of_steps = nn.Parameter(torch.randn(12))

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        return self.function(self, x)


def _gated(n: _Network, x: Tensor) -> Tensor:
    y = n.a(x)
    first, second = n.b(y).chunk(2, 1)
    return n.c(y + torch.cat([torch.tanh(first) * torch.sigmoid(second), y[:, :3]], 1)) - x


# Networks that become images as a whole: no operator in between reads or writes rows.
_WHOLE = {
    "residual": lambda n, x: n.c(n.a(x) + F.silu(n.b(n.a(x)))),
    "gated": _gated,
    "split": lambda n, x: n.c(torch.cat(n.a(x).split([2, 4], 1)[::-1], 1)),
    "glu": lambda n, x: F.glu(n.a(x), -2),
    "causal": lambda n, x: n.b(F.pad(n.a(F.pad(x, (2, 0), value=1.0)), (4, 0)))[:, :, ::2],
    "padded_channels": lambda n, x: n.b(F.pad(n.c(n.a(x)), (0, 0, 1, 1))),
    "pools": lambda n, x: n.c(F.avg_pool1d(F.max_pool1d(n.a(x), 3, 2, 1), 2)),
    "resampled": lambda n, x: n.c(n.up(n.a(x)) + F.interpolate(n.a(x), scale_factor=2, mode="linear")),
    "norms": lambda n, x: n.c(n.prelu(n.norm(n.batch_norm(n.a(x))))),
    "flipped": lambda n, x: n.b(n.a(x).flip(-1)),
    "softmax": lambda n, x: n.c(torch.softmax(n.a(x), 1) * torch.log_softmax(n.a(x), -1)),
    "broadcast": lambda n, x: n.c(2 * n.a(x) * n.of_channels_and_steps + n.of_steps - n.of_channels_and_steps[:, :1]),
    "attention_of_channels": lambda n, x: n.c(n.a(x) * torch.sigmoid(n.b(n.a(x).mean(2, keepdim=True)))),
}
# Networks with operators that return to rows, or differ for images.
_PARTLY = {
    "means": lambda n, x: n.head(n.a(x).mean(-1)),
    "greatest": lambda n, x: n.head(n.a(x).amax(2) - n.a(x).amin((-1,))),
    "of_channels": lambda n, x: (n.a(x).mean(1), n.a(x).sum((1, 2)), n.a(x).sum(), n.a(x).mean((1, 2), keepdim=True)),
    "last_step": lambda n, x: n.head(F.relu(n.a(x))[..., -1]),
    "transposed": lambda n, x: n.head(n.a(x).transpose(1, 2)) + n.head(n.a(x).permute(0, 2, 1)),
    "flattened": lambda n, x: n.a(x).flatten(1) * n.b(n.a(x)).reshape(2, -1),
    "reflected": lambda n, x: n.b(F.pad(n.a(x), (2, 2), mode="reflect")),
    "products": lambda n, x: n.a(x) @ n.b(n.a(x)).transpose(1, 2),
    "argmax": lambda n, x: (n.a(x).argmax(1), n.a(x)),
    "no_layer": lambda n, x: F.relu(x).mean(-1),
    "of_steps_and_rows": lambda n, x: n.a(x).amax((0, 2)),
}


@pytest.mark.parametrize("name", [*_WHOLE, *_PARTLY])
def test_the_same_numbers_and_no_row_between_layers(name: str) -> None:
    network = _Network((_WHOLE | _PARTLY)[name]).eval()
    x = torch.randn(_X)
    program = VGF_FORMS.run(capture(network, (x,)))
    expected, found = network(x), program.module(check_guards=False)(x)
    pairs = zip(*((each if isinstance(each, tuple) else (each,)) for each in (expected, found)), strict=True)
    for one, other in pairs:
        assert one.shape == other.shape and torch.allclose(one, other, atol=1e-5), name
    if name in _PARTLY:
        return
    called = [node for node in program.graph.nodes if node.op == "call_function"]
    rows = [node for node in called if getattr(node.meta["val"], "shape", ()) and node.meta["val"].dim() == 3]
    # But for the input's padding, constants and results.
    varies = varying(program).difference(user_inputs(program))
    rows = [node for node in rows if varies.intersection(node.all_input_nodes)]
    assert all(user.op == "output" for node in rows for user in node.users), [(node, node.target) for node in rows]
    assert not {node.target for node in called} & {_aten.conv1d.default, _aten.max_pool1d.default}
