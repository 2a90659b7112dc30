"""The table of passes: each is there and says what it does, and gives what the table says that it gives."""

import copy

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram

from tools.pipeline.export.__main__ import dumping
from tools.pipeline.export.backends.portable import to_edge
from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.ir.passes import Pass, Pipeline, Property, watching
from tools.pipeline.export.ir.properties import violations
from tools.pipeline.export.pipelines import CORTEX_M, ETHOS_U, PIPELINES, VGF_FLOAT
from tools.quiet.console import SilentConsole, UserError


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.reshape(1, 6, 2, 4).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(1, 6, 8)


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.lstm = nn.BatchNorm1d(4), nn.LSTM(4, 6, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        x[:, 0] = 0
        return self.lstm(x.transpose(1, 2))[0].add_(1).view(1, -1)


_MODELS = {
    "attention": (_Attention, (1, 6, 8)),
    "image": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU6(), nn.Flatten()), (1, 2, 6, 6)),
    "recurrent": (_Recurrent, (1, 4, 5)),
}


def test_each_pass_is_there_and_says_what_it_does() -> None:
    for pipeline in PIPELINES:
        for each in pipeline.passes:
            if not each.function.startswith(("backends.ethos_u", "backends.vgf")):
                assert each.resolve().__doc__, each.function


def test_a_pass_without_what_it_needs_is_an_error_of_the_table() -> None:
    needy = Pass("rewrite.no_ops:drop_no_ops", needs=frozenset({Property.FUNCTIONAL}))
    breaking = Pass("rewrite.rows:write_rows_as_images", breaks=frozenset({Property.FUNCTIONAL}))
    Pipeline("fine", (needy,), begins=frozenset({Property.FUNCTIONAL}))
    for passes in ((needy,), (breaking, needy)):
        with pytest.raises(ValueError, match="drop_no_ops gives FUNCTIONAL"):
            Pipeline("wrong", passes, begins=frozenset({Property.FUNCTIONAL} if len(passes) > 1 else ()))


@pytest.mark.parametrize("name", _MODELS)
def test_a_program_is_what_the_table_says_after_each_pass(name: str) -> None:
    make, shape = _MODELS[name]
    captured = capture(make().eval(), (torch.randn(shape),))
    holds: dict[str, frozenset[Property]] = {}

    def check(pipeline: Pipeline, each: Pass, program: ExportedProgram, _: float) -> None:
        holds[pipeline.name] = holds.get(pipeline.name, pipeline.begins) - each.breaks | each.gives
        for wanted in holds[pipeline.name]:
            assert not violations(program, wanted), f"{wanted.name} after {each.name} of {pipeline.name}"

    with watching(check):
        for run in (CORTEX_M.run, ETHOS_U.run, VGF_FLOAT.run, to_edge):
            run(copy.deepcopy(captured))
    assert len(holds) == 5


def test_a_graph_is_printed_after_a_pass_that_is_asked_for() -> None:
    console = SilentConsole()
    captured = capture(_MODELS["image"][0]().eval(), (torch.randn(_MODELS["image"][1]),))
    with dumping("fold_batch_norm", console):
        to_edge(captured)
    (text,) = console.said
    assert "after fold_batch_norm of portable, captured" in text
    assert "ops.aten.conv2d" in text and "ops.aten.batch_norm" not in text
    with pytest.raises(UserError, match="--dump-after 'fold' is unknown; it must be one of .*fold_batch_norm"):
        dumping("fold", console)
