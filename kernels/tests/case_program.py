"""Programs of one call of a kernel, which firmware/runner.cpp runs on every core.

All tensors but constants are in one buffer with guards between them. The whole buffer is the program's first input, and
its last output: so it is seen what a kernel writes outside of its tensors.
"""

from typing import Any

import numpy as np
import torch
from executorch.exir.schema import (
    Bool,
    Double,
    Int,
    IntList,
    KernelCall,
    Null,
    Operator,
    Program,
    SubsegmentOffsets,
    Tensor,
    TensorList,
)

from kernels.tests.case_file import Case, Out, dim_order, memory_bytes
from kernels.tests.plans import make_plan, make_tensor
from tools.pipeline.export.ir.scalar_types import CODES
from tools.pipeline.export.plan.serialize import serialize
from tools.verify.run_pte import cases
from tools.verify.run_pte.values import encode

_GUARD = 0x5A
_GUARD_BYTES = 16


class CaseProgram:
    """The program of a case.

    Attributes:
      run: the program with its inputs.
    """

    def __init__(self, case: Case, constants: tuple[int, ...]) -> None:
        self._values: list[Any] = []
        self._constants = [b""]
        self._inputs: list[tuple[int, torch.Tensor]] = []
        self._guarded = np.ones(_GUARD_BYTES, bool)
        whole = self._add(None)
        arguments = [self._argument(value, index in constants) for index, value in enumerate(case.arguments)]
        outs = [index for index, value in zip(arguments, case.arguments, strict=True) if isinstance(value, Out)]
        returned = self._add(TensorList(outs)) if len(outs) > 1 else outs[0]
        size = len(self._guarded)
        self._values[whole] = make_tensor(CODES[torch.uint8], (size,), (1, 0))
        self._inputs.insert(0, (whole, torch.full((size,), _GUARD, dtype=torch.uint8)))
        plan = make_plan(
            self._values,
            [index for index, _ in self._inputs],
            [*outs, whole],
            [KernelCall(0, [*arguments, returned])],
            [Operator(*case.operator.split("."))],
            [size],
        )
        program = serialize(Program(0, [plan], [], [], [], SubsegmentOffsets(0, [])), self._constants)
        self.run = cases.Case(program, tuple(_encoded(tensor) for _, tensor in self._inputs))

    def is_guard_changed(self, result: cases.CaseResult) -> bool:
        """Returns whether the kernel wrote outside of the tensors."""
        return bool((result.outputs[-1].array[self._guarded] != _GUARD).any())

    def _add(self, value: Any) -> int:
        self._values.append(value)
        return len(self._values) - 1

    def _argument(self, value: Any, is_constant: bool) -> int:
        if isinstance(value, torch.Tensor):
            return self._tensor(value, is_constant)
        if isinstance(value, Out):
            return self._add(self._planned(value.dtype, value.sizes, value.dim_order, value.is_dynamic))
        if isinstance(value, tuple):
            return self._add(IntList([self._add(Int(item)) for item in value]))
        if value is None:
            return self._add(Null())
        return self._add({bool: Bool, int: Int, float: Double}[type(value)](value))

    def _tensor(self, tensor: torch.Tensor, is_constant: bool) -> int:
        order = dim_order(tensor)
        if not is_constant:
            index = self._add(self._planned(tensor.dtype, tuple(tensor.shape), order, False))
            self._inputs.append((index, tensor))
            return index
        self._constants.append(memory_bytes(tensor))
        return self._add(make_tensor(CODES[tensor.dtype], tensor.shape, None, order, len(self._constants) - 1))

    def _planned(self, dtype: torch.dtype, sizes: tuple[int, ...], order: tuple[int, ...], is_dynamic: bool) -> Tensor:
        """Returns a tensor behind the others, with guards up to and behind it."""
        offset, size = len(self._guarded), torch.Size(sizes).numel() * dtype.itemsize
        end = _GUARD_BYTES + -size % _GUARD_BYTES
        self._guarded = np.concatenate([self._guarded, np.zeros(size, bool), np.ones(end, bool)])
        return make_tensor(CODES[dtype], sizes, (1, offset), order, is_dynamic=is_dynamic)


def _encoded(tensor: torch.Tensor) -> bytes:
    # NumPy has no bfloat16: encode() takes float32 for it.
    array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return encode(array, CODES[tensor.dtype], dim_order(tensor))
