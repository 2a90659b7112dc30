"""The functions on a model's inputs and outputs."""

from collections.abc import Sequence
from dataclasses import dataclass

from tools.pipeline.compile.layout import is_constant, kind_of
from tools.pipeline.compile.model import UNLESS_READY, Model
from tools.pipeline.compile.operands import Operands
from tools.pipeline.link.interface import NUMBERS

# The end of the functions' conditions on the data that they copy.
_LIES_IN_INSTANCE = [
    "      TORCH_FUSION_EXCLUDED(reinterpret_cast<uintptr_t>(data) + size > reinterpret_cast<uintptr_t>(model) &&",
    "                            reinterpret_cast<uintptr_t>(data) < reinterpret_cast<uintptr_t>(model + 1))) {",
    "    return TORCH_FUSION_INVALID_ARGUMENT;",
    "  }",
]


@dataclass(frozen=True)
class _BorderCase:
    """Expressions for an input or output.

    Attributes:
        data: the address of the elements.
        nbytes: their bytes; empty for the constant in NAME.h.
        sizes: the address of an output's sizes.
    """

    data: str
    nbytes: str
    sizes: str


def interface(model: Model, operands: Operands) -> list[str]:
    """Returns the functions on inputs and outputs."""
    return [
        *_border_functions(operands),
        *_copy_functions(operands.name, operands.method.row_bytes),
        *_resize_function(model, operands),
    ]


def _border_functions(operands: Operands) -> list[str]:
    """Returns the functions for addresses and sizes of inputs and outputs."""
    name, method = operands.name, operands.method
    lines: list[str] = []
    for kind, indices, constant in (("input", method.plan.inputs, ""), ("output", method.plan.outputs, "const ")):
        cases = [_border_case(operands, kind, place, index) for place, index in enumerate(indices or [])]
        is_streamed = method.is_streamed and kind == "input"
        macro = f"{name.upper()}_{kind.upper()}"
        lines += _border_function(
            f"{constant}void* {name}_{kind}({constant}{name}_model_t* model, size_t index)",
            [case.data for case in cases if not is_streamed],
            "nullptr",
        )
        lines += _border_function(
            f"size_t {name}_{kind}_size(const {name}_model_t* model, size_t index)",
            [case.nbytes or f"{macro}_{place}_SIZE" for place, case in enumerate(cases)],
            "0",
        )
        if kind == "output":
            lines += _border_function(
                f"const int32_t* {name}_output_shape(const {name}_model_t* model, size_t index)",
                [case.sizes for case in cases],
                "nullptr",
            )
    return lines


def _border_function(declaration: str, results: Sequence[str], otherwise: str) -> list[str]:
    """Returns a function that looks up a value for an input or output."""
    cases: list[str] = []
    for place, result in enumerate(results):
        cases += [f"    case {place}:", f"      return {result};"]
    return [
        f"{declaration} {{",
        "  if (model == nullptr || TORCH_FUSION_EXCLUDED(model->ready != kReady)) {",
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


def _copy_functions(name: str, row_bytes: int) -> list[str]:
    """Returns the functions that copy an input or output, with the one that takes rows of an image.

    Args:
        row_bytes: the bytes of a row that the application hands over; 0 if inputs are whole.
    """
    into = [f"  void* const to = {name}_input(model, index);"]
    is_none, set_input, set_rows = "to == nullptr", ["  std::memcpy(to, data, size);", "  return TORCH_FUSION_OK;"], []
    if row_bytes:
        into, is_none = [], "index != 0"
        set_input = [
            "  const auto next_row = [](void* image, size_t row, void* elements) {",
            f"    std::memcpy(elements, static_cast<const char*>(image) + row * {row_bytes}, {row_bytes});",
            "    return TORCH_FUSION_OK;",
            "  };",
            f"  return {name}_set_rows(model, next_row, const_cast<void*>(data));",
        ]
        set_rows = [
            f"torch_fusion_status {name}_set_rows(",
            f"    {name}_model_t* model, {name}_next_row_t next_row, void* camera) {{",
            *UNLESS_READY,
            "  model->next_row = next_row;",
            "  model->camera = camera;",
            "  return TORCH_FUSION_OK;",
            "}",
            "",
        ]
    return [
        *set_rows,
        f"torch_fusion_status {name}_set_input(",
        f"    {name}_model_t* model, size_t index, const void* data, size_t size) {{",
        *UNLESS_READY,
        *into,
        f"  if ({is_none} || data == nullptr || size != {name}_input_size(model, index) ||",
        *_LIES_IN_INSTANCE,
        *set_input,
        "}",
        "",
        f"torch_fusion_status {name}_get_output(",
        f"    const {name}_model_t* model, size_t index, void* data, size_t size) {{",
        *UNLESS_READY,
        f"  const void* const from = {name}_output(model, index);",
        f"  if (from == nullptr || data == nullptr || size != {name}_output_size(model, index) ||",
        *_LIES_IN_INSTANCE,
        "  std::memcpy(data, from, size);",
        "  return TORCH_FUSION_OK;",
        "}",
    ]


def _resize_function(model: Model, operands: Operands) -> list[str]:
    """Returns the function that resizes an input of dynamic shape, if there is one."""
    name, method = operands.name, operands.method
    dynamic = [(place, index) for place, index in enumerate(method.plan.inputs or []) if method.is_dynamic(index)]
    if not dynamic:
        return []
    operands.headers.add("kernels/util/checks.h")
    cases = []
    for place, index in dynamic:
        # The program itself only contains the largest sizes.
        bounds = model.bounds[place] if place < len(model.bounds) else ()
        bounds = bounds or [(0, size) for size in method.shapes[index].sizes]
        for end, wanted in enumerate(("Smallest", "Largest")):
            constant = f"kInput{place}{wanted}"
            sizes = ", ".join(str(bound[end]) for bound in bounds)
            operands.constants.objects[constant] = f"constexpr int32_t {constant}[] = {{{sizes}}};"
        cases += [
            f"    case {place}:",
            f"      input = reinterpret_cast<TensorData*>(model->tensors[{operands.place_name(index)}]);",
            f"      smallest = kInput{place}Smallest;",
            f"      largest = kInput{place}Largest;",
            "      break;",
        ]
    return [
        "",
        f"torch_fusion_status {name}_resize_input(",
        f"    {name}_model_t* model, size_t index, const int32_t* sizes, size_t dim) {{",
        *UNLESS_READY,
        "  TensorData* input = nullptr;",
        "  const int32_t* smallest = nullptr;",
        "  const int32_t* largest = nullptr;",
        "  switch (index) {",
        *cases,
        "    default:",
        "      return TORCH_FUSION_INVALID_ARGUMENT;",
        "  }",
        "  if (sizes == nullptr || dim != static_cast<size_t>(input->tensor().dim())) {",
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


def _border_case(operands: Operands, kind: str, place: int, index: int) -> _BorderCase:
    """Returns the expressions for an input or output."""
    method = operands.method
    const = "const " if kind == "output" else ""
    value_kind = kind_of(method.value(index))
    if value_kind in NUMBERS:
        if index in operands.value_place:
            payload = f"reinterpret_cast<const EValue*>(model->values[{operands.value_place[index]}])->payload"
            return _BorderCase(f"&{payload}.copyable_union.as_{value_kind.lower()}", "", "nullptr")
        c_type = {"Int": "int64_t", "Double": "double", "Bool": "bool"}[value_kind]
        operands.constants.objects[f"k{kind.capitalize()}{place}"] = (
            f"constexpr {c_type} k{kind.capitalize()}{place} = {operands.literal(index)};"
        )
        return _BorderCase(f"&k{kind.capitalize()}{place}", "", "nullptr")
    if index in operands.value_place:
        value = f"reinterpret_cast<const EValue*>(model->values[{operands.value_place[index]}])->payload.as_tensor"
        return _BorderCase(f"{value}.const_data_ptr()", f"{value}.nbytes()", f"{value}.sizes().data()")
    sizes = "nullptr"
    if kind == "output" and method.shapes[index].sizes:
        sizes = operands.constants.numbers("int32_t", list(map(str, method.shapes[index].sizes)))
    if index in operands.kept_place:
        data = f"reinterpret_cast<{const}TensorData*>(model->tensors[{operands.place_name(index)}])->data"
        if not method.is_dynamic(index):
            return _BorderCase(data, "", sizes)
        tensor = f"reinterpret_cast<const TensorData*>(model->tensors[{operands.place_name(index)}])->tensor()"
        return _BorderCase(data, f"{tensor}.nbytes()", f"{tensor}.sizes().data()")
    if is_constant(method.value(index)):
        operands.constants.used.setdefault(index, False)
        return _BorderCase(method.constants[method.value(index).val.data_buffer_idx], "", sizes)
    return _BorderCase(operands.address(index), "", sizes)
