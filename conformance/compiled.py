"""Calls of operators as plain C++: writes the sources of many into one program, and compares what that gives with what
the loaded programs give, to the bit.
"""

import argparse
import pickle
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from executorch.exir.schema import Tensor

from conformance.calls import Call
from conformance.check import encode_input, input_elements
from conformance.op_db import Row
from conformance.program import make_plan, to_bytes
from tools.artifacts.manifest.manifest import manifest_json
from tools.pipeline.compile.compile import compile_method
from tools.pipeline.link.interface import NUMBERS
from tools.quiet.console import UserError
from tools.quiet.tool import run_tool
from tools.verify.environment.hosted import error_name
from tools.verify.run_pte.cases import Case, CaseResult, Runner, run_cases
from tools.verify.run_pte.values import elements


def choose(rows: Sequence[Row], every: int, per_row: int) -> list[int]:
    """Returns numbers of calls: some that are far apart, of each `every`th combination of operator and dtype.

    Args:
        rows: the combinations.
        every: 1 takes all of them.
        per_row: calls of each, at most.
    """
    chosen: list[int] = []
    for row in [row for row in rows if row.calls][::every]:
        step = max(1, -(-len(row.calls) // per_row))
        chosen += row.calls[::step]
    return sorted(set(chosen))


def _calls_of_numbers(rows: Sequence[Row], calls: Sequence[Call]) -> list[int]:
    """Returns one call of each operator that returns numbers, not tensors."""
    first = {row.operator: row.calls[0] for row in reversed(rows) if row.calls}
    return [number for number in first.values() if not _returns_tensors(calls[number])]


def _returns_tensors(call: Call) -> bool:
    plan, _ = make_plan(call)
    return all(isinstance(plan.values[index].val, Tensor) for index in plan.outputs)


def generate(calls_path: Path, every: int, per_row: int, index: Path, sources: Sequence[Path]) -> None:
    """Writes the sources, and which calls are in them, or why they can't be."""
    with calls_path.open("rb") as file:
        rows: list[Row] = pickle.load(file)
        pickle.load(file)
        calls: list[Call] = pickle.load(file)
    numbers = sorted({*choose(rows, every, per_row), *_calls_of_numbers(rows, calls)})
    refused: dict[int, str] = {}
    for part, source in enumerate(sources):
        share = numbers[part * len(numbers) // len(sources) : (part + 1) * len(numbers) // len(sources)]
        texts, compiled = [], []
        for number in share:
            try:
                texts.append(_source(calls[number], number))
            except UserError as error:
                refused[number] = str(error)
                continue
            compiled.append(number)
        source.write_text(_unit(part, len(sources), texts, compiled), encoding="utf-8")
    index.write_bytes(pickle.dumps([(calls[number], refused.get(number, "")) for number in numbers]))


def _source(call: Call, number: int) -> str:
    """Returns the text of a call's header and source.

    Raises:
        UserError: compiled models can't have it.
    """
    name = f"case_{number}"
    plan, _ = make_plan(call)
    with tempfile.TemporaryDirectory() as folder:
        program, manifest = Path(folder, "program.pte"), Path(folder, "manifest.json")
        program.write_bytes(to_bytes(plan))
        content = {
            "name": "program",
            "core": "portable",
            "operators": [],
            "instructions": [],
            "inputs": [{} for _ in plan.inputs],
            "outputs": [{} for _ in plan.outputs],
            "keeps_state": False,
        }
        manifest.write_text(manifest_json(content), encoding="utf-8")
        texts = compile_method(program, "host", "forward", name, manifest)
    return texts[f"{name}.h"] + texts[f"{name}.cpp"].replace(f'#include "{name}.h"\n', "")


def _unit(part: int, parts: int, texts: Sequence[str], numbers: Sequence[int]) -> str:
    lines = ['#include "conformance/compiled_case.h"', "", *texts, "namespace {", ""]
    if numbers:
        lines += ["const CompiledCase kCases[] = {", *(f"    COMPILED_CASE({number})," for number in numbers), "};"]
    cases = f"{{{'kCases' if numbers else 'nullptr'}, {len(numbers)}}}"
    lines += ["", "} // namespace", "", f"extern const CompiledCases kPart{part};"]
    lines += [f"const CompiledCases kPart{part} = {cases};", ""]
    if part == 0:
        lines += [f"extern const CompiledCases kPart{i};" for i in range(1, parts)]
        table = ", ".join(f"&kPart{i}" for i in range(parts))
        lines += ["extern const CompiledCases* const kCompiledCases[];"]
        lines += [f"const CompiledCases* const kCompiledCases[] = {{{table}, nullptr}};", ""]
    return "\n".join(lines)


def _results(data: bytes, count: int) -> Iterator[tuple[int, list[bytes]]]:
    """Reads the status and outputs of each case, as run_compiled.cpp writes them."""
    position = 0

    def number() -> int:
        nonlocal position
        position += 4
        return int(struct.unpack_from("<I", data, position - 4)[0])

    for _ in range(count):
        status = number()
        outputs = []
        for _ in range(number() if status == 0 else 0):
            size = number()
            outputs.append(data[position : position + size])
            position += size
        yield status, outputs


def compare(index: Path, program: Path, runner: Runner) -> tuple[list[str], dict[str, int]]:
    """Returns the differences, in a line each; and the number of calls refused, by the reason, and compared
    (`compared`).
    """
    chosen: list[tuple[Call, str]] = pickle.loads(index.read_bytes())
    compared = [call for call, refused in chosen if not refused]
    counts = {"compared": len(compared)}
    for reason in [refused for _, refused in chosen if refused]:
        # The program's path is left out.
        text = re.sub(r"^program \S+: ", "", reason).splitlines()[0]
        counts[text] = counts.get(text, 0) + 1
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = Path(folder, "inputs"), Path(folder, "outputs")
        words = []
        cases = []
        for call in compared:
            plan, tensors = make_plan(call)
            data = [input_elements(tensor) for tensor in tensors]
            words.append(struct.pack("<I", len(data)))
            words += [struct.pack("<I", len(item)) + item for item in data]
            cases.append(Case(to_bytes(plan), tuple(encode_input(tensor) for tensor in tensors)))
        inputs.write_bytes(b"".join(words))
        done = subprocess.run([program, inputs, outputs], capture_output=True, text=True, check=False)
        if done.returncode:
            return [f"{program.name} failed with {done.returncode}: {done.stderr[:4000]}"], counts
        results = list(_results(outputs.read_bytes(), len(compared)))
    loaded = run_cases(runner, cases, timeout=1200)
    failures = []
    for call, result, (status, given) in zip(compared, loaded, results, strict=True):
        if text := _difference(call, result, status, given):
            failures.append(f"{call.operator} {call.dtype}: {text} [{call.source}]")
    return failures, counts


def _difference(call: Call, loaded: CaseResult, status: int, outputs: Sequence[bytes]) -> str:
    """Returns how a compiled call differs from the loaded one; empty if it doesn't."""
    error = error_name(status) if status else "Ok"
    if error != loaded.error:
        return f"{error}, loaded {loaded.text()}"
    if status:
        return ""
    plan, _ = make_plan(call)
    if len(outputs) != len(loaded.outputs):
        return f"{len(outputs)} outputs, loaded {len(loaded.outputs)}"
    known = 0 if call.arbitrary else len(outputs) - call.scratch
    for place, (index, data, value) in enumerate(zip(plan.outputs, outputs, loaded.outputs, strict=True)):
        given = plan.values[index].val
        order = list(given.dim_order) if isinstance(given, Tensor) else []
        wanted = elements(value.array, _scalar_type(given), order)
        if len(data) != len(wanted):
            return f"output {place} has {len(data)} bytes, loaded {len(wanted)}"
        if place < known and data != wanted:
            return f"output {place} differs"
    return ""


def _scalar_type(value: Any) -> int:
    """Returns a tensor's dtype, or what a number is in memory."""
    return int(value.scalar_type if isinstance(value, Tensor) else NUMBERS[type(value).__name__])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="compiled", description=__doc__)
    parser.add_argument("--calls", type=Path, required=True)
    parser.add_argument("--every", type=int, required=True)
    parser.add_argument("--per-row", type=int, required=True)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("sources", type=Path, nargs="+")
    return run_tool("compiled", _run, parser.parse_args(argv))


def _run(arguments: argparse.Namespace) -> None:
    generate(arguments.calls, arguments.every, arguments.per_row, arguments.index, arguments.sources)
