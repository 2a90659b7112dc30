"""Constants of a compiled model: weights, shapes, and arrays and objects that calls refer to."""

import hashlib
import re
from collections.abc import Sequence

from tools.artifacts.packed_layer.packed_layer import describe
from tools.artifacts.program.program import DTYPES
from tools.pipeline.compile.program import Method, Shape
from tools.pipeline.compile.text import comment, wrapped
from tools.pipeline.compile.values import array, data_array

# The namespace of constants that several models share.
_SHARED = "torch_fusion_constants"
# A macro of torch_fusion.h, by which users place weights.
WEIGHTS = "TORCH_FUSION_WEIGHTS"
# The meaning of the numbers in constants, by type.
_WINDOWS = "{input, kernel, stride, padding, dilation, output} of each dimension."
_OBJECTS = {
    "AddParameters": "Zero points of both inputs and the output, {multiplier, shift} of each, and {least, greatest}.",
    "ConvolutionShape": "{batch, groups, channels of a group before and after, whether it is transposed}, and "
    "{input, kernel, stride, padding, dilation, output} of depth, height and width.",
    "Image": "{batch, channels, height, width}, and how many elements each is apart from the next one.",
    "MulParameters": "Zero points of both inputs and the output, and {multiplier, shift} of the product.",
    "PackedImages": f"A batch, and {_WINDOWS}",
    "PoolWindows": f"Windows: {_WINDOWS}",
    "Rows": "Of both operands where they begin, how far apart elements lie, and rows; then where the output begins, "
    "how many elements a row has, and how many rows there are.",
    "Walk": "Sizes of dimensions, innermost first, and how far apart the elements of both operands are in each.",
    "Window": f"A window: {_WINDOWS}",
}


class Constants:
    """The constants that functions of a method refer to, each made once and named by what is in it.

    Attributes:
        shapes: names of shapes.
        used: constant tensors of the program, and whether they are needed as TensorData.
        objects: what inner functions take by reference, by its name.
        delegates: commands and weights of delegates, by the delegate's name.
    """

    def __init__(self, method: Method) -> None:
        self.method = method
        self.shapes: dict[Shape, str] = {}
        self.used: dict[int, bool] = {}
        self.objects: dict[str, str] = {}
        self.delegates: dict[str, list[str]] = {}
        self.arrays: dict[tuple[str, tuple[str, ...]], str] = {}
        self.array_texts: list[str] = []
        # Constants that other methods of the program use, too, by name.
        self.shared_texts: dict[str, list[str]] = {}

    def weights(self) -> list[str]:
        """Returns the arrays of constants, in the order in which layers read them."""
        largest: dict[int, int] = {}
        for index in self.used:
            buffer = self.method.value(index).val.data_buffer_idx
            shapes = self.method.shapes
            if buffer not in largest or shapes[index].nbytes > shapes[largest[buffer]].nbytes:
                largest[buffer] = index
        lines = []
        if self.method.packed.keys() & largest.values():
            lines += ["// Packed are a layer's biases, factors and weights, as in kernels/cortex_m/packed.h.", ""]
        for buffer, index in largest.items():
            shape = self.method.shapes[index]
            data = self.method.constant_data(index)
            layer = self.method.packed.get(index)
            users = ", ".join(self.method.users.get(buffer, ()))
            lines += comment(
                (f"{users}: " if users else "") + (describe(layer) if layer else described(shape)), indent=""
            )
            name = self.method.constants[buffer]
            if data and buffer in self.method.shared:
                shared = self.shared(shape.dtype, data)
                lines += [f"constexpr const auto& {name} = {_SHARED}::{shared};"]
            elif data:
                lines += data_array(name, shape.dtype, data, _alignment(len(data)), attribute=WEIGHTS)
            else:
                lines += [f"const uint8_t {name}[1] = {{}};"]
            lines.append("")
        return [*lines, *(line for text in self.delegates.values() for line in text)]

    def shared(self, dtype: str, data: bytes) -> str:
        """Returns a name of a constant that depends on its contents, so that an image has it once for all methods."""
        alignment = _alignment(len(data))
        name = "constant_" + hashlib.sha256(f"{dtype} {alignment} ".encode() + data).hexdigest()[:16]
        self.shared_texts[name] = data_array(name, dtype, data, alignment, is_shared=True)
        return name

    def shared_constants(self) -> list[str]:
        """Returns the arrays of constants that other methods of the program use, too."""
        if not self.shared_texts:
            return []
        return [
            "// Of other methods of the program, too: the linker keeps one of each.",
            f"namespace {_SHARED} {{",
            "",
            *(line for text in self.shared_texts.values() for line in (*text, "")),
            f"}} // namespace {_SHARED}",
            "",
        ]

    def shape(self, shape: Shape) -> str:
        """Returns the name of a shape's constant."""
        if shape not in self.shapes:
            # With one dimension, the number alone would read as the bits of the type.
            kind = {0: "Scalar", 1: "Vector"}.get(len(shape.sizes), "")
            text = f"k{DTYPES[shape.dtype].cpp}{kind}{'x'.join(map(str, shape.sizes))}"
            if shape.dim_order != tuple(range(len(shape.sizes))):
                text += "Order" + "".join(map(str, shape.dim_order))
            self.shapes[shape] = text
        return self.shapes[shape]

    def shape_lines(self) -> list[str]:
        lines = []
        for shape, name in self.shapes.items():
            dim = len(shape.sizes)
            parts = ["nullptr"] * 3
            if dim:
                for i, (c_type, numbers) in enumerate(
                    (("int32_t", shape.sizes), ("uint8_t", shape.dim_order), ("int32_t", shape.strides))
                ):
                    parts[i] = self.numbers(c_type, list(map(str, numbers)))
            lines += wrapped(
                f"constexpr TensorShape {name} = {{ScalarType::{DTYPES[shape.dtype].cpp}, {dim}, {shape.numel}, "
                f"{', '.join(parts)}}};",
                indent="",
            )
        # The arrays precede the shapes that refer to them.
        return (
            ["// Arrays have their numbers in their names, and shapes their sizes.", *self.take_arrays(), *lines, ""]
            if lines
            else []
        )

    def numbers(self, c_type: str, items: Sequence[str], wanted: str = "") -> str:
        """Returns the name of a constant array, which is made once; by default the name lists its contents."""
        key = (c_type, tuple(items))
        if key not in self.arrays:
            kind = f"k{c_type.partition('_')[0].capitalize()}s"
            text = "_".join(item.replace("-", "m").replace(".", "p").replace("+", "") for item in items)
            name = wanted or f"{kind}_{text}"
            self.arrays[key] = name if len(name) < 40 and name.isidentifier() else f"{kind}{len(self.arrays)}"
            self.array_texts += array(c_type, self.arrays[key], list(items))
        return self.arrays[key]

    def list_of(self, c_type: str, items: Sequence[str]) -> str:
        if not items:
            return f"ArrayRef<{c_type}>()"
        return f"ArrayRef<{c_type}>({self.numbers(c_type, items)}, {len(items)})"

    def take_arrays(self) -> list[str]:
        lines, self.array_texts = self.array_texts, []
        return lines

    def array_lines(self) -> list[str]:
        lines = self.take_arrays()
        return [*lines, ""] if lines else []

    def object_lines(self) -> list[str]:
        """Returns the objects that inner functions take by reference, with a comment on the numbers of each type."""
        lines: list[str] = []
        missing = dict(_OBJECTS)
        for text in self.objects.values():
            kind = re.match(r"constexpr (?:cortex_m::)?(\w+)", text)
            remark = missing.pop(kind[1], "") if kind else ""
            lines += [*(comment(remark, indent="") if remark else []), *wrapped(text, indent="")]
        return [*lines, ""] if lines else []


def described(shape: Shape) -> str:
    """Formats a dtype and shape, such as `float32 [1, 10]`."""
    return f"{DTYPES[shape.dtype].pytorch} {list(shape.sizes)}"


def _alignment(size: int) -> int:
    """Returns the alignment of a constant: kernels load up to sixteen bytes at once, if there are that many."""
    alignment = 4
    while alignment < min(size, 16):
        alignment *= 2
    return alignment
