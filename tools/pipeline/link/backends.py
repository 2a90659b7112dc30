"""Computes the memory that delegates take from an image's arenas."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tools.abi.layouts.layouts import delegate_size
from tools.artifacts.ethos_u.payload import BACKEND, PayloadError, parse
from tools.artifacts.program.program import ProgramFile, aligned
from tools.quiet.console import UserError

_ALIGNMENT = 8
# The bytes of a line of a core's data cache: kCacheLine of firmware/ethos_u/driver.h. An NPU works in whole lines.
_CACHE_LINE = 32


@dataclass(frozen=True)
class Backend:
    """A backend of an image.

    Attributes:
      id: its name in programs.
      method: the bytes that a delegate takes from the method allocator, a multiple of 8.
      temp: the most bytes that an execution takes from the temporary allocator.
    """

    id: str
    method: int
    temp: int


def _ethos_u_scratch(payload: bytes) -> int:
    return aligned(parse(payload).scratch_size, _CACHE_LINE)


# Backends whose delegates specify their own temporary memory.
_TEMP: dict[str, Callable[[bytes], int]] = {BACKEND: _ethos_u_scratch}


def arena_alignment(method: Any, alignment: int) -> int:
    """Returns the alignment of a method's planned and temporary memory, which is `alignment` without an NPU."""
    return _CACHE_LINE if any(delegate.id == BACKEND for delegate in method.delegates or []) else alignment


def delegate_arenas(
    file: ProgramFile, method: Any, used: int, backends: Sequence[Backend], pointer: int
) -> tuple[int, int]:
    """Returns the bytes of the method arena including a method's delegates, and of the temporary arena.

    Args:
      file: the program.
      method: a method of it.
      used: bytes of the method arena without the delegates' part.
      backends: the image's.
      pointer: bytes of a pointer.

    Raises:
      UserError: a backend is missing, or a delegate is corrupted.
    """
    known = {backend.id: backend for backend in backends}
    temp = 0
    delegates = method.delegates or []
    if delegates:
        used = aligned(used, _ALIGNMENT) + delegate_size(pointer) * len(delegates)
    for index, delegate in enumerate(delegates):
        backend = known.get(str(delegate.id))
        if backend is None:
            raise UserError(
                f"{file.path} has a delegate of backend {delegate.id}, which the image has not; give its torch_backend "
                f"to `backends`; there are: {', '.join(sorted(known)) or 'none'}"
            )
        specs = delegate.compile_specs or []
        if specs:
            used = aligned(used, pointer) + 3 * pointer * len(specs)
        if backend.method:
            used = aligned(used, _ALIGNMENT) + backend.method
        temp = max(temp, backend.temp)
        if backend.id in _TEMP:
            try:
                temp = max(temp, _TEMP[backend.id](file.delegate(delegate.processed)))
            except PayloadError as error:
                raise UserError(
                    f"{file.path}: delegate {index} is corrupted: {error}; export the model again"
                ) from error
    return used, temp
