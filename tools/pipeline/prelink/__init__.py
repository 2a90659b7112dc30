"""Links programs at build time: see runtime/prelinked/prelinked.h."""

from .assembly import program_source
from .layout import MethodLayout, PrelinkError, method_layout

__all__ = ["MethodLayout", "PrelinkError", "method_layout", "program_source"]
