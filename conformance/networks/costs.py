"""Measures what operators cost in int8 and in floating point.

Usage: bazel run //conformance/networks:costs -- --output FILE

With --check it says how far the prices of costs.json are from what is measured, and fails where that is 15 % or more.

Each operator of single.py is exported at several sizes and in both forms and run on an emulated Cortex-M4, whose
kernels the Cortex-M7 and M33 run, too, and on a Cortex-M55; the factors of costs.json
(tools/pipeline/export/quantize/costs.py) are those that fit the instructions best, relatively and without negative
ones.
"""

import argparse
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import scipy.optimize
import torch

from conformance.networks import single
from tools.artifacts.core.core import layout
from tools.artifacts.program.program import calls_of, load, operator_name
from tools.artifacts.program.program_schema import KernelCall
from tools.pipeline.export.backends.cortex_m.softmax import scores_of
from tools.pipeline.export.backends.portable import to_edge
from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.export import export
from tools.pipeline.export.ir.dim_orders import channels_last
from tools.pipeline.export.options import Options
from tools.pipeline.export.pipelines import CORTEX_M
from tools.pipeline.export.plan.emission import emit
from tools.pipeline.export.plan.plan_passes import optimize_plan
from tools.pipeline.export.quantize.costs import Costs
from tools.pipeline.export.quantize.float_work import Work, work_of_call
from tools.pipeline.export.quantize.int8_work import work_of, work_of_group
from tools.quiet.console import SilentConsole, UserError, user_path
from tools.quiet.files import replace_text
from tools.quiet.tool import run_tool
from tools.verify.run_pte.cases import Case, run_cases
from tools.verify.run_pte.run_pte import encode_inputs, read_runners

_BOARDS = {"cortex-m4": "mps2_an386", "cortex-m55": "mps3_an547"}
_BORDER = "border"
_QUANTIZE, _DEQUANTIZE = "cortex_m::quantize_per_tensor.out", "cortex_m::dequantize_per_tensor.out"
# A call takes instructions beside those for each output and product. Without a limit those of slow operators, which
# were measured at few sizes, would go to the call, so that small ones seemed expensive.
_MAX_PER_CALL = 10000
# The largest relative error of a price, and the weight of the mean error beside the largest one in a fit.
_MAX_ERROR = 0.15
_OF_MEAN = 0.2


@dataclass(frozen=True)
class Measured:
    """Instructions of a program of one operator.

    Attributes:
      name: the operator's in single.py.
      form: `int8`, `float32`, or `border` for int8 between inputs and outputs in floating point.
    """

    name: str
    form: str
    instructions: int


def _options(core: str, form: str, name: str) -> Options:
    if form == "float32":
        return Options(core, "portable", entry=name)
    io = "int8" if form == "int8" else "float32"
    return Options(core, "cortex_m", io, entry=name)


def _operators(path: Path) -> list[str]:
    """Returns the operators that a program of one method calls."""
    (plan,) = load(path).program.execution_plan
    called = [plan.operators[call.op_index] for call in calls_of(plan) if isinstance(call, KernelCall)]
    return [operator_name(operator.name, operator.overload) for operator in called]


def measure(core: str, names: Sequence[str]) -> list[Measured]:
    """Exports and runs operators of single.py in every form on a core of _BOARDS."""
    cases, forms = [], []
    operators = Counter[str]()
    for index, name in enumerate(names):
        print(f"\r{index + 1} of {len(names)} operators on {core}", end="", file=sys.stderr, flush=True)
        for form in ("float32", "int8", _BORDER):
            if not single.SINGLES[name].has(form):
                continue
            if form == _BORDER and not name.startswith(("relu", "avg_pool2d", "max_pool2d")):
                continue
            exported = export(Path(single.__file__), name, _options(core, form, name), None, SilentConsole())
            with numpy.load(io.BytesIO(exported.golden)) as golden, tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "program.pte"
                path.write_bytes(exported.program)
                before, operators = operators, Counter(_operators(path))
                # Some operators quantize their inputs themselves, or stay in floating point.
                if form == _BORDER and operators != before + Counter((_QUANTIZE, _DEQUANTIZE)):
                    continue
                inputs = [golden[f"input_{index}"][0] for index in range(len(single.SINGLES[name].shapes))]
                cases.append(Case(exported.program, encode_inputs(path, inputs)))
            forms.append((name, form))
    print(file=sys.stderr)
    found = []
    for (name, form), result in zip(forms, run_cases(read_runners().boards[_BOARDS[core]], cases), strict=True):
        if result.error != "Ok" or result.execute is None:
            raise UserError(f"{name} in {form} on {core}: {result.text()}")
        found.append(Measured(name, form, result.execute))
    return found


def _work(name: str) -> Work:
    """Returns what an operator of single.py does in a graph that is to be quantized."""
    entry = single.SINGLES[name].entry()
    inputs = channels_last(entry.example_inputs())
    program = CORTEX_M.run(capture(entry.model(), inputs))
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    works = [work for node in calls if (work := work_of(node)) is not None]
    works += [work for node in calls if scores_of(node) is not None and (work := work_of_group([node])) is not None]
    # An operator may need copies to the order that it takes.
    works = [work for work in works if work.kind.startswith(name.rpartition("_")[0])] or works
    (work,) = works or [Work("permute", (1, inputs[0].numel()))]
    return work


def _elements(name: str) -> tuple[int, int]:
    """Returns how many elements go into an operator of single.py, and come out."""
    entry = single.SINGLES[name].entry()
    inputs = entry.example_inputs()
    with torch.no_grad():
        return sum(tensor.numel() for tensor in inputs), entry.model()(*inputs).numel()


def _call(name: str) -> Work | None:
    """Returns what an operator of single.py is in floating point, if it is one call of a program."""
    entry = single.SINGLES[name].entry()
    emitted = emit(to_edge(capture(entry.model(), entry.example_inputs())))
    kept = optimize_plan(emitted.program.execution_plan[0]).kept
    return work_of_call(emitted.nodes[kept[0]]) if len(kept) == 1 else None


def _works(core: str, measured: Sequence[Measured]) -> list[Work | None]:
    """Returns the measured operators; None for those that quantize and dequantize."""
    works: list[Work | None] = []
    for each in measured:
        kind = each.name.rpartition("_")[0]
        call = _call(each.name) if each.form == "float32" else None
        if call is not None and call.kind.startswith(kind):
            works.append(call)
        elif each.form == _BORDER:
            works.append(None)
        else:
            work = _work(each.name)
            works.append(work.in_int8(core) if each.form == "int8" else work.in_float())
    return works


def check(core: str, measured: Sequence[Measured]) -> bool:
    """Prints how far prices are from what was measured, by kind; returns whether all are near enough."""
    prices, worst = Costs(core), dict[tuple[str, str], tuple[float, str]]()
    for each, work in zip(measured, _works(core, measured), strict=True):
        if work is not None:
            price = prices.int8(work) if each.form == "int8" else prices.float32(work)
            off = price / each.instructions - 1
            key = (each.form, work.kind)
            worst[key] = max(worst.get(key, (0.0, "")), (off, each.name), key=lambda found: abs(found[0]))
    for (form, kind), (off, name) in sorted(worst.items()):
        print(f"{core} {form} {kind}: off by {off:+.0%} at most ({name}){'' if abs(off) < _MAX_ERROR else ': too far'}")
    return all(abs(off) < _MAX_ERROR for off, _ in worst.values())


def _fit(amounts: numpy.ndarray, counts: numpy.ndarray) -> numpy.ndarray:
    """Returns the factors without negative ones whose largest relative error is smallest, and the mean one with it."""
    relative = amounts / counts[:, None]
    samples, factors = relative.shape
    # Behind the factors: the largest error, and those of all samples.
    objective = numpy.concatenate([numpy.zeros(factors), [1], numpy.full(samples, _OF_MEAN / samples)])
    errors = numpy.hstack([numpy.zeros((samples, 1)), -numpy.eye(samples)])
    largest = numpy.hstack([numpy.zeros((samples, factors)), -numpy.ones((samples, 1)), numpy.eye(samples)])
    limits = numpy.vstack([numpy.hstack([relative, errors]), numpy.hstack([-relative, errors]), largest])
    ones = numpy.ones(samples)
    bounds = [(0, _MAX_PER_CALL), *[(0, None)] * (factors + samples)]
    found = scipy.optimize.linprog(objective, limits, numpy.concatenate([ones, -ones, 0 * ones]), bounds=bounds)
    return numpy.asarray(found.x[:factors])


def fit(core: str, measured: Sequence[Measured]) -> dict[str, dict[str, list[float]]]:
    """Returns the factors per form and kind of operator, on the core that was measured."""
    rows: dict[tuple[str, str], list[tuple[str, tuple[int, ...], int]]] = {}
    by_name = {(each.name, each.form): each.instructions for each in measured}
    for each, work in zip(measured, _works(core, measured), strict=True):
        if work is None:
            # The difference covers both inputs and outputs.
            more = each.instructions - by_name[each.name, "int8"]
            rows.setdefault((each.form, _BORDER), []).append((each.name, (1, *_elements(each.name)), more))
        else:
            rows.setdefault((each.form, work.kind), []).append((each.name, work.amounts, each.instructions))
    factors: dict[str, dict[str, list[float]]] = {"int8": {}, "float32": {}}
    for (form, kind), samples in sorted(rows.items()):
        counts = numpy.array([instructions for _, _, instructions in samples], dtype=float)
        amounts = numpy.array([amounts for _, amounts, _ in samples], dtype=float)
        found = _fit(amounts, counts)
        off = amounts @ found / counts - 1
        worst = int(numpy.abs(off).argmax())
        text = f"off by {off[worst]:+.0%} at most ({samples[worst][0]})"
        print(f"{form} {kind}: {numpy.round(found, 2).tolist()}, {text}", file=sys.stderr)
        if form == _BORDER:
            calls, quantized, dequantized = found
            factors["int8"] |= {"quantize": [calls / 2, quantized], "dequantize": [calls / 2, dequantized]}
        else:
            factors[form][kind] = found.tolist()
    if "gelu" in factors["int8"]:
        factors["int8"]["table"] = factors["int8"]["gelu"]
    return {
        form: {kind: [round(factor, 2) for factor in found] for kind, found in sorted(kinds.items())}
        for form, kinds in factors.items()
    }


def _text(factors: Any, indent: str = "") -> str:
    """Returns costs.json, a line for each kind of operator."""
    if isinstance(factors, list):
        return json.dumps(factors)
    lines = (f"{indent} {json.dumps(name)}: {_text(below, indent + ' ')}" for name, below in factors.items())
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=user_path, help="costs.json; printed without")
    parser.add_argument("--core", choices=_BOARDS, action="append", help="only this one; others stay as they are")
    parser.add_argument(
        "--check", action="store_true", help="compare what is measured with costs.json, and write nothing"
    )
    parser.add_argument("names", nargs="*", help="kinds of single.py, such as linear; others stay as they are")
    options = parser.parse_args(arguments)
    names = [name for name in single.SINGLES if not options.names or name.rpartition("_")[0] in options.names]
    if not names:
        raise UserError(f"single.py has no {' '.join(options.names)}; see there")
    if options.check:
        near = [check(core, measure(core, names)) for core in options.core or _BOARDS]
        return 0 if all(near) else 1
    before: dict[str, dict[str, dict[str, list[float]]]] = {}
    if (options.names or options.core) and options.output is not None:
        before = json.loads(options.output.read_text(encoding="utf-8"))
    factors = dict(before)
    for core in options.core or _BOARDS:
        found = fit(core, measure(core, names))
        if options.names:
            known = before.get(layout(core), {})
            # The cost of quantizing is fitted to the operators of all kinds.
            for kind in ("quantize", "dequantize"):
                found["int8"].pop(kind, None)
            found = {form: dict(sorted({**known.get(form, {}), **kinds}.items())) for form, kinds in found.items()}
        factors[layout(core)] = found
    text = _text(dict(sorted(factors.items())))
    if options.output is None:
        print(text)
    else:
        replace_text(options.output, text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_tool("costs", _main, sys.argv[1:]))
