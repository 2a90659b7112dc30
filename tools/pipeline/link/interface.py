"""What a method of a program takes and returns, and what belongs to it: its manifest and an example."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.artifacts.core.core import CORTEX_M, PORTABLE, layout
from tools.artifacts.golden.golden import read_golden
from tools.artifacts.manifest.manifest import Manifest, read_manifest
from tools.artifacts.program.program import ELEMENT_SIZES, ProgramFile, ScalarType, Tensor
from tools.quiet.console import UserError


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: dtype, sizes and dim order as the program has them."""

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
    """Specs of a method's inputs and outputs."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class Example:
    """Raw bytes of one sample's inputs and of the outputs that PyTorch computes from them."""

    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]


def find_method(file: ProgramFile, name: str = "forward") -> Any:
    """The method of a program, as tools.artifacts.program reads it; one with a single method needs no name.

    Raises:
        UserError: there is no such method.
    """
    plans: Sequence[Any] = file.program.execution_plan or []
    found = plans if len(plans) == 1 else [plan for plan in plans if plan.name == name]
    if not found:
        names = ", ".join(str(plan.name) for plan in plans)
        raise UserError(f"program {file.path} has no method {name}; its methods are {names}")
    return found[0]


# What a number that a program returns is in memory, by the schema's type.
NUMBERS = {"Int": ScalarType.LONG, "Double": ScalarType.DOUBLE, "Bool": ScalarType.BOOL}


def interface_of(path: Path, method: Any, returns_numbers: bool = False) -> Interface:
    """The interface of a method that find_method() returned.

    Args:
        path: the program's, for messages.
        returns_numbers: whether outputs may be numbers, which then are tensors without dimensions.

    Raises:
        UserError: an input or output is no tensor, or of a dtype that the runtime doesn't have.
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
            result.append(TensorSpec(value.scalar_type, tuple(value.sizes or ()), tuple(value.dim_order or ())))
        return tuple(result)

    return Interface(specs("input", method.inputs), specs("output", method.outputs))


def read_example(path: Path, interface: Interface) -> Example:
    """The first sample of a golden file; raises as read_examples()."""
    return read_examples(path, interface, 1)[0]


def read_examples(path: Path, interface: Interface, count: int) -> tuple[Example, ...]:
    """The first samples of a golden file, at most `count`. A module that keeps state computed them one after another.

    Raises:
        UserError: the file is missing, something else, or another model's.
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
        Example(
            tuple(array[i].tobytes() for array in inputs),
            tuple(array[i].tobytes() for array in outputs),
        )
        for i in range(min(count, golden.samples))
    )


def _suits(lowered: str, core: str) -> bool:
    """Whether an image for a core takes a program that was lowered for one: its kernels must take its layout."""
    if lowered in CORTEX_M and core in CORTEX_M:
        return layout(lowered) == layout(core)
    return lowered in (PORTABLE, core)


def read_program_manifest(path: Path, core: str, interface: Interface) -> Manifest:
    """A manifest that fits the image and the program.

    Args:
        core: the core of the image; a program that was lowered for one with another layout is refused.

    Raises:
        UserError: the file is missing, something else, another program's, or for another core.
    """
    manifest = read_manifest(path)
    if not _suits(manifest.core, core):
        raise UserError(
            f"manifest {path}: the program is lowered for {manifest.core}, the image is for {core}; "
            f"export the program for {core}"
        )
    if (len(manifest.inputs), len(manifest.outputs)) != (len(interface.inputs), len(interface.outputs)):
        raise UserError(f"manifest {path} has other inputs or outputs than the program; it is another program's")
    return manifest
