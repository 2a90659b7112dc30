"""The function that runs a method: a call for each of its instructions."""

import struct
from collections.abc import Mapping
from dataclasses import replace

from tools.abi.layouts.layouts import Variant
from tools.pipeline.compile.call import Call, memory_name
from tools.pipeline.compile.chain import Chain
from tools.pipeline.compile.constants import WEIGHTS
from tools.pipeline.compile.inner import inner_call
from tools.pipeline.compile.layout import NEXT_ROWS, Instruction, is_constant
from tools.pipeline.compile.model import UNLESS_READY, Model
from tools.pipeline.compile.names import module_of, results_of
from tools.pipeline.compile.operands import ELEMENTS, Operands
from tools.pipeline.compile.program import VIEW, Method
from tools.pipeline.compile.rows import call_of_rows
from tools.pipeline.compile.text import comment, is_remark, wrapped
from tools.pipeline.compile.values import data_array, string
from tools.pipeline.registry.calls import SCALAR_TYPES
from tools.pipeline.registry.registry import Selected
from tools.pipeline.registry.signature import argument_names

_NATIVE = "torch::executor::native::"
_VALUES = {name: value for value, name in SCALAR_TYPES.items()}
# Loops of a program end by themselves.
_MAX_BACKWARD_JUMPS = 1 << 20
# Instructions that call the layer hook.
_LAYERS = ("KernelCall", "DelegateCall")
_CHECK = ["  if (context.failure_state() != Error::Ok) {", "    goto failed;", "  }"]


def run(model: Model, operands: Operands) -> list[str]:
    """The function that runs an inference."""
    name, method = operands.name, operands.method
    code = method.layout.code
    body: list[str] = []
    targets = {i.destination for i in code if i.kind == "JumpFalseCall"}
    has_loop = any(i.kind == "JumpFalseCall" and i.destination <= place for place, i in enumerate(code))
    uses_context = False
    chains = {chain.first: chain for chain in method.fusion.chains}
    chained = {place for chain in chains.values() for place in range(chain.first, chain.last + 1)}
    for place, (instruction, origin) in enumerate(zip(code, method.origins, strict=True)):
        if place in chains:
            body += _chain(operands, chains[place])
        if place in chained:
            continue
        if place in targets:
            body.append(f"at_{place}:;")
        lines = _instruction(model, operands.named_at(place), place, instruction, origin)
        uses_context = uses_context or any("context" in line for line in lines if not is_remark(line))
        body += lines
    if len(code) in targets:
        body.append(f"at_{len(code)}:;")
    head = []
    if operands.kept_place and any("tensors[" in line for line in body):
        head.append("  TensorData* const tensors[] = {")
        head += [f"      reinterpret_cast<TensorData*>(model->tensors[{i}])," for i in range(len(operands.kept_place))]
        head.append("  };")
    if operands.value_place and any("values[" in line for line in body):
        head.append("  EValue* const values[] = {")
        head += [f"      reinterpret_cast<EValue*>(model->values[{i}])," for i in range(len(operands.value_place))]
        head.append("  };")
    if has_loop:
        head.append("  uint32_t backward_jumps = 0;")
    if uses_context:
        head.append("  KernelRuntimeContext context;")
    if operands.constants.delegates:
        head.append("  Error error = Error::Ok;")
    hook_end = f"  TORCH_FUSION_LAYER(model, {sum(i.kind in _LAYERS for i in code)}, nullptr);"
    result = [
        f"torch_fusion_status {name}_run({name}_model_t* model) {{",
        *UNLESS_READY,
        *(["  if (model->next_row == nullptr) {", *UNLESS_READY[1:]] if method.is_streamed else []),
        "  TORCH_FUSION_RUNNING(model);",
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


def _instruction(model: Model, operands: Operands, place: int, instruction: Instruction, origin: str) -> list[str]:
    code = operands.method.layout.code
    number = sum(i.kind in _LAYERS for i in code[:place])
    if instruction.kind == "DelegateCall":
        name = f"npu_{instruction.operator}"
        return [
            *comment(f"On the NPU{_flow(operands.method, instruction)}"),
            f"  TORCH_FUSION_LAYER(model, {number}, {string(name)});",
            *_delegate(operands, instruction, name),
        ]
    if instruction.kind == "KernelCall":
        operator = operands.method.operator(instruction)
        return [
            *_remark(operands.method, place, origin),
            _hook(operands.method, place, origin),
            *_call(model, operands, instruction, operator),
        ]
    if instruction.kind == "MoveCall":
        to, given = instruction.values
        return [f"  {operands.kept_value(to)} = {operands.moved(given)};"]
    if instruction.kind == "FreeCall":
        return [f"  (*tensors[{operands.place_name(instruction.values[0])}]).data = nullptr;"]
    condition = f"is_true(context, {operands.argument(instruction.values[0])})"
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


def _chain(operands: Operands, chain: Chain) -> list[str]:
    """Returns the loop that computes a chain's layers band by band."""
    method = operands.method
    operands.headers.add("kernels/util/lines.h")
    names: dict[int, str] = {}
    begin: list[str] = []

    def add(index: int, name: str, row_bytes: int, end: int) -> None:
        names[index] = f"rows{name.removeprefix('k')}"
        memory = memory_name(method, index) or "model"
        begin.append(f"    Lines {names[index]} = {{at<int8_t>({memory}, {name}Offset), {row_bytes}, 0, {end}}};")

    loop: list[str] = []
    for place, layer in enumerate(chain.layers, start=chain.first):
        instruction, at = method.layout.code[place], operands.named_at(place)
        for index in layer.inputs:
            if index not in names:
                add(index, at.method.names[index], layer.in_bytes, layer.window.size)
        add(layer.out, at.method.written.get(layer.out, at.method.names[layer.out]), layer.out_bytes, 0)
        first, step, total = chain.steps(place - chain.first)
        result, rows = names[layer.out], f"std::min<int32_t>({first} + band * {step}, {total})"
        if instruction.kind == NEXT_ROWS:
            remark, statements = ["  // The next rows of the image."], _next_rows(result)
        else:
            remark = _remark(at.method, place, method.origins[place])
            operator = method.operator(instruction)
            call = inner_call(at.method, operator, instruction.values)
            assert call is not None
            lines, call = call_of_rows(_used(at, call), operator, layer, names)
            statements = [line for text in lines for line in wrapped(text, "    ")]
            statements += wrapped(f"{call.function}({', '.join(call.arguments)});", "    ")
        loop += [
            *remark,
            *wrapped(f"if (const int32_t from = {result}.end, to = {rows}; to > from) {{"),
            *statements,
            f"    {result}.end = to;",
            "  }",
        ]
        for source, of_source in enumerate(chain.lines):
            if of_source is not None and of_source.last_reader == place - chain.first:
                loop += _drop(chain, source, names)
    layers = [place for place in range(chain.first, chain.last + 1) if method.layout.code[place].kind != NEXT_ROWS]
    count = len(layers)
    remark = [
        *comment(f"The next {count} layers compute rows as they are needed, and keep those that are needed again."),
        "  // The hook gets them at once: all their time is the last one's.",
    ]
    return [
        *(remark if layers else []),
        *(_hook(method, place, method.origins[place]) for place in layers),
        "  {",
        *begin,
        f"    for (int32_t band = 0; band < {len(chain.ends)}; ++band) {{",
        *(f"    {line}" for line in loop),
        "    }",
        "  }",
    ]


def _next_rows(result: str) -> list[str]:
    """Returns the statements that have the application write rows of the image."""
    return [
        "    for (int32_t row = from; row < to; ++row) {",
        "      const torch_fusion_status status =",
        f"          model->next_row(model->camera, static_cast<size_t>(row), {result}.row(row));",
        "      if (status != TORCH_FUSION_OK) {",
        "        return status;",
        "      }",
        "    }",
    ]


def _drop(chain: Chain, source: int, names: Mapping[int, str]) -> list[str]:
    """Returns the statement that drops rows of a layer's result which no layer reads again."""
    rows = ""
    for place, layer in enumerate(chain.layers):
        if source in chain.sources[place]:
            window, end = layer.window, f"{names[layer.out]}.end"
            end += f" * {window.stride}" if window.stride > 1 else ""
            end += f" - {window.padding}" if window.padding else ""
            rows = f"std::min<int32_t>({rows}, {end})" if rows else end
    return wrapped(f"{names[chain.layers[source].out]}.drop({rows});")


def _remark(method: Method, place: int, origin: str) -> list[str]:
    """Returns the comment on a kernel call."""
    instruction = method.layout.code[place]
    operator = method.operator(instruction)
    # Without a module, the operator describes the call better than its name in the graph.
    at_line = f" at {origin}" if ":" in origin else ""
    what = origin if module_of(origin) else f"{operator}{at_line}"
    return comment(f"{what}{_flow(method, instruction)}")


def _hook(method: Method, place: int, origin: str) -> str:
    """Returns the call of the hook before a kernel call."""
    code = method.layout.code
    number = sum(i.kind in _LAYERS for i in code[:place])
    return f"  TORCH_FUSION_LAYER(model, {number}, {string(module_of(origin) or method.operator(code[place]))});"


def _flow(method: Method, instruction: Instruction) -> str:
    """Returns the shapes of a layer's first tensor and of its result for a comment; empty if it has none.

    A constant only counts if there is no other tensor, because an embedding has its weights first.
    """
    shapes = method.shapes
    arguments = instruction.values
    if not arguments:
        return ""
    place = len(arguments) - 1
    if instruction.kind == "KernelCall":
        results = results_of(method.operator(instruction), len(arguments))
        place = next(position for position, name in results.items() if not name)
    given = [index for index in arguments[:place] if index in shapes]
    flowing = [index for index in given if not is_constant(method.value(index))]
    ends = ((flowing or arguments)[0], arguments[place])
    if not shapes.keys() >= set(ends):
        return ""
    return ": " + " to ".join(str(list(shapes[index].sizes)) for index in ends)


def _delegate(operands: Operands, instruction: Instruction, name: str) -> list[str]:
    """Returns the call of an NPU's driver, and copies of tensors outside of the NPU's memory."""
    delegate = operands.method.delegates[instruction.operator]
    payload, commands = delegate.payload, delegate.commands
    operands.headers.add("firmware/ethos_u/driver.h")
    # The driver's header precedes the commands.
    block = struct.unpack(f"<{len(payload.commands) // 4}I", payload.commands)
    count = len(commands.words)
    first = next(i for i in range(0, len(block), 4) if block[i : i + count] == commands.words)
    if name not in operands.constants.delegates:
        operands.constants.delegates[name] = [
            f"// {first} words that say for which NPU it is, its commands, and {len(payload.weights)} bytes of "
            "weights.",
            *data_array(f"{name}_commands", "UINT32", payload.commands, 16),
            *data_array(f"{name}_weights", "BYTE", payload.weights or bytes(1), 16, attribute=WEIGHTS),
            "",
        ]
    memory = "model->arena" if delegate.is_in_place else "model->scratch"
    lines: list[str] = []
    copies: list[str] = []
    if not delegate.is_in_place:
        places = (*payload.inputs, *payload.outputs)
        for number, (index, place) in enumerate(zip(instruction.values, places, strict=True)):
            own, there = operands.elements(index), f"{memory} + {place.offset}"
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


def _call(model: Model, operands: Operands, instruction: Instruction, operator: str) -> list[str]:
    selected = model.kernels[operator]
    kernel = selected.kernel
    arguments = instruction.values
    if operator == VIEW and arguments[2] in operands.method.offsets and arguments[2] not in operands.kept_place:
        return ["  // A view: its elements lie where they are."]
    names, results = argument_names(kernel), results_of(operator, len(arguments))
    direct = inner_call(operands.method, operator, arguments[: len(names) or None])
    if direct is not None:
        direct = _used(operands, direct)
        return wrapped(f"{direct.function}({', '.join(direct.arguments)});")
    operands.headers.add(kernel.header)
    function = kernel.function.removeprefix(_NATIVE)
    if not kernel.function.startswith(_NATIVE):
        function = f"::{kernel.function}"
    if kernel.is_template:
        assert selected.dtypes is not None and selected.variants is not None
        mask = sum(1 << _VALUES[dtype] for dtype in selected.dtypes)
        dtypes = ", ".join(sorted(selected.dtypes, key=lambda dtype: _VALUES[dtype]))
        function += f"<Selection<{mask:#x} /* {dtypes} */, {int(selected.variants):#x}{_variants(selected)}>>"
    passed = ["context"]
    for place, index in enumerate(arguments):
        remark = operands.remark(index, names[place]) if place < len(names) else ""
        passed.append(operands.argument(index, is_out=place in results) + remark)
    given = ", ".join(passed)
    callee = f"call_boxed({function}, {given})" if kernel.is_boxed else f"call<&{function}>({given})"
    return [*wrapped(f"if (!{callee}) {{"), "    goto failed;", "  }"]


def _used(operands: Operands, call: Call) -> Call:
    """Declares what a call of an inner function refers to, and returns the call with the names of its constants."""
    operands.reached.add(ELEMENTS)
    operands.headers.add(call.header)
    call = take_objects(call, operands.constants.objects)
    for index in call.tensors:
        if is_constant(operands.method.value(index)):
            operands.constants.used.setdefault(index, False)
        else:
            operands.offset(index)
            operands.offset(index, is_out=True)
    return call


def _variants(selected: Selected) -> str:
    """Returns a comment with the variants that a kernel supports, see Variant of kernels/selection.h."""
    used = selected.variants or Variant(0)
    names = [str(variant.name).title().replace("_", "") for variant in Variant if variant in used]
    return f" /* {', '.join(names)} */" if names else ""


def take_objects(call: Call, objects: dict[str, str]) -> Call:
    """Adds the constants of a call to those of a source, and renames those whose name another constant has."""
    arguments = list(call.arguments)
    for wanted, definition in call.objects.items():
        name, number, text = wanted, 2, definition
        while objects.setdefault(name, text) != text:
            name, number = f"{wanted}_{number}", number + 1
            text = definition.replace(f" {wanted} = ", f" {name} = ")
        arguments = [name if argument == wanted else argument for argument in arguments]
    return replace(call, arguments=arguments)
