"""Embeds a program into an image: a header with its sizes, and an assembler source that includes its bytes.

The assembler reads the .pte itself (.incbin), so a large program costs no more than copying it. The header is for C++,
its size, alignment and data for C as well.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.artifacts.core.core import POINTER_SIZES
from tools.artifacts.golden.golden import read_golden
from tools.artifacts.kernel_table.kernel_table import read_kernel_table
from tools.artifacts.manifest.manifest import Border, Manifest, read_manifest
from tools.artifacts.memory_plan.memory_plan import MemoryPlan, read_memory_plan
from tools.artifacts.program.program import ELEMENT_SIZES, ScalarType, Tensor, load, read
from tools.pipeline.prelink import PrelinkError, program_source
from tools.quiet.console import UserError
from tools.quiet.tool import run_tool

# ExecuTorch reads constants where they are, and its kernels may load them in units of up to 16 bytes.
_ALIGNMENT = 16


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: dtype, sizes and dim order as the program has them."""

    dtype: ScalarType
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]

    @property
    def numel(self) -> int:
        count = 1
        for size in self.sizes:
            count *= size
        return count

    @property
    def nbytes(self) -> int:
        return self.numel * ELEMENT_SIZES[self.dtype.name]


@dataclass(frozen=True)
class Example:
    """Raw bytes of one sample's inputs and of the outputs that PyTorch computes from them."""

    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]


def tensor_specs(program_path: Path, method: str = "forward") -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Specs of the inputs and outputs of a program's method; one with a single method needs no name.

    Raises:
        UserError: the file is no program, has no such method, or one with an input or output that is no tensor.
    """
    plans = read(program_path).execution_plan
    found = plans if len(plans) == 1 else [plan for plan in plans if plan.name == method]
    if not found:
        raise UserError(f"program {program_path} has no method {method}; it has {', '.join(p.name for p in plans)}")
    plan = found[0]

    def specs(kind: str, indices: Sequence[int]) -> list[TensorSpec]:
        result = []
        for place, index in enumerate(indices):
            value = plan.values[index].val
            if not isinstance(value, Tensor):
                raise UserError(
                    f"program {program_path}: {kind} {place} is of type {type(value).__name__}, not a tensor; "
                    "firmware passes tensors only, so make it a tensor in the model"
                )
            if value.scalar_type.name not in ELEMENT_SIZES:
                raise UserError(
                    f"program {program_path}: {kind} {place} has the unsupported dtype {value.scalar_type.name}; "
                    f"make it one of {', '.join(ELEMENT_SIZES)}"
                )
            result.append(TensorSpec(value.scalar_type, tuple(value.sizes or ()), tuple(value.dim_order or ())))
        return result

    return specs("input", plan.inputs), specs("output", plan.outputs)


def read_example(path: Path, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Example:
    """The first sample of a golden file.

    Raises:
        UserError: the file is missing, something else, or another model's.
    """
    golden = read_golden(path)
    for kind, arrays, specs in (("input", golden.inputs, inputs), ("output", golden.outputs, outputs)):
        if len(arrays) != len(specs):
            raise UserError(
                f"golden file {path} has {len(arrays)} {kind}s, the program {len(specs)}; it is another model's"
            )
        for i, (array, spec) in enumerate(zip(arrays, specs, strict=True)):
            if array.shape[1:] != spec.sizes or array[0].nbytes != spec.nbytes:
                raise UserError(
                    f"golden file {path}: {kind}_{i} is {array.dtype} {list(array.shape[1:])}, in the program "
                    f"{spec.dtype.name} {list(spec.sizes)}; it is another model's"
                )
    return Example(
        tuple(array[0].tobytes() for array in golden.inputs_in_memory()),
        tuple(array[0].tobytes() for array in golden.outputs_in_memory()),
    )


def read_program_manifest(
    path: Path, core: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> Manifest:
    """A manifest that fits the image and the program.

    Args:
        core: the core of the image; a program that was lowered for another one is refused.

    Raises:
        UserError: the file is missing, something else, another program's, or for another core.
    """
    manifest = read_manifest(path)
    if manifest.core not in ("portable", core):
        raise UserError(
            f"manifest {path}: the program is lowered for {manifest.core}, the image is for {core}; "
            f"export the program for {core}"
        )
    if (len(manifest.inputs), len(manifest.outputs)) != (len(inputs), len(outputs)):
        raise UserError(f"manifest {path} has other inputs or outputs than the program; it is another program's")
    return manifest


def _array(cpp_type: str, name: str, values: Sequence[object]) -> str:
    """A constant array; C++ has none without elements."""
    if not values:
        return f"inline constexpr {cpp_type} const* {name} = nullptr;"
    return f"inline constexpr {cpp_type} {name}[] = {{{', '.join(map(str, values))}}};"


def _specs(kind: str, specs: Sequence[TensorSpec], parameters: Sequence[Border]) -> list[str]:
    lines, rows = [], []
    offset = 0
    for i, spec in enumerate(specs):
        sizes, order = f"k{kind}{i}Sizes", f"k{kind}{i}DimOrder"
        lines += [_array("int32_t", sizes, spec.sizes), _array("uint8_t", order, spec.dim_order)]
        rows.append(
            f"{{{spec.dtype.value}, {len(spec.sizes)}, {spec.numel}, {spec.nbytes}, {offset}, {sizes}, {order}}}"
        )
        offset += _align(spec.nbytes)
    return [
        *lines,
        _array("TensorSpec", f"k{kind}s", rows),
        f"inline constexpr size_t kNum{kind}s = {len(specs)};",
        _array("size_t", f"k{kind}Nbytes", [spec.nbytes for spec in specs]),
        f"inline constexpr size_t k{kind}sSize = {offset};",
        *(
            [
                f"/// What int8 elements stand for: number = (element - k{kind}ZeroPoints) * k{kind}Scales.",
                "/// A scale of 0: not quantized.",
                _array("float", f"k{kind}Scales", [_float(border.scale) for border in parameters]),
                _array("int32_t", f"k{kind}ZeroPoints", [border.zero_point for border in parameters]),
            ]
            if any(border.scale for border in parameters)
            else []
        ),
    ]


def _align(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def header(
    name: str,
    size: int,
    plan: MemoryPlan,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    has_example: bool,
    atol: float,
    rtol: float,
    manifest: Manifest | None = None,
    method: str = "forward",
    data: str | None = None,
) -> str:
    """The text of NAME_pte.h.

    Args:
        name: the program's name, or that of one of its methods.
        method: the method.
        data: the program's name.
    """
    offsets = [0]
    for planned in plan.planned:
        offsets.append(offsets[-1] + _align(planned))
    # Up to the end of the last buffer: what comes after needs no alignment.
    planned_size = offsets[-2] + plan.planned[-1] if plan.planned else 0
    symbol = f"{name}_pte"
    macro = symbol.upper()
    examples = [f"{symbol}_example_input_{i}" for i in range(len(inputs))]
    expected = [f"{symbol}_example_output_{i}" for i in range(len(outputs))]
    lines = [
        "#pragma once",
        "",
        f"/* The ExecuTorch program {name}.pte as data, and what it needs. Generated by //tools/pipeline/embed. */",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "/* Bytes of the program, and the alignment of its first one. */",
        f"#define {macro}_SIZE {size}",
        f"#define {macro}_ALIGNMENT {_ALIGNMENT}",
        "",
        "/* Bytes of the arenas. */",
        f"#define {macro}_METHOD_ARENA_SIZE {plan.method}",
        f"#define {macro}_PLANNED_ARENA_SIZE {planned_size}",
        f"#define {macro}_TEMP_ARENA_SIZE {plan.temp}",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"extern const unsigned char {data or name}_pte_data[{macro}_SIZE];",
        *(
            [
                "",
                "/* An example: inputs, and the outputs that PyTorch computes from them. */",
                *(f"extern const unsigned char {array}[];" for array in (*examples, *expected)),
            ]
            if has_example
            else []
        ),
        "",
        "#ifdef __cplusplus",
        '}  // extern "C"',
        "",
        f"namespace {symbol} {{",
        "",
        "/// An input or output: ExecuTorch's ScalarType, number of dimensions, elements, bytes, offset in bytes",
        f"/// if all inputs (or outputs) lie one after the other, each {_ALIGNMENT}-byte aligned, sizes, dim order.",
        "struct TensorSpec {",
        "  int8_t dtype;",
        "  uint8_t dim;",
        "  uint32_t numel;",
        "  uint32_t nbytes;",
        "  uint32_t offset;",
        "  const int32_t* sizes;",
        "  const uint8_t* dim_order;",
        "};",
        "",
        f'inline constexpr char kName[] = "{name}";',
        f'inline constexpr char kMethodName[] = "{method}";',
        "",
        f"/// The program: {size} bytes, {_ALIGNMENT}-byte aligned.",
        f"inline constexpr size_t kSize = {macro}_SIZE;",
        f"inline constexpr size_t kAlignment = {macro}_ALIGNMENT;",
        f"inline const unsigned char* data() {{ return {data or name}_pte_data; }}",
        "",
        "/// Exact sizes of the arenas in bytes. The planned one holds all memory-planned buffers, each at its",
        "/// kPlannedBufferOffsets.",
        f"inline constexpr size_t kMethodArenaSize = {macro}_METHOD_ARENA_SIZE;",
        f"inline constexpr size_t kPlannedArenaSize = {macro}_PLANNED_ARENA_SIZE;",
        f"inline constexpr size_t kTempArenaSize = {macro}_TEMP_ARENA_SIZE;",
        f"inline constexpr size_t kNumPlannedBuffers = {len(plan.planned)};",
        _array("size_t", "kPlannedBufferSizes", plan.planned),
        _array("size_t", "kPlannedBufferOffsets", offsets[:-1]),
        "",
        "/// Whether an inference depends on earlier ones: the planned arena is then the program's own.",
        f"inline constexpr bool kKeepsState = {'true' if manifest is None or manifest.keeps_state else 'false'};",
        "",
        "/// Different operators that the program calls.",
        f"inline constexpr size_t kOperatorCount = {plan.operators};",
        "",
        *_specs("Input", inputs, manifest.inputs if manifest else ()),
        "",
        *_specs("Output", outputs, manifest.outputs if manifest else ()),
        "",
        "/// Whether the example is embedded, and how far from PyTorch's an output element may be:",
        "/// kAtol + kRtol * |element|.",
        f"inline constexpr bool kHasExample = {'true' if has_example else 'false'};",
        f"inline constexpr float kAtol = {float(atol)!r}f;",
        f"inline constexpr float kRtol = {float(rtol)!r}f;",
        _array("const unsigned char*", "kExampleInputs", examples if has_example else ()),
        _array("const unsigned char*", "kExampleOutputs", expected if has_example else ()),
        "",
        f"}}  // namespace {symbol}",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _float(value: float) -> str:
    """A C++ literal of a float: nine digits tell every float from the next."""
    text = f"{value:.9g}"
    return f"{text}f" if {".", "e"} & set(text) else f"{text}.0f"


def _symbol(section: str, name: str, body: Sequence[str]) -> list[str]:
    return [
        "",
        f'.section {section}, "a", %progbits',
        f".balign {_ALIGNMENT}",
        f".global {name}",
        f".type {name}, %object",
        f"{name}:",
        *body,
        f".size {name}, . - {name}",
    ]


def _bytes(data: bytes) -> list[str]:
    return [".byte " + ",".join(str(byte) for byte in data[i : i + 32]) for i in range(0, len(data), 32)]


def pte_bytes(program: Path) -> list[str]:
    """The assembler lines of a program as it is."""
    quoted = str(program).replace("\\", "\\\\").replace('"', '\\"')
    return [f'.incbin "{quoted}"']


def prelinked_program(name: str, program: Path, plan: MemoryPlan, kernels: Path) -> tuple[list[str], int]:
    """The assembler lines of a program that is linked at build time, and its size in bytes.

    Args:
        kernels: kernels.json of the image's kernel registry.

    Raises:
        UserError: the program can't be linked at build time, or is another one.
    """
    table = read_kernel_table(kernels)
    try:
        return program_source(name, program, load(program), table, POINTER_SIZES[plan.core])
    except PrelinkError as error:
        raise UserError(
            f"{error}; kernel table: {kernels}; torch_firmware with prelink = False loads the .pte on the device"
        ) from error


def source(name: str, program: Sequence[str], example: Example | None) -> str:
    """The text of NAME_pte.S.

    Args:
        name: the program's name.
        program: the assembler lines of the program; none: another source has it.
        example: what is embedded beside it.
    """
    symbol = f"{name}_pte"
    lines = [f"/* The program {name}.pte. Generated by tools/pipeline/embed. */"]
    if program:
        lines += _symbol(f".program.{symbol}", f"{symbol}_data", program)
    if example:
        # A section each, so that what an image does not use is left out.
        for kind, arrays in (("input", example.inputs), ("output", example.outputs)):
            for i, data in enumerate(arrays):
                array = f"{symbol}_example_{kind}_{i}"
                lines += _symbol(f".program.{array}.example", array, _bytes(data))
    # Without this a Linux linker takes the stack for executable.
    lines += ["", "#ifdef __linux__", '.section .note.GNU-stack, "", %progbits', "#endif"]
    return "\n".join(lines) + "\n"


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="embed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", type=Path, required=True, help="the .pte")
    parser.add_argument("--plan", type=Path, required=True, help="its plan.json")
    parser.add_argument("--manifest", type=Path, help="its manifest.json: core, scales and zero points")
    parser.add_argument("--core", default="host", help="the core of the image, which the manifest must be for")
    parser.add_argument("--name", required=True, help="name of the program, a C identifier")
    parser.add_argument("--method", default="forward", help="the method that header, plan and example are of")
    parser.add_argument(
        "--data", metavar="NAME", help="the program is in the source that was written for this name; leave it out"
    )
    parser.add_argument("--header", type=Path, required=True, help="NAME_pte.h to write")
    parser.add_argument("--source", type=Path, required=True, help="NAME_pte.S to write")
    parser.add_argument(
        "--prelink",
        type=Path,
        metavar="KERNELS",
        help="kernels.json of the image's registry: link the program at build time instead of embedding its .pte",
    )
    parser.add_argument(
        "--golden", type=Path, help="inputs and eager outputs (.npz): the first sample is embedded as an example"
    )
    parser.add_argument("--atol", type=float, default=1e-4, help="absolute tolerance when the image checks the example")
    parser.add_argument("--rtol", type=float, default=1e-4, help="relative tolerance when the image checks the example")
    return parser.parse_args(argv)


def embed(arguments: argparse.Namespace) -> None:
    """Writes header and source as the arguments say.

    Raises:
        UserError: an input is missing, foreign or does not fit the others.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", arguments.name):
        raise UserError(f"name '{arguments.name}' is no C identifier; use letters, digits and underscores")
    inputs, outputs = tensor_specs(arguments.program, arguments.method)
    plan = read_memory_plan(arguments.plan)
    example = read_example(arguments.golden, inputs, outputs) if arguments.golden else None
    if arguments.prelink:
        lines, size = prelinked_program(arguments.name, arguments.program, plan, arguments.prelink)
    else:
        lines, size = pte_bytes(arguments.program), arguments.program.stat().st_size
    manifest = None
    if arguments.manifest:
        manifest = read_program_manifest(arguments.manifest, arguments.core, inputs, outputs)
    text = header(
        arguments.name,
        size,
        plan,
        inputs,
        outputs,
        example is not None,
        arguments.atol,
        arguments.rtol,
        manifest,
        arguments.method,
        arguments.data,
    )
    arguments.header.write_text(text, encoding="utf-8")
    arguments.source.write_text(source(arguments.name, [] if arguments.data else lines, example), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("embed", embed, _parse(argv))
