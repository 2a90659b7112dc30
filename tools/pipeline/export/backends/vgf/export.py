"""Exports a model to VGF, in floating point or int8."""

from torch.export import ExportedProgram

from tools.pipeline.export.backends.arm import delegates
from tools.pipeline.export.backends.request import LoweredModel, LoweringRequest
from tools.pipeline.export.backends.vgf import lower
from tools.pipeline.export.capture.capture import capture_model, check_no_state, without_branches
from tools.pipeline.export.capture.diagnosis import check_upstream_kernels, random_operators
from tools.pipeline.export.capture.reference import check_reference, module_of_copy
from tools.pipeline.export.ir.dim_orders import (
    channels_last,
    drop_round_trips,
    order_for_kernels,
    takes_any_order_upstream,
)
from tools.pipeline.export.pipelines import VGF, VGF_FLOAT
from tools.pipeline.export.plan.manifest import Quantization
from tools.pipeline.export.quantize.in_float import InFloat
from tools.pipeline.export.quantize.quantization_report import quantization_report
from tools.pipeline.export.quantize.search import worst_in_float
from tools.pipeline.export.quantize.source import capture_source, prepare
from tools.pipeline.export.rewrite.spectra.spectra import front_end
from tools.pipeline.export.upstream.loaded_program import without_kernel
from tools.pipeline.export.upstream.retracing import known_results
from tools.quiet.console import UserError


def _in_float(asked: LoweringRequest) -> ExportedProgram:
    captured = capture_model(asked.file, asked.eager, asked.note)
    return VGF_FLOAT.run(without_branches(captured, asked.file.path, asked.options.backend, asked.note))


@known_results()
def lower_model(asked: LoweringRequest) -> LoweredModel:
    """Returns the program with delegates for Vulkan."""
    file, options = asked.file, asked.options
    path, is_quantized = file.path, options.io == "int8"
    if file.has("dynamic_shapes"):
        raise UserError(f'{path}: backend "vgf" takes no dynamic_shapes(), its graphs are for one shape.')
    source = capture_source(asked) if is_quantized else None
    if source is None:
        functional = _in_float(asked)
        check_no_state(functional.graph_signature.buffers_to_mutate.values(), path, options.backend)
        if not random_operators(functional, path):
            module = module_of_copy(functional)
            check_reference(module, asked.eager, (), "the program", lambda: _in_float(asked.silent()))
        lowered = lower.delegate(functional, options.io, path)
    else:
        check_no_state(source.state.buffers, path, options.backend)
        in_float = InFloat(path, front_end(source.captured, path))
        prepared = prepare(source, lambda captured, samples: lower.quantize(VGF.run(captured), samples, in_float))
        worst_in_float(source, prepared.quantized, lambda _: prepared.quantized, frozenset())
        # This must precede delegation, which would put quantization inside of delegates.
        border = delegates.CAPTURED_BORDER.border(prepared.captured)
        for text in delegates.CAPTURED_BORDER.remove(prepared.captured, path):
            asked.note(text)
        lowered = lower.delegate(prepared.captured, options.io, path)
    edge = lowered.manager.exported_program()
    order_for_kernels(edge, takes_any_order_upstream)
    drop_round_trips(edge)
    for operators, place, reason in lower.on_portable_kernels(lowered.rejected):
        asked.note(f"stays on portable kernels: {operators}: {place}: {reason}")
    vgf = [item.payload for item in lowered.compiled]
    samples, outputs = asked.eager.samples, asked.eager.outputs
    if source is not None:
        samples = [channels_last(sample) for sample in samples]
        samples = [delegates.CAPTURED_BORDER.quantize_sample(sample, border.inputs) for sample in samples]
        outputs = delegates.run(edge, lowered.compiled, samples)
    emitted = delegates.emit(lowered.manager)
    check_upstream_kernels(edge, without_kernel(emitted.program.execution_plan[0]), path)
    if source is None:
        return LoweredModel(emitted, samples, outputs, vgf=vgf)
    on_core = [(operator, place) for operator, place, _ in lowered.rejected]
    return LoweredModel(
        emitted,
        samples,
        outputs,
        Quantization(options.io, border.inputs, border.outputs),
        quantization_report(asked, source, prepared.quantized, on_core, outputs, border.outputs),
        vgf=vgf,
    )
