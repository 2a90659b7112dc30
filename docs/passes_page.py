"""Writes docs/passes.md from the table tools/pipeline/export/pipelines.py and the passes' doc strings."""

import argparse
import ast
from collections.abc import Sequence
from pathlib import Path

from docs.update_page import update_page
from tools.pipeline.export.ir.passes import Pass, Property
from tools.pipeline.export.pipelines import PIPELINES
from tools.pipeline.export.upstream.gaps import GAPS

_ROOM = "tools/pipeline/export"

_HEAD = f"""# Passes

What happens to a model between `torch.export` and the program, in order. `bazel run //docs:update_passes` writes this
page from the table [{_ROOM}/pipelines.py](../{_ROOM}/pipelines.py) and the passes' doc strings.

To see what a pass made of your model, for a report of a bug:

<!-- commands: yours -->

    bazel build //:net --@torch_fusion//rules:dump_after=fold_batch_norm

## Properties

A pass may need what another one gives; a table in which nothing gives it does not import. After every pass, tests check
that the program is what the table says.
"""

_UPSTREAM = f"""
## What is changed of PyTorch, torchao and ExecuTorch

From the table [{_ROOM}/upstream/gaps.py](../{_ROOM}/upstream/gaps.py). The passes replace nothing else, and a test
finds each symbol in the installed releases. Before them, `tools/pipeline/model_file` wraps `torch.export.load` and
`torch.nn.Module.__init__` while the model file runs, and replaces functions that compute other bits on other
processors.

| symbol | since | what is wrong without |
| --- | --- | --- |
"""


def _doc(each: Pass) -> str:
    """Returns the first sentence of a pass's doc string, read from its source."""
    module, _, name = each.function.partition(":")
    tree = ast.parse((Path(_ROOM) / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    return " ".join((ast.get_docstring(function) or "").split("\n\n")[0].split())


def _row(each: Pass) -> str:
    module, _, name = each.function.partition(":")
    path = f"{_ROOM}/{module.replace('.', '/')}.py"
    sets = (each.needs, each.gives, each.breaks)
    needs, gives, breaks = (", ".join(sorted(item.name.lower() for item in held)) for held in sets)
    text = _doc(each) + (f" Not for {', '.join(sorted(each.not_for))}." if each.not_for else "")
    changes = "; ".join(filter(None, [gives, f"breaks {breaks}" if breaks else ""]))
    return f"| [`{name}`](../{path}) | {text} | {needs} | {changes} |\n"


def page() -> str:
    """Returns the whole page."""
    parts = [_HEAD, "\n| property | what holds |\n| --- | --- |\n"]
    parts += [f"| {item.name.lower()} | {item.value} |\n" for item in Property]
    parts.append("\n## The order\n\n")
    for pipeline in PIPELINES:
        begins = ", ".join(sorted(item.name.lower() for item in pipeline.begins))
        names = ", ".join(f"`{each.function.partition(':')[2]}`" for each in pipeline.passes)
        holds = f" (begins with: {begins})" if begins else ""
        parts.append(f"- **{pipeline.name}**{holds}: {names}.{f' {pipeline.then}' if pipeline.then else ''}\n")
    parts.append("\n## What each does\n\n| pass | what it does | needs | gives |\n| --- | --- | --- | --- |\n")
    # A pass that needs more in one pipeline than in another has a row for each.
    parts += sorted({_row(each) for pipeline in PIPELINES for each in pipeline.passes})
    parts.append(_UPSTREAM)
    parts += [f"| `{gap.symbol.replace(':', '.')}` | {gap.since} | {gap.why} |\n" for gap in GAPS]
    return "".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="update_passes", description="Writes the page of the export's passes.")
    return update_page(parser, lambda _: page(), argv)
