"""Operators against PyTorch's own samples: collects the calls, runs them on one runner, and makes the table of both.

op_db collect --out CALLS CATALOG...
op_db run --runner BOARD --out RESULTS CALLS
op_db table --calls CALLS --document DOCUMENT [--check] RESULTS...
"""

import argparse
import json
import os
import pickle
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.quiet.files import replace_text
from tools.quiet.table import replace_table
from tools.quiet.tool import run_tool
from tools.verify.run_pte.cases import Case, CaseResult, run_cases
from tools.verify.run_pte.run_pte import read_runners

# Stands for a dtype in a row of calls with tensors of this layout.
CHANNELS_LAST = "channels-last"
_NO_IMAGE = "takes no tensor of four dims"


@dataclass(frozen=True)
class Row:
    """The calls collected of one operator and dtype.

    Attributes:
      operator, group: conformance.operators.Operator.
      dtype: PyTorch's name, or CHANNELS_LAST for the calls with such tensors.
      calls: indices of the calls.
      refused: the reason for no calls.
      refusable: the reason for which a kernel may refuse some of the calls by NotSupported, though eager takes them.
    """

    operator: str
    group: str
    dtype: str
    calls: tuple[int, ...]
    refused: str
    refusable: str = ""


def collect(catalogs: Sequence[Path], out: Path) -> None:
    """Writes the calls of all operators, with their programs and rows."""
    # Imported here: running what was collected needs no table of samples.
    import torch

    from conformance import symbols
    from conformance.calls import Call, Names
    from conformance.check import make_case
    from conformance.layouts import channels_last_calls
    from conformance.operators import DTYPES, Operator, dtype_text, listed_operators
    from conformance.samples import SEQUENCES
    from conformance.samples import collect as collect_samples

    operators = listed_operators(catalogs, symbols.NAMES)
    samples = collect_samples(operators)
    names = Names(operator.name for operator in operators if operator.group != "symbols")
    calls, cases, rows = [], [], []

    def add(operator: Operator, column: str, found: list[Call], reason: str) -> None:
        indices = tuple(range(len(calls), len(calls) + len(found)))
        calls.extend(found)
        cases.extend(make_case(call) for call in found)
        refusable = _refusable(operator.name, column)
        rows.append(Row(operator.name, operator.group, column, indices, "" if found else reason, refusable))

    for operator in operators:
        by_dtype = {dtype: samples.calls.get((operator.name, dtype), []) for dtype in DTYPES}
        for dtype, found in by_dtype.items():
            add(operator, dtype_text(dtype), found, samples.refused.get((operator.name, dtype), "no sample"))
        # One dtype shows the layout: float32 if it can be.
        given = by_dtype[torch.float32] or next((found for found in by_dtype.values() if found), [])
        has_images = operator.name in names and operator.name not in SEQUENCES
        images = channels_last_calls(given, names.function(operator.name)) if has_images else []
        add(operator, CHANNELS_LAST, images, _NO_IMAGE)
    with out.open("wb") as file:
        pickle.dump(rows, file)
        pickle.dump(cases, file)
        pickle.dump(calls, file)


def _refusable(operator: str, column: str) -> str:
    """Returns the reason for which a kernel here may refuse a call that eager takes; empty if it may not."""
    from tools.pipeline.export.ir.dim_orders import CONTIGUOUS_ONLY

    if column == CHANNELS_LAST:
        if operator.partition(".")[0] in CONTIGUOUS_ONLY:
            return "NotSupported; the export copies to the default order and back"
        return _ORDERED.get(operator, "")
    if column == "uint8" and operator in ("aten::_upsample_bilinear2d_aa.out", "aten::upsample_bilinear2d.vec_out"):
        return "eager resamples in integers; here NotSupported: convert to float first"
    return ""


# Operators need these in the default order, beyond those that the export copies for.
_ORDERED = {
    "aten::as_strided_copy.out": "reads memory as it lies: NotSupported unless contiguous",
    "aten::index.Tensor_out": "NotSupported unless the indices are contiguous",
    "aten::masked_scatter.out": "NotSupported unless the source is contiguous",
    "quantized_decomposed::add.out": "NotSupported unless both operands have one order",
}


def run(calls_path: Path, board: str, out: Path) -> None:
    """Runs all cases on a board, or on this machine: `host`. Writes why each fails, empty if it doesn't."""
    from conformance.check import verdict

    with calls_path.open("rb") as file:
        pickle.load(file)
        cases: list[Case] = pickle.load(file)
        calls = pickle.load(file)
    runner = read_runners().boards[board]
    results: list[CaseResult] = run_cases(runner, cases, timeout=1200)
    verdicts = [verdict(call, result) for call, result in zip(calls, results, strict=True)]
    texts = [f"{text} [{call.source}]" if text else "" for call, text in zip(calls, verdicts, strict=True)]
    out.write_text(json.dumps({"runner": board, "failures": texts}, indent=0), encoding="utf-8")


_START, _END = "<!-- table: bazel run //conformance:update_docs -->\n", "<!-- end of table -->\n"
_TITLES = {
    "portable": "ExecuTorch's portable operators",
    "quantized": "ExecuTorch's quantized operators",
    "extra": "Further operators",
    "symbols": "Operators on symbolic sizes and numbers",
}


def _refused(row: Row, results: Sequence[dict]) -> set[int]:
    """Returns the calls of a row that the kernel refuses on every runner, and may."""
    texts = {index: [result["failures"][index] for result in results] for index in row.calls if row.refusable}
    return {index for index, found in texts.items() if all(text.startswith("NotSupported") for text in found)}


def failures(rows: Sequence[Row], results: Sequence[dict]) -> list[str]:
    """Returns a line per operator and dtype that fails or that nothing shows."""
    lines = []
    for row in rows:
        if row.refused == "no sample":
            lines.append(f"{row.operator} {row.dtype}: nothing shows it")
        shown = [index for index in row.calls if index not in _refused(row, results)]
        for result in results:
            bad = [result["failures"][index] for index in shown if result["failures"][index]]
            if bad:
                where = f"{row.operator} {row.dtype}, {result['runner']}"
                lines.append(f"{where}: {len(bad)} of {len(row.calls)}: {bad[0]}")
    return lines


def make_table(rows: Sequence[Row], results: Sequence[dict]) -> str:
    """Returns the tables as Markdown, one per group, with the reasons of what is refused below each."""
    lines: list[str] = []
    for group, title in _TITLES.items():
        members = [row for row in rows if row.group == group]
        if not members:
            continue
        if not any(row.calls for row in members if row.dtype == CHANNELS_LAST):
            members = [row for row in members if row.dtype != CHANNELS_LAST]
        columns = list(dict.fromkeys(row.dtype for row in members))
        passed = sum(bool(row.calls) for row in members if row.dtype != CHANNELS_LAST)
        count = len(members) // len(columns)
        lines += [f"## {title}", "", f"{count} operators, {passed} combinations with a dtype.", ""]
        lines += ["| operator | " + " | ".join(columns) + " |", "|---|" + ":-:|" * len(columns)]
        reasons: dict[str, int] = {}
        for name in dict.fromkeys(row.operator for row in members):
            cells = [_cell(row, results, reasons) for row in members if row.operator == name]
            lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
        lines += ["", *(f"{number}. {reason}" for reason, number in reasons.items()), ""]
    return "\n".join(lines)


def _cell(row: Row, results: Sequence[dict], reasons: dict[str, int]) -> str:
    if not row.calls:
        reason = _general(row.refused)
        return f"[{reasons.setdefault(reason, len(reasons) + 1)}]"
    refused = _refused(row, results)
    shown = [index for index in row.calls if index not in refused]
    if any(result["failures"][index] for result in results for index in shown):
        return "FAILED"
    cell = [f"{len(shown)}"] if shown else []
    if refused:
        cell.append(f"[{reasons.setdefault(row.refusable, len(reasons) + 1)}]")
    return " ".join(cell)


def _general(reason: str) -> str:
    """Returns a reason without the names of dtype and function, which the row has."""
    reason = re.sub(r"""["'][\w<>]+["'] not implemented for ['"]\w+['"]""", "not implemented for this dtype", reason)
    reason = re.sub(r"\bgot:? (a tensor with dtype )?['\"]?\w+['\"]?", "got this one", reason)
    return reason if reason.startswith(("defined for", _NO_IMAGE)) else f"eager: {reason[:140]}"


def table(calls: Path, document: Path, check: bool, results: Sequence[Path]) -> int:
    """Writes the table into a document, or checks that the document has it and that nothing fails."""
    document = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."), document)
    with calls.open("rb") as file:
        rows: list[Row] = pickle.load(file)
    outcomes = [json.loads(path.read_text(encoding="utf-8")) for path in results]
    text = document.read_text(encoding="utf-8")
    wanted = replace_table(text, _START, _END, f"\n{make_table(rows, outcomes)}\n")
    lines = failures(rows, outcomes)
    print("\n".join(lines))
    count = sum(len(row.calls) for row in rows)
    print(f"{len(rows)} combinations of operator and dtype, {count} calls: {len(lines)} fail")
    if not check:
        replace_text(document, wanted)
        return 0
    if wanted != text:
        print(f"{document.name} is out of date: ./bazelw run //conformance:update_docs")
    return int(bool(lines) or wanted != text)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="op_db", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    part = commands.add_parser("collect")
    part.add_argument("--out", type=Path, required=True)
    part.add_argument("catalogs", type=Path, nargs="+")
    part = commands.add_parser("run")
    part.add_argument("--runner", required=True)
    part.add_argument("--out", type=Path, required=True)
    part.add_argument("calls", type=Path)
    part = commands.add_parser("table")
    part.add_argument("--calls", type=Path, required=True)
    part.add_argument("--document", type=Path, required=True)
    part.add_argument("--check", action="store_true")
    part.add_argument("results", type=Path, nargs="+")
    return run_tool("op_db", _run, parser.parse_args(argv))


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "collect":
        collect(arguments.catalogs, arguments.out)
    elif arguments.command == "run":
        run(arguments.calls, arguments.runner, arguments.out)
    else:
        return table(arguments.calls, arguments.document, arguments.check, arguments.results)
    return 0
