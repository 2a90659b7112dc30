"""Declares what C++ and Python agree on: numbers and layouts of memory that one writes and the other reads.

asserts.py makes a static_assert of each, against the header that declares it, and //tools/abi/layouts:layouts_test
compiles them for this machine and for a Cortex-M. So whoever changes one side alone doesn't get past the tests.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag


class Variant(IntFlag):
    """Flags of what a call asks of a kernel beyond contiguous tensors of one dtype and shape: kernels/selection.h."""

    BROADCAST = 1 << 0
    MIXED_DTYPES = 1 << 1
    DIM_ORDER = 1 << 2
    DYNAMIC_SHAPE = 1 << 3
    ALPHA = 1 << 4
    INDICES = 1 << 5
    FLOATING_SYMBOLS = 1 << 6
    OPTION = 1 << 7
    FIRST_MODE = 1 << 8
    SECOND_MODE = 1 << 9
    THIRD_MODE = 1 << 10
    MASKS = 1 << 11


class ExitStatus(IntEnum):
    """How an image ended: firmware/host.h."""

    PASS = 0
    MISMATCH = 1
    ERROR = 2
    FAULT = 3
    ABORT = 4
    HOST = 5


HOST_REPORT_PASS = 0x53534150
"""The value of `pass` in a HostReport at the end of a run without errors."""

ERRORS = {
    0x01: "Internal",
    0x02: "InvalidState",
    0x03: "EndOfMethod",
    0x04: "AlreadyLoaded",
    0x10: "NotSupported",
    0x11: "NotImplemented",
    0x12: "InvalidArgument",
    0x13: "InvalidType",
    0x14: "OperatorMissing",
    0x15: "RegistrationExceedingMaxKernels",
    0x16: "RegistrationAlreadyRegistered",
    0x20: "NotFound",
    0x21: "MemoryAllocationFailed",
    0x22: "AccessFailed",
    0x23: "InvalidProgram",
    0x24: "InvalidExternalData",
    0x25: "OutOfResources",
    0x30: "DelegateInvalidCompatibility",
    0x31: "DelegateMemoryAllocationFailed",
    0x32: "DelegateInvalidHandle",
}
"""executorch::runtime::Error by value: executorch/runtime/core/error.h."""

EVALUE_SIZE = 16
"""Bytes of an EValue."""


def tensor_size(pointer: int) -> int:
    """Bytes of a TensorImpl, with pointers of that many bytes: seven words and four bytes."""
    return (7 * pointer + 4 + pointer - 1) // pointer * pointer


def delegate_size(pointer: int) -> int:
    """Bytes of a BackendDelegate, with pointers of that many bytes."""
    return {4: 40, 8: 56}[pointer]


POINTER = 0
"""The size of a field that is a pointer or a word of the core."""


@dataclass(frozen=True)
class Layout:
    """A struct that both sides know, field by field in the order of memory.

    Attributes:
      header: where it is declared, as #include names it.
      name: its C++ name.
      fields: name and bytes of each field; POINTER for a word of the core.
    """

    header: str
    name: str
    fields: tuple[tuple[str, int], ...]

    def words(self) -> struct.Struct:
        """The struct as Python's, where it has numbers of four bytes only."""
        assert all(size == 4 for _, size in self.fields), self.name
        return struct.Struct(f"<{len(self.fields)}I")


def _layout(header: str, name: str, size: int, *fields: str) -> Layout:
    return Layout(header, name, tuple((field, size) for field in fields))


HOST_REPORT = _layout(
    "firmware/host.h",
    "HostReport",
    4,
    *("pass", "error", "samples", "load_ticks", "execute_ticks"),
    *("method_used", "planned_used", "temp_used", "stack_used", "stack_size"),
)
"""The measurements of an image."""

RUNNER_CASE = _layout("firmware/runner.h", "torch_fusion::CaseHeader", 4, "program_size", "inputs_size", "input_count")
"""The header of a program in the runner's inputs."""

RUNNER_RESULT = _layout(
    "firmware/runner.h",
    "torch_fusion::ResultHeader",
    4,
    *("error", "step", "output_count", "load_ticks", "execute_ticks", "method_used", "planned_used", "temp_used"),
)
"""The header of the outputs of a program in the runner's outputs."""

RUNNER_STEPS = ("load", "input", "execute", "output")
"""The runner's steps, one of which a case ended in, by `step` of a result."""

RUNNER_MAX_DIM = 16
"""Dimensions that a value of the runner can have."""

RUNNER_VALUE = Layout(
    "firmware/runner.h",
    "torch_fusion::ValueHeader",
    (("dtype", 4), ("dim", 4), ("sizes", 4 * RUNNER_MAX_DIM), ("dim_order", RUNNER_MAX_DIM), ("nbytes", 4)),
)
"""The header of the bytes of an input or output of the runner."""

PACKED_LAYER = Layout(
    "kernels/cortex_m/packed.h",
    "torch::executor::native::cortex_m::PackedLayer",
    (
        *((name, 1) for name in ("version", "arrangement", "kind", "is_wide")),
        *((name, 2) for name in ("in_channels", "group_size")),
        *((name, 4) for name in ("channels", "kernel", "stride", "padding", "dilation")),
        *((name, 2) for name in ("input_zero_point", "output_offset", "min", "max")),
    ),
)
"""The head of a packed int8 layer."""

PACKED_VERSION = 5
"""The version of packed layers: kPackedVersion."""
PACKED_ARRANGEMENTS = {"Scalar": 1, "Mve": 2, "Dsp": 3}
"""The arrangements of a packed layer's weights: Arrangement."""
PACKED_KINDS = {
    "Convolution": 1, "Depthwise": 2, "Linear": 3, "LinearInt4": 4, "PointwiseInt4": 5, "Grouped": 7,
}  # fmt: skip
"""The kinds of packed layers: LayerKind."""
INT4_BLOCK = 32
"""Inputs whose int4 weights have a factor of their own: kInt4Block."""
PACKED_LIMITS = {"Size": 0xFFFF, "Window": 0x7FFF, "Inner": 0x7FFFFFF}
"""The largest numbers that a device takes in its head: kMaxPackedSize, kMaxPackedWindow, kMaxPackedInner."""
MAX_DEPTHWISE_KERNEL = 15
"""The largest height of a depthwise layer's kernel: kMaxDepthwiseKernel."""
MOST_FLOATS = 64
"""The largest number of inputs that a linear layer quantizes itself: kMostFloats."""
PACKED_SHORT_SUM = 504
"""Products of which a sum has 24 bits for DSP, whatever is multiplied: kPackedShortSum."""
MAX_PRELU_SHIFT = 22
"""The most bits that factors of an int8 PReLU have behind the point: kMaxPreluShift of kernels/cortex_m/prelu.h."""
SHIFTS = (-62, 31)
"""Shifts that requantize() takes: kMinShift, kMaxShift of kernels/cortex_m/requantize.h."""

LAYOUTS = (PACKED_LAYER, HOST_REPORT, RUNNER_CASE, RUNNER_RESULT, RUNNER_VALUE)
