"""Models that keep state in attributes of theirs or elsewhere, rather than in buffers, and that assign to buffers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.capture.golden import run_eager
from tools.pipeline.export.capture.reference import run_program
from tools.pipeline.export.options import Options
from tools.pipeline.export.testing import export_source, model_source
from tools.pipeline.export.upstream.loaded_program import LoadedProgram
from tools.quiet.console import UserError

_INPUTS = "(torch.randn(1, 4),)"


@pytest.mark.parametrize(
    ("state", "forward"),
    [
        ("torch.ones(1, 4)", "self.h = self.cell(x, self.h)\nreturn self.h"),
        ("nn.Parameter(torch.ones(1, 4))", "self.h.data = self.cell(x, self.h)\nreturn self.h * 1"),
    ],
)
def test_a_tensor_that_a_model_changes_is_state(state: str, forward: str, tmp_path: Path) -> None:
    init = f"torch.manual_seed(0); self.cell = nn.GRUCell(4, 4); self.h = {state}"
    source = model_source(forward, _INPUTS, init)
    program = LoadedProgram(export_source(tmp_path, source).program)
    torch.manual_seed(0)
    cell, h = nn.GRUCell(4, 4), torch.ones(1, 4)
    for _ in range(3):
        x = torch.randn(1, 4)
        h = cell(x, h)
        torch.testing.assert_close(program.run(x)[0], h)


@pytest.mark.parametrize(
    ("init", "forward", "expected"),
    [
        (
            "self.h = None",
            "self.h = x if self.h is None else self.h - x\nreturn self.h",
            r"attribute 'h', first None, then float32\[1, 4\].* self.register_buffer\('h', torch.zeros\(1, 4\)\)",
        ),
        ("self.n = 0", "self.n += 1\nreturn x * self.n", "attribute 'n', first int 0, then int 1"),
        ("self.past = []", "self.past.append(x)\nreturn sum(self.past)", "attribute 'past', first a list"),
        (
            "self.register_buffer('h', torch.zeros(1, 2))",
            "self.h = torch.cat([self.h, x], 1)\nreturn self.h.sum()",
            r"attribute 'h', first float32\[1, 2\], then float32\[1, 6\]",
        ),
        (
            "self.register_buffer('h', None)",
            "self.h = x if self.h is None else self.h - x\nreturn self.h",
            "attribute 'h', first None, then",
        ),
        (
            "class Held: pass\nheld = Held(); held.h = torch.zeros(1, 4)\nself.one, self.two = held, held",
            "self.one.h = self.two.h + x\nreturn self.two.h",
            "keeps state in objects that two attributes share",
        ),
        ("self.held = map(torch.ones, range(9))", "return x + next(self.held).sum()", "objects of unknown kinds"),
        ("", "global N\nN = globals().get('N', 0) + x\nreturn N * 1", "outside of its modules, such as in a global"),
        ("", "import random\nreturn x * random.random()", "draws numbers that are not torch's"),
    ],
)
def test_other_state_is_refused(init: str, forward: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=expected):
        export_source(tmp_path, model_source(forward, _INPUTS, init))


def test_what_a_model_remembers_without_using_it_is_no_state(tmp_path: Path) -> None:
    forward = """\
self.calls += 1
self.one.held[0] = x
if self.mask is None: self.mask = torch.ones(4)
self.y = x * self.mask
return self.y"""
    init = """\
class Held: pass
self.calls, self.mask, self.y = 0, None, torch.zeros(1, 4)
self.one, two = Held(), Held()
self.one.held, two.held = [self.y, two], self.one"""
    result = export_source(tmp_path, model_source(forward, _INPUTS, init))
    assert result.largest_error() == 0


@pytest.mark.parametrize(
    "written",
    [
        "self.h = self.cell(x, self.h); return self.h",
        "self.h = torch.cat([self.h, x], 1)[:, -4:].detach(); return self.h * 2",
        "before = self.h; self.h = self.cell(x, before); return before",
        "self.h = x; return self.h + self.k",
        "self.h, self.k = self.k, self.h + x; return {'old': self.h, 'new': self.k}",
        "self.h.add_(x); self.h, self.k = self.k, self.h; return self.h * 1",
        "self._buffers['h'] = self.h + x; return self.h * 1",
        "self.h.data = self.cell(x, self.h); return self.h * 1",
        "self.h.data[:, 1:] = self.cell(x, self.h.data)[:, 1:]; return self.h * 1",
        "self.t = self.cell(x, self.t).detach(); return self.t",
        "self.u = self.pair(x, self.u); return self.u[1]",
        "self.v[0], self.v[1] = self.pair(x, self.v); return {'h': self.v[0] * 2}",
        "self._private = self.cell(x, self._private); return self._private * 1",
        "self.held.h = self.cell(x, self.held.h); return self.held.h * 1",
        "self.held = Held(self.cell(x, self.held.h)); return self.held.h * 1",
        "self.none = self.cell(x, self.none); return self.none * 1",
        "self.none = self.pair(x, self.none); return self.none[0] * 1",
        "self.late = self.cell(x, getattr(self, 'late', None)); return self.late * 1",
        "self.empty = self.cell(x, self.empty); return self.empty * 1",
        "self.held.none = self.cell(x, self.held.none); return self.held.none * 1",
        "self.t = self.cell(x, torch.where(x[:, :1] >= 9, 0.0, self.t)); return self.t * 1",
    ],
)
def test_what_layers_assign_is_state(written: str) -> None:
    layer = f"""\
class Held:
    def __init__(self, h):
        self.h, self.none, self.name = h, None, "held"

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.pair, self.t = nn.GRUCell(4, 4), nn.LSTMCell(4, 4), torch.zeros(1, 4)
        self.u, self.v = (self.t, self.t + 1), [self.t, self.t]
        self._private, self.held, self.none = self.t, Held(self.t + 1), None
        self.register_buffer("empty", None)
        self.register_buffer("h", torch.zeros(1, 4))
        self.register_buffer("k", torch.ones(1, 4))

    def forward(self, x):
        {written}
self.first, self.second = Layer(), Layer()"""
    source = model_source("return self.first(x), self.second(x * 2)", _INPUTS, layer)
    names: dict[str, Any] = {}
    exec(source, names)
    samples = [(torch.full((1, 4), 9.0),), *((torch.randn(1, 4),) for _ in range(3))]
    model = names["model"]()
    # Makes buffers of attributes.
    outputs, _, _ = run_eager(model, samples)
    for returned, expected in zip(run_program(capture(model, samples[0]), samples), outputs, strict=True):
        torch.testing.assert_close(returned, expected)


def test_hooks_that_refer_to_the_model_work_in_copies(tmp_path: Path) -> None:
    init = """\
self.inner, self.seen = nn.Linear(4, 4), {}
def keep(name, model=self):
    def hook(_module, _inputs, output):
        model.seen[name] = output
        self.seen["too"] = output
    return hook
self.inner.register_forward_hook(keep("out"))"""
    source = model_source('self.inner(x)\nreturn self.seen["out"] * self.seen["too"]', _INPUTS, init)
    assert export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m")).decibels() > 30


@pytest.mark.parametrize("forward", ["self.h = self.cell(x, self.h)\nreturn self.h * 1", "return self.layer(x)"])
def test_what_is_written_and_never_read_is_no_state_in_int8(forward: str, tmp_path: Path) -> None:
    init = "self.cell, self.layer = nn.GRUCell(4, 4), nn.Linear(4, 4)\nself.register_buffer('h', torch.zeros(1, 4))\n"
    init += "self.register_buffer('last', torch.zeros(1, 4))"
    source = model_source(f"self.last = x * 2\n{forward}", _INPUTS, init)
    assert export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m")).decibels() > 30
