"""Packs models that are compiled to C++, with the kernels that they call, for another build system.

`sources` writes a folder: src/ with the models, kernels and the public headers of ExecuTorch that they need, the
models' headers, an example, licence texts, and the files of the build system. `archive` compiles it for a core.
`folder` makes the package from both, with SIZES.md, and with archives instead of sources if there are any; and a .zip.
"""

import argparse
import hashlib
import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.artifacts.core.core import POINTER_SIZES
from tools.artifacts.manifest.manifest import read_manifest
from tools.artifacts.program.program import load
from tools.pipeline.compile.chain import LAYERS
from tools.pipeline.compile.compile import compile_method
from tools.pipeline.image_files.sbom import Component, exporters, file_component, spdx_json
from tools.pipeline.link.interface import find_method, interface_of, read_examples
from tools.pipeline.package.archive import Toolchain, archive, sizes
from tools.pipeline.package.archive_check import archive_header
from tools.pipeline.package.fingerprint import VERSION_HEADER, fingerprint, fingerprint_of, version_files, with_identity
from tools.pipeline.package.folder import folder_of
from tools.pipeline.package.framework_names import framework_problem
from tools.pipeline.package.includes import Tree, is_own, is_users
from tools.pipeline.package.layout import SETTINGS, SETTINGS_HEADER, Package, archive_path
from tools.pipeline.package.layouts import LAYOUTS
from tools.pipeline.package.selftest import selftest_header, selftest_source
from tools.quiet.console import UserError
from tools.quiet.tool import option_parser, run_tool

# A file's time in the .zip: the earliest that the format supports, so that the bytes only depend on the contents.
_TIME = (1980, 1, 1, 0, 0, 0)
# The limits for samples in the self-test of a model that keeps state: their number, and their bytes if more than two.
_STEPS = 8
_STEPS_SIZE = 8192
# Marks headers of other projects: their warnings are not the user's, and not every build system has -isystem.
_FOREIGN = "#pragma GCC system_header\n"
# The include in each model's header.
_COMMON = '#include "torch_fusion.h"\n'
# The sources that inline functions of ExecuTorch's headers need.
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
    """A model to pack: its program, method, name, manifest.json and golden file, and one of MEMORY."""

    program: Path
    method: str
    name: str
    manifest: Path
    golden: Path
    memory: str = LAYERS


@dataclass(frozen=True)
class Publication:
    """A package's metadata: its version, of three numbers, publisher, and the address of its description."""

    version: str = Package.version
    author: str = Package.author
    url: str = Package.url


@dataclass(frozen=True)
class Operators:
    """Users' own operators.

    Attributes:
        catalogs: files that describe their kernels, in the format of kernels/*/operators.yaml.
        files: their sources and headers, by the path in their repository, as in includes.
    """

    catalogs: Sequence[Path] = ()
    files: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Sources:
    """The files that packages take from this project and from ExecuTorch.

    Attributes:
        roots: folders with kernels, runtime and headers, and their paths in the package.
        licences: path in the package -> file.
        shared: all files of `roots` that packages use: packages of one application must be made from the same ones.
        npu_device: the source with the address of the NPU that computes models; None: there is none.
        executorch: the version of ExecuTorch.
    """

    roots: Mapping[Path, str] = field(default_factory=dict)
    licences: Mapping[str, Path] = field(default_factory=dict)
    shared: Sequence[Path] = ()
    npu_device: Path | None = None
    executorch: str = ""


def pack(
    name: str,
    core: str,
    layout: str,
    models: Sequence[Model],
    sources: Sources,
    operators: Operators | None = None,
    publication: Publication | None = None,
    archives: Sequence[str] = (),
    memories: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """Returns the files of a package: path -> text.

    Args:
        name: its name, a C identifier.
        core: the core that it is for.
        layout: a key of LAYOUTS.
        models: its models, with different names.
        sources: what it takes its other files from.
        operators: the users' own operators of its models; None: none.
        publication: its metadata; None: the defaults.
        archives: the cores and float ABIs of its archives, such as `cortex_m4-softfp`; empty: it has sources.
        memories: the bytes of several memories by their names, the fastest one first, over which arenas are split.

    Raises:
        UserError: a model can't be compiled for the core, two have the same name, or the build system refuses the
          package.
    """
    publication = publication or Publication()
    operators = operators or Operators()
    _check_names(name, publication.version, memories or {})
    kind = LAYOUTS[layout]
    tree = Tree(sources.roots, operators.files)
    files, fingerprints = _models_files(name, core, layout, models, operators, tree, bool(archives), memories or {})
    tree.add([*_RUNTIME, "runtime/compiled/torch_fusion.h", *operators.files])
    if sources.npu_device is not None:
        tree.add(["firmware/ethos_u/access.cpp"])
        files["src/models/npu_device.cpp"] = sources.npu_device.read_text(encoding="utf-8")
    files |= _tree_files(tree, kind.headers)
    files[f"{kind.headers}/{name}_package.h"] = _package_header(name, publication.version, fingerprint_of(files))
    if archives:
        files[f"{kind.headers}/{name}_archive.h"] = archive_header(name, archives, kind.archive is archive_path)
    version = fingerprint(sources.roots, sources.shared)
    files |= version_files(version)
    files = {
        path: f'#include "{SETTINGS_HEADER}"\n\n{text}' if path.endswith(".cpp") else text
        for path, text in files.items()
    }
    files[f"src/{SETTINGS_HEADER}"] = SETTINGS
    files |= {path: source.read_text(encoding="utf-8") for path, source in sources.licences.items()}
    package = Package(
        name,
        core,
        tuple(model.name for model in models),
        tuple(sorted(path for path in files if path.endswith((".c", ".cpp")))),
        publication.version,
        publication.author,
        publication.url,
        tuple(archives),
        version,
        fingerprints,
        fingerprint_of(files),
    )
    if kind.check is not None:
        kind.check(package)
    if archives and kind.archive is None:
        able = sorted(other for other, entry in LAYOUTS.items() if entry.archive is not None)
        raise UserError(f'package {name}: layout "{layout}" has no archives; {able} have, and all have sources')
    files |= {**kind.files(package), "README.md": _readme(package, layout)}
    files[f"{name}.spdx.json"] = _components(package, files, models, sources.executorch)
    return files


def _check_names(name: str, version: str, memories: Iterable[str]) -> None:
    """Refuses names of a package and of its memories, and versions, that a build system may not take."""
    for what, word in [("name", name), *(("memory", memory) for memory in memories)]:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", word):
            raise UserError(f"package {what} '{word}' is no C identifier; use letters, digits and underscores")
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise UserError(f"version '{version}' of package {name} is not of the form 1.2.3")


def _models_files(
    package: str,
    core: str,
    layout: str,
    models: Sequence[Model],
    operators: Operators,
    tree: Tree,
    has_archives: bool,
    memories: Mapping[str, int],
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the models' own files, path -> text, and their fingerprints; adds to the tree what they include."""
    headers = LAYOUTS[layout].headers
    files: dict[str, str] = {}
    fingerprints = {}
    rooms = dict(memories)
    for model in models:
        header, compiled = f"{headers}/{model.name}.h", f"src/models/{model.name}.cpp"
        if header in files:
            raise UserError(f"package {package} has two models called {model.name}; set program_name of one")
        if problem := framework_problem(model.name, layout):
            raise UserError(
                f'package {package}, layout "{layout}": a model can\'t be called {model.name}, as {problem}; set '
                "program_name of its torch_program to another"
            )
        texts, taken = _model_files(model, core, headers, operators.catalogs, rooms)
        # The following models get what is left.
        rooms |= {memory: room - taken.get(memory, taken[""]) for memory, room in rooms.items()}
        tree.add(re.findall(r'^#include "([^"]+)"', texts[compiled], re.MULTILINE))
        texts[compiled] = f'#include "{VERSION_HEADER}"\n\n{tree.with_operators(texts[compiled])}'
        if has_archives:
            texts[header] = texts[header].replace(_COMMON, f'{_COMMON}#include "{package}_archive.h"\n')
        # By file names, because the layout determines the folder of headers.
        digest = fingerprint_of({Path(path).name: text for path, text in texts.items()})
        fingerprints[model.name] = digest
        texts[header], texts[compiled] = with_identity(model.name, digest, texts[header], texts[compiled])
        files |= texts
    return files, fingerprints


def _components(package: Package, files: Mapping[str, str], models: Sequence[Model], executorch: str) -> str:
    """Returns NAME.spdx.json, which lists what a package consists of, as that of an image does."""
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    headers = sorted(path.rpartition("/")[2] for path, text in files.items() if _FOREIGN in text)
    found = [
        Component("executorch", "BSD-3-Clause", version=executorch, comment="In the package: " + ", ".join(headers)),
        Component("torch_fusion", "Apache-2.0"),
    ]
    users = sorted(path.rpartition("/")[2] for path in files if is_users(path))
    if users:
        found.append(Component("operators", "NOASSERTION", comment="In the package: " + ", ".join(users)))
    found += map(file_component, sorted({model.program for model in models}))
    related = {"CONTAINS": found, "BUILD_TOOL_OF": exporters(read_manifest(model.manifest) for model in models)}
    return spdx_json(Component(package.name, "NOASSERTION", version=package.version), digest, related)


def _package_header(name: str, version: str, content: str) -> str:
    """Returns NAME_package.h, which describes the package for a console or a log."""
    macro = f"{name.upper()}_PACKAGE"
    major, minor, patch = version.split(".")
    return f"""\
#ifndef {macro}_H
#define {macro}_H

#include "torch_fusion.h"

#define {macro}_VERSION "{version}"
#define {macro}_VERSION_MAJOR {major}
#define {macro}_VERSION_MINOR {minor}
#define {macro}_VERSION_PATCH {patch}
/* Of models, kernels and headers. That of a model alone is in its own header. */
#define {macro}_HASH "{content}"

#endif
"""


def _model_files(
    model: Model, core: str, headers: str, catalogs: Sequence[Path], rooms: Mapping[str, int]
) -> tuple[dict[str, str], dict[str, int]]:
    """Returns the files of a model, its compiled method and its self-test, and the bytes that it takes in each memory,
    in that of its instance by an empty name.
    """
    texts = compile_method(
        model.program, core, model.method, model.name, model.manifest, catalogs, memory=model.memory, rooms=rooms
    )
    interface = interface_of(model.program, find_method(load(model.program), model.method))
    steps = _STEPS if read_manifest(model.manifest).keeps_state else 1
    examples = read_examples(model.golden, interface, steps)
    size = sum(map(len, (*examples[0].inputs, *examples[0].outputs)))
    examples = examples[: max(2, _STEPS_SIZE // max(1, size))]
    files = {
        f"{headers}/{model.name}.h": texts[f"{model.name}.h"],
        f"{headers}/{model.name}.hpp": texts[f"{model.name}.hpp"],
        f"{headers}/{model.name}_selftest.h": selftest_header(model.name),
        f"src/models/{model.name}.cpp": texts[f"{model.name}.cpp"],
        f"src/models/{model.name}_selftest.c": selftest_source(model.name, interface, examples),
    }
    plan = json.loads(texts[f"{model.name}.plan.json"])
    return files, {**plan["memories"], "": sum(plan["planned"])}


def _tree_files(tree: Tree, headers: str) -> dict[str, str]:
    """Returns the files of kernels and runtime; the interface that all models share is among the headers."""
    files = {}
    for path in tree.found:
        to = f"{headers}/torch_fusion.h" if path == "src/runtime/compiled/torch_fusion.h" else path
        text = tree.text(path)
        files[to] = text if is_own(path.removeprefix("src/")) or is_users(path) else _FOREIGN + text
    return files


def _readme(package: Package, layout: str) -> str:
    folder = LAYOUTS[layout].headers
    models = "\n".join(
        f"- `{model}`: `{folder}/{model}.h` for C and C++, `{folder}/{model}.hpp`" for model in package.models
    )
    chosen = (
        f"\n\nArchives are for {', '.join(package.archives)}; `{package.name.upper()}_ARCHIVE` is set to one of them."
        if package.archives and layout != "arduino"
        else ""
    )
    first = package.models[0]
    return f"""\
# {package.name}

{package.sentence} Made by Torch Fusion's `torch_package`.

{models}

## Building

{LAYOUTS[layout].use(package)}{chosen}

After a newer .zip delete the folder that you build in, or unpack with `unzip -DD`: files in a .zip are of 1980, and
build systems keep what they made of the older ones. Several packages in one application have to be made by one version
of Torch Fusion, and their models need names of their own: the linker ends in "multiple definition" otherwise.

## Using

    #include "{first}.h"

    static {first}_model_t model;  /* an instance and its memory; nothing is allocated */

    torch_fusion_status status = {first}_init(&model, sizeof(model));  /* once */
    if (status == TORCH_FUSION_OK) {{
      status = {first}_set_input(&model, 0, x, sizeof(x));
    }}
    if (status == TORCH_FUSION_OK) {{
      status = {first}_run(&model);
    }}
    if (status == TORCH_FUSION_OK) {{
      status = {first}_get_output(&model, 0, y, sizeof(y));
    }}

`{first}.h` has what inputs and outputs are, and `torch_fusion.h` what can go wrong, `torch_fusion_status_text()` as a
text. `{package.name}_package.h` has the package's version and a hash of it, and `{first}.h` one of the model.

`NAME_selftest()` of `NAME_selftest.h` runs a model on the example that PyTorch computed, and compares; one that keeps
state on several, one after another, if its model file has an `evaluation_set()`.
"""


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("package", __doc__)
    steps = parser.add_subparsers(required=True, metavar="STEP")
    sources = steps.add_parser("sources", help="write the models, what they need, and the build system's files")
    sources.set_defaults(step=_write_sources)
    sources.add_argument("--name", required=True, help="the package's name, a C identifier")
    sources.add_argument("--core", required=True, choices=list(POINTER_SIZES), help="the core that it is for")
    sources.add_argument("--layout", required=True, choices=list(LAYOUTS), help="the build system")
    sources.add_argument(
        "--model",
        nargs=6,
        action="append",
        required=True,
        metavar=("PROGRAM", "METHOD", "NAME", "MANIFEST", "GOLDEN", "MEMORY"),
        help="a model; repeatable",
    )
    sources.add_argument("--version", default=Publication.version, help="the package's version")
    sources.add_argument("--author", default=Publication.author, help="who publishes it")
    sources.add_argument("--url", default=Publication.url, help="where it is described")
    sources.add_argument("--catalog", type=Path, action="append", default=[], help="kernels of users' own operators")
    sources.add_argument(
        "--operator",
        nargs=2,
        action="append",
        default=[],
        metavar=("PATH", "FILE"),
        help="a source or header of users' own operators, and its path in their repository; repeatable",
    )
    sources.add_argument("--sources", type=Path, required=True, help="the folder that kernels/ and runtime/ are in")
    sources.add_argument(
        "--shared",
        type=Path,
        action="append",
        default=[],
        help="a file that packages take what they need of; repeatable",
    )
    sources.add_argument("--npu-device", type=Path, help="the source that says where the NPU is")
    sources.add_argument("--executorch", type=Path, required=True, help="the folder of ExecuTorch's headers")
    sources.add_argument("--executorch-version", type=Path, required=True, help="file with the version of executorch")
    sources.add_argument(
        "--licence", nargs=2, action="append", default=[], metavar=("PATH", "FILE"), help="a licence text; repeatable"
    )
    sources.add_argument("--archive", action="append", default=[], help="a core and float ABI; repeatable")
    sources.add_argument(
        "--arena-memory", nargs=2, action="append", default=[], metavar=("NAME", "BYTES"), help="a memory; repeatable"
    )
    sources.add_argument("--output", type=Path, required=True, help="the folder")
    compiled = steps.add_parser("archive", help="compile the sources for a core and float ABI, and measure the models")
    compiled.set_defaults(step=_write_archive)
    compiled.add_argument("--sources", type=Path, required=True, help="the folder that `sources` wrote")
    compiled.add_argument("--model", action="append", required=True, help="name of a model; repeatable")
    compiled.add_argument("--gcc", type=Path, required=True, help="the compiler")
    compiled.add_argument("--ar", type=Path, required=True, help="the archiver")
    compiled.add_argument("--size-tool", type=Path, required=True, help="binutils' size")
    compiled.add_argument("--flag", action="append", default=[], help="a flag of core or float ABI; repeatable")
    compiled.add_argument("--include", type=Path, action="append", default=[], help="a folder of headers; repeatable")
    compiled.add_argument("--archive", type=Path, required=True, help="the archive")
    compiled.add_argument("--sizes", type=Path, help="what the models take")
    folder = steps.add_parser("folder", help="make the package of the sources, and of what was compiled of them")
    folder.set_defaults(step=_write_folder)
    folder.add_argument("--name", required=True, help="the package's name")
    folder.add_argument("--layout", required=True, choices=list(LAYOUTS), help="the build system")
    folder.add_argument("--sources", type=Path, required=True, help="the folder that `sources` wrote")
    folder.add_argument(
        "--archive", nargs=2, action="append", default=[], metavar=("ID", "FILE"), help="an archive; repeatable"
    )
    folder.add_argument(
        "--size", nargs=2, action="append", default=[], metavar=("CORE", "FILE"), help="what models take on a core"
    )
    folder.add_argument("--output", type=Path, required=True, help="the folder")
    folder.add_argument("--zip", type=Path, required=True, help="the .zip")
    return parser.parse_args(argv)


def _write_sources(arguments: argparse.Namespace) -> None:
    models = [
        Model(Path(program), method, name, Path(manifest), Path(golden), memory)
        for program, method, name, manifest, golden, memory in arguments.model
    ]
    # A single include folder: Arduino supports no more.
    roots = {
        arguments.sources: "src",
        arguments.executorch: "src",
        arguments.executorch / "executorch/runtime/core/portable_type/c10": "src",
    }
    sources = Sources(
        roots,
        {path: Path(file) for path, file in arguments.licence},
        arguments.shared,
        arguments.npu_device,
        arguments.executorch_version.read_text(encoding="utf-8").strip(),
    )
    files = pack(
        arguments.name,
        arguments.core,
        arguments.layout,
        models,
        sources,
        Operators(arguments.catalog, _operator_files(arguments.operator)),
        Publication(arguments.version, arguments.author, arguments.url),
        arguments.archive,
        {name: int(nbytes) for name, nbytes in arguments.arena_memory},
    )
    _write_files(arguments.output, {path: text.encode() for path, text in files.items()})


def _operator_files(operators: Sequence[tuple[str, str]]) -> dict[str, Path]:
    """Returns files of users' operators by their path in a repository, of which there may be several."""
    files: dict[str, Path] = {}
    for path, file in operators:
        if files.setdefault(path, Path(file)) != Path(file):
            raise UserError(f"two operators have a file {path}: {files[path]} and {file}; give one another name")
    return files


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        to = folder / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)


def _write_archive(arguments: argparse.Namespace) -> None:
    toolchain = Toolchain(
        arguments.gcc, arguments.ar, arguments.size_tool, tuple(arguments.flag), tuple(arguments.include)
    )
    archive(toolchain, arguments.sources, arguments.archive)
    if arguments.sizes:
        text = sizes(toolchain, arguments.sources, arguments.archive, arguments.model)
        arguments.sizes.write_text(text, encoding="utf-8")


def _write_folder(arguments: argparse.Namespace) -> None:
    files = folder_of(
        arguments.sources,
        arguments.layout,
        {core: Path(file).read_text(encoding="utf-8") for core, file in arguments.size},
        {identity: Path(file).read_bytes() for identity, file in arguments.archive},
        arguments.name,
    )
    _write_files(arguments.output, files)
    with zipfile.ZipFile(arguments.zip, "w") as zipped:
        for path, data in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{arguments.name}/{path}", _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            zipped.writestr(entry, data)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parse(argv)
    return run_tool("package", arguments.step, arguments)
