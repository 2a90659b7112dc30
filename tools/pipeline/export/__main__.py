"""Exports the model of a model file to an ExecuTorch program."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.artifacts.core.core import CORTEX_M, HOST, PORTABLE
from tools.artifacts.ethos_u.npu import read_npu
from tools.pipeline.declared_reads.declared_reads import confine_process, declared_reads
from tools.pipeline.persistent_worker.persistent_worker import FLAG, serve
from tools.quiet.console import Console, UserError, end_process, run_quietly

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from tools.pipeline.export.export import Exported
    from tools.pipeline.export.options import Options

_CORES = (PORTABLE, *CORTEX_M, HOST)
_BACKENDS = ("portable", "cortex_m", "ethos_u", "vgf")
_IO = ("float32", "int8", "int16")
_WEIGHT_DTYPES = ("int8", "int4", "auto")
_LAYER_WEIGHT_DTYPES = ("int8", "int4")
_GROUP_SIZES = (32, 0)
# The options that leave layers in floating point.
_FLOATING = ("keep_float", "min_snr", "min_accuracy")
_ACTIVATION_RANGES = ("auto", "min_max", "percentile", "mse")


def _parser() -> argparse.ArgumentParser:
    # Bazel writes the arguments into a file, one per line, as it does for workers.
    parser = argparse.ArgumentParser(prog="export", description=__doc__, fromfile_prefix_chars="@")
    parser.add_argument("--model", type=Path, required=True, help="the model file (Python)")
    parser.add_argument(
        "--data", type=Path, action="append", default=[], help="what else the model file may read; may be repeated"
    )
    parser.add_argument("--entry", default="", help="which of the models that the file describes, if it has several")
    parser.add_argument("--name", required=True, help="name of the program")
    parser.add_argument("--core", required=True, help=f"the core that the program is for: {', '.join(_CORES)}")
    parser.add_argument("--backend", default="portable", help=f"what the program is lowered to: {', '.join(_BACKENDS)}")
    parser.add_argument(
        "--io", default="float32", help=f"dtype of a quantized program's inputs and outputs: {', '.join(_IO)}"
    )
    parser.add_argument(
        "--plain", action="store_true", help="leave ExecuTorch's cortex_m operators as they are, for use elsewhere"
    )
    parser.add_argument(
        "--float-where-faster",
        action="store_true",
        help="leave operators in floating point that take fewer instructions",
    )
    parser.add_argument(
        "--float-growth",
        type=int,
        default=0,
        help="with --float-where-faster: bytes of program and memory together that the program may take more for being "
        "all in floating point",
    )
    parser.add_argument(
        "--winograd-growth",
        type=int,
        default=0,
        help="bytes of memory that the program may take more for convolutions with fewer multiplications",
    )
    parser.add_argument(
        "--keep-float", action="append", default=[], help="the name of a layer that stays in floating point; repeatable"
    )
    parser.add_argument(
        "--min-snr",
        type=int,
        default=0,
        help="the signal-to-noise ratio in dB that the outputs of an int8 program must have; the layers that cost most "
        "stay in floating point for it",
    )
    parser.add_argument(
        "--min-accuracy",
        type=float,
        default=0.0,
        help="the share of the evaluation set that an int8 program must classify right, 0 to 1, in the same way",
    )
    parser.add_argument(
        "--weight-dtype",
        default="int8",
        help="dtype of the weights of linear layers and 1x1 convolutions in an int8 program: "
        f"{', '.join(_WEIGHT_DTYPES)}; auto: int4 where the outputs still have --min-snr",
    )
    parser.add_argument(
        "--layer-weight-dtype",
        action="append",
        nargs=2,
        default=[],
        metavar=("LAYER", "DTYPE"),
        help=f"dtype of the weights inside a layer: {', '.join(_LAYER_WEIGHT_DTYPES)}; repeatable",
    )
    parser.add_argument(
        "--group-size",
        type=int,
        default=32,
        help="how many inputs share a scale of int4 weights: 32, or 0 for all of an output channel",
    )
    parser.add_argument(
        "--activation-range",
        default="auto",
        help=f"how the ranges of int8 tensors are chosen: {', '.join(_ACTIVATION_RANGES)}",
    )
    parser.add_argument(
        "--layer-activation-range",
        action="append",
        nargs=2,
        default=[],
        metavar=("LAYER", "RANGE"),
        help="how the ranges of what a layer and all inside it returns are chosen; repeatable",
    )
    parser.add_argument("--npu", type=Path, help="the board's NPU (.json), for --backend ethos_u")
    parser.add_argument("--weights", type=Path, help="what tools/pipeline/train wrote for the same model file")
    parser.add_argument("--program", type=Path, required=True, help="where the program (.pte) goes")
    parser.add_argument("--golden", type=Path, required=True, help="where inputs and eager outputs (.npz) go")
    parser.add_argument("--manifest", type=Path, required=True, help="where the manifest (.json) goes")
    parser.add_argument("--report", type=Path, help="where the report of a quantized program (.json) goes")
    parser.add_argument("--npu-text", type=Path, help="where the NPU's estimates by layer go, for people")
    parser.add_argument("--npu-json", type=Path, help="the same for programs")
    parser.add_argument("--vgf", type=Path, help="the folder where the .vgf of each delegate goes, of --backend vgf")
    parser.add_argument("--log", type=Path, required=True, help="what torch prints on import and export goes here")
    parser.add_argument(
        "--method",
        nargs=3,
        action="append",
        default=[],
        metavar=("NAME", "GOLDEN", "MANIFEST"),
        help="a further method of the module, and where its golden data and its manifest go; repeatable",
    )
    parser.add_argument(
        "--dump-after",
        metavar="PASS",
        help="print the program's graph after each run of this pass, to report a bug; docs/passes.md has all names",
    )
    parser.add_argument(
        "--operator", action="append", default=[], help="an operator of the user's own, namespace::name; repeatable"
    )
    parser.add_argument(
        "--path", type=Path, action="append", default=[], help="a folder that the model file imports from; repeatable"
    )
    parser.add_argument(
        "--packages", type=Path, action="append", default=[], help="a folder of installed packages; repeatable"
    )
    return parser


def _check_options(options: argparse.Namespace) -> None:
    """Raises UserError for options that cannot be combined."""
    _check("--core", options.core, _CORES)
    _check("--backend", options.backend, _BACKENDS)
    _check("--io", options.io, _IO)
    if options.backend in ("cortex_m", "ethos_u"):
        _check(f"--core of --backend {options.backend}", options.core, CORTEX_M)
    elif options.backend == "portable" and options.io != "float32":
        raise UserError(f"--io {options.io} is for a backend that quantizes, not for {options.backend}.")
    if options.backend != "cortex_m":
        for option in ("plain", "float_where_faster", "float_growth", "winograd_growth", *_FLOATING):
            if getattr(options, option):
                raise UserError(f"--{option.replace('_', '-')} is for --backend cortex_m, not {options.backend}.")
    _check_weights(options)
    _check("--activation-range", options.activation_range, _ACTIVATION_RANGES)
    for layer, method in options.layer_activation_range:
        _check(f"--layer-activation-range {layer}", method, _ACTIVATION_RANGES)
    if options.backend != "cortex_m" and (options.activation_range != "auto" or options.layer_activation_range):
        raise UserError(f"--activation-range is for --backend cortex_m, not {options.backend}.")
    if (options.backend == "ethos_u") != (options.npu is not None):
        raise UserError(f"--backend {options.backend} and --npu {options.npu}: ethos_u needs it, and only that.")
    if options.min_accuracy and options.io != "float32":
        raise UserError("--min-accuracy is for --io float32: integers at the border leave nothing to floating point.")
    if options.min_snr and options.io != "float32" and options.weight_dtype != "auto":
        raise UserError("--min-snr is for --io float32: integers at the border leave nothing to floating point there.")
    if options.backend != "ethos_u" and options.io == "int16":
        raise UserError(f"--io int16 is for --backend ethos_u, not {options.backend}.")


def _check_weights(options: argparse.Namespace) -> None:
    """Raises UserError for unknown weight dtypes, and for those that the backend doesn't support."""
    _check("--weight-dtype", options.weight_dtype, _WEIGHT_DTYPES)
    for layer, dtype in options.layer_weight_dtype:
        _check(f"--layer-weight-dtype {layer}", dtype, _LAYER_WEIGHT_DTYPES)
    if options.group_size not in _GROUP_SIZES:
        raise UserError(f"--group-size {options.group_size} is none of {', '.join(map(str, _GROUP_SIZES))}.")
    has_int4 = options.weight_dtype != "int8" or any(dtype == "int4" for _, dtype in options.layer_weight_dtype)
    if has_int4 and (options.backend != "cortex_m" or options.plain):
        raise UserError("int4 weights are for --backend cortex_m without --plain: no other kernels take them.")
    if options.weight_dtype == "auto" and not options.min_snr:
        raise UserError("--weight-dtype auto needs --min-snr: what the outputs must still have with int4 weights.")


def _target(options: argparse.Namespace) -> Options:
    """Makes the export options of the command line's."""
    # Imported here: torch and ExecuTorch print warnings when they are imported.
    from tools.pipeline.export.options import Options

    return Options(
        options.core,
        options.backend,
        options.io,
        packed=not options.plain,
        float_where_faster=options.float_where_faster,
        float_growth=options.float_growth,
        winograd_growth=options.winograd_growth,
        keep_float=tuple(options.keep_float),
        min_snr=options.min_snr,
        min_accuracy=options.min_accuracy,
        weight_dtype=options.weight_dtype,
        weight_dtypes=tuple((layer, dtype) for layer, dtype in options.layer_weight_dtype),
        group_size=options.group_size,
        activation_range=options.activation_range,
        activation_ranges=tuple((layer, method) for layer, method in options.layer_activation_range),
        operators=tuple(options.operator),
        folders=tuple(options.path),
        methods=tuple(name for name, _, _ in options.method),
        npu=None if options.npu is None else read_npu(options.npu),
        entry=options.entry,
    )


def dumping(name: str | None, console: Console) -> contextlib.AbstractContextManager[None]:
    """Prints the graph after each run of the named pass."""
    if name is None:
        return contextlib.nullcontext()
    from tools.pipeline.export.ir.passes import Pass, Pipeline, watching
    from tools.pipeline.export.pipelines import PIPELINES

    names = sorted({each.name for pipeline in PIPELINES for each in pipeline.passes})
    _check("--dump-after", name, tuple(names))

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
    for name, golden, manifest in options.method:
        Path(golden).write_bytes(exported.methods[name].golden)
        Path(manifest).write_bytes(exported.methods[name].manifest)
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
        _check_options(options)
        target = _target(options)
        from tools.pipeline.export.export import export

        declared = [options.model, *options.data, *([options.weights] if options.weights else [])]
        if is_confined:
            confine_process(declared)
        with declared_reads(declared), dumping(options.dump_after, console):
            exported = export(options.model, options.name, target, options.weights, console)
        _write(exported, options)

    return run_quietly(step, options.log, "export")


def _check(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UserError(f"{option} {value!r} is unknown; it must be one of {', '.join(allowed)}.")


if __name__ == "__main__":
    if sys.argv[1:] == [FLAG]:
        sys.exit(serve(lambda arguments: main(arguments, is_confined=True), _import))
    end_process(main(is_confined=True))
