"""Runs calls as programs and compares what they give with eager PyTorch."""

import numpy as np
import torch
from executorch.exir.tensor import scalar_type_enum

from conformance.calls import Call, in_float32
from conformance.program import dim_order, make_program
from tools.verify.run_pte.cases import Case, CaseResult
from tools.verify.run_pte.values import Value, elements, encode

# These are rtol and atol. Sums may have another order than PyTorch's, and functions are some ulp from the exact value.
_TOLERANCES = {
    torch.float16: (3e-3, 2e-3),
    torch.bfloat16: (2.4e-2, 1.6e-2),
    torch.float32: (3e-5, 2e-5),
    torch.float64: (1e-7, 1e-7),
}

# They compute coordinates and weights in float32 for every dtype; the samples are images of numbers up to 60.
_COARSE = (3e-5, 1e-4)
_FLOAT32_INSIDE = (
    "aten::_upsample_bilinear2d_aa.out",
    "aten::grid_sampler_2d.out",
    "aten::upsample_bilinear2d.vec_out",
)


def encode_input(tensor: torch.Tensor) -> bytes:
    """Returns an input as the runner takes it."""
    return encode(*_value(tensor))


def input_elements(tensor: torch.Tensor) -> bytes:
    """Returns an input's elements in memory order."""
    return elements(*_value(tensor))


def _value(tensor: torch.Tensor) -> tuple[np.ndarray, int, list[int]]:
    # NumPy has no bfloat16: encode() takes float32 for it.
    array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array, int(scalar_type_enum(tensor.dtype)), dim_order(tensor)


def make_case(call: Call) -> Case:
    """Returns the program of a call with its inputs."""
    program, tensors = make_program(call)
    return Case(program, tuple(encode_input(tensor) for tensor in tensors))


# ExecuTorch's names of dtypes.
DTYPES_BY_NAME = {
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Short": torch.int16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Half": torch.float16,
    "Float": torch.float32,
    "Double": torch.float64,
    "Bool": torch.bool,
    "BFloat16": torch.bfloat16,
}


def difference(
    value: Value, expected: torch.Tensor, arbitrary: bool = False, tolerance: tuple[float, float] | None = None
) -> str:
    """Returns how an output differs from eager's, in a line; empty if it doesn't.

    Args:
      arbitrary: compares shape and dtype alone.
      tolerance: rtol and atol of floats, in place of those that one operator is held to.
    """
    if DTYPES_BY_NAME[value.dtype] != expected.dtype:
        return f"dtype {value.dtype}, expected {expected.dtype}"
    if value.array.shape != tuple(expected.shape):
        return f"shape {list(value.array.shape)}, expected {list(expected.shape)}"
    if arbitrary:
        return ""
    actual = torch.from_numpy(value.array.copy())
    wanted = expected.contiguous()
    if expected.dtype == torch.bfloat16:
        wanted = wanted.float()
    rtol, atol = _TOLERANCES.get(expected.dtype, (0.0, 0.0))
    if tolerance and expected.is_floating_point():
        rtol, atol = tolerance
    close = torch.isclose(actual, wanted, rtol=rtol, atol=atol, equal_nan=True)
    if bool(close.all()):
        return ""
    index = tuple(int(axis) for axis in (~close).nonzero()[0])
    return (
        f"{int((~close).sum())} of {close.numel()} elements differ, the first at {list(index)}: "
        f"{actual[index].item()}, expected {wanted[index].item()}"
    )


def verdict(call: Call, result: CaseResult) -> str:
    """Returns the reason for which a call fails; empty if its results are eager's."""
    if result.error != "Ok":
        return result.text()
    text = _mismatch(call, result)
    # Half precision may be rounded once where eager rounds in between.
    if text and call.dtype in (torch.float16, torch.bfloat16):
        wide = in_float32(call)
        return _mismatch(wide, result) if wide else text
    return text


def _mismatch(call: Call, result: CaseResult) -> str:
    for i, (value, expected) in enumerate(zip(result.outputs, call.expected, strict=True)):
        if i == 1 and call.operator in _TIED and _are_positions(call, value):
            continue
        is_coarse = call.operator in _FLOAT32_INSIDE and expected.dtype == torch.float64
        is_arbitrary = call.arbitrary or i >= len(call.expected) - call.scratch
        text = difference(value, expected, is_arbitrary, _COARSE if is_coarse else None)
        if text:
            return text
    return ""


# Operators that may give the position of any of several equal elements.
_TIED = ("aten::topk.values",)


def _are_positions(call: Call, value: Value) -> bool:
    """Returns whether an output holds different positions of the elements that the first output holds."""
    positions = torch.from_numpy(value.array.copy())
    if positions.shape != call.expected[1].shape or positions.dtype != torch.int64 or positions.dim() == 0:
        return False
    dim = call.arguments["dim"]
    ordered = positions.sort(dim).values
    count = call.arguments["self"].shape[dim]
    is_valid = bool(((positions >= 0) & (positions < count)).all()) and bool((ordered.diff(dim=dim) > 0).all())
    return is_valid and torch.equal(call.arguments["self"].gather(dim, positions), call.expected[0])
