"""Helpers of the tests of this package."""

import copy
import io
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.scalar_type import ScalarType
from executorch.exir.schema import AllocationDetails, EValue, TensorList

from tools.artifacts.document.document import to_json
from tools.pipeline.export.export import export
from tools.pipeline.export.options import FORMAT, VERSION, Options
from tools.pipeline.export.plan.serialize import serialize
from tools.pipeline.export.upstream.loaded_program import LoadedProgram
from tools.quiet.console import SilentConsole

# The template of a model file; tests supply forward().
_MODEL_FILE = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{init}

    def forward(self, {arguments}):
{forward}


def model():
    torch.manual_seed(0)
    return Model().eval()


def example_inputs():
    torch.manual_seed(1)
    return {inputs}
"""

_PORTABLE = Options()

# Finds what no message may contain: internal names, and the same location twice.
_INSIDE = re.compile(r"\baten|dim_order|_default\b|tlparse|\bFX\b|(\S+\.py:\d+), \1\b")

_Case = TypeVar("_Case")


def by_hand(cases: Sequence[_Case]) -> list[_Case]:
    """Returns further cases of a sweep, which behave like its others, for the nightly targets `..._every_form_test`."""
    return list(cases) if "EVERY_FORM" in os.environ else []


@dataclass
class Result:
    """An exported model, with its files parsed as tests need them."""

    program: bytes
    golden: dict[str, numpy.ndarray]
    manifest: dict[str, Any]
    said: list[str]
    report: dict[str, Any] | None
    npu: dict[str, Any] | None = None

    @property
    def operators(self) -> dict[str, int]:
        """Counts the calls by operator name."""
        return {operator["name"]: operator["calls"] for operator in self.manifest["operators"]}

    def calls(self, *operators: str) -> list[list[Any]]:
        """Returns the arguments of each call of one of these operators, in the program's order."""
        plan = deserialize_pte_binary(self.program).program.execution_plan[0]
        wanted = [index for index, operator in enumerate(plan.operators) if operator.name in operators]
        calls = [instruction.instr_args for instruction in plan.chains[0].instructions]
        return [
            [plan.values[index].val for index in call.args] for call in calls if getattr(call, "op_index", -1) in wanted
        ]

    def decibels(self, output: int = 0) -> float:
        """Returns the signal-to-noise ratio of an output against eager mode."""
        values, eager = (self.golden[f"{name}_{output}"] for name in ("output", "eager"))
        if values.dtype != eager.dtype:
            entry = self.manifest["outputs"][output]
            values = (values.astype(numpy.float64) - entry["zero_point"]) * entry["scale"]
        eager = eager.astype(numpy.float64)
        return float(10 * numpy.log10((eager**2).sum() / ((eager - values) ** 2).sum()))

    def largest_error(self) -> float:
        """Returns the largest difference between ExecuTorch's runtime and eager mode, over all outputs and samples."""
        inputs = [self.golden[f"input_{i}"] for i in range(len(self.manifest["inputs"]))]
        worst = 0.0
        for sample in range(len(inputs[0])):
            outputs = run_program(self.program, [torch.from_numpy(array[sample].copy()) for array in inputs])
            assert len(outputs) == len(self.manifest["outputs"])
            for index, output in enumerate(outputs):
                expected = torch.from_numpy(numpy.asarray(self.golden[f"output_{index}"][sample]))
                assert (output.dtype, output.shape) == (expected.dtype, expected.shape)
                if output.numel():
                    worst = max(worst, float((output.double() - expected.double()).abs().max()))
        return worst


def run_program(program: bytes, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Runs a program in ExecuTorch's own runtime."""
    return LoadedProgram(_with_pool_indices(program)).run(*inputs)


def _with_pool_indices(file: bytes) -> bytes:
    """Replaces torch_fusion::max_pool2d, which ExecuTorch doesn't know, by the ATen operator with indices."""
    program = deserialize_pte_binary(file).program
    plan = program.execution_plan[0]
    own = [index for index, op in enumerate(plan.operators) if op.name == "torch_fusion::max_pool2d"]
    if not own:
        return file
    for instruction in plan.chains[0].instructions:
        call = instruction.instr_args
        if call.op_index not in own:
            continue
        *parameters, out, _ = call.args
        indices = copy.deepcopy(plan.values[out].val)
        indices.scalar_type = ScalarType.LONG
        offset = -(-plan.non_const_buffer_sizes[1] // 8) * 8
        indices.allocation_info = AllocationDetails(1, offset, 0)
        plan.non_const_buffer_sizes[1] = offset + 8 * math.prod(indices.sizes)
        place = len(plan.values)
        plan.values += [EValue(indices), EValue(TensorList([out, place]))]
        call.args = [*parameters, out, place, place + 1]
    for index in own:
        plan.operators[index].name = "aten::max_pool2d_with_indices"
    return serialize(program, [buffer.storage for buffer in program.constant_buffer])


def model_source(forward: str, inputs: str, init: str = "pass", arguments: str = "x") -> str:
    """Returns the source of a model file; `forward` and `init` are function bodies."""

    def indent(text: str) -> str:
        return "\n".join("        " + line for line in text.splitlines())

    return _MODEL_FILE.format(init=indent(init), forward=indent(forward), arguments=arguments, inputs=inputs)


def functions(**results: str) -> str:
    """Returns the source of further functions of a model file: their names, and the expressions that they return."""
    return "".join(f"\n\ndef {name}():\n    return {result}\n" for name, result in results.items())


def export_source(folder: Path, source: str, weights: Path | None = None, options: Options = _PORTABLE) -> Result:
    """Exports a model file with this source."""
    path = folder / "my_model.py"
    path.write_text(source, encoding="utf-8")
    return export_file(path, weights, options)


def export_file(path: Path, weights: Path | None = None, options: Options = _PORTABLE) -> Result:
    """Exports a model file."""
    console = SilentConsole()
    exported = export(path, "my_model", options, weights, console)
    inside = [line for line in console.said if _INSIDE.search(line)]
    assert not inside, f"names of PyTorch's inside, or a place twice: {inside}"
    with numpy.load(io.BytesIO(exported.golden)) as arrays:
        golden = dict(arrays)
    report = None if exported.report is None else json.loads(exported.report)
    npu = None if exported.npu is None else json.loads(exported.npu[1])
    return Result(exported.program, golden, json.loads(exported.manifest), console.said, report, npu)


def options_file(folder: Path, **options: object) -> Path:
    """Writes the record of some options, as the rule does."""
    path = folder / "options.json"
    path.write_text(to_json(FORMAT, VERSION, options), encoding="utf-8")
    return path


def run_tool(tool: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a tool as the rules do, in a separate process."""
    command = [sys.executable, "-m", tool, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
