"""Programs of several methods."""

import io
import json
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from tools.pipeline.export import methods
from tools.pipeline.export.backends.portable import lower_method
from tools.pipeline.export.export import Exported, export
from tools.pipeline.export.options import Options
from tools.pipeline.export.plan.emission import EmittedProgram
from tools.pipeline.export.upstream.loaded_program import LoadedProgram
from tools.quiet.console import SilentConsole, UserError

_MODEL = """
import torch

class Codec(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.down = torch.nn.Linear(64, 32)
        self.up = torch.nn.Linear(32, 64)
        self.register_buffer("count", torch.zeros(1))

    def encode(self, x):
        return self.down(x)

    def decode(self, code, gain):
        return self.up(code) * gain

    def counted(self, x):
        self.count.copy_(self.count + 1)
        return x * self.count

    def forward(self, x):
        return self.up(self.encode(x))

def model():
    torch.manual_seed(0)
    return Codec().eval()

def example_inputs():
    return (torch.ones(1, 64),)

def method_inputs():
    x = torch.ones(1, 64)
    return {"encode": (x,), "decode": (torch.ones(1, 32), torch.tensor([2.0])), "counted": (x,), "missing": (x,)}
"""


def _export(folder: Path, *methods: str, source: str = _MODEL) -> Exported:
    path = folder / "codec.py"
    path.write_text(source)
    return export(path, "codec", Options(methods=methods), None, SilentConsole())


def test_methods_share_constants_and_have_golden_data_of_their_own(tmp_path: Path) -> None:
    alone, exported = _export(tmp_path), _export(tmp_path, "encode", "decode")
    # Without its constants a method takes less than any of the two weights.
    assert len(exported.program) - len(alone.program) < 4 * 32 * 64
    program = LoadedProgram(exported.program)
    for method, files in {"forward": exported, **exported.methods}.items():
        golden = numpy.load(io.BytesIO(files.golden))
        inputs = [torch.from_numpy(golden[name][0]) for name in sorted(golden) if name.startswith("input_")]
        (output,) = program.run(*inputs, method=method)
        assert numpy.allclose(output.numpy(), golden["output_0"][0], atol=1e-5)
    manifest = json.loads(exported.methods["decode"].manifest)
    assert (manifest["name"], len(manifest["inputs"])) == ("codec_decode", 2)


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ("missing", r"the module that model\(\) returns has no method missing\(\)"),
        (
            "other",
            r"must return a dict with an entry for the method 'other', not one for encode, decode, counted, missing",
        ),
        ("counted", "nor keep state, which methods don't share; make a program of each method, and st"),
    ],
)
def test_what_is_no_method_of_a_program(method: str, says: str, tmp_path: Path) -> None:
    source = _MODEL.replace("    def counted", "    def other(self, x):\n        return x\n\n    def counted")
    with pytest.raises(UserError, match=says):
        _export(tmp_path, method, source=source)


def test_a_method_that_computes_something_else_than_the_module_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*arguments: Any) -> EmittedProgram:
        emitted = lower_method(*arguments)
        plan = emitted.program.execution_plan[0]
        next(each for each in plan.operators if each.name == "aten::mul").name = "aten::div"
        return emitted

    monkeypatch.setattr(methods, "lower_method", wrong)
    with pytest.raises(AssertionError, match=r"output 0 of decode\(\) is not what the module returns"):
        _export(tmp_path, "decode")
