"""Lowers a quantized model to ExecuTorch's Cortex-M operators, for one core."""

import math
from pathlib import Path
from typing import Any

import torch
from executorch.backends.cortex_m.library.cmsis_nn import Backend
from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.backends.transforms.utils import create_constant_placeholder, get_param_tensor, is_param_node
from executorch.exir import EdgeCompileConfig, memory, to_edge
from executorch.exir.dialects._ops import ops as exir_ops
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

# These define the operators by which the passes below recognize layers.
import tools.pipeline.export.backends.cortex_m.int4
import tools.pipeline.export.backends.cortex_m.norms
import tools.pipeline.export.backends.cortex_m.prelu
import tools.pipeline.export.backends.cortex_m.recurrent
import tools.pipeline.export.backends.cortex_m.softmax  # noqa: F401
from tools.artifacts.core.core import has_dsp, has_vectors
from tools.pipeline.export.backends.cortex_m.dialect import PASSES
from tools.pipeline.export.backends.cortex_m.pack import arrangement_of, has_window
from tools.pipeline.export.backends.cortex_m.transposed import VIEWS
from tools.pipeline.export.capture.reference import module_of_copy
from tools.pipeline.export.ir.constants import Constants, add_constant
from tools.pipeline.export.ir.dim_orders import PIXELS, copy_to_order
from tools.pipeline.export.ir.edge import COPIES_TO_ORDER
from tools.pipeline.export.ir.operators import DEQUANTIZATIONS, DEQUANTIZE, DEQUANTIZE_CHANNELS, QUANTIZE
from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.ir.rewriting import emit, for_each, is_elementwise, named_arguments, replace_node
from tools.pipeline.export.ir.signature import user_inputs
from tools.pipeline.export.pipelines import CORTEX_M_EDGE, CORTEX_M_PACKED, CORTEX_M_QUANTIZED
from tools.pipeline.export.plan.manifest import MACS
from tools.pipeline.export.plan.plan_passes import LEAD
from tools.pipeline.export.quantize.boundary import BorderOperators
from tools.pipeline.export.upstream.retracing import known_results_of
from tools.pipeline.model_file.deterministic import computing
from tools.pipeline.placement.placement import Lead

_BIASED = (
    torch.ops.aten.conv2d.default,
    torch.ops.aten.conv2d.padding,
    torch.ops.aten.conv_transpose2d.input,
    torch.ops.aten.linear.default,
)
_CLAMPING_LAYERS = (
    exir_ops.edge.cortex_m.quantized_add.default,
    exir_ops.edge.cortex_m.quantized_conv2d.default,
    exir_ops.edge.cortex_m.quantized_depthwise_conv2d.default,
    exir_ops.edge.cortex_m.quantized_linear.default,
    exir_ops.edge.cortex_m.quantized_transpose_conv2d.default,
)

_IMAGE_LAYERS = (
    exir_ops.edge.cortex_m.quantized_conv2d.default,
    exir_ops.edge.cortex_m.quantized_depthwise_conv2d.default,
    exir_ops.edge.cortex_m.quantized_transpose_conv2d.default,
    exir_ops.edge.torch_fusion.pointwise_int4.default,
)
_INT4_LAYERS = {
    # The dimension of the channels.
    exir_ops.edge.torch_fusion.linear_int4.default: -1,
    exir_ops.edge.torch_fusion.pointwise_int4.default: 1,
}
_TRANSPOSITIONS = (exir_ops.edge.cortex_m.transpose.default, exir_ops.edge.aten.permute_copy.default)
_AVERAGE = exir_ops.edge.cortex_m.quantized_avg_pool2d.default
_EXTREMES = (exir_ops.edge.aten.amax.default, exir_ops.edge.aten.amin.default)
# A concatenation of at most these elements is done in floating point, which takes a few bytes more.
_FEW_ELEMENTS = 64
# The bytes of memory that one dequantization less may take, by an estimate that has nothing computed in place.
_FEW_BYTES = 256
_QUANTIZE = exir_ops.edge.cortex_m.quantize_per_tensor.default
_DEQUANTIZE = exir_ops.edge.cortex_m.dequantize_per_tensor.default

BORDER = BorderOperators(_QUANTIZE, _DEQUANTIZE, torch.int8)


def config() -> EdgeCompileConfig:
    """Returns the options of edge programs; a new object each time, because to_edge() appends to its lists."""
    return EdgeCompileConfig(
        # Operators that the passes replace as a unit; decomposed, they would stay in floating point.
        preserve_ops=[
            torch.ops.aten.linear.default,
            torch.ops.aten.hardsigmoid.default,
            torch.ops.aten.hardsigmoid_.default,
            torch.ops.aten.hardswish.default,
            torch.ops.aten.hardswish_.default,
            torch.ops.aten.silu.default,
            # Functions that can become tables.
            torch.ops.aten.mish.default,
            torch.ops.aten.softplus.default,
        ],
        # The edge dialect's verifier knows neither max_pool2d nor the cortex_m operators.
        _check_ir_validity=False,
        _core_aten_ops_exception_list=[torch.ops.aten.max_pool2d.default],
    )


def target_of(core: str) -> CortexMTargetConfig:
    """Returns the closest description of a core that ExecuTorch has."""
    if has_vectors(core):
        return CortexMTargetConfig(CortexM.M55)
    return CortexMTargetConfig(CortexM.M4, isa=None if has_dsp(core) else Backend.SCALAR)


def to_cortex_m(program: ExportedProgram, target: CortexMTargetConfig) -> ExportedProgram:
    """Returns the edge program of a quantized program, with `cortex_m::` operators for the target."""
    whole = CORTEX_M_QUANTIZED.run(program, arrangement=arrangement_of(target))
    with known_results_of(whole):
        edge = to_edge(whole, compile_config=config()).exported_program()
        return CORTEX_M_EDGE.run(edge, target=target)


def substitute_operators(program: ExportedProgram, target: CortexMTargetConfig) -> ExportedProgram:
    """Replaces quantized operators of an edge program by `cortex_m::` ones; delegates stay unchanged."""
    return CortexMPassManager(program, list(PASSES), target_config=target).transform()


def fuse_clamps(program: ExportedProgram) -> None:
    """Fuses clamps into the layers before them, also before a transposition of their results.

    The passes leave both where the layer shares its range with another tensor, as before a concatenation.
    """
    for node in list(program.graph.nodes):
        if node.target != exir_ops.edge.aten.clamp.default or node.meta["val"].dtype != torch.int8:
            continue
        layer = node.args[0]
        # Moving elements before or after a clamp is the same.
        while layer.target in _TRANSPOSITIONS and len(layer.users) == 1:
            layer = layer.args[0]
        if layer.target not in _CLAMPING_LAYERS or len(layer.users) > 1:
            continue
        arguments, bounds = named_arguments(layer), named_arguments(node)
        if bounds["min"] is not None:
            arguments["activation_min"] = max(arguments["activation_min"], int(bounds["min"]))
        if bounds["max"] is not None:
            arguments["activation_max"] = min(arguments["activation_max"], int(bounds["max"]))
        layer.args, layer.kwargs = tuple(arguments.values()), {}
        replace_node(program, node, node.args[0])
        program.graph.erase_node(node)


def list_integers(program: ExportedProgram) -> ExportedProgram:
    """Wraps single integers into lists where an operator takes a list: PyTorch does so in calls, a device does not."""
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None:
            continue
        node.args = tuple(
            [argument] if isinstance(argument, int) and str(taken.real_type) == "List[int]" else argument
            for argument, taken in zip(node.args, schema.arguments, strict=False)
        )
    return program


def note_default_order(program: ExportedProgram) -> None:
    """Marks input images of one channel, which have both orders, as being in the default one, in place."""
    for node in user_inputs(program):
        for image in (node, *(user for user in node.users if user.target == _QUANTIZE)):
            value = image.meta["val"]
            if value.dim() == 4 and value.shape[1] == 1:
                image.meta["val"] = torch.empty_like(value, memory_format=torch.contiguous_format)


def quantize_biases(program: ExportedProgram) -> None:
    """Quantizes biases that a model's author left in floating point, in place: int32 in the scale of the products.

    In quantization-aware training, folding batch normalization creates biases after everything else is quantized.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.target not in _BIASED:
            continue
        operand, weight, bias = [*node.args, None][:3]
        if operand.target != DEQUANTIZE or not isinstance(bias, Node):
            continue
        if weight.target not in DEQUANTIZATIONS or not is_param_node(program, bias):
            continue
        is_per_channel = weight.target == DEQUANTIZE_CHANNELS
        scales = get_param_tensor(program, weight.args[1]) if is_per_channel else torch.tensor(weight.args[1])
        value = get_param_tensor(program, bias)
        steps = (scales.double() * operand.args[1]).expand(value.shape)
        limits = torch.iinfo(torch.int32)
        integers = (value.detach().double() / steps).round().clamp(limits.min, limits.max).to(torch.int32)
        constants = {"bias": integers, "bias_scales": steps.float(), "bias_zero_points": torch.zeros_like(integers)}
        with graph.inserting_before(bias):
            placeholders = [
                create_constant_placeholder(
                    program, graph, f"{node.name}_{name}", InputKind.BUFFER, data.contiguous(), persistent_buffer=True
                )
                for name, data in constants.items()
            ]
        with graph.inserting_before(node):
            arguments = (*placeholders, 0, limits.min, limits.max, torch.int32)
            dequantized = graph.call_function(DEQUANTIZE_CHANNELS, arguments)
        dequantized.meta = {"val": bias.meta["val"]}
        node.replace_input_with(bias, dequantized)


def separate_activations(program: ExportedProgram) -> None:
    """Quantizes layers separately from activations that the passes cannot fuse into them, in place.

    A layer and its relu or clamp are quantized together, and fused if int8 saturates at the activation's bounds. With a
    range that is shared with another tensor it doesn't, and the passes would make both compute with the raw integers.
    The layer loses nothing in the result's own scale: values that saturate exceed the bounds, too.
    """
    graph = program.graph
    for node in list(graph.nodes):
        bounds = _bounds(node)
        users = list(node.users)
        if bounds is None or len(users) != 1 or users[0].target != QUANTIZE:
            continue
        layer = node.args[0]
        if layer.op != "call_function" or layer.target in (DEQUANTIZE, torch.ops.aten.max_pool2d.default):
            continue
        parameters = users[0].args[1:]
        scale, zero_point, low, high, _ = parameters
        limits = [
            limit if bound is None else min(max(round(bound / scale) + zero_point, low), high)
            for bound, limit in zip(bounds, (low, high), strict=True)
        ]
        if limits == [low, high]:
            continue
        with graph.inserting_after(layer):
            quantized = graph.call_function(users[0].target, (layer, *parameters))
        with graph.inserting_after(quantized):
            result = graph.call_function(DEQUANTIZE, (quantized, *parameters))
        quantized.meta = layer.meta | {"val": users[0].meta["val"]}
        result.meta = dict(layer.meta)
        node.replace_input_with(layer, result)


def _bounds(node: Node) -> tuple[float | None, float | None] | None:
    """Returns the bounds of an activation, or None for other nodes."""
    aten = torch.ops.aten
    if node.target in (aten.relu.default, aten.relu_.default):
        return 0.0, None
    if node.target in (aten.hardtanh.default, aten.hardtanh_.default, aten.clamp.default):
        default: list[float | None] = [None, None] if node.target == aten.clamp.default else [-1.0, 1.0]
        given: list[Any] = list(node.args[1:])
        low, high = (None if bound is None or math.isinf(bound) else bound for bound in given + default[len(given) :])
        return low, high
    return None


def pack(program: ExportedProgram, target: CortexMTargetConfig) -> ExportedProgram:
    """Replaces `cortex_m::` operators by this project's own, with constants in their kernels' layout."""
    return CORTEX_M_PACKED.run(program, target=target)


def drop_scratch(program: ExportedProgram) -> None:
    """Drops the scratch memory of `cortex_m::` operators, in place: CMSIS-NN needs it, the kernels here don't."""
    for node in program.graph.nodes:
        if getattr(node.target, "namespace", "") != "cortex_m":
            continue
        for scratch in node.all_input_nodes:
            if scratch.target == memory.alloc:
                scratch.args = (((0,), torch.uint8),)
                scratch.meta["val"] = torch.empty((0,), dtype=torch.uint8, device="meta")


def without_window(program: ExportedProgram, path: Path) -> list[str]:
    """Lists the locations of a packed program's convolutions whose kernels or strides are too large to be packed."""

    def is_too_large(node: Node) -> bool:
        _, weight, _, *windows = node.args
        shape = weight.meta["val"].shape
        # The last dimension of a depthwise weight has the outputs.
        is_depthwise = node.target == exir_ops.edge.cortex_m.quantized_depthwise_conv2d.default
        return not has_window((shape[3], *shape[1:3], 1) if is_depthwise else shape, *windows[:3])

    convolutions = _IMAGE_LAYERS[:2]
    return [origin(n, path) for n in program.graph.nodes if n.target in convolutions and is_too_large(n)]


def check_packed(program: ExportedProgram, sample: tuple[torch.Tensor, ...], expected: list[torch.Tensor]) -> None:
    """Checks that a packed program returns the same results for a sample as before packing, bit by bit.

    Raises RuntimeError otherwise: a layer was packed wrongly.
    """
    (outputs,) = run(program, [sample])
    for index, (packed, before) in enumerate(zip(outputs, expected, strict=True)):
        both_nan = packed.isnan() & before.isnan()
        if bool(((packed != before) & ~both_nan).any()):
            raise RuntimeError(f"output {index} is another one with packed layers")


def write_numbers_without_dims(program: ExportedProgram) -> None:
    """Drops the dimensions of constants of one element beside tensors of several in floating point, in place.

    The quantizer gives a number as many dimensions as the tensor beside it, and kernels have a loop for those without.
    """
    constants, written = Constants(program), {}
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if not is_elementwise(getattr(node.target, "_op", None)) or not value.is_floating_point() or value.numel() < 2:
            continue
        for operand in node.all_input_nodes:
            number = constants.value(operand) if operand.op == "placeholder" else None
            if number is None or number.numel() != 1 or number.dim() == 0:
                continue
            if all(other is operand or other.meta["val"].dim() < value.dim() for other in node.all_input_nodes):
                continue
            if operand not in written:
                written[operand] = add_constant(program, f"{operand.name}_number", number.reshape(()).clone())
            node.replace_input_with(operand, written[operand])


def drop_unused_constants(program: ExportedProgram) -> ExportedProgram:
    """Drops parameters, buffers and constants that layers no longer read, because the passes replaced weights."""
    kept = []
    by_name = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        node = by_name.get(spec.arg.name)
        if spec.kind == InputKind.USER_INPUT or node is None or node.users:
            kept.append(spec)
            continue
        program.graph.erase_node(node)
        program.state_dict.pop(spec.target, None)
        program.constants.pop(spec.target, None)
    program.graph_signature.input_specs = kept
    return program


def drop_empty_padding(program: ExportedProgram) -> None:
    """Drops padding of no elements: average pooling is lowered to a padding and a pooling."""
    for node in list(program.graph.nodes):
        if node.target == exir_ops.edge.cortex_m.pad.default and not any([*node.args[1], *node.args[2]]):
            node.replace_all_uses_with(node.args[0])
            program.graph.erase_node(node)


def order_images(program: ExportedProgram) -> None:
    """Copies images to channels-last where int8 layers would find them in another order, in place."""
    for node in list(program.graph.nodes):
        if node.target not in _IMAGE_LAYERS:
            continue
        image = node.args[0]
        value = image.meta["val"]
        orders = (value.dim_order(), PIXELS)
        lies, wanted = ([dim for dim in order if value.shape[dim] > 1] for order in orders)
        if lies != wanted:
            with program.graph.inserting_before(node):
                node.replace_input_with(image, copy_to_order(program, image, PIXELS, node.meta))


def cancel_transpositions(program: ExportedProgram) -> None:
    """Drops transpositions that change nothing or undo another one: products take their second matrix transposed."""
    for node in program.graph.nodes:
        if node.target not in _TRANSPOSITIONS:
            continue
        source, order = node.args[0], [*node.args[1]]
        if order != sorted(order) and source.target in _TRANSPOSITIONS:
            source, order = source.args[0], [source.args[1][dim] for dim in order]
        if order == sorted(order):
            node.replace_all_uses_with(source)
    program.graph.eliminate_dead_code()


def leave_views_to_the_plan(program: ExportedProgram) -> None:
    """Turns transpositions that move no data into plain permutations, which become aliases in the plan.

    The same goes for transpositions that move no data together with the copies to another order that read them.
    """
    for node in program.graph.nodes:
        if node.target not in _TRANSPOSITIONS:
            continue
        value = node.args[0].meta["val"].permute(list(node.args[1]))
        readers = list(node.users)
        is_undone = all(
            reader.target in COPIES_TO_ORDER and _lie_alike(value, reader.meta["val"]) for reader in readers
        )
        if value.is_contiguous() or is_undone:
            node.target = exir_ops.edge.aten.permute_copy.default
            node.meta["val"] = value.contiguous().clone()
        if is_undone:
            for other in readers[1:]:
                other.replace_all_uses_with(readers[0])
    program.graph.eliminate_dead_code()


def _lie_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the elements of two tensors of one shape have the same order in memory."""
    strides = [
        [stride for stride, size in zip(each.stride(), each.shape, strict=True) if size > 1] for each in (one, other)
    ]
    return strides[0] == strides[1]


def count_work(program: ExportedProgram) -> None:
    """Records the multiply-accumulates of layers, which don't follow from the shapes of packed constants."""
    operators = exir_ops.edge.cortex_m
    for node in program.graph.nodes:
        if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        results = node.meta["val"].numel()
        operands: list[Any] = [arg.meta["val"] if isinstance(arg, Node) else None for arg in node.args]
        if node.target == operators.quantized_conv2d.default:
            # The weight is [out, height, width, in / groups].
            node.meta[MACS] = results * operands[1].numel() // operands[1].shape[0]
        elif node.target == operators.quantized_depthwise_conv2d.default:
            # The weight is [1, height, width, out].
            node.meta[MACS] = results * operands[1].numel() // operands[1].shape[3]
        elif node.target == operators.quantized_transpose_conv2d.default:
            node.meta[MACS] = operands[0].numel() * operands[1].numel() // operands[0].shape[1]
        elif node.target == operators.quantized_linear.default:
            node.meta[MACS] = results * operands[1].shape[-1]
        elif node.target == operators.quantized_batch_matmul.default:
            node.meta[MACS] = results * operands[0].shape[-1]
        elif node.target in _INT4_LAYERS:
            node.meta[MACS] = results * operands[0].shape[_INT4_LAYERS[node.target]]


def let_quantization_overlap(program: ExportedProgram) -> None:
    """Records that quantization and dequantization may write their result over their operand, element by element.

    The same goes for layer normalization and softmax of contiguous rows, which read a row before they write it; layers
    with int4 weights read a row while they write.
    """
    own = exir_ops.edge.torch_fusion
    for node in program.graph.nodes:
        if node.target in _INT4_LAYERS:
            taken, returned = node.args[0].meta["val"], node.meta["val"]
            rows = taken.numel() // max(taken.shape[_INT4_LAYERS[node.target]], 1)
            wide, narrow = returned.numel() // max(rows, 1), taken.numel() // max(rows, 1)
            # After the first row, or the last one if the output grows faster than the input is read.
            node.meta[LEAD] = Lead(wide + max((rows - 1) * (wide - narrow), 0))
        if node.target == own.quantized_layer_norm.default or (
            node.target == own.quantized_softmax.default
            and node.meta["val"].dim_order()[-1] == node.args[2] % node.meta["val"].dim()
        ):
            node.meta[LEAD] = Lead(0)
        if node.target not in (_QUANTIZE, _DEQUANTIZE) or node.args[5] != torch.int8:
            continue
        source, result = node.args[0].meta["val"], node.meta["val"]
        # The kernel works in the memory order of the result.
        if source.dim_order() == result.dim_order():
            node.meta[LEAD] = Lead(max(result.numel() * (result.element_size() - source.element_size()), 0))


def dequantize_once(program: ExportedProgram) -> None:
    """Makes views of dequantized tensors of dequantized views, where that leaves one dequantization of several.

    The floating-point tensor then lives from its first reader to its last one: not where that takes more memory.
    """
    found: dict[tuple[Any, ...], Node] = {}
    for node in list(program.graph.nodes):
        if node.target != _DEQUANTIZE:
            continue
        source = node.args[0]
        while source.target in VIEWS:
            source = source.args[0]
        first = found.setdefault((source, *node.args[1:]), node)
        value, before = node.meta["val"], first.meta["val"]
        if first is node or not (value.is_contiguous() and before.is_contiguous()):
            continue
        most = _most_bytes(program)
        with program.graph.inserting_before(node):
            view = emit(node.args[0], exir_ops.edge.aten.view_copy.default, first, list(value.shape))
        replace_node(program, node, view)
        if _most_bytes(program) > most + _FEW_BYTES:
            replace_node(program, view, node)
            found[source, *node.args[1:]] = node
    program.graph.eliminate_dead_code()


def _most_bytes(program: ExportedProgram) -> int:
    """Returns the most bytes of results that are read later, at any time, with views in the memory of their tensors."""
    places = {node: place for place, node in enumerate(program.graph.nodes)}
    alive = [0] * len(places)

    def last_reader(node: Node) -> int:
        # Results that nothing reads are about to be removed.
        readers = [user for user in node.users if user.users or user.op == "output"]
        return max([places[node], *(last_reader(user) if user.target in VIEWS else places[user] for user in readers)])

    for node, place in places.items():
        value = node.meta.get("val")
        if node.op == "call_function" and node.users and node.target not in VIEWS and isinstance(value, torch.Tensor):
            for each in range(place, last_reader(node) + 1):
                alive[each] += value.nbytes
    return max(alive)


def read_unquantized(program: ExportedProgram) -> None:
    """Makes operators in floating point read what was quantized instead of dequantizing its integers, in place."""
    for node in list(program.graph.nodes):
        if node.target != _DEQUANTIZE or any(user.op == "output" for user in node.users):
            continue
        quantized = node.args[0]
        if quantized.target != _QUANTIZE or quantized.args[1:] != node.args[1:]:
            continue
        source = quantized.args[0]
        if source.meta["val"].dim_order() == node.meta["val"].dim_order():
            replace_node(program, node, source)
            program.graph.erase_node(node)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def quantize_later(program: ExportedProgram) -> None:
    """Moves quantization behind maxima and minima, averages, and concatenations of a few elements, in place.

    The integers are the same but those of averages, which are rounded once instead of twice: quantization keeps the
    order of numbers. It is one call, of fewer elements.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.target == _AVERAGE:
            _average_first(program, node)
        if node.target in _EXTREMES:
            operands = [node.args[0]]
            is_worth_it = all(user.target in _EXTREMES for user in operands[0].users)
        elif node.target == exir_ops.edge.aten.cat.default:
            operands = list(node.args[0])
            is_alone = all(len(operand.users) == 1 for operand in operands)
            is_worth_it = is_alone and node.meta["val"].numel() <= _FEW_ELEMENTS
        else:
            continue
        if not is_worth_it or any(operand.target != _QUANTIZE for operand in operands):
            continue
        parameters, orders = operands[0].args[1:], operands[0].meta["val"].dim_order()
        sources = [operand.args[0] for operand in operands]
        if any(operand.args[1:] != parameters for operand in operands) or any(
            each.meta["val"].dim_order() != orders for each in (*operands, *sources)
        ):
            continue
        given = sources[0] if node.target in _EXTREMES else sources
        with graph.inserting_before(node):
            result = emit(node, node.target, given, *node.args[1:], **node.kwargs)
            replace_node(program, node, emit(node, _QUANTIZE, result, *parameters))
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _average_first(program: ExportedProgram, pooling: Node) -> None:
    """Averages the operand of a quantization in windows of 2x2 if nothing else reads its integers, in place."""
    given, quantized = named_arguments(pooling), pooling.args[0]
    windows = [for_each(given["kernel_size"]), for_each(given["stride"]), for_each(given["padding"])]
    if quantized.target != _QUANTIZE or len(quantized.users) > 1:
        return
    if windows != [[2, 2], [2, 2], [0, 0]] or given.get("ceil_mode"):
        return
    image, *parameters = quantized.args
    with program.graph.inserting_before(pooling):
        means = emit(pooling, exir_ops.edge.aten.avg_pool2d.default, image, *windows)
        replace_node(program, pooling, emit(pooling, _QUANTIZE, means, *parameters))


def run(program: ExportedProgram, samples: list[tuple[torch.Tensor, ...]]) -> list[list[torch.Tensor]]:
    """Computes the results expected of the kernels by the dialect's Python, with the same random numbers."""
    module = module_of_copy(program)
    with computing(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return [[value.clone() for value in torch.utils._pytree.tree_leaves(module(*sample))] for sample in samples]
