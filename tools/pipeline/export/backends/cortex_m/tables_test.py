"""Functions between int8 tensors become tables, which give the integers that floating point gives."""

from pathlib import Path

import numpy
import pytest

import tools.pipeline.export.backends.cortex_m.tables
from tools.pipeline.export.options import Options
from tools.pipeline.export.testing import Result, export_source, functions, model_source

_FUNCTIONS = {
    "gelu": "F.gelu(x)",
    "two in a row": "torch.exp(F.elu(x))",
    "power": "x ** 2",
    "of numbers": "torch.log(x + 8)",
    "hardswish by hand": "x * F.relu6(x + 3) / 6",
    "gelu by hand": "0.5 * x * (1 + torch.erf(x / 2 ** 0.5))",
    "chosen": "torch.where(x > 0, x, 0.1 * x)",
}


def exported(folder: Path, *forms: str) -> Result:
    """Exports functions, each of which reads the result of its own linear layer."""
    init = f"self.layers = nn.ModuleList(nn.Linear(8, 32) for _ in range({len(forms)}))"
    calls = [f"x = self.layers[{index}](given)\ny{index} = {function}" for index, function in enumerate(forms)]
    results = ", ".join(f"y{index}" for index in range(len(forms)))
    forward = "\n".join(["given = x", *calls, f"return {results}"])
    source = "import torch.nn.functional as F\n" + model_source(forward, "(torch.randn(16, 8),)", init)
    source += functions(calibration_inputs="[example_inputs()]")
    return export_source(folder, source, options=Options("cortex-m4", "cortex_m", "int8"))


def test_tables_give_the_integers_of_floating_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = exported(tmp_path, *_FUNCTIONS.values())
    count = len(_FUNCTIONS)
    assert table.operators == {"torch_fusion::linear_rows": count, "cortex_m::quantized_activation": count}
    assert table.said == []
    monkeypatch.setattr(tools.pipeline.export.backends.cortex_m.tables, "tabulate", lambda program: None)
    computed = exported(tmp_path, *_FUNCTIONS.values())
    assert "cortex_m::quantized_activation" not in computed.operators
    for index, function in enumerate(_FUNCTIONS):
        name = f"output_{index}"
        assert table.golden[name].dtype == numpy.int8
        assert numpy.array_equal(table.golden[name], computed.golden[name]), function


def test_products_with_positive_numbers_are_the_integers_of_their_operand(tmp_path: Path) -> None:
    result = exported(tmp_path, "x * 0.5 ** 0.5", "x / 3", "-2 * x")
    assert result.operators["cortex_m::quantized_activation"] == 1
    for name in ("output_0", "output_1"):
        output, eager = result.manifest["outputs"][int(name[-1])], result.golden[name.replace("output", "eager")]
        found = (result.golden[name].astype(float) - output["zero_point"]) * output["scale"]
        assert numpy.abs(found - eager).max() < 3 * output["scale"]


def test_a_function_without_a_number_for_each_integer_stays_in_floating_point(tmp_path: Path) -> None:
    # Calibration only sees positive numbers, but the integers include negative ones.
    assert (
        exported(tmp_path, "torch.log(torch.cat([x.abs() + 1, -x.abs() - 1], 1)[:, :32])").operators["aten::log"] == 1
    )


def test_a_result_that_others_read_is_a_table_of_its_own(tmp_path: Path) -> None:
    result = exported(tmp_path, "torch.cat([F.hardswish(x), torch.exp(F.hardswish(x))], 1)[:, ::2]")
    assert result.operators["cortex_m::quantized_activation"] == 2
    assert result.said == []
