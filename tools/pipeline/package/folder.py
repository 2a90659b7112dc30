"""Makes the folder of a package from its sources, or from archives, with the sizes of its models on each core."""

from collections.abc import Mapping
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
        sizes: core -> sizes of models there, in the format of sizes_table().
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
        files["SIZES.md"] = sizes_table(sizes).encode()
    return files


def sizes_table(sizes: Mapping[str, str]) -> str:
    """Returns the text of SIZES.md.

    Args:
        sizes: core -> lines of `MODEL CODE DATA BSS`, in bytes; the package as a whole is `all`.

    Raises:
        UserError: a line is malformed.
    """
    rows = []
    for core, text in sizes.items():
        for line in text.splitlines():
            try:
                model, *numbers = line.split()
                code, data, bss = map(int, numbers)
            except ValueError as error:
                raise UserError(f"sizes of {core}: '{line}' is not of the form MODEL CODE DATA BSS") from error
            rows.append(f"| {core.replace('_', ' ')} | {model} | {code + data:,} | {data + bss:,} |")
    return "\n".join(
        [
            "# What the models take",
            "",
            "Bytes, compiled by GCC 12 with -Os, without link-time optimization: of flash code, weights and what they",
            "call of newlib-nano; of RAM an instance. The stack is not in it. `all` is an application with each model",
            "once: they share kernels.",
            "",
            "| core | model | flash | RAM |",
            "|---|---|--:|--:|",
            *rows,
            "",
        ]
    )
