"""Determines the variants of a kernel that a program needs."""

from tools.abi.layouts.layouts import Variant
from tools.pipeline.registry.calls import Call
from tools.pipeline.registry.catalog import Kernel

MODES = (Variant.FIRST_MODE, Variant.SECOND_MODE, Variant.THIRD_MODE)


# Features that a kernel refuses at run time unless it lists them, so that the build can report them first.
REFUSED_UNLESS_LISTED = {
    Variant.MIXED_DTYPES: "tensors of different dtypes in one call",
    Variant.DIM_ORDER: "tensors that are not contiguous (a memory format such as channels_last)",
}


_REDUCED = {"Half", "BFloat16"}
_MASKS = {"Bool", "Byte"}
_FLOATING = {*_REDUCED, "Float", "Double"}


def computing_dtypes(kernel: Kernel, call: Call) -> set[str]:
    """Returns the dtypes of a call's tensors, and further ones in which the call computes."""
    dtypes = {t.dtype for i, argument in enumerate(call.arguments) if i not in kernel.fixed_dtypes for t in argument}
    promoted = set()
    if {"Byte", "Char"} <= dtypes:
        promoted.add("Short")
    # A kernel that converts computes with the 16-bit floats in Float.
    if dtypes & _REDUCED and "mixed_dtypes" in kernel.variants:
        promoted.add("Float")
    for value in [call.constants[i] for i in kernel.operands if i < len(call.constants)]:
        if isinstance(value, float) and not dtypes & _FLOATING:
            promoted.add("Float")
        if not isinstance(value, (bool, float)) and dtypes == {"Bool"}:
            promoted.add("Long")
    return dtypes | promoted


def needed_variants(kernel: Kernel, call: Call) -> Variant:
    """Returns the variants that a call needs of a kernel."""
    needed = Variant(0)
    tensors = [tensor for argument in call.arguments for tensor in argument]
    if len({tensor.sizes for tensor in tensors}) > 1:
        needed |= Variant.BROADCAST
    if len(computing_dtypes(kernel, call)) > 1:
        needed |= Variant.MIXED_DTYPES
    if not all(tensor.is_contiguous for tensor in tensors):
        needed |= Variant.DIM_ORDER
    if any(tensor.is_dynamic for tensor in tensors):
        needed |= Variant.DYNAMIC_SHAPE
    # A factor that the program computes has no constant and may be any number.
    if any(call.constants[i] != 1 for i in kernel.factors if i < len(call.constants)):
        needed |= Variant.ALPHA
    if any(call.is_read[i] for i in kernel.index_outputs if i < len(call.is_read)):
        needed |= Variant.INDICES
    if any(isinstance(value, float) for value in call.constants):
        needed |= Variant.FLOATING_SYMBOLS
    if any(call.constants[i] is not False for i in kernel.options if i < len(call.constants)):
        needed |= Variant.OPTION
    if any(tensor.dtype in _MASKS for i in kernel.masks if i < len(call.arguments) for tensor in call.arguments[i]):
        needed |= Variant.MASKS
    for position, modes in kernel.modes.items():
        # The kernel itself refuses modes that are not listed.
        if position < len(call.modes) and call.modes[position] in modes:
            needed |= MODES[modes.index(call.modes[position])]
    return needed
