"""A program that was packed for another core, handed to an image at run time."""

from pathlib import Path

import pytest
import torch

from conformance.check import encode_input
from tools.pipeline.export.options import Options
from tools.pipeline.export.testing import export_source, model_source
from tools.verify.run_pte.cases import Case, run_cases
from tools.verify.run_pte.run_pte import read_runners

_LAYERS = {
    "convolution": ("nn.Conv2d(4, 4, 3)", "torch.randn(1, 4, 5, 5)"),
    "depthwise_convolution": ("nn.Conv2d(4, 4, 3, groups=4)", "torch.randn(1, 4, 5, 5)"),
    "linear": ("nn.Linear(4, 4)", "torch.randn(1, 4)"),
    "linear_int4": ("nn.Linear(4, 4)", "torch.randn(1, 4)"),
}


@pytest.mark.parametrize(
    ("layer", "core", "board"),
    [
        ("convolution", "cortex-m55", "mps2_an386"),
        ("depthwise_convolution", "cortex-m4", "mps3_an547"),
        ("linear", "cortex-m4", "mps3_an547"),
        ("linear_int4", "cortex-m55", "mps2_an386"),
    ],
)
def test_is_refused_when_it_is_loaded(layer: str, core: str, board: str, tmp_path: Path) -> None:
    init, example = _LAYERS[layer]
    source = model_source("return self.layer(x)", f"({example},)", f"self.layer = {init}")
    dtype = "int4" if layer.endswith("int4") else "int8"
    program = export_source(tmp_path, source, options=Options(core, "cortex_m", weight_dtype=dtype)).program
    shape = (1, 4) if layer.startswith("linear") else (1, 4, 5, 5)
    (result,) = run_cases(read_runners().boards[board], [Case(program, (encode_input(torch.zeros(shape)),))])
    assert (result.error, result.step) == ("DelegateInvalidCompatibility", "load")
    assert any("packed for another core" in line for line in result.messages)
