"""Exports the model of a model file: program, golden data and manifest."""

import importlib
from dataclasses import dataclass
from pathlib import Path

from tools.artifacts.manifest.manifest import manifest_json
from tools.artifacts.quantization_report.quantization_report import quantization_report_json
from tools.pipeline.export.backends.request import LoweredModel, LoweringRequest
from tools.pipeline.export.capture import golden
from tools.pipeline.export.capture.diagnosis import check_examples
from tools.pipeline.export.capture.eager import keep_weights, load_weights, run_eager, without_autocast
from tools.pipeline.export.capture.reference import SAMPLES
from tools.pipeline.export.capture.words import WordedConsole, in_words
from tools.pipeline.export.methods import ONE_METHOD, ExportedMethod, add_method, dim_orders_of, macs_of, plan_method
from tools.pipeline.export.options import Options
from tools.pipeline.export.plan.manifest import check_labels
from tools.pipeline.export.plan.one_run import check_run
from tools.pipeline.export.plan.serialize import serialize
from tools.pipeline.export.rewrite.own_operators import define_out_variant
from tools.pipeline.model_file.deterministic import make_deterministic, tracing
from tools.pipeline.model_file.model_file import ModelFile
from tools.pipeline.model_file.sample_calls import find_operator
from tools.quiet.console import Console, UserError


@dataclass(frozen=True)
class Exported:
    """The files of an export. A quantized program has a report; a program of several methods has the files of the
    further ones.

    Attributes:
      npu: the estimates of the NPU's compiler, as text and as JSON.
      vgf: the .vgf files of the delegates, with backend `vgf`.
    """

    program: bytes
    golden: bytes
    manifest: bytes
    report: bytes | None
    methods: dict[str, ExportedMethod]
    npu: tuple[bytes, bytes] | None
    vgf: list[bytes]


def export(path: Path, name: str, options: Options, weights: Path | None, console: Console) -> Exported:
    """Exports the model in the file `path`.

    Args:
      name: the program's name in the manifest.
      weights: a state_dict that tools/pipeline/train wrote, if the model is trained.

    Raises UserError for errors that the user can correct.
    """
    try:
        with without_autocast(path, worded := WordedConsole(console)):
            return _export(path, name, options, weights, worded)
    except UserError as error:
        error.args = (in_words(str(error)),)
        raise


def _export(path: Path, name: str, options: Options, weights: Path | None, console: Console) -> Exported:
    make_deterministic()
    file = ModelFile(path, options.folders, options.entry)
    for operator in options.operators:
        define_out_variant(find_operator(operator, str(path)))
    model = file.model()
    if weights is not None:
        load_weights(model, weights, path)
    keep_weights(model)
    eager = run_eager(file, model)
    for index in golden.non_finite_outputs(eager.outputs):
        console.say(f"export: warning: {path}: output {index} of the model holds NaN or infinity in eager mode.")

    asked = LoweringRequest(file, name, eager, options, console)
    with tracing():
        lowered = _lower(asked)
    emitted = lowered.emitted
    if emitted.file is not None:
        check_examples(eager.inputs, emitted.program, path)
    if options.methods and (emitted.file is not None or emitted.keeps_state or options.backend != "portable"):
        raise UserError(f"{path}: {ONE_METHOD}")
    # The manifest covers this method's constants only; the other methods append theirs later.
    constants, manifest = plan_method(name, emitted, eager, options, path, lowered.quantization)
    if labels := file.labels():
        check_labels(labels, manifest["outputs"], path)
        manifest["labels"] = labels
    methods = {
        method: add_method(method, file, model, emitted.program, constants, name, options, asked.note)
        for method in options.methods
    }
    exported = emitted.file or serialize(emitted.program, constants, emitted.states)
    if options.backend == "portable":
        run = slice(SAMPLES if emitted.keeps_state else 1)
        first, *others = emitted.program.execution_plan
        check_run(exported, first, macs_of(manifest), lowered.samples[run], lowered.outputs[run])
        for plan, method in zip(others, methods.values(), strict=True):
            check_run(exported, plan, method.macs, method.eager.samples, method.eager.outputs)
    return Exported(
        program=exported,
        golden=golden.serialize(
            lowered.samples,
            lowered.outputs,
            eager.labels,
            eager=eager.outputs if options.backend != "portable" else None,
            dim_orders=dim_orders_of(manifest),
            is_stream=emitted.keeps_state,
        ),
        manifest=manifest_json(manifest).encode(),
        report=None if lowered.report is None else quantization_report_json(lowered.report).encode(),
        methods=methods,
        npu=None if lowered.npu is None else (in_words(lowered.npu[0]).encode(), lowered.npu[1].encode()),
        vgf=lowered.vgf,
    )


# The module that lowers a model, by backend. It is imported on demand, since that takes seconds.
_BACKENDS = {"portable": "portable", "cortex_m": "cortex_m.export", "ethos_u": "ethos_u.export", "vgf": "vgf.export"}


def _lower(request: LoweringRequest) -> LoweredModel:
    """Lowers a model with the backend of the options."""
    backend = importlib.import_module(f"tools.pipeline.export.backends.{_BACKENDS[request.options.backend]}")
    lowered: LoweredModel = backend.lower_model(request)
    return lowered
