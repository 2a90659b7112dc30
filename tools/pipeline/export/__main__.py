"""Exports the model of a model file to an ExecuTorch program."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.pipeline.declared_reads.declared_reads import confine_process, declared_reads
from tools.pipeline.export.options import read_options
from tools.pipeline.persistent_worker.persistent_worker import FLAG, serve
from tools.quiet.console import Console, UserError, end_process, run_quietly

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from tools.pipeline.export.export import Exported


def _parser() -> argparse.ArgumentParser:
    # Bazel writes the arguments into a file, one per line, as it does for workers.
    parser = argparse.ArgumentParser(prog="export", description=__doc__, fromfile_prefix_chars="@")
    parser.add_argument("--model", type=Path, required=True, help="the model file (Python)")
    parser.add_argument(
        "--data", type=Path, action="append", default=[], help="what else the model file may read; may be repeated"
    )
    parser.add_argument("--name", required=True, help="name of the program")
    parser.add_argument(
        "--options", type=Path, help="what the program is exported to (.json); without it, kernels on any core"
    )
    parser.add_argument("--npu", type=Path, help="the board's NPU (.json), for the backend ethos_u")
    parser.add_argument("--weights", type=Path, help="what tools/pipeline/train wrote for the same model file")
    parser.add_argument("--program", type=Path, required=True, help="where the program (.pte) goes")
    parser.add_argument("--golden", type=Path, required=True, help="where inputs and eager outputs (.npz) go")
    parser.add_argument("--manifest", type=Path, required=True, help="where the manifest (.json) goes")
    parser.add_argument("--report", type=Path, help="where the report of a quantized program (.json) goes")
    parser.add_argument("--npu-text", type=Path, help="where the NPU's estimates by layer go, for people")
    parser.add_argument("--npu-json", type=Path, help="the same for programs")
    parser.add_argument("--vgf", type=Path, help="the folder where the .vgf of each delegate goes, of the backend vgf")
    parser.add_argument("--log", type=Path, required=True, help="what torch prints on import and export goes here")
    parser.add_argument(
        "--method",
        nargs=2,
        action="append",
        default=[],
        metavar=("GOLDEN", "MANIFEST"),
        help="where the golden data and the manifest of a further method of the module go, in the options' order",
    )
    parser.add_argument(
        "--dump-after",
        metavar="PASS",
        help="print the program's graph after each run of this pass, to report a bug; docs/passes.md has all names",
    )
    parser.add_argument(
        "--path", type=Path, action="append", default=[], help="a folder that the model file imports from; repeatable"
    )
    parser.add_argument(
        "--packages", type=Path, action="append", default=[], help="a folder of installed packages; repeatable"
    )
    return parser


def dumping(name: str | None, console: Console) -> contextlib.AbstractContextManager[None]:
    """Prints the graph after each run of the named pass."""
    if name is None:
        return contextlib.nullcontext()
    from tools.pipeline.export.ir.passes import Pass, Pipeline, watching
    from tools.pipeline.export.pipelines import PIPELINES

    names = sorted({each.name for pipeline in PIPELINES for each in pipeline.passes})
    if name not in names:
        raise UserError(f"--dump-after {name!r} is unknown; it must be one of {', '.join(names)}.")

    def dump(pipeline: Pipeline, each: Pass, program: ExportedProgram, seconds: float) -> None:
        if each.name == name:
            code = program.graph_module.print_readable(print_output=False)
            console.say(f"export: after {each.name} of {pipeline.name}, which took {seconds:.2f} s:\n{code}")

    return watching(dump)


def _write(exported: Exported, options: argparse.Namespace) -> None:
    """Writes the requested files."""
    options.program.write_bytes(exported.program)
    options.golden.write_bytes(exported.golden)
    options.manifest.write_bytes(exported.manifest)
    for method, (golden, manifest) in zip(exported.methods.values(), options.method, strict=True):
        Path(golden).write_bytes(method.golden)
        Path(manifest).write_bytes(method.manifest)
    if options.report is not None and exported.report is not None:
        options.report.write_bytes(exported.report)
    if exported.npu is not None:
        for path, content in zip((options.npu_text, options.npu_json), exported.npu, strict=True):
            if path is not None:
                path.write_bytes(content)
    if options.vgf is not None:
        options.vgf.mkdir(exist_ok=True)
        for index, content in enumerate(exported.vgf):
            (options.vgf / f"{options.name}_{index}.vgf").write_bytes(content)


def _import() -> None:
    """Imports the modules that every export needs, which takes seconds."""
    importlib.import_module("tools.pipeline.export.export")
    importlib.import_module("tools.pipeline.export.backends.cortex_m")


def main(arguments: list[str] | None = None, is_confined: bool = False) -> int:
    """Parses the command line, exports, and returns the exit status.

    Args:
      arguments: replace those of the command line.
      is_confined: whether the process runs this export only, so that the kernel may deny it undeclared reads
        permanently.
    """
    options = _parser().parse_args(arguments)
    # They are part of the environment, like this tool's own packages, which they must not shadow.
    sys.path += [str(folder.absolute()) for folder in options.packages]

    def step(console: Console) -> None:
        target = read_options(options.options, options.path, options.npu)
        from tools.pipeline.export.export import export

        declared = [options.model, *options.data, *([options.weights] if options.weights else [])]
        if is_confined:
            confine_process(declared)
        with declared_reads(declared), dumping(options.dump_after, console):
            exported = export(options.model, options.name, target, options.weights, console)
        _write(exported, options)

    return run_quietly(step, options.log, "export")


if __name__ == "__main__":
    if sys.argv[1:] == [FLAG]:
        sys.exit(serve(lambda arguments: main(arguments, is_confined=True), _import))
    end_process(main(is_confined=True))
