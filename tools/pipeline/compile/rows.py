"""Makes calls of layers on images that compute some of their rows."""

from collections.abc import Mapping
from dataclasses import replace

from tools.artifacts.program.program import ELEMENT_SIZES
from tools.pipeline.compile.call import Call, int_list
from tools.pipeline.compile.chain import RowLayer, Window
from tools.pipeline.compile.inner import inner_call
from tools.pipeline.compile.layout import NEXT_ROWS, Instruction
from tools.pipeline.compile.program import Method

_PACKED = ("torch_fusion::convolution", "torch_fusion::depthwise_convolution", "torch_fusion::grouped_convolution")
_POOLS = ("cortex_m::quantized_avg_pool2d", "cortex_m::quantized_max_pool2d")
_LOOK_UP = "cortex_m::quantized_activation"
# The positions of the images that elementwise operators read.
_ELEMENTWISE: Mapping[str, tuple[int, ...]] = {
    "cortex_m::maximum": (0, 1),
    "cortex_m::minimum": (0, 1),
    _LOOK_UP: (0,),
    "cortex_m::quantized_add": (0, 4),
    "cortex_m::quantized_mul": (0, 2),
}


def row_layer(method: Method, instruction: Instruction) -> RowLayer | None:
    """Returns the layer of an instruction that can compute its result row by row; None for any other."""
    operator, values = method.operator(instruction), instruction.values
    base = operator.partition(".")[0]
    out = values[-1]
    if instruction.kind == NEXT_ROWS:
        height = method.shapes[out].sizes[2]
        return RowLayer((), out, Window(height, 1, 1, 0, 1), 0, method.shapes[out].nbytes // height)
    inputs = tuple(values[position] for position in _ELEMENTWISE.get(base, (0,)))
    if base not in (*_PACKED, *_POOLS, *_ELEMENTWISE) or not all(each in method.offsets for each in (*inputs, out)):
        return None
    shapes = [method.shapes[index] for index in (*inputs, out)]
    if any(not shape.is_channels_last or shape.sizes[0] != 1 or ELEMENT_SIZES[shape.dtype] != 1 for shape in shapes):
        return None
    height = shapes[0].sizes[2]
    window = Window(height, 1, 1, 0, 1)
    if base in _PACKED and values[1] in method.packed:
        head = method.packed[values[1]]
        window = Window(height, head.kernel[0], head.stride[0], head.padding[0], head.dilation[0])
    elif base in _POOLS:
        kernel, stride, padding = (int_list(method, index) or [0] for index in values[1:4])
        window = Window(height, kernel[0], stride[0] or kernel[0], padding[0], 1)
        # The mean of a window that is not all inside depends on where the image ends.
        if base == _POOLS[0] and window.padding:
            return None
    elif any(shape.sizes != shapes[0].sizes for shape in shapes):
        return None
    if height < 2 or window.out != shapes[-1].sizes[2] or inner_call(method, operator, values) is None:
        return None
    in_bytes, out_bytes = (shape.nbytes // shape.sizes[2] for shape in (shapes[0], shapes[-1]))
    return RowLayer(inputs, out, window, in_bytes, out_bytes)


def call_of_rows(call: Call, operator: str, layer: RowLayer, names: Mapping[int, str]) -> tuple[list[str], Call]:
    """Returns statements and a call after them, which computes the rows of a layer's result from `from` to `to`.

    Args:
        call: the call that computes all rows.
        names: the names of the Lines of tensors.
    """
    base, arguments = operator.partition(".")[0], list(call.arguments)
    first, result = names[layer.inputs[0]], f"{names[layer.out]}.row(from)"
    if base in (*_PACKED, *_POOLS):
        windows = arguments[1 if base in _PACKED else 0]
        rows = f"window_of_rows({windows}.height, {first}, from, to)"
        image = f"{first}.row(first_row({windows}.height, from))"
    if base in _PACKED:
        lines = [f"const cortex_m::PackedImages images = {{1, {rows}, {windows}.width}};"]
        arguments[1:5] = ["images", image, arguments[3], result]
    elif base in _POOLS:
        lines = [
            f"const cortex_m::PoolWindows windows = {{{rows}, {windows}.width}};",
            f"cortex_m::Image before = {arguments[-4]};",
            "before.height = windows.height.in;",
            f"cortex_m::Image after = {arguments[-2]};",
            "after.height = windows.height.out;",
        ]
        arguments[0] = "windows"
        arguments[-4:] = ["before", image, "after", result]
    else:
        lines = [f"const auto count = static_cast<size_t>((to - from) * {layer.out_bytes});"]
        images = [f"{names[index]}.row(from)" for index in layer.inputs]
        if base == _LOOK_UP:
            arguments[1:] = [*images, arguments[2], result, "count"]
        else:
            lines += [f"cortex_m::Rows rows = {arguments[-4]};", "rows.count = count;"]
            arguments[-4:] = ["rows", *images, result]
    return lines, replace(call, arguments=arguments)
