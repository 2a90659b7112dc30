"""Describes the inputs and outputs of a method, with its manifest and an example."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.artifacts.core.core import CORTEX_M, HOST, PORTABLE, has_vectors, layout
from tools.artifacts.golden.golden import read_golden
from tools.artifacts.manifest.manifest import Manifest, read_manifest
from tools.artifacts.program.program import ELEMENT_SIZES, ProgramFile, ScalarType, Tensor
from tools.quiet.console import UserError

# The bytes of an input or output that fit into no microcontroller's memory.
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: the program's dtype, sizes and dim order."""

    dtype: ScalarType
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]

    @property
    def numel(self) -> int:
        return math.prod(self.sizes)

    @property
    def nbytes(self) -> int:
        return self.numel * ELEMENT_SIZES[self.dtype.name]


@dataclass(frozen=True)
class Interface:
    """The specs of a method's inputs and outputs."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class Example:
    """The raw bytes of one sample's inputs and of PyTorch's outputs for them."""

    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]


def find_method(file: ProgramFile, name: str = "forward") -> Any:
    """Returns the method of a program, as tools.artifacts.program reads it; the name is ignored if there is only one.

    Raises:
        UserError: there is no such method.
    """
    plans: Sequence[Any] = file.program.execution_plan or []
    found = plans if len(plans) == 1 else [plan for plan in plans if plan.name == name]
    if not found:
        names = ", ".join(str(plan.name) for plan in plans)
        raise UserError(f"program {file.path} has no method {name}; its methods are {names}")
    return found[0]


# The dtype in memory of a number that a program returns, by the schema's type.
NUMBERS = {"Int": ScalarType.LONG, "Double": ScalarType.DOUBLE, "Bool": ScalarType.BOOL}


def interface_of(path: Path, method: Any, returns_numbers: bool = False) -> Interface:
    """Returns the interface of a method from find_method().

    Args:
        path: the program's path, for messages.
        returns_numbers: whether outputs may be numbers, which are treated as tensors without dimensions.

    Raises:
        UserError: an input or output is not a tensor, or has a dtype that the runtime lacks.
    """

    def specs(kind: str, indices: Sequence[int]) -> tuple[TensorSpec, ...]:
        result = []
        for place, index in enumerate(indices):
            value = method.values[index].val
            number = NUMBERS.get(type(value).__name__)
            if number is not None and returns_numbers and kind == "output":
                result.append(TensorSpec(number, (), ()))
                continue
            if not isinstance(value, Tensor):
                raise UserError(
                    f"program {path}: {kind} {place} is of type {type(value).__name__}, not a tensor; "
                    "firmware passes tensors only, so make it a tensor in the model"
                )
            if value.scalar_type.name not in ELEMENT_SIZES:
                raise UserError(
                    f"program {path}: {kind} {place} has the unsupported dtype {value.scalar_type.name}; "
                    f"make it one of {', '.join(ELEMENT_SIZES)}"
                )
            spec = TensorSpec(value.scalar_type, tuple(value.sizes or ()), tuple(value.dim_order or ()))
            is_ordered = sorted(spec.dim_order) == list(range(len(spec.sizes)))
            if not is_ordered or min(spec.sizes, default=0) < 0 or spec.nbytes > _MOST_BYTES:
                raise UserError(
                    f"program {path}: {kind} {place} has the sizes {list(spec.sizes)} in the order "
                    f"{list(spec.dim_order)}, which no board can hold; it is corrupted"
                )
            result.append(spec)
        return tuple(result)

    return Interface(specs("input", method.inputs), specs("output", method.outputs))


def read_example(path: Path, interface: Interface) -> Example:
    """Reads the first sample of a golden file; raises as read_examples()."""
    return read_examples(path, interface, 1)[0]


def read_examples(path: Path, interface: Interface, count: int) -> tuple[Example, ...]:
    """Reads at most `count` first samples of a golden file. A module that keeps state computed them one after another.

    Raises:
        UserError: the file is missing, of another kind, or another model's.
    """
    golden = read_golden(path)
    for kind, arrays, specs in (
        ("input", golden.inputs, interface.inputs),
        ("output", golden.outputs, interface.outputs),
    ):
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
    inputs, outputs = golden.inputs_in_memory(), golden.outputs_in_memory()
    return tuple(
        Example(tuple(array[i].tobytes() for array in inputs), tuple(array[i].tobytes() for array in outputs))
        for i in range(min(count, golden.samples))
    )


def _suits(lowered: str, core: str) -> bool:
    """Whether an image for a core supports a program that was lowered for another: the kernels' layouts must be equal.
    Those of this machine read every layout but that of vectors.
    """
    if lowered not in CORTEX_M:
        return lowered in (PORTABLE, core)
    return not has_vectors(lowered) if core == HOST else layout(lowered) == layout(core)


def read_program_manifest(path: Path, core: str, interface: Interface) -> Manifest:
    """Reads a manifest that fits the image and the program.

    Args:
        core: the core of the image; a program that was lowered for one with another layout is refused.

    Raises:
        UserError: the file is missing, of another kind, another program's, or for another core.
    """
    manifest = read_manifest(path)
    if not _suits(manifest.core, core):
        raise UserError(
            f"manifest {path}: the program is lowered for {manifest.core}, the image is for {core}; "
            f"export the program for {'a core without MVE' if core == HOST else core}"
        )
    if (len(manifest.inputs), len(manifest.outputs)) != (len(interface.inputs), len(interface.outputs)):
        raise UserError(f"manifest {path} has other inputs or outputs than the program; it is another program's")
    return manifest
