"""Builds a model in several variants for several boards: a table of what fits and how fast it is, and a page.

Every combination is a target of a package that this writes, explore/NAME in the workspace. Bazel builds what has
changed, so that an interrupted run goes on where it was. A combination that fails has its reason in the table.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.commands.explore.build_events import Built, path_of, read_build_events
from tools.commands.new_model.new_model import Model, check_model
from tools.pipeline.page.page import Image, page_data, read_image, write_page
from tools.quiet.console import UserError, user_path
from tools.quiet.table import text_table
from tools.quiet.tool import run_tool
from tools.verify.budget.budget import number_of


class _Expression(str):
    """Starlark that is no text."""


# Attributes of a torch_program by the name of the variant.
_VARIANTS: dict[str, dict[str, Any]] = {
    "float32": {},
    "int8": {"backend": "cortex_m"},
    "int4": {"backend": "cortex_m", "quantization": _Expression('quantization(weight_dtype = "int4")')},
}

_LIMITS = {"flash": "at most", "ram": "at most", "ms": "at most", "accuracy": "at least"}


@dataclass(frozen=True)
class Result:
    """A variant on a board: its image, or why there is none."""

    variant: str
    board: str
    image: Image | None = None
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """The known numbers of a result, in the units of a budget; None for those that are unknown."""

    result: Result
    numbers: Mapping[str, float | None] = field(default_factory=dict)

    def misses(self, budget: Mapping[str, float]) -> list[str]:
        """Returns the names of the limits that it does not keep, or of which nothing is known."""
        missed = []
        for name, limit in budget.items():
            number = self.numbers.get(name)
            if number is None or (number < limit if name == "accuracy" else number > limit):
                missed.append(name)
        return missed


def parse_budget(text: str) -> dict[str, float]:
    """Returns the limits in a text such as `flash=256K,ram=64K,ms=20,accuracy=0.95`.

    Raises:
        UserError: it has another form.
    """
    budget = {}
    for part in filter(None, text.split(",")):
        name, _, given = part.partition("=")
        number = number_of(name, given) if name in _LIMITS else None
        if number is None:
            raise UserError(
                f"--budget {part!r}: give {', '.join(_LIMITS)} as in flash=256K,ram=64K,ms=20,accuracy=0.95"
            )
        budget[name] = number
    return budget


def build_file(model: Model, variants: Sequence[str], boards: Sequence[str], root: str) -> str:
    """Returns the text of the package's BUILD.bazel.

    Args:
        model: the model file, which is copied beside it.
        variants, boards: names.
        root: what labels of Torch Fusion begin with: empty in its own tree, else `@torch_fusion`.
    """
    folder = model.path.parent.resolve()
    common: dict[str, Any] = {"src": f"{model.name}.py", "tags": ["manual"]}
    if model.beside:
        common["data"] = [str(file.relative_to(folder)) for file in model.beside]
    lines = [f'load("{root}//rules:defs.bzl", "model_page", "quantization", "torch_program")']
    trained = f"{model.name}_float32"
    for variant in dict.fromkeys((["float32"] if model.trains else []) + list(variants)):
        attributes = {"name": f"{model.name}_{variant}"} | common | _VARIANTS[variant]
        if model.trains:
            attributes |= {"train": True} if variant == "float32" else {"weights": f":{trained}"}
        lines += ["", *_call("torch_program", attributes)]
    for variant in variants:
        for board in boards:
            label = board if "/" in board or ":" in board else f"{root}//firmware/boards/{board}"
            lines += ["", *_call("model_page", _page(model, variant, board, label))]
    return "\n".join(lines) + "\n"


def _page(model: Model, variant: str, board: str, label: str) -> dict[str, Any]:
    return {"name": target_name(variant, board), "boards": [label], "models": [f":{model.name}_{variant}"]}


def target_name(variant: str, board: str) -> str:
    """Returns the name of the target of a combination."""
    return f"{variant}_on_{re.sub(r'[^A-Za-z0-9_]+', '_', board).strip('_')}"


def _call(rule: str, attributes: Mapping[str, Any]) -> Iterator[str]:
    yield f"{rule}("
    for name, value in attributes.items():
        # Starlark's texts, lists of them and numbers are JSON's.
        is_written_so = isinstance(value, bool | _Expression)
        yield f"    {name} = {value if is_written_so else json.dumps(value, ensure_ascii=False)},"
    yield ")"


def write_package(folder: Path, model: Model, text: str) -> None:
    """Writes the package: BUILD.bazel, the model file and what it reads.

    Raises:
        UserError: there is something else in the folder.
    """
    mark = "# Written by //tools:explore, which writes it anew each time.\n"
    build = folder / "BUILD.bazel"
    if folder.exists() and any(folder.iterdir()) and not (build.is_file() and build.read_text().startswith(mark)):
        raise UserError(f"{folder} has other files: move them, since this folder is for what explore builds")
    own = model.path.parent.resolve()
    for source, name in [
        (model.path, f"{model.name}.py"),
        *((file, str(file.relative_to(own))) for file in model.beside),
    ]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / name)
    build.write_text(mark + text, encoding="utf-8")


def _bazel(workspace: Path) -> str:
    for program in (str(workspace / "bazelw"), "bazelisk", "bazel"):
        if found := shutil.which(program):
            return found
    raise UserError(
        "there is no Bazel: neither bazelw in the workspace nor bazelisk or bazel on PATH; name it with --bazel"
    )


def _build(bazel: str, workspace: Path, package: str) -> dict[str, Built]:
    """Builds all of a package; returns what became of each target by its name."""
    with tempfile.TemporaryDirectory() as temporary:
        events = Path(temporary, "events.json")
        command = [bazel, "build", "--keep_going", "--output_groups=reports", f"--build_event_json_file={events}"]
        # Bazel's own progress goes to the terminal.
        subprocess.run([*command, f"//{package}:all"], cwd=workspace, check=False)
        if not events.is_file():
            raise UserError(f"{bazel} built nothing; its message is above")
        return read_build_events(events)


def _result(variant: str, board: str, built: Built | None) -> Result:
    if built is None:
        return Result(variant, board, reason="this variant is not for this board")
    if not built.files:
        return Result(variant, board, reason=built.reason or "it was not built")
    files = {_kind(file): path_of(file) for file in built.files}
    names = ("report", "board", "graph", "quantization", "profile")
    return Result(variant, board, read_image([files.get(name, "") for name in names]))


def _kind(file: str) -> str:
    """Returns which of the page's inputs a file is: the last part of its name before `.json`."""
    return file.rpartition("/")[2].removesuffix(".json").rpartition(".")[2]


def rows_of(results: Sequence[Result]) -> list[Row]:
    """Returns the results with their numbers. A board without emulator has times of another one with the same core."""
    data = iter(page_data("", [result.image for result in results if result.image])["images"])
    rows = []
    for result in results:
        if result.image is None:
            rows.append(Row(result))
            continue
        shown = next(data)
        cycles = [cycles for _, cycles in shown["rows"]]
        rows.append(
            Row(
                result,
                {
                    "flash": shown["memories"]["flash"]["used"],
                    "ram": shown["memories"]["RAM"]["used"],
                    "ms": 1e3 * sum(cycles) / shown["clock_hz"] if cycles and None not in cycles else None,
                    "accuracy": shown["accuracy"],
                },
            )
        )
    return rows


def table(rows: Sequence[Row], budget: Mapping[str, float]) -> str:
    """Returns a line per combination."""
    lines = [["variant", "board", "flash", "RAM", "ms", "accuracy", "fits"]]
    for row in rows:
        numbers = [row.numbers.get(name) for name in _LIMITS]
        cells = [
            "" if number is None else text.format(number)
            for number, text in zip(numbers, ("{:,.0f}", "{:,.0f}", "{:,.2f}", "{:.1%}"), strict=True)
        ]
        missed = row.misses(budget)
        fits = (
            f"no: {row.result.reason}" if row.result.image is None else f"no: {', '.join(missed)}" if missed else "yes"
        )
        lines.append([row.result.variant, row.result.board, *cells, fits])
    return "\n".join(text_table(lines, {0, 1, 6}))


def best(rows: Sequence[Row], budget: Mapping[str, float]) -> list[str]:
    """Returns a line for each aim, with the combination that comes nearest to it of those that fit."""
    fitting = [row for row in rows if row.result.image and not row.misses(budget)]
    lines = []
    for name, aim in {"ms": "fastest", "flash": "least flash", "ram": "least RAM", "accuracy": "most accurate"}.items():
        sign = -1 if name == "accuracy" else 1
        known = [(sign * number, row.result) for row in fitting if (number := row.numbers[name]) is not None]
        if known:
            _, result = min(known, key=lambda entry: entry[0])
            lines.append(f"{aim}: {result.variant} on {result.board}")
    return lines or ["nothing fits"]


def _names(option: str, known: Sequence[str] = ()) -> Any:
    def parse(text: str) -> list[str]:
        names = list(dict.fromkeys(filter(None, text.split(","))))
        unknown = [name for name in names if known and name not in known]
        if unknown or not names:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}; {option} are {', '.join(known)}")
        return names

    return parse


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="explore", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "model", type=user_path, help="the model file: model() and example_inputs(), see docs/models.md"
    )
    parser.add_argument("--boards", type=_names("boards"), help="names of boards, or labels, with commas")
    parser.add_argument(
        "--variants",
        type=_names("variants", list(_VARIANTS)),
        default=["float32", "int8"],
        help=f"of {', '.join(_VARIANTS)}, with commas (default: float32,int8)",
    )
    parser.add_argument("--budget", type=str, default="", help="limits, such as flash=256K,ram=64K,ms=20,accuracy=0.95")
    parser.add_argument("--output", type=user_path, help="the page to write (default: NAME.html where you are)")
    parser.add_argument("--bazel", help="the Bazel to build with (default: the workspace's bazelw, or that on PATH)")
    parser.add_argument("--known", type=_names("boards"), default=[], help=argparse.SUPPRESS)
    parser.add_argument("--library", type=Path, action="append", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--licence", type=Path, action="append", default=[], help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> int:
    budget = parse_budget(arguments.budget)
    workspace = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")).resolve()
    unknown = [board for board in arguments.boards if board not in arguments.known and not re.search("[:/]", board)]
    if unknown:
        raise UserError(
            f"--boards {','.join(unknown)}: the boards are {', '.join(arguments.known)}, and your own by their labels"
        )
    model = check_model(arguments.model)
    root = "" if (workspace / "rules/model_page.bzl").is_file() else "@torch_fusion"
    package = f"explore/{model.name}"
    text = build_file(model, arguments.variants, arguments.boards, root)
    write_package(workspace / package, model, text)
    built = _build(arguments.bazel or _bazel(workspace), workspace, package)
    results = [
        _result(variant, board, built.get(target_name(variant, board)))
        for variant in arguments.variants
        for board in arguments.boards
    ]
    rows = rows_of(results)
    print(table(rows, budget))
    print("\n".join(best(rows, budget)))
    images = [result.image for result in results if result.image]
    if not images:
        return 1
    output = arguments.output or user_path(f"{model.name}.html")
    write_page(output, page_data(model.name, images), arguments.library, arguments.licence)
    print(f"page: {output}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("explore", _run, _parse(argv))
