"""Packs models that are compiled to C++, with the kernels that they call, for another build system.

Writes a folder and the same as a .zip: src/ with the models, kernels and the public headers of ExecuTorch that they
need, the models' headers, an example, licence texts, and the files of the build system.
"""

from __future__ import annotations

import argparse
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.artifacts.core.core import POINTER_SIZES
from tools.artifacts.program.program import load
from tools.pipeline.compile.compile import compile_method
from tools.pipeline.link.interface import find_method, interface_of, read_example
from tools.pipeline.package.includes import Tree, is_own
from tools.pipeline.package.layout import SETTINGS, SETTINGS_HEADER, Package
from tools.pipeline.package.layouts import LAYOUTS
from tools.pipeline.package.selftest import selftest_header, selftest_source
from tools.quiet.console import UserError
from tools.quiet.tool import run_tool

# A file's time in the .zip: the earliest that the format has, so that the bytes depend on the contents alone.
_TIME = (1980, 1, 1, 0, 0, 0)
# Before a header of others: their warnings are not the user's, and not every build system has -isystem.
_FOREIGN = "#pragma GCC system_header\n"
# What inline functions of ExecuTorch's headers call.
_RUNTIME = (
    "runtime/compiled/constant_data.cpp",
    "runtime/core/evalue.cpp",
    "runtime/core/tag.cpp",
    "runtime/core/tensor_impl.cpp",
    "runtime/core/tensor_layout.cpp",
    "runtime/core/tensor_shape_to_c_string.cpp",
    "runtime/core/tensor_util.cpp",
    "runtime/platform/abort.cpp",
    "runtime/platform/default_pal.cpp",
    "runtime/platform/log.cpp",
    "runtime/platform/pal_table.cpp",
    "runtime/platform/platform.cpp",
    "runtime/platform/runtime.cpp",
)


@dataclass(frozen=True)
class Model:
    """A model to pack: its program, method, name, manifest.json and golden file."""

    program: Path
    method: str
    name: str
    manifest: Path
    golden: Path


@dataclass(frozen=True)
class Publication:
    """What a package says of itself: its version, of three numbers, who publishes it, and where it is described."""

    version: str = Package.version
    author: str = Package.author
    url: str = Package.url


def pack(
    name: str,
    core: str,
    layout: str,
    models: Sequence[Model],
    roots: dict[Path, str],
    licences: dict[str, Path],
    catalogs: Sequence[Path] = (),
    publication: Publication | None = None,
) -> dict[str, str]:
    """The files of a package: path -> text.

    Args:
        name: its name, a C identifier.
        core: the core that it is for.
        layout: a key of LAYOUTS.
        models: its models, of different names.
        roots: folders with kernels, runtime and headers, and where in the package their files go.
        licences: path in the package -> file.
        catalogs: files with kernels of users' own operators.
        publication: what it says of itself; None: that of any.

    Raises:
        UserError: a model can't be compiled for the core, two have one name, or the build system takes no such package.
    """
    publication = publication or Publication()
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise UserError(f"package name '{name}' is no C identifier; use letters, digits and underscores")
    if not re.fullmatch(r"\d+\.\d+\.\d+", publication.version):
        raise UserError(f"version '{publication.version}' of package {name} is not of the form 1.2.3")
    headers = LAYOUTS[layout].headers
    files: dict[str, str] = {}
    tree = Tree(roots)
    for model in models:
        if f"{headers}/{model.name}.h" in files:
            raise UserError(f"package {name} has two models called {model.name}; set program_name of one")
        texts = compile_method(model.program, core, model.method, model.name, model.manifest, catalogs)
        program = load(model.program)
        interface = interface_of(model.program, find_method(program, model.method))
        files |= {
            f"{headers}/{model.name}.h": texts[f"{model.name}.h"],
            f"{headers}/{model.name}.hpp": texts[f"{model.name}.hpp"],
            f"{headers}/{model.name}_selftest.h": selftest_header(model.name),
            f"src/models/{model.name}.cpp": texts[f"{model.name}.cpp"],
            f"src/models/{model.name}_selftest.c": selftest_source(
                model.name, interface, read_example(model.golden, interface)
            ),
        }
        tree.add(re.findall(r'^#include "([^"]+)"', texts[f"{model.name}.cpp"], re.MULTILINE))
    tree.add([*_RUNTIME, "runtime/compiled/torch_fusion.h"])
    for path, source in tree.found.items():
        to = f"{headers}/torch_fusion.h" if path == "src/runtime/compiled/torch_fusion.h" else path
        text = source.read_text(encoding="utf-8")
        files[to] = text if is_own(path.removeprefix("src/")) else _FOREIGN + text
    files = {
        path: f'#include "{SETTINGS_HEADER}"\n\n{text}' if path.endswith(".cpp") else text
        for path, text in files.items()
    }
    files[f"src/{SETTINGS_HEADER}"] = SETTINGS
    for path, source in licences.items():
        files[path] = source.read_text(encoding="utf-8")
    sources = tuple(sorted(path for path in files if path.endswith((".c", ".cpp"))))
    package = Package(
        name,
        core,
        tuple(model.name for model in models),
        sources,
        publication.version,
        publication.author,
        publication.url,
    )
    kind = LAYOUTS[layout]
    if kind.check is not None:
        kind.check(package)
    return {**files, **kind.files(package), "README.md": _readme(package, layout)}


def _readme(package: Package, layout: str) -> str:
    folder = LAYOUTS[layout].headers
    models = "\n".join(
        f"- `{model}`: `{folder}/{model}.h` for C and C++, `{folder}/{model}.hpp`" for model in package.models
    )
    return f"""\
# {package.name}

{package.sentence} Made by Torch Fusion's `torch_package`.

{models}

{LAYOUTS[layout].use(package)}

`NAME_selftest()` of `NAME_selftest.h` runs a model on the example that PyTorch computed, and compares.
"""


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="package", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", required=True, help="the package's name, a C identifier")
    parser.add_argument("--core", required=True, choices=list(POINTER_SIZES), help="the core that it is for")
    parser.add_argument("--layout", required=True, choices=list(LAYOUTS), help="the build system")
    parser.add_argument(
        "--model",
        nargs=5,
        action="append",
        required=True,
        metavar=("PROGRAM", "METHOD", "NAME", "MANIFEST", "GOLDEN"),
        help="a model; repeatable",
    )
    parser.add_argument("--version", default=Publication.version, help="the package's version")
    parser.add_argument("--author", default=Publication.author, help="who publishes it")
    parser.add_argument("--url", default=Publication.url, help="where it is described")
    parser.add_argument("--catalog", type=Path, action="append", default=[], help="kernels of users' own operators")
    parser.add_argument("--sources", type=Path, required=True, help="the folder that kernels/ and runtime/ are in")
    parser.add_argument("--executorch", type=Path, required=True, help="the folder of ExecuTorch's headers")
    parser.add_argument(
        "--licence", nargs=2, action="append", default=[], metavar=("PATH", "FILE"), help="a licence text; repeatable"
    )
    parser.add_argument("--output", type=Path, required=True, help="the folder")
    parser.add_argument("--zip", type=Path, required=True, help="the .zip")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> None:
    models = [
        Model(Path(program), method, name, Path(manifest), Path(golden))
        for program, method, name, manifest, golden in arguments.model
    ]
    # One folder to look for headers in: Arduino has no more.
    roots = {
        arguments.sources: "src",
        arguments.executorch: "src",
        arguments.executorch / "executorch/runtime/core/portable_type/c10": "src",
    }
    publication = Publication(arguments.version, arguments.author, arguments.url)
    licences = {path: Path(file) for path, file in arguments.licence}
    files = pack(
        arguments.name, arguments.core, arguments.layout, models, roots, licences, arguments.catalog, publication
    )
    for path, text in files.items():
        to = arguments.output / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")
    with zipfile.ZipFile(arguments.zip, "w") as archive:
        for path, text in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{arguments.name}/{path}", _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text)


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("package", _run, _parse(argv))
