"""Memory as an NPU sees it."""

from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from npu.fault import NpuFault

Bytes: TypeAlias = npt.NDArray[np.uint8]


class Memory(Protocol):
    """Bytes by address. The model reads ranges, computes, and writes ranges back."""

    def read(self, address: int, length: int) -> Bytes:
        """Returns a copy, or what must not be written to; raises NpuFault where there is no memory."""

    def write(self, address: int, data: Bytes) -> None:
        """Stores bytes; raises NpuFault where there is no memory that can be written to."""


class Segments:
    """Memory of a few arrays of bytes at addresses of their own."""

    def __init__(self) -> None:
        self._segments: list[tuple[int, Bytes, bool]] = []

    def add(self, address: int, data: Bytes, writable: bool) -> None:
        """Adds an array, which stays the caller's: what the NPU writes is seen there."""
        self._segments.append((address, data, writable))

    def _find(self, address: int, length: int, write: bool) -> Bytes:
        if length == 0:
            return np.zeros(0, np.uint8)
        for start, data, writable in self._segments:
            if start <= address and address + length <= start + len(data):
                if write and not writable:
                    break
                return data[address - start : address - start + length]
        does = "writes to" if write else "reads"
        raise NpuFault(f"bus error: the NPU {does} {length} bytes at 0x{address:x}, where it has no such memory")

    def read(self, address: int, length: int) -> Bytes:
        return self._find(address, length, False)

    def write(self, address: int, data: Bytes) -> None:
        self._find(address, len(data), True)[:] = data
