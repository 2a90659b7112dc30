"""Measures the bytes that each operator adds to an image that has everything else, but no kernels.

The operators are those of kernels/*/operators.yaml, each with the dtypes and variants of its simplest call in
//conformance:op_db: float32 before other dtypes, and no broadcasting, mixed dtypes and the like before them. Its own
bytes are without those that any operator may share with others: code of the runtime, inlined or not, the reading of
arguments, conversion of numbers, and functions of the compiler's and C libraries. The total has all of it.
"""

import argparse
import itertools
import json
import math
import pickle
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from tqdm import tqdm

from tools.pipeline.report.image import Piece, SourceFiles, owner
from tools.quiet.console import UserError
from tools.quiet.files import replace_text
from tools.quiet.tool import run_tool

# Bytes of its own that an operator may add.
LIMIT = 1_500
# Operators that may take more, and why; by their names without namespace and overload.
_KINDS = {
    "convolution": r"convolution(_backward)?",
    "pooling": r".*pool.*",
    "resampling": r"_?upsample_.*|grid_sampler_2d",
    "sorting": r"topk",
    "libm": (
        r"a?(sin|cos|tan)h?|atan2|exp|expm1|log|log10|log1p|log2|pow|erf|sigmoid|logit|gelu|elu|_softmax|_log_softmax|"
        r"softplus|silu|mish|glu|lstm|gru|_cdist_forward|_pdist_forward|randn"
    ),
}
# Symbols of the C library, of the compiler's (division of 64 bits, ...) and of the runtime: all but kernels.
_FOREIGN = re.compile(r"(?!_Z)|_ZNK?10executorch")
# Sources in kernels/ that stand beside the runtime's and the compiler's: how arguments are read, and numbers in double
# precision, which these cores compute in software.
_SHARED = ("/kernels/boxed.cpp", "/kernels/soft_double.cpp")
# Dtypes of the calls to look at, first to last.
_DTYPES = ("float32", "int64", "int8", "uint8", "bool", "int32")


@dataclass(frozen=True)
class Measured:
    """An operator in flash.

    Attributes:
      bytes: its own bytes.
      total: with the parts of the runtime and of libraries that the image has for it alone.
      selection: dtypes and variants.
      kind: the kind of exception that it is, if it is one.
    """

    operator: str
    bytes: int
    total: int
    selection: str
    kind: str

    @property
    def is_over(self) -> bool:
        """Returns whether it is over its limit."""
        return not self.kind and self.bytes > LIMIT


def choose(calls: Path, registries: dict[str, Path], selections: Path) -> None:
    """Writes a registry per operator, with the simplest of its calls, and what each selects.

    Args:
      calls: of //conformance:op_db_calls.
      registries: where the registries go; that of "" is empty, and so are those of operators without a call.
    """
    # Imported here: measuring needs neither calls nor kernels.
    from conformance.op_db import CHANNELS_LAST, Row
    from tools.abi.layouts.layouts import Variant
    from tools.artifacts.program import read
    from tools.pipeline.registry.calls import operator_uses
    from tools.pipeline.registry.catalog import read_catalog
    from tools.pipeline.registry.parts import ALL_PARTS
    from tools.pipeline.registry.registry import Selected, registry_source, select
    from tools.verify.run_pte.cases import Case

    def effort(entry: Selected) -> tuple[int, int]:
        return int(entry.variants or 0).bit_count(), len(entry.dtypes or ())

    def words(entry: Selected) -> list[str]:
        return sorted(entry.dtypes or ()) + [str(variant.name) for variant in Variant if variant in entry.variants]

    with calls.open("rb") as file:
        rows: list[Row] = pickle.load(file)
        cases: list[Case] = pickle.load(file)
    catalog = read_catalog()
    chosen: dict[str, str | None] = {}
    for operator, path in registries.items():
        own = [row for row in rows if row.operator == operator and row.calls and row.dtype != CHANNELS_LAST]
        own.sort(key=lambda row: _DTYPES.index(row.dtype) if row.dtype in _DTYPES else len(_DTYPES))
        found: list[Selected] = []
        for index in [index for row in own[:1] for index in row.calls]:
            with tempfile.NamedTemporaryFile(suffix=".pte") as program:
                program.write(cases[index].program)
                program.flush()
                found += select([operator_uses(read(Path(program.name)))], catalog, {})
        simplest = [min(found, key=effort)] if found else []
        path.write_text(registry_source(simplest, ALL_PARTS), encoding="utf-8")
        if operator:
            chosen[operator] = " ".join(words(simplest[0])).lower() if simplest else None
    selections.write_text(json.dumps(chosen, indent=1), encoding="utf-8")


@dataclass(frozen=True)
class Image:
    """Bytes of an image in flash.

    Attributes:
      flash: of all sections.
      foreign: of each function that is no kernel's.
      shared: of code in the other functions that is the runtime's, or _SHARED.
    """

    flash: int
    foreign: dict[str, int]
    shared: int


def read_image(path: Path) -> Image:
    """Reads the sizes of an image.

    Raises:
      UserError: the file is missing or no ELF file.
    """
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            flash = sum(
                section["sh_size"]
                for section in elf.iter_sections()
                if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section["sh_type"] != "SHT_NOBITS"
            )
            table = elf.get_section_by_name(".symtab")
            symbols = table.iter_symbols() if table else ()
            # The lowest bit of an address says that it is Thumb code. One of several names of one function counts, and
            # functions written in assembly may reach into each other.
            functions = {
                symbol["st_value"] & ~1: symbol for symbol in symbols if symbol["st_info"]["type"] == "STT_FUNC"
            }
            starts = sorted(functions)
            foreign: dict[str, int] = {}
            shared = 0
            sources = SourceFiles.read(elf)
            for start, following in itertools.zip_longest(starts, starts[1:]):
                symbol = functions[start]
                end = min(start + symbol["st_size"], following or math.inf)
                if _FOREIGN.match(symbol.name):
                    foreign[symbol.name] = end - start
                    continue
                for source, begin, stop in sources.ranges(start, end):
                    shared += stop - begin if _is_shared(source) else 0
            return Image(flash, foreign, shared)
    except (OSError, ELFError) as error:
        raise UserError(f"image {path}: {error}; build it with `bazel build //benchmarks:operator_images`") from error


def _is_shared(source: str) -> bool:
    return f"/{source}".endswith(_SHARED) or owner(Piece("", "", 0, source)) == "runtime"


def kind_of(operator: str) -> str:
    """Returns the kind of operators that may take more than the limit; empty for others."""
    base = operator.partition("::")[2].partition(".")[0]
    return next((kind for kind, pattern in _KINDS.items() if re.fullmatch(pattern, base)), "")


def measure(images: Path, selections: Path) -> tuple[list[Measured], list[str]]:
    """Returns the bytes that each operator adds, largest first, and the operators of which no call is known."""
    paths: dict[str, str] = json.loads(images.read_text(encoding="utf-8"))
    chosen: dict[str, str | None] = json.loads(selections.read_text(encoding="utf-8"))
    found = {
        operator: read_image(images.parent / path)
        for operator, path in tqdm(paths.items(), "Reading images", disable=None)
    }
    none = found.pop("")
    measured = []
    for operator, selection in chosen.items():
        if selection is not None:
            image = found[operator]
            total = image.flash - none.flash
            foreign = sum(size for name, size in image.foreign.items() if name not in none.foreign)
            own = total - foreign - (image.shared - none.shared)
            measured.append(Measured(operator, own, total, selection, kind_of(operator)))
    measured.sort(key=lambda entry: (-entry.bytes, entry.operator))
    return measured, [operator for operator, selection in chosen.items() if selection is None]


def lines_of(measured: Sequence[Measured], missing: Sequence[str]) -> Iterator[str]:
    """Yields the table, and what it says."""
    width = max((len(entry.operator) for entry in measured), default=8)
    yield f"{'operator':{width}}    own  total  limit        selected"
    for entry in measured:
        limit = entry.kind or (f"{LIMIT} BROKEN" if entry.is_over else f"{LIMIT}")
        yield f"{entry.operator:{width}}  {entry.bytes:5}  {entry.total:5}  {limit:11}  {entry.selection}"
    over = [entry.operator for entry in measured if entry.is_over]
    yield f"{len(measured)} operators, {len(over)} over {LIMIT} bytes{': ' if over else ''}{', '.join(over)}"
    if missing:
        yield f"{len(missing)} without a call to measure: {', '.join(missing)}"


def report(images: Path, selections: Path, json_path: Path | None) -> int:
    """Prints the table; returns 1 if a limit is broken."""
    measured, missing = measure(images, selections)
    print("\n".join(lines_of(measured, missing)))
    if json_path:
        rows = [
            {"operator": entry.operator, "own": entry.bytes, "total": entry.total, "kind": entry.kind}
            for entry in measured
        ]
        replace_text(json_path, json.dumps(rows, indent=1) + "\n")
    return int(any(entry.is_over for entry in measured))


def _run(options: argparse.Namespace) -> int:
    if options.command == "choose":
        registries = dict(text.partition("=")[::2] for text in options.registry)
        paths = {operator: Path(path) for operator, path in registries.items()}
        choose(options.calls, paths, options.selections)
        return 0
    return report(options.images, options.selections, options.json)


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the command line and runs a command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="operator_flash",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        fromfile_prefix_chars="@",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    part = commands.add_parser("choose", help="writes a registry per operator")
    part.add_argument("--calls", type=Path, required=True, help="calls of //conformance:op_db_calls")
    part.add_argument("--selections", type=Path, required=True, help="where to write what was selected (.json)")
    part.add_argument("--registry", action="append", default=[], metavar="OPERATOR=PATH", help="repeatable")
    part = commands.add_parser(
        "report",
        help="prints what each operator adds",
        description=f"{__doc__}\nFails if one adds more than {LIMIT} bytes and is no {', no '.join(_KINDS)} operator.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    part.add_argument("--images", type=Path, required=True, help="operator -> image (.json), given by the build")
    part.add_argument(
        "--selections", type=Path, required=True, help="operator -> selection (.json), given by the build"
    )
    part.add_argument("--json", type=Path, help="also write the rows to a file")
    return run_tool("operator_flash", _run, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
