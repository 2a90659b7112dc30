"""Writes the header of a program in an image, NAME_pte.h: for C++, and its size, alignment and data for C as well."""

import binascii
from collections.abc import Sequence
from dataclasses import dataclass

from tools.artifacts.manifest.manifest import Border, Manifest
from tools.artifacts.memory_plan.memory_plan import MemoryPlan
from tools.artifacts.program.program import aligned
from tools.pipeline.link.interface import Interface, TensorSpec

# ExecuTorch reads constants in place, and its kernels may load them in units of up to 16 bytes.
ALIGNMENT = 16

# The tolerance for an image's check of the example's outputs against PyTorch.
_ATOL = 1e-4
_RTOL = 1e-4


@dataclass(frozen=True)
class Embedded:
    """A method of a program in an image.

    Attributes:
        name: the program's name, or that of one of its further methods: NAME in `NAME_pte.h`.
        method: the method.
        data_of: the name of the program.
        pte: the program.
        plan: what the method takes of memory.
        interface: its inputs and outputs.
        manifest: the manifest of the program's export.
        has_example: whether an example is embedded beside the program.
        arena_alignment: the alignment of planned and temporary memory.
    """

    name: str
    method: str
    data_of: str
    pte: bytes
    plan: MemoryPlan
    interface: Interface
    manifest: Manifest
    has_example: bool
    arena_alignment: int = ALIGNMENT

    @property
    def symbol(self) -> str:
        return f"{self.name}_pte"

    @property
    def example_inputs(self) -> list[str]:
        """The symbols of the example's inputs."""
        return [f"{self.symbol}_example_input_{i}" for i in range(len(self.interface.inputs))]

    @property
    def example_outputs(self) -> list[str]:
        """The symbols of PyTorch's outputs for these."""
        return [f"{self.symbol}_example_output_{i}" for i in range(len(self.interface.outputs))]


def header(embedded: Embedded) -> str:
    """Returns the text of NAME_pte.h."""
    lines = [
        "#pragma once",
        "",
        f"/* The ExecuTorch program {embedded.name}.pte as data, and what it needs. Made by //tools/pipeline/link. */",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        *_c_part(embedded),
        "",
        "#ifdef __cplusplus",
        '}  // extern "C"',
        "",
        *_TENSOR_SPEC,
        "",
        f"namespace {embedded.symbol} {{",
        "",
        "using torch_fusion::TensorSpec;",
        "",
        *_program(embedded),
        "",
        *_arenas(embedded),
        "",
        *_tensors("Input", embedded.interface.inputs, embedded.manifest.inputs),
        "",
        *_tensors("Output", embedded.interface.outputs, embedded.manifest.outputs),
        "",
        *_example(embedded),
        "",
        f"}}  // namespace {embedded.symbol}",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


# All programs share one type, so that an application of several can treat them alike; the header needs no other one.
_TENSOR_SPEC = [
    "#ifndef TORCH_FUSION_TENSOR_SPEC",
    "#define TORCH_FUSION_TENSOR_SPEC",
    "namespace torch_fusion {",
    "/// An input or output: ExecuTorch's ScalarType, number of dimensions, elements, bytes, offset in bytes",
    f"/// if all inputs (or outputs) lie one after the other, each {ALIGNMENT}-byte aligned, sizes, dim order.",
    "struct TensorSpec {",
    "  int8_t dtype;",
    "  uint8_t dim;",
    "  uint32_t numel;",
    "  uint32_t nbytes;",
    "  uint32_t offset;",
    "  const int32_t* sizes;",
    "  const uint8_t* dim_order;",
    "};",
    "} // namespace torch_fusion",
    "#endif",
]


def _c_part(embedded: Embedded) -> list[str]:
    """Declares macros and data for both C and C++, inside of `extern "C"`."""
    macro = embedded.symbol.upper()
    offsets, planned = _planned_offsets(embedded.plan), embedded.plan.planned
    # The size ends with the last buffer: only an NPU needs alignment of what follows.
    planned_size = offsets[-1] + planned[-1] if planned else 0
    if embedded.arena_alignment > ALIGNMENT:
        planned_size = aligned(planned_size, embedded.arena_alignment)
    lines = [
        "/* Bytes of the program, and the alignment of its first one. */",
        f"#define {macro}_SIZE {len(embedded.pte)}",
        f"#define {macro}_ALIGNMENT {ALIGNMENT}",
        "",
        "/* Bytes of the arenas, and the alignment of the planned and the temporary one. */",
        f"#define {macro}_METHOD_ARENA_SIZE {embedded.plan.method}",
        f"#define {macro}_PLANNED_ARENA_SIZE {planned_size}",
        f"#define {macro}_TEMP_ARENA_SIZE {embedded.plan.temp}",
        f"#define {macro}_ARENA_ALIGNMENT {embedded.arena_alignment}",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"extern const unsigned char {embedded.data_of}_pte_data[{macro}_SIZE];",
    ]
    lines += [f"extern unsigned char {name}[{nbytes}];" for name, nbytes in _memories(embedded).items()]
    if embedded.has_example:
        lines += ["", "/* An example: inputs, and the outputs that PyTorch computes from them. */"]
        arrays = (*embedded.example_inputs, *embedded.example_outputs)
        lines += [f"extern const unsigned char {array}[];" for array in arrays]
    return lines


def _program(embedded: Embedded) -> list[str]:
    macro = embedded.symbol.upper()
    return [
        f'inline constexpr char kName[] = "{embedded.name}";',
        f'inline constexpr char kMethodName[] = "{embedded.method}";',
        "",
        f"/// The program: {len(embedded.pte)} bytes, {ALIGNMENT}-byte aligned.",
        f"inline constexpr size_t kSize = {macro}_SIZE;",
        f"inline constexpr size_t kAlignment = {macro}_ALIGNMENT;",
        f"inline const unsigned char* data() {{ return {embedded.data_of}_pte_data; }}",
        "",
        "/// Size and CRC-32 of the .pte that it was made of.",
        f"inline constexpr uint32_t kPteSize = {len(embedded.pte)};",
        f"inline constexpr uint32_t kPteCrc32 = {binascii.crc32(embedded.pte):#x};",
    ]


def _arenas(embedded: Embedded) -> list[str]:
    macro, plan = embedded.symbol.upper(), embedded.plan
    return [
        "/// Exact sizes of the arenas in bytes. The planned one holds all memory-planned buffers, each at its",
        "/// kPlannedBufferOffsets. It and the temporary one begin at multiples of kArenaAlignment: an NPU works in",
        "/// whole lines of the core's data cache.",
        f"inline constexpr size_t kMethodArenaSize = {macro}_METHOD_ARENA_SIZE;",
        f"inline constexpr size_t kPlannedArenaSize = {macro}_PLANNED_ARENA_SIZE;",
        f"inline constexpr size_t kTempArenaSize = {macro}_TEMP_ARENA_SIZE;",
        f"inline constexpr size_t kArenaAlignment = {macro}_ARENA_ALIGNMENT;",
        f"inline constexpr size_t kNumPlannedBuffers = {len(plan.planned) + len(plan.memories)};",
        _array("size_t", "kPlannedBufferSizes", (*plan.planned, *plan.memories.values())),
        _array("size_t", "kPlannedBufferOffsets", _planned_offsets(plan)),
        "/// Where a buffer begins: in the arena, or in a memory of its own.",
        "inline unsigned char* planned_buffer(unsigned char* arena, size_t index) {",
        *(
            f"  if (index == {index}) {{\n    return {name};\n  }}"
            for index, name in enumerate(_memories(embedded), start=len(plan.planned))
        ),
        "  return arena + kPlannedBufferOffsets[index];",
        "}",
        "",
        "/// Whether an inference depends on earlier ones: the planned arena is then the program's own.",
        f"inline constexpr bool kKeepsState = {_bool(embedded.manifest.keeps_state)};",
        "",
        "/// Different operators that the program calls.",
        f"inline constexpr size_t kOperatorCount = {plan.operators};",
    ]


def _tensors(kind: str, specs: Sequence[TensorSpec], parameters: Sequence[Border]) -> list[str]:
    lines, rows = [], []
    offset = 0
    for i, spec in enumerate(specs):
        sizes, order = f"k{kind}{i}Sizes", f"k{kind}{i}DimOrder"
        lines += [_array("int32_t", sizes, spec.sizes), _array("uint8_t", order, spec.dim_order)]
        rows.append(
            f"{{{spec.dtype.value}, {len(spec.sizes)}, {spec.numel}, {spec.nbytes}, {offset}, {sizes}, {order}}}"
        )
        offset += aligned(spec.nbytes)
    lines += [
        _array("TensorSpec", f"k{kind}s", rows),
        f"inline constexpr size_t kNum{kind}s = {len(specs)};",
        _array("size_t", f"k{kind}Nbytes", [spec.nbytes for spec in specs]),
        f"inline constexpr size_t k{kind}sSize = {offset};",
    ]
    named = [(i, border.name) for i, border in enumerate(parameters) if border.name]
    if named:
        lines += [f"/// Places of the {kind.lower()}s by their names in the model."]
        lines += [f"inline constexpr size_t k{kind}_{name} = {i};" for i, name in named]
    return [
        *lines,
        f"/// What int8 elements stand for: number = (element - k{kind}ZeroPoints) * k{kind}Scales.",
        "/// A scale of 0: not quantized.",
        _array("float", f"k{kind}Scales", [_float(border.scale) for border in parameters]),
        _array("int32_t", f"k{kind}ZeroPoints", [border.zero_point for border in parameters]),
    ]


def _example(embedded: Embedded) -> list[str]:
    has_example = embedded.has_example
    return [
        "/// Whether the example is embedded, and how far from PyTorch's an output element may be:",
        "/// kAtol + kRtol * |element|.",
        f"inline constexpr bool kHasExample = {_bool(has_example)};",
        f"inline constexpr float kAtol = {_ATOL!r}f;",
        f"inline constexpr float kRtol = {_RTOL!r}f;",
        _array("const unsigned char*", "kExampleInputs", embedded.example_inputs if has_example else ()),
        _array("const unsigned char*", "kExampleOutputs", embedded.example_outputs if has_example else ()),
    ]


def _memories(embedded: Embedded) -> dict[str, int]:
    """Returns the arrays of planned buffers in memories besides the arena's, and their bytes."""
    return {f"{embedded.symbol}_{name}": nbytes for name, nbytes in embedded.plan.memories.items()}


def _planned_offsets(plan: MemoryPlan) -> list[int]:
    """Returns the offset of each planned buffer in the arena that holds them all."""
    offsets, end = [], 0
    for planned in plan.planned:
        offsets.append(end)
        end += aligned(planned)
    return offsets


def _array(cpp_type: str, name: str, values: Sequence[object]) -> str:
    """Defines a constant array; C++ has no empty ones."""
    if not values:
        return f"inline constexpr {cpp_type} const* {name} = nullptr;"
    return f"inline constexpr {cpp_type} {name}[] = {{{', '.join(map(str, values))}}};"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _float(value: float) -> str:
    """Returns a C++ float literal: nine digits distinguish all floats."""
    text = f"{value:.9g}"
    return f"{text}f" if {".", "e"} & set(text) else f"{text}.0f"
