"""Makes the folder of a package from its sources, or from archives, with the sizes of its models on each core."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.pipeline.package.layout import SETTINGS_HEADER
from tools.pipeline.package.layouts import LAYOUTS
from tools.quiet.console import UserError

_SETTINGS = f"src/{SETTINGS_HEADER}"


def folder_of(
    sources: Path, layout: str, sizes: Mapping[str, str], archives: Mapping[str, bytes], name: str
) -> dict[str, bytes]:
    """Returns the files of a package: path -> bytes.

    Args:
        sources: a folder from package.pack().
        layout: a key of LAYOUTS.
        sizes: core -> sizes of models there, in the format of read_sizes().
        archives: core and float ABI -> archive; empty: the package has its sources.
        name: the package's name.

    Raises:
        UserError: the layout has the same path for two of the archives.
    """
    kind = LAYOUTS[layout]
    files = {
        path.relative_to(sources).as_posix(): path.read_bytes() for path in sorted(sources.rglob("*")) if path.is_file()
    }
    if archives:
        # Only the models' headers remain of src/, in a layout that has them there.
        public = [path for path in files if Path(path).parent.as_posix() == kind.headers and path != _SETTINGS]
        files = {path: data for path, data in files.items() if not path.startswith("src/") or path in public}
        assert kind.archive is not None
        places: dict[str, str] = {}
        for identity, data in archives.items():
            place = kind.archive(name, identity)
            if place in places:
                raise UserError(
                    f'package {name}: layout "{layout}" has one place for archives of {places[place]} and {identity}; '
                    "leave one of these cores out"
                )
            places[place] = identity
            files[place] = data
    if sizes:
        measured = read_sizes(sizes)
        files["SIZES.md"] = sizes_table(measured).encode()
        header = f"{kind.headers}/{name}_package.h"
        if header in files:
            files[header] += stack_macros(measured).encode()
    return files


@dataclass(frozen=True)
class Size:
    """Holds what a model takes on a core, in bytes; the stack of its `run` is None if no bound is known."""

    core: str
    model: str
    flash: int
    ram: int
    stack: int | None


def read_sizes(sizes: Mapping[str, str]) -> list[Size]:
    """Reads what models take.

    Args:
        sizes: core -> lines of `MODEL CODE DATA BSS STACK`, in bytes; the package as a whole is `all`.

    Raises:
        UserError: a line is malformed.
    """
    result = []
    for core, text in sizes.items():
        for line in text.splitlines():
            try:
                model, *numbers, stack = line.split()
                code, data, bss = map(int, numbers)
                used = None if stack == "-" else int(stack)
            except ValueError as error:
                raise UserError(f"sizes of {core}: '{line}' is not of the form MODEL CODE DATA BSS STACK") from error
            result.append(Size(core, model, code + data, data + bss, used))
    return result


# How compilers call the architecture of each kind of core.
_ARCHITECTURES = {
    "__ARM_ARCH_6M__": ("cortex_m0", "cortex_m1"),
    "__ARM_ARCH_7M__": ("cortex_m3",),
    "__ARM_ARCH_7EM__": ("cortex_m4", "cortex_m7"),
    "__ARM_ARCH_8M_BASE__": ("cortex_m23",),
    "__ARM_ARCH_8M_MAIN__": ("cortex_m33",),
    "__ARM_ARCH_8_1M_MAIN__": ("cortex_m52", "cortex_m55", "cortex_m85"),
}


def stack_macros(sizes: Sequence[Size]) -> str:
    """Returns C's macros NAME_STACK_SIZE, the most of an architecture's cores."""
    lines = [
        "",
        "/* Bytes of stack that each model's run takes at most on this architecture, by its deepest calls, compiled by",
        " * GCC 12 with -Os. Interrupts need some, too, and other compilers and options make another number of it. */",
    ]
    for architecture, cores in _ARCHITECTURES.items():
        stacks: dict[str, int] = {}
        for size in sizes:
            if size.core.startswith(cores) and size.model != "all" and size.stack is not None:
                stacks[size.model] = max(size.stack, stacks.get(size.model, 0))
        if stacks:
            macros = [f"#define {model.upper()}_STACK_SIZE {stack}" for model, stack in stacks.items()]
            lines += [f"#ifdef {architecture}", *macros, "#endif"]
    return "\n".join(lines) + "\n" if len(lines) > 3 else ""


def sizes_table(sizes: Sequence[Size]) -> str:
    """Returns the text of SIZES.md."""
    rows = [
        f"| {size.core.replace('_', ' ')} | {size.model} | {size.flash:,} | {size.ram:,} | "
        + ("" if size.stack is None else f"{size.stack:,}")
        + " |"
        for size in sizes
    ]
    return "\n".join(
        [
            "# What the models take",
            "",
            "Bytes, compiled by GCC 12 with -Os, without link-time optimization: of flash code, weights and what they",
            "call of newlib-nano; of RAM an instance; of stack what `run` takes at most, by its deepest calls. `all`",
            "is an application with each model once: they share kernels.",
            "",
            "| core | model | flash | RAM | stack |",
            "|---|---|--:|--:|--:|",
            *rows,
            "",
        ]
    )
