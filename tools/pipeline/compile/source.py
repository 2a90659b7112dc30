"""Writes NAME.cpp: a method of a program as C++."""

from __future__ import annotations

import hashlib
import re
import struct
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tools.abi.layouts.layouts import Variant
from tools.artifacts.core.core import PORTABLE, layout
from tools.artifacts.packed_layer.packed_layer import describe
from tools.pipeline.compile.call import Call
from tools.pipeline.compile.inner import inner_call
from tools.pipeline.compile.layout import Instruction, elements, is_constant, kind_of
from tools.pipeline.compile.names import module_of, results_of
from tools.pipeline.compile.program import VIEW, Method, Shape
from tools.pipeline.compile.values import array, data_array, floating, integer, string
from tools.pipeline.link.interface import NUMBERS
from tools.pipeline.registry.calls import SCALAR_TYPES
from tools.pipeline.registry.registry import Selected
from tools.pipeline.registry.signature import argument_names
from tools.quiet.console import UserError

_NATIVE = "torch::executor::native::"
_VALUES = {name: value for value, name in SCALAR_TYPES.items()}
_SCALAR_TYPES = {
    "BYTE": "Byte",
    "CHAR": "Char",
    "SHORT": "Short",
    "INT": "Int",
    "LONG": "Long",
    "HALF": "Half",
    "FLOAT": "Float",
    "DOUBLE": "Double",
    "BOOL": "Bool",
    "BFLOAT16": "BFloat16",
    "UINT16": "UInt16",
    "UINT32": "UInt32",
    "UINT64": "UInt64",
}
# PyTorch's names, for comments.
_DTYPES = {
    "BYTE": "uint8",
    "CHAR": "int8",
    "SHORT": "int16",
    "INT": "int32",
    "LONG": "int64",
    "HALF": "float16",
    "FLOAT": "float32",
    "DOUBLE": "float64",
}
# Loops of a program end by themselves.
_MAX_BACKWARD_JUMPS = 1 << 20
# Instructions that call the layer hook.
_LAYERS = ("KernelCall", "DelegateCall")
# The namespace of constants that several models share.
_SHARED = "torch_fusion_constants"
# A macro of torch_fusion.h, by which users place weights.
_WEIGHTS = "TORCH_FUSION_WEIGHTS"
# The columns of a statement.
_LINE = 108
# A space at which an argument may be broken.
_BREAK = "\1"
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
# The beginning of each function on an instance.
_UNLESS_READY = [
    "  if (model == nullptr || model->ready != kReady) {",
    "    return TORCH_FUSION_INVALID_STATE;",
    "  }",
]
_CHECK = ["  if (context.failure_state() != Error::Ok) {", "    goto failed;", "  }"]


@dataclass(frozen=True)
class Model:
    """A method that becomes C++.

    Attributes:
        name: a C identifier: prefix of the functions, and the namespace.
        core: the core that it is for, or `host` for another processor.
        lowered: the core whose layout the program's layers have, or `portable`.
        keeps_state: whether an inference depends on earlier ones.
        method: its values.
        kernels: the kernel of each operator, with the variants that programs use.
        bounds: the smallest and largest size of each dimension of inputs with dynamic shapes, where known.
    """

    name: str
    core: str
    lowered: str
    keeps_state: bool
    method: Method
    kernels: Mapping[str, Selected]
    bounds: Sequence[Sequence[tuple[int, int]]] = ()


@dataclass(frozen=True)
class BorderCase:
    """Expressions for an input or output.

    Attributes:
        data: the address of the elements.
        nbytes: their bytes; empty for the constant in NAME.h.
        sizes: the address of an output's sizes.
    """

    data: str
    nbytes: str
    sizes: str


def source(model: Model) -> str:
    """Returns the text of NAME.cpp.

    Raises:
        UserError: the method needs features that compiled models lack.
    """
    return "\n".join(_Source(model).lines()) + "\n"


class _Source:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.method = model.method
        self.plan = model.method.plan
        self.shapes: dict[Shape, str] = {}
        self.arrays: dict[tuple[str, tuple[str, ...]], str] = {}
        self.headers: set[str] = set()
        self.value_place = {index: i for i, index in enumerate(self.method.values)}
        self.kept_place = {index: i for i, index in enumerate(self.method.kept)}
        # Tensors at known addresses, by name.
        self.placed: dict[str, int] = {}
        self.has_placed_tensors = False
        # Maps constants to whether they are needed as TensorData.
        self.constants: dict[int, bool] = {}
        self.array_texts: list[str] = []
        self.is_direct = False
        # Objects that inner functions take by reference, by name.
        self.objects: dict[str, str] = {}
        # The commands and weights of delegates.
        self.delegate_texts: dict[str, list[str]] = {}
        # Constants that other methods of the program use, too, by name.
        self.shared_texts: dict[str, list[str]] = {}

    def lines(self) -> list[str]:
        name = self.model.name
        run = self.run()
        begin = self.begin()
        interface = self.interface()
        weights = self.weights()
        constants = [*self.shape_lines(), *self.array_lines(), *self.place_lines()]
        code = [line for line in (*constants, *begin, *run, *interface) if not _is_remark(line)]
        # Calls of kernels' outer functions and kept tensors need these headers.
        uses_tensors = bool(self.shapes) or any(
            re.search(r"\b(context|TensorData|EValue|Error)\b", line) for line in code
        )
        if uses_tensors or not self.headers:
            self.headers.add("kernels/call.h")
        return [
            f"// {name} for {self.model.core}. Generated by //tools/pipeline/compile.",
            f'#include "{name}.h"',
            "",
            *self.guard(),
            "#include <cstddef>",
            "#include <cstdint>",
            "#include <cstring>",
            *(["#include <new>"] if any("  new (" in line for line in code) else []),
            "",
            *(f'#include "{header}"' for header in sorted(self.headers)),
            "",
            *self.shared_constants(),
            f"namespace {name}_model {{",
            "",
            "using namespace torch::executor::native;",
            *(["using executorch::runtime::internal::TensorShape;"] if uses_tensors else []),
            "",
            '// "TFM1": what `ready` is in an instance that has been initialized.',
            "constexpr uint32_t kReady = 0x54464d31;",
            "",
            *weights,
            *constants,
            *self.object_lines(),
            *self.access(),
            'extern "C" {',
            "",
            *self.declarations([*begin, *run, *interface]),
            *begin,
            "",
            *run,
            "",
            *interface,
            "",
            '} // extern "C"',
            "",
            f"}} // namespace {name}_model",
        ]

    def declarations(self, code: Sequence[str]) -> list[str]:
        """Declares the functions in lines of code as the header does: otherwise the compiler would not compare them."""
        name = self.model.name
        found = [re.match(rf"\w.*?\b({name}_\w+)\(", line) for line in code]
        functions = [match[1] for match in found if match]
        return [
            f"// As {name}.h has them: a definition that differs does not compile.",
            *(f"decltype(::{function}) {function};" for function in functions),
            "",
        ]

    def guard(self) -> list[str]:
        """Stops the compilation for a core whose kernels need another layout, as open_packed() of
        kernels/cortex_m/packed.h does when a program is loaded.
        """
        if self.model.lowered == PORTABLE:
            return []
        vectors, pairs = "defined(__ARM_FEATURE_MVE)", "defined(__ARM_FEATURE_DSP)"
        condition, cores = {
            "mve": (f"{pairs} && !{vectors}", "with MVE"),
            "dsp": (f"{vectors} || (defined(__thumb__) && !{pairs})", "with the DSP extension and without MVE"),
            "scalar": (f"{vectors} || {pairs}", "without the DSP extension"),
        }[layout(self.model.lowered)]
        return [
            f"#if {condition}",
            f'#error "{self.model.name} is lowered for cores {cores}; lower it for this one"',
            "#endif",
            "",
        ]

    # ---- constants

    def weights(self) -> list[str]:
        """Returns the arrays of constants, in the order in which layers read them."""
        largest: dict[int, int] = {}
        for index in self.constants:
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
            lines += _comment(
                (f"{users}: " if users else "") + (describe(layer) if layer else _described(shape)), indent=""
            )
            name = self.method.constants[buffer]
            if data and buffer in self.method.shared:
                shared = self.shared(shape.dtype, data)
                lines += [f"constexpr const auto& {name} = {_SHARED}::{shared};"]
            elif data:
                lines += data_array(name, shape.dtype, data, _alignment(len(data)), attribute=_WEIGHTS)
            else:
                lines += [f"const uint8_t {name}[1] = {{}};"]
            lines.append("")
        return [*lines, *(line for text in self.delegate_texts.values() for line in text)]

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
            text = f"k{_SCALAR_TYPES[shape.dtype]}{kind}{'x'.join(map(str, shape.sizes))}"
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
            lines += _wrapped(
                f"constexpr TensorShape {name} = {{ScalarType::{_SCALAR_TYPES[shape.dtype]}, {dim}, {shape.numel}, "
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

    def take_arrays(self) -> list[str]:
        lines, self.array_texts = self.array_texts, []
        return lines

    def array_lines(self) -> list[str]:
        lines = self.take_arrays()
        return [*lines, ""] if lines else []

    def place_lines(self) -> list[str]:
        lines = []
        for name, index in self.placed.items():
            shape = self.method.shapes[index]
            remark = f"{_described(shape)}, {shape.nbytes} bytes"
            lines.append(f"constexpr size_t {name}Offset = {self.method.offsets[index]}; // {remark}")
        for index, place in self.kept_place.items():
            remark = _described(self.method.shapes[index])
            lines.append(f"constexpr size_t {self.place_name(index)} = {place}; // {remark}")
        for index, is_tensor in self.constants.items():
            if is_tensor:
                of = self.shape(self.method.shapes[index])
                array_name = self.method.constants[self.method.value(index).val.data_buffer_idx]
                lines.append(f"constexpr TensorData {self.method.names[index]} = {{{of}, {array_name}}};")
        return [*lines, ""] if lines else []

    def object_lines(self) -> list[str]:
        """Returns the objects that inner functions take by reference, with a comment on the numbers of each type."""
        lines: list[str] = []
        missing = dict(_OBJECTS)
        for text in self.objects.values():
            kind = re.match(r"constexpr (?:cortex_m::)?(\w+)", text)
            remark = missing.pop(kind[1], "") if kind else ""
            lines += [*(_comment(remark, indent="") if remark else []), *_wrapped(text, indent="")]
        return [*lines, ""] if lines else []

    def access(self) -> list[str]:
        """Returns the functions that access elements in the arena for inner functions, and tensors for outer ones."""
        lines: list[str] = []
        if self.is_direct:
            lines += [
                "/// Elements at a place in the arena.",
                "template <class T>",
                f"inline T* at({self.model.name}_model_t* model, size_t offset) {{",
                "  return static_cast<T*>(static_cast<void*>(model->arena + offset));",
                "}",
                "",
            ]
        if self.has_placed_tensors:
            lines += [
                "/// The same as a tensor.",
                "inline TensorData tensor_at(",
                f"    {self.model.name}_model_t* model, size_t offset, const TensorShape& shape) {{",
                "  return {shape, model->arena + offset};",
                "}",
                "",
            ]
            if not self.is_direct:
                lines[0] = "/// The tensor at a place in the arena."
        return lines

    # ---- arguments

    def tensor(self, index: int, is_out: bool = False) -> str:
        """Returns the expression of a tensor argument."""
        if index in self.value_place:
            return self.kept_value(index)
        if index in self.kept_place:
            return f"*tensors[{self.place_name(index)}]"
        if is_constant(self.method.value(index)):
            self.constants[index] = True
            self.shape(self.method.shapes[index])
            return self.method.names[index]
        self.has_placed_tensors = True
        return f"tensor_at(model, {self.offset(index, is_out)}, {self.shape(self.method.shapes[index])})"

    def offset(self, index: int, is_out: bool = False) -> str:
        """Returns the name of a tensor's offset in the arena; is_out: the name after the instruction writes it."""
        name = self.method.names[index]
        name = self.method.written.get(index, name) if is_out else name
        self.placed.setdefault(name, index)
        return f"{name}Offset"

    def place_name(self, index: int) -> str:
        """Returns the name of the index of a tensor in the instance."""
        return f"{self.method.names[index]}Tensor"

    def kept_value(self, index: int) -> str:
        return f"*values[{self.value_place[index]}]"

    def argument(self, index: int, is_out: bool = False) -> str:
        if index < 0:
            return "None()"
        if index in self.value_place:
            return self.kept_value(index)
        value = self.method.value(index)
        kind = kind_of(value)
        if kind == "Tensor":
            return self.tensor(index, is_out)
        if kind == "Null":
            return "None()"
        if kind == "Int":
            return integer(value.val.int_val)
        if kind == "Bool":
            return "true" if value.val.bool_val else "false"
        if kind == "Double":
            return floating(value.val.double_val, False)
        if kind == "String":
            text = value.val.string_val or ""
            return f"std::string_view({string(text)}, {len(text.encode())})"
        if kind == "BoolList":
            return self.list_of("bool", ["true" if item else "false" for item in value.val.items or []])
        if kind == "DoubleList":
            return self.list_of("double", [floating(item, False) for item in value.val.items or []])
        items = elements(value)
        if kind == "IntList":
            if any(item in self.value_place for item in items):
                numbers = ", ".join(
                    f"integer(context, {self.kept_value(item)})"
                    if item in self.value_place
                    else integer(self.method.value(item).val.int_val)
                    for item in items
                )
                return f"List<int64_t, {len(items)}>{{{{{numbers}}}}}"
            return self.list_of("int64_t", [str(self.method.value(item).val.int_val) for item in items])
        element = {"TensorList": "Tensor", "OptionalTensorList": "std::optional<Tensor>"}.get(kind)
        if element is None:
            raise UserError(f"program {self.method.file.path}: value {index} is of the unknown kind {kind}")
        if not items:
            return f"ArrayRef<{element}>()"
        arguments = list(map(self.argument, items))
        # A long list is broken between its elements.
        space = _BREAK if len(", ".join(arguments)) > _LINE // 2 else " "
        return f"list<{element}>({f',{space}'.join(arguments)})"

    def remark(self, index: int, name: str) -> str:
        """Returns a literal's name as a comment; tensors and computed values have names of their own."""
        if index >= 0 and (index in self.value_place or "Tensor" in kind_of(self.method.value(index))):
            return ""
        return f" /* {name} */"

    def list_of(self, c_type: str, items: Sequence[str]) -> str:
        if not items:
            return f"ArrayRef<{c_type}>()"
        return f"ArrayRef<{c_type}>({self.numbers(c_type, items)}, {len(items)})"

    # ---- functions

    def begin(self) -> list[str]:
        name, method = self.model.name, self.method
        lines = [
            f"torch_fusion_status {name}_init({name}_model_t* model, size_t size) {{",
            f"  if (model == nullptr || size < sizeof({name}_model_t) ||",
            f"      reinterpret_cast<uintptr_t>(model) % alignof({name}_model_t) != 0) {{",
            "    return TORCH_FUSION_MEMORY_TOO_SMALL;",
            "  }",
            "  model->ready = kReady;",
            f"  return {name}_reset(model);",
            "}",
            "",
            f"torch_fusion_status {name}_reset({name}_model_t* model) {{",
            *_UNLESS_READY,
        ]
        states = [(index, state) for index in method.layout.tensors if (state := method.initial_state(index))]
        if self.model.keeps_state or not all(any(state) for _, state in states):
            lines += ["  // State begins with zeros.", "  std::memset(model->arena, 0, sizeof(model->arena));"]
        for index, state in states:
            if index not in method.offsets:
                raise UserError(
                    f"program {method.file.path}: tensor {index} has an initial state, and no planned memory, which "
                    'compiled models need; use engine = "loaded"'
                )
            offset = self.offset(index)
            if any(state):
                array_name = self.numbers("uint8_t", list(map(str, state)), f"k{method.names[index][1:]}Initial")
                lines.append(f"  std::memcpy(model->arena + {offset}, {array_name}, sizeof({array_name}));")
        for index in self.kept_place:
            shape = self.shape(method.shapes[index])
            data = "nullptr"
            if index in method.offsets:
                data = f"model->arena + {self.offset(index)}"
            own = f", &model->shapes[{method.shape_places[index]}]" if index in method.shape_places else ""
            if not own and data == "nullptr":
                data = "static_cast<void*>(nullptr)"
            lines += _wrapped(f"new (model->tensors[{self.place_name(index)}]) TensorData({shape}, {data}{own});")
        for index, place in self.value_place.items():
            value = method.value(index)
            if kind_of(value) == "Tensor":
                initial = f"reinterpret_cast<TensorData*>(model->tensors[{self.place_name(index)}])->tensor()"
            elif kind_of(value) == "Null":
                initial = ""
            elif kind_of(value) in ("Int", "Bool", "Double"):
                initial = self.literal(index)
            else:
                raise UserError(
                    f"program {method.file.path}: value {index}, a {kind_of(value)}, changes, which compiled models "
                    'can\'t have; use engine = "loaded"'
                )
            lines.append(f"  new (model->values[{place}]) EValue({initial});")
        return [*lines, "  return TORCH_FUSION_OK;", "}"]

    def literal(self, index: int) -> str:
        value = self.method.value(index).val
        kind = kind_of(self.method.value(index))
        if kind == "Int":
            return integer(value.int_val)
        return ("true" if value.bool_val else "false") if kind == "Bool" else floating(value.double_val, False)

    def run(self) -> list[str]:
        name, code, whole = self.model.name, self.method.layout.code, self.method
        body: list[str] = []
        targets = {i.destination for i in code if i.kind == "JumpFalseCall"}
        has_loop = any(i.kind == "JumpFalseCall" and i.destination <= place for place, i in enumerate(code))
        uses_context = False
        for place, (instruction, origin) in enumerate(zip(code, self.method.origins, strict=True)):
            if place in targets:
                body.append(f"at_{place}:;")
            self.method = whole.named_at(place)
            lines = self.instruction(place, instruction, origin)
            self.method = whole
            uses_context = uses_context or any("context" in line for line in lines if not _is_remark(line))
            body += lines
        if len(code) in targets:
            body.append(f"at_{len(code)}:;")
        head = []
        if self.kept_place and any("tensors[" in line for line in body):
            head.append("  TensorData* const tensors[] = {")
            head += [f"      reinterpret_cast<TensorData*>(model->tensors[{i}])," for i in range(len(self.kept_place))]
            head.append("  };")
        if self.value_place and any("values[" in line for line in body):
            head.append("  EValue* const values[] = {")
            head += [f"      reinterpret_cast<EValue*>(model->values[{i}])," for i in range(len(self.value_place))]
            head.append("  };")
        if has_loop:
            head.append("  uint32_t backward_jumps = 0;")
        if uses_context:
            head.append("  KernelRuntimeContext context;")
        if self.delegate_texts:
            head.append("  Error error = Error::Ok;")
        hook_end = f"  TORCH_FUSION_LAYER(model, {sum(i.kind in _LAYERS for i in code)}, nullptr);"
        result = [
            f"torch_fusion_status {name}_run({name}_model_t* model) {{",
            *_UNLESS_READY,
            *head,
            *body,
            hook_end,
            "  return TORCH_FUSION_OK;",
        ]
        if uses_context:
            result += ["failed:", "  return static_cast<torch_fusion_status>(context.failure_state());"]
            if not any("goto failed" in line for line in body):
                result = result[:-2]
        return [*result, "}"]

    def instruction(self, place: int, instruction: Instruction, origin: str) -> list[str]:
        code = self.method.layout.code
        number = sum(i.kind in _LAYERS for i in code[:place])
        if instruction.kind == "DelegateCall":
            name = f"npu_{instruction.operator}"
            return [
                *_comment(f"On the NPU{self.flow(instruction)}"),
                f"  TORCH_FUSION_LAYER(model, {number}, {string(name)});",
                *self.delegate(instruction, name),
            ]
        if instruction.kind == "KernelCall":
            operator = self.method.operator(instruction)
            layer = module_of(origin) or operator
            # Without a module, the operator describes the call better than its name in the graph.
            at_line = f" at {origin}" if ":" in origin else ""
            what = origin if module_of(origin) else f"{operator}{at_line}"
            lines = [
                *_comment(f"{what}{self.flow(instruction)}"),
                f"  TORCH_FUSION_LAYER(model, {number}, {string(layer)});",
            ]
            return lines + self.call(instruction, operator)
        if instruction.kind == "MoveCall":
            to, given = instruction.values
            return [f"  {self.kept_value(to)} = {self.moved(given)};"]
        if instruction.kind == "FreeCall":
            return [f"  (*tensors[{self.place_name(instruction.values[0])}]).data = nullptr;"]
        condition = f"is_true(context, {self.argument(instruction.values[0])})"
        if instruction.destination > place:
            return [f"  if (!{condition}) {{", f"    goto at_{instruction.destination};", "  }", *_CHECK]
        return [
            f"  if (!{condition}) {{",
            f"    if (backward_jumps++ == {_MAX_BACKWARD_JUMPS}) {{",
            "      return TORCH_FUSION_INVALID_PROGRAM;",
            "    }",
            f"    goto at_{instruction.destination};",
            "  }",
            *_CHECK,
        ]

    def flow(self, instruction: Instruction) -> str:
        """Returns the shapes of a layer's first tensor and of its result for a comment; empty if it has none.

        A constant only counts if there is no other tensor, because an embedding has its weights first.
        """
        shapes = self.method.shapes
        arguments = instruction.values
        if not arguments:
            return ""
        place = len(arguments) - 1
        if instruction.kind == "KernelCall":
            results = results_of(self.method.operator(instruction), len(arguments))
            place = next(position for position, name in results.items() if not name)
        given = [index for index in arguments[:place] if index in shapes]
        flowing = [index for index in given if not is_constant(self.method.value(index))]
        ends = ((flowing or arguments)[0], arguments[place])
        if not shapes.keys() >= set(ends):
            return ""
        return ": " + " to ".join(str(list(shapes[index].sizes)) for index in ends)

    def moved(self, index: int) -> str:
        if index in self.value_place:
            return self.kept_value(index)
        if kind_of(self.method.value(index)) == "Tensor":
            return f"EValue(({self.tensor(index)}).tensor())"
        argument = self.argument(index)
        return "EValue()" if argument == "None()" else f"EValue({argument})"

    def delegate(self, instruction: Instruction, name: str) -> list[str]:
        """Returns the call of an NPU's driver, and copies of tensors outside of the NPU's memory."""
        delegate = self.method.delegates[instruction.operator]
        payload, commands = delegate.payload, delegate.commands
        self.headers.add("firmware/ethos_u/driver.h")
        # The driver's header precedes the commands.
        block = struct.unpack(f"<{len(payload.commands) // 4}I", payload.commands)
        count = len(commands.words)
        first = next(i for i in range(0, len(block), 4) if block[i : i + count] == commands.words)
        if name not in self.delegate_texts:
            self.delegate_texts[name] = [
                f"// {first} words that say for which NPU it is, its commands, and {len(payload.weights)} bytes of "
                "weights.",
                *data_array(f"{name}_commands", "UINT32", payload.commands, 16),
                *data_array(f"{name}_weights", "BYTE", payload.weights or bytes(1), 16, attribute=_WEIGHTS),
                "",
            ]
        memory = "model->arena" if delegate.is_in_place else "model->scratch"
        lines: list[str] = []
        copies: list[str] = []
        if not delegate.is_in_place:
            places = (*payload.inputs, *payload.outputs)
            for number, (index, place) in enumerate(zip(instruction.values, places, strict=True)):
                own, there = self.elements(index), f"{memory} + {place.offset}"
                is_input = number < len(payload.inputs)
                to, source = (there, own) if is_input else (own, there)
                (lines if is_input else copies).append(f"  std::memcpy({to}, {source}, {place.size});")
        return [
            *lines,
            "  error = torch_fusion::ethos_u::compute(",
            "      torch_fusion::ethos_u::kDevice,",
            f"      {{{commands.config:#x} /* its CONFIG */, {commands.architecture:#x} /* its architecture */,",
            f"       {{{name}_commands + {first}, {count} /* words */}}, {name}_weights,",
            f"       {memory}, {payload.scratch_size} /* bytes */}});",
            "  if (error != Error::Ok) {",
            "    return static_cast<torch_fusion_status>(error);",
            "  }",
            *copies,
        ]

    def elements(self, index: int) -> str:
        """Returns an expression for the address of a tensor's elements."""
        if is_constant(self.method.value(index)):
            self.constants.setdefault(index, False)
            return self.method.constants[self.method.value(index).val.data_buffer_idx]
        if index in self.kept_place:
            return f"tensors[{self.place_name(index)}]->data"
        return f"model->arena + {self.offset(index)}"

    def call(self, instruction: Instruction, operator: str) -> list[str]:
        selected = self.model.kernels[operator]
        kernel = selected.kernel
        arguments = instruction.values
        if operator == VIEW and arguments[2] in self.method.offsets and arguments[2] not in self.kept_place:
            return ["  // A view: its elements lie where they are."]
        direct = inner_call(self.method, operator, arguments)
        if direct is not None:
            self.is_direct = True
            self.headers.add(direct.header)
            direct = take_objects(direct, self.objects)
            for index in direct.tensors:
                if is_constant(self.method.value(index)):
                    self.constants.setdefault(index, False)
                else:
                    self.offset(index)
                    self.offset(index, is_out=True)
            return _wrapped(f"{direct.function}({', '.join(direct.arguments)});")
        self.headers.add(kernel.header)
        function = kernel.function.removeprefix(_NATIVE)
        if not kernel.function.startswith(_NATIVE):
            function = f"::{kernel.function}"
        if kernel.is_template:
            assert selected.dtypes is not None and selected.variants is not None
            mask = sum(1 << _VALUES[dtype] for dtype in selected.dtypes)
            dtypes = ", ".join(sorted(selected.dtypes, key=lambda dtype: _VALUES[dtype]))
            function += f"<Selection<{mask:#x} /* {dtypes} */, {int(selected.variants):#x}{_variants(selected)}>>"
        names, results = argument_names(kernel), results_of(operator, len(arguments))
        passed = ["context"]
        for place, index in enumerate(arguments):
            remark = self.remark(index, names[place]) if place < len(names) else ""
            passed.append(self.argument(index, is_out=place in results) + remark)
        given = ", ".join(passed)
        callee = f"call_boxed({function}, {given})" if kernel.is_boxed else f"call<&{function}>({given})"
        return [*_wrapped(f"if (!{callee}) {{"), "    goto failed;", "  }"]

    def interface(self) -> list[str]:
        """Returns the functions on inputs and outputs."""
        return [*self.border_functions(), *self.copy_functions(), *self.resize_function()]

    def border_functions(self) -> list[str]:
        """Returns the functions for addresses and sizes of inputs and outputs."""
        name, method = self.model.name, self.method
        lines: list[str] = []
        for kind, indices, constant in (("input", method.plan.inputs, ""), ("output", method.plan.outputs, "const ")):
            cases = [self.border_case(kind, place, index) for place, index in enumerate(indices or [])]
            macro = f"{name.upper()}_{kind.upper()}"
            lines += self.border_function(
                f"{constant}void* {name}_{kind}({constant}{name}_model_t* model, size_t index)",
                [case.data for case in cases],
                "nullptr",
            )
            lines += self.border_function(
                f"size_t {name}_{kind}_size(const {name}_model_t* model, size_t index)",
                [case.nbytes or f"{macro}_{place}_SIZE" for place, case in enumerate(cases)],
                "0",
            )
            if kind == "output":
                lines += self.border_function(
                    f"const int32_t* {name}_output_shape(const {name}_model_t* model, size_t index)",
                    [case.sizes for case in cases],
                    "nullptr",
                )
        return lines

    def border_function(self, declaration: str, results: Sequence[str], otherwise: str) -> list[str]:
        """Returns a function that looks up a value for an input or output."""
        cases: list[str] = []
        for place, result in enumerate(results):
            cases += [f"    case {place}:", f"      return {result};"]
        return [
            f"{declaration} {{",
            "  if (model == nullptr) {",
            f"    return {otherwise};",
            "  }",
            "  switch (index) {",
            *cases,
            "    default:",
            f"      return {otherwise};",
            "  }",
            "}",
            "",
        ]

    def copy_functions(self) -> list[str]:
        """Returns the functions that copy an input or output."""
        name = self.model.name
        return [
            f"torch_fusion_status {name}_set_input(",
            f"    {name}_model_t* model, size_t index, const void* data, size_t size) {{",
            *_UNLESS_READY,
            f"  void* const to = {name}_input(model, index);",
            f"  if (to == nullptr || data == nullptr || size != {name}_input_size(model, index)) {{",
            "    return TORCH_FUSION_INVALID_ARGUMENT;",
            "  }",
            "  std::memcpy(to, data, size);",
            "  return TORCH_FUSION_OK;",
            "}",
            "",
            f"torch_fusion_status {name}_get_output(",
            f"    const {name}_model_t* model, size_t index, void* data, size_t size) {{",
            *_UNLESS_READY,
            f"  const void* const from = {name}_output(model, index);",
            f"  if (from == nullptr || data == nullptr || size != {name}_output_size(model, index)) {{",
            "    return TORCH_FUSION_INVALID_ARGUMENT;",
            "  }",
            "  std::memcpy(data, from, size);",
            "  return TORCH_FUSION_OK;",
            "}",
        ]

    def resize_function(self) -> list[str]:
        """Returns the function that resizes an input of dynamic shape, if there is one."""
        name, method = self.model.name, self.method
        dynamic = [(place, index) for place, index in enumerate(method.plan.inputs or []) if method.is_dynamic(index)]
        if not dynamic:
            return []
        self.headers.add("kernels/util/checks.h")
        cases = []
        for place, index in dynamic:
            # The program itself only contains the largest sizes.
            bounds = self.model.bounds[place] if place < len(self.model.bounds) else ()
            bounds = bounds or [(0, size) for size in method.shapes[index].sizes]
            for end, wanted in enumerate(("Smallest", "Largest")):
                constant = f"kInput{place}{wanted}"
                sizes = ", ".join(str(bound[end]) for bound in bounds)
                self.objects[constant] = f"constexpr int32_t {constant}[] = {{{sizes}}};"
            cases += [
                f"    case {place}:",
                f"      input = reinterpret_cast<TensorData*>(model->tensors[{self.place_name(index)}]);",
                f"      smallest = kInput{place}Smallest;",
                f"      largest = kInput{place}Largest;",
                "      break;",
            ]
        return [
            "",
            f"torch_fusion_status {name}_resize_input(",
            f"    {name}_model_t* model, size_t index, const int32_t* sizes, size_t dim) {{",
            *_UNLESS_READY,
            "  TensorData* input = nullptr;",
            "  const int32_t* smallest = nullptr;",
            "  const int32_t* largest = nullptr;",
            "  switch (index) {",
            *cases,
            "    default:",
            "      return TORCH_FUSION_INVALID_ARGUMENT;",
            "  }",
            "  if (dim != static_cast<size_t>(input->tensor().dim())) {",
            "    return TORCH_FUSION_INVALID_ARGUMENT;",
            "  }",
            "  for (size_t i = 0; i < dim; ++i) {",
            "    if (sizes[i] < smallest[i] || sizes[i] > largest[i]) {",
            "      return TORCH_FUSION_INVALID_ARGUMENT;",
            "    }",
            "  }",
            "  KernelRuntimeContext context;",
            "  resize_out(context, input->tensor(), {sizes, dim});",
            "  return static_cast<torch_fusion_status>(context.failure_state());",
            "}",
        ]

    def border_case(self, kind: str, place: int, index: int) -> BorderCase:
        """Returns the expressions for an input or output."""
        method = self.method
        const = "const " if kind == "output" else ""
        value_kind = kind_of(method.value(index))
        if value_kind in NUMBERS:
            if index in self.value_place:
                payload = f"reinterpret_cast<const EValue*>(model->values[{self.value_place[index]}])->payload"
                return BorderCase(f"&{payload}.copyable_union.as_{value_kind.lower()}", "", "nullptr")
            c_type = {"Int": "int64_t", "Double": "double", "Bool": "bool"}[value_kind]
            self.objects[f"k{kind.capitalize()}{place}"] = (
                f"constexpr {c_type} k{kind.capitalize()}{place} = {self.literal(index)};"
            )
            return BorderCase(f"&k{kind.capitalize()}{place}", "", "nullptr")
        if index in self.value_place:
            value = f"reinterpret_cast<const EValue*>(model->values[{self.value_place[index]}])->payload.as_tensor"
            return BorderCase(f"{value}.const_data_ptr()", f"{value}.nbytes()", f"{value}.sizes().data()")
        sizes = "nullptr"
        if kind == "output" and method.shapes[index].sizes:
            sizes = self.numbers("int32_t", list(map(str, method.shapes[index].sizes)))
        if index in self.kept_place:
            data = f"reinterpret_cast<{const}TensorData*>(model->tensors[{self.place_name(index)}])->data"
            if not method.is_dynamic(index):
                return BorderCase(data, "", sizes)
            tensor = f"reinterpret_cast<const TensorData*>(model->tensors[{self.place_name(index)}])->tensor()"
            return BorderCase(data, f"{tensor}.nbytes()", f"{tensor}.sizes().data()")
        if is_constant(method.value(index)):
            self.constants.setdefault(index, False)
            return BorderCase(method.constants[method.value(index).val.data_buffer_idx], "", sizes)
        return BorderCase(f"model->arena + {self.offset(index)}", "", sizes)


def _variants(selected: Selected) -> str:
    """Returns a comment with the variants that a kernel supports, see Variant of kernels/selection.h."""
    used = selected.variants or Variant(0)
    names = [str(variant.name).title().replace("_", "") for variant in Variant if variant in used]
    return f" /* {', '.join(names)} */" if names else ""


def take_objects(call: Call, objects: dict[str, str]) -> Call:
    """Adds the constants of a call to those of a source, and renames those whose name is taken by a different constant.
    """
    arguments = list(call.arguments)
    for wanted, definition in call.objects.items():
        name, number, text = wanted, 2, definition
        while objects.setdefault(name, text) != text:
            name, number = f"{wanted}_{number}", number + 1
            text = definition.replace(f" {wanted} = ", f" {name} = ")
        arguments = [name if argument == wanted else argument for argument in arguments]
    return replace(call, arguments=arguments)


def _wrapped(statement: str, indent: str = "  ") -> list[str]:
    """Wraps a statement's lines between arguments of the outermost call, but not inside comments."""
    text, depth = "", 0
    statement = re.sub(r" /\*.*?\*/", lambda comment: comment[0].replace(" ", "\0"), statement)
    # A brace stays with what it belongs to.
    statement = statement.replace("<const ", "<const\0").replace(") {", ")\0{").replace(" + ", "\0+\0")
    outer = 2 if statement.startswith("if") else 1
    for character in statement:
        depth += (character in "([{") - (character in ")]}")
        text += "\0" if character == " " and depth > outer else character
    lines = textwrap.wrap(
        text.replace(_BREAK, " "),
        _LINE,
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def _comment(text: str, indent: str = "  ") -> list[str]:
    """Returns a comment's lines, without breaks inside shapes."""
    start = f"{indent}// "
    # A backslash would join the next line.
    text = re.sub(r"\[[\d, ]*\]", lambda shape: shape[0].replace(" ", "\0"), text.replace("\\", "/"))
    lines = textwrap.wrap(text, 110, initial_indent=start, subsequent_indent=start, break_long_words=False)
    return [line.replace("\0", " ") for line in lines]


def _is_remark(line: str) -> bool:
    """Whether a line is a comment or a hook, which contain names from the user."""
    return line.lstrip().startswith(("//", "TORCH_FUSION_LAYER("))


def _described(shape: Shape) -> str:
    """Formats a dtype and shape, such as `float32 [1, 10]`."""
    return f"{_DTYPES.get(shape.dtype, shape.dtype.lower())} {list(shape.sizes)}"


def _alignment(size: int) -> int:
    """Returns the alignment of a constant: kernels load up to sixteen bytes at once, if there are that many."""
    alignment = 4
    while alignment < min(size, 16):
        alignment *= 2
    return alignment
