"""Reads the names of the arguments of kernels' outer functions from their headers."""

import functools
import re
from pathlib import Path

from tools.pipeline.registry.catalog import KERNELS, Kernel


def argument_names(kernel: Kernel) -> tuple[str, ...]:
    """Returns the names of a kernel's arguments after the context, in order.

    Returns none for a function that takes them boxed, or that is a user's own, whose header is not here.
    """
    return () if kernel.is_boxed else _names(KERNELS.parent / kernel.header, kernel.function.rpartition("::")[2])


@functools.cache
def _names(header: Path, function: str) -> tuple[str, ...]:
    if not header.is_file():
        return ()
    text = header.read_text(encoding="utf-8")
    if alias := re.search(rf"\bconstexpr auto& {re.escape(function)} =\s*(?:\w+::)*(\w+)<([^;]*)>;", text):
        # Functions of the same arguments are instances of one template, which may have the name of one of them.
        # One that adapts another kernel has the arguments of that.
        function = alias[2].removeprefix("&").partition("<")[0] if alias[2].startswith("&") else alias[1]
    if macro := re.search(rf"^(\w+)\({re.escape(function)},", text, re.MULTILINE):
        # It defines the function that its first parameter names.
        function, text = "name", text.partition(f"#define {macro[1]}(")[2]
    declared = re.search(rf"\b{re.escape(function)}\(\s*KernelRuntimeContext\s*&[^,()]*,([^()]*)\)", text)
    if declared is None:
        return ()
    # The name of an unused argument is in a comment.
    arguments = re.sub(r"/\*|\*/|=[^,]*", " ", declared[1])
    parameters = text[: declared.start()].rpartition("template <")[2].partition(">")[0]
    if alias and alias[2].count(",") < parameters.count(","):
        # The instance leaves the template's last parameter out, a pack: it has no argument of that type.
        arguments = re.sub(r"[^,]*\.\.\.[^,]*,", "", arguments)
    while (without := re.sub(r"<[^<>]*>", " ", arguments)) != arguments:
        arguments = without
    return tuple(argument.split()[-1].lstrip("&*") for argument in arguments.split(",") if argument.split())
