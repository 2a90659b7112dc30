"""Packages of one version link together, and those of two versions don't: by the linker, and by CMake before it.

Nor do those of two models that have one name.
"""

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tools.pipeline.package.archive import Toolchain
from tools.pipeline.package.archive_check import archive_header, definition
from tools.pipeline.package.layout import Package
from tools.pipeline.package.layouts import LAYOUTS
from tools.pipeline.package.package import Model, Sources, pack

_CORE_FLAGS = ("-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
# The file that differs in an altered version; both models' packages have it.
_ALTERED = "runtime/compiled/constant_data.cpp"
_FLOAT_ABIS = ("hard", "soft", "softfp")
_ERROR = "torch_fusion_packages_of_one_application_must_be_made_by_one_version"


def _model(variable: str) -> Model:
    files = {"".join(path.suffixes): path for path in map(Path, os.environ[variable].split())}
    name = files[".pte"].name.partition(".")[0]
    return Model(files[".pte"], "forward", name, files[".manifest.json"], files[".golden.npz"])


def _toolchain(abi: str = "hard") -> Toolchain:
    tools = next(Path(path).absolute().parent for path in os.environ["TOOLCHAIN"].split() if "/tools/" in path)
    includes = [path.parents[1] for path in tools.parent.rglob("thumb/v7e-m+fp/hard/bits/c++config.h")]
    return Toolchain(tools / "gcc", tools / "ar", tools / "size", (*_CORE_FLAGS, f"-mfloat-abi={abi}"), tuple(includes))


def _package(folder: Path, variable: str, sources: Path, name: str = "") -> Path:
    """Makes the folder of a package with one model, and returns it. The package has the model's name.

    Args:
        folder: the folder for it.
        variable: the environment variable with the model's files.
        sources: the sources of kernels and runtime.
        name: the model's name; empty: the program's.
    """
    headers = Path(os.environ["HEADERS"].split(" ", 1)[0].partition("/executorch/")[0])
    roots = {sources: "src", headers: "src", headers / "executorch/runtime/core/portable_type/c10": "src"}
    shared = [path for root in (sources, headers) for path in sorted(root.rglob("*")) if path.is_file()]
    model = _model(variable)
    model = replace(model, name=name or model.name)
    package = folder / model.name
    for path, text in pack(model.name, "host", "cmake", [model], Sources(roots, shared=shared)).items():
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(text, encoding="utf-8")
    return package


def _archive(folder: Path, variable: str, sources: Path, name: str = "", abi: str = "hard") -> Path:
    """Makes the archive of a package, without kernels: the linker refuses it before it looks for these."""
    package = _package(folder, variable, sources, name)
    toolchain = _toolchain(abi)
    objects = []
    for source in (f"models/{package.name}.cpp", "runtime/compiled/package_version.cpp"):
        objects.append(package / f"{Path(source).name}.o")
        toolchain.compile(package, package / "src" / source, objects[-1])
    library = package / f"lib{package.name}.a"
    toolchain.run(toolchain.ar, "rcs", str(library), *map(str, objects))
    return library


def _link(output: Path, *inputs: Path | str) -> subprocess.CompletedProcess[str]:
    """Links an application that calls both models, without kernels; sections that nothing refers to are dropped."""
    toolchain = _toolchain()
    return subprocess.run(
        [
            *(toolchain.gcc, *_CORE_FLAGS, "-nostdlib", "-Wl,-e,0", "-Wl,-u,sine_run", "-Wl,-u,softmax_run"),
            *("-Wl,--gc-sections", "-Wl,--unresolved-symbols=ignore-all", *inputs, "-o", output),
        ],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(name="versions", scope="module")
def _versions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of the sources that packages take from: two of the same contents, and one that differs."""
    files = [Path(path) for path in os.environ["SOURCES"].split()]
    folders = {name: tmp_path_factory.mktemp(name) for name in ("one", "same", "altered")}
    for folder in folders.values():
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / path)
    with (folders["altered"] / _ALTERED).open("a", encoding="utf-8") as file:
        file.write("// Of another version.\n")
    return folders


def test_packages_of_one_version_link_and_nothing_of_the_check_is_in_the_image(versions, tmp_path) -> None:
    sine = _archive(tmp_path, "PROGRAM", versions["one"])
    softmax = _archive(tmp_path, "OTHER_PROGRAM", versions["same"])
    result = _link(tmp_path / "image.elf", sine, softmax)
    assert result.returncode == 0, result.stderr
    image = (tmp_path / "image.elf").read_bytes()
    assert b"sine_run" in image
    assert b"torch_fusion_version" not in image
    assert _ERROR.encode() not in image


@pytest.mark.parametrize("first", ["sine", "softmax"])
def test_the_linker_refuses_packages_of_two_versions_and_names_them(versions, tmp_path, first) -> None:
    sine = _archive(tmp_path, "PROGRAM", versions["one"])
    softmax = _archive(tmp_path, "OTHER_PROGRAM", versions["altered"])
    archives = (sine, softmax) if first == "sine" else (softmax, sine)
    result = _link(tmp_path / "image.elf", *archives)
    assert result.returncode != 0
    assert f"multiple definition of `{_ERROR}'" in result.stderr
    assert "libsine.a" in result.stderr
    assert "libsoftmax.a" in result.stderr


def _caller(folder: Path, archive: Path, abi: str = "hard") -> Path:
    """Compiles an application's source that runs the model of an archive."""
    source, code = folder / f"{archive.parents[1].name}.c", folder / f"{archive.parents[1].name}.o"
    source.write_text(
        f'#include "sine.h"\nint run_{source.stem}(sine_model_t* m) {{ return sine_init(m, 0) + sine_run(m); }}\n',
        encoding="utf-8",
    )
    _toolchain(abi).compile(archive.parent, source, code)
    return code


def _two_models(folder: Path, sources: Path, other: str) -> tuple[list[Path], list[Path]]:
    """Makes archives of two models that are called sine, each in a folder of its own, and their callers."""
    archives = []
    for name, variable in (("first", "PROGRAM"), ("second", other)):
        (folder / name).mkdir()
        archives.append(_archive(folder / name, variable, sources, "sine"))
    return archives, [_caller(folder, archive) for archive in archives]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_linker_refuses_two_models_of_one_name_and_names_them(versions, tmp_path, order) -> None:
    """In any order of the archives: the linker would use the first one's functions for both."""
    archives, callers = _two_models(tmp_path, versions["one"], "OTHER_PROGRAM")
    result = _link(tmp_path / "image.elf", *callers, *(archives[place] for place in order))
    assert result.returncode != 0
    assert "multiple definition of `torch_fusion_two_models_of_one_application_are_called_sine'" in result.stderr
    assert "first/sine/libsine.a" in result.stderr
    assert "second/sine/libsine.a" in result.stderr


def test_the_linker_takes_no_model_for_another_of_its_name(versions: dict[str, Path], tmp_path: Path) -> None:
    """The application includes one model's header, but the first archive has another model of another size."""
    archives, callers = _two_models(tmp_path, versions["one"], "OTHER_PROGRAM")
    result = _link(tmp_path / "image.elf", callers[1], *archives)
    assert result.returncode != 0
    assert "torch_fusion_two_models_of_one_application_are_called_sine" in result.stderr


@pytest.mark.parametrize(
    ("package", "application", "advice"),
    [("softfp", "hard", "by_mfloat_abi_hard"), ("hard", "softfp", "without_mfloat_abi_hard"), ("soft", "softfp", "")],
)
def test_the_linker_names_the_float_abi_that_a_package_needs(versions, tmp_path, package, application, advice) -> None:
    archive = _archive(tmp_path, "PROGRAM", versions["one"], abi=package)
    code = _caller(tmp_path, archive, application)
    options = ("-Wl,--unresolved-symbols=report-all", f"-Wl,-u,run_{code.stem}")
    result = _link(tmp_path / "image.elf", code, archive, *options)
    found = re.findall(r"undefined reference to `sine_init(?:_of_a_package_)?(\w*)'", result.stderr)
    assert found == ([advice] if advice else [])


def test_a_model_may_be_in_two_packages_of_an_application(versions: dict[str, Path], tmp_path: Path) -> None:
    archives, callers = _two_models(tmp_path, versions["one"], "PROGRAM")
    result = _link(tmp_path / "image.elf", *callers, *archives)
    assert result.returncode == 0, result.stderr
    image = (tmp_path / "image.elf").read_bytes()
    assert b"sine_run" in image
    assert b"sine_model_" not in image


def _configure(folder: Path, sine: Path, softmax: Path, linked: str) -> subprocess.CompletedProcess[str]:
    """Runs CMake on a project with the two packages, and applications that link with those of `linked`."""
    _package(folder, "PROGRAM", sine)
    _package(folder, "OTHER_PROGRAM", softmax)
    applications = "".join(
        f"add_executable(application_{number} main.c)\ntarget_link_libraries(application_{number} PRIVATE {packages})\n"
        for number, packages in enumerate(linked.split(","))
    )
    (folder / "CMakeLists.txt").write_text(
        f"""\
cmake_minimum_required(VERSION 3.16)
project(demo LANGUAGES C CXX)
add_subdirectory(sine)
add_subdirectory(softmax)
{applications}""",
        encoding="utf-8",
    )
    (folder / "main.c").touch()
    cmake = next(Path(path).absolute().parent for path in os.environ["CMAKE"].split() if "/usr/" not in path)
    gcc = _toolchain().gcc.parents[1] / "bin/arm-none-eabi-g"
    return subprocess.run(
        [
            *(cmake / "cmake", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={cmake / 'ninja'}", "-S", folder),
            *("-B", folder / "build", "-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"),
            *(f"-DCMAKE_C_COMPILER={gcc}cc", f"-DCMAKE_CXX_COMPILER={gcc}++"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )


def test_cmake_takes_packages_of_two_versions_in_two_applications(versions: dict[str, Path], tmp_path: Path) -> None:
    result = _configure(tmp_path, versions["one"], versions["altered"], "sine,softmax")
    assert result.returncode == 0, result.stderr


def test_cmake_takes_packages_of_one_version_in_one_application(versions: dict[str, Path], tmp_path: Path) -> None:
    result = _configure(tmp_path, versions["one"], versions["same"], "sine softmax")
    assert result.returncode == 0, result.stderr


def test_cmake_refuses_packages_of_two_versions_in_one_application(versions: dict[str, Path], tmp_path: Path) -> None:
    result = _configure(tmp_path, versions["one"], versions["altered"], "sine softmax")
    assert result.returncode != 0
    message = " ".join(result.stderr.split())
    assert 'INTERFACE_TORCH_FUSION_VERSION_OF_PACKAGES property of "softmax" does not agree' in message
    assert '"application_0"' in message


@pytest.mark.parametrize(
    ("chosen", "flags", "error"),
    [
        ("cortex_m4-soft", "-mcpu=cortex-m4 -mfloat-abi=soft", ""),
        ("cortex_m4-hard", "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16", ""),
        # An older core's archive is for a newer one, too.
        ("cortex_m0-soft", "-mcpu=cortex-m4 -mfloat-abi=soft", ""),
        ("cortex_m4-softfp", "-mcpu=cortex-m33 -mfloat-abi=softfp -mfpu=fpv5-sp-d16", ""),
        ("cortex_m4-soft", "-mcpu=cortex-m0 -mfloat-abi=soft", "for a core of Armv6-M or Armv8-M Baseline"),
        ("cortex_m4-soft", "-mcpu=cortex-m23 -mfloat-abi=soft", "for a core of Armv6-M or Armv8-M Baseline"),
        ("cortex_m4-soft", "-mcpu=cortex-m3 -mfloat-abi=soft", "for a core without the DSP extension"),
        ("cortex_m55-hard", "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16", "for a core without MVE"),
        ("cortex_m4-softfp", "-mcpu=cortex-m4 -mfloat-abi=soft", "without an FPU"),
        ("cortex_m4-hard", "-mcpu=cortex-m4 -mfloat-abi=soft", "by another float ABI than -mfloat-abi=hard"),
        ("cortex_m4-soft", "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16", "by -mfloat-abi=hard"),
        ("", "-mcpu=cortex-m4 -mfloat-abi=soft", "define the archive that is linked by its folder, as NETS_"),
    ],
)
def test_an_archive_of_another_core_ends_the_compilation(tmp_path: Path, chosen: str, flags: str, error: str) -> None:
    """The linker takes it, and the core faults at the first instruction that it has not."""
    header = archive_header("nets", ["cortex_m0-soft", *(f"cortex_m4-{abi}" for abi in _FLOAT_ABIS), "cortex_m55-hard"])
    (tmp_path / "nets_archive.h").write_text(header, encoding="utf-8")
    (tmp_path / "main.c").write_text('#include "nets_archive.h"\nint main(void) { return 0; }\n', encoding="utf-8")
    if chosen and error:
        error = f"NETS_ARCHIVE is {chosen}, and this is compiled {error}; take the archive of this core"
    _check_syntax(tmp_path / "main.c", [*flags.split(), f"-D{definition('nets', chosen)}"], error)


def _check_syntax(source: Path, flags: list[str], error: str) -> None:
    result = subprocess.run(
        [_toolchain().gcc, "-mthumb", *flags, "-fsyntax-only", source], capture_output=True, text=True, check=False
    )
    assert (result.returncode == 0) == (not error), result.stderr
    if error:
        (line,) = [line for line in result.stderr.splitlines() if "error: " in line]
        assert error in line


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ("-mcpu=cortex-m0 -mfloat-abi=soft", ""),
        ("-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16", ""),
        ("-mcpu=cortex-m4 -mfloat-abi=soft", ""),
        ("-mcpu=cortex-m3 -mfloat-abi=soft -U__ARM_ARCH_PROFILE", "cortex_m4-hard; this board has another core or"),
        ("-mcpu=cortex-a9 -mfloat-abi=soft", "nets is compiled for cortex_m0-soft, cortex_m4-hard; this board has"),
    ],
)
def test_arduino_names_the_cores_of_its_archives_on_another(tmp_path: Path, flags: str, error: str) -> None:
    """Its builder finds no archive there, and the linker misses the model's functions."""
    header = archive_header("nets", ["cortex_m0-soft", "cortex_m4-hard"], is_told=False)
    (tmp_path / "main.c").write_text(f"{header}\nint main(void) {{ return 0; }}\n", encoding="utf-8")
    _check_syntax(tmp_path / "main.c", flags.split(), error)


@pytest.mark.parametrize("layout", ["cmake", "make"])
def test_who_links_an_archive_says_to_the_compiler_which_one(layout: str) -> None:
    archives = tuple(f"cortex_m4-{abi}" for abi in _FLOAT_ABIS)
    package = Package("nets", "cortex-m4", ("sine",), (), archives=archives)
    texts = "".join(LAYOUTS[layout].files(package).values())
    chosen = {"cmake": "${nets_identity}", "make": "$(subst -,_,$(NETS_ARCHIVE))"}[layout]
    assert f"NETS_ARCHIVE_IS_{chosen}" in texts
