"""Projects find a package by CMake's find_package(), in the prefix that it was installed to, and by FetchContent."""

import json
import os
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tools.pipeline.package.folder import folder_of
from tools.pipeline.package.layout import SETTINGS, SETTINGS_HEADER
from tools.pipeline.package.package import Model, Sources, pack

_FLAGS = "-mthumb -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16 -O0"
_CMAKE = next(Path(path).absolute().parent for path in os.environ["CMAKE"].split() if "/usr/" not in path)
_GCC = next(Path(path).absolute().parents[1] for path in os.environ["TOOLCHAIN"].split() if "/tools/" in path)

_HEADERS = Path(os.environ["HEADERS"].split(" ", 1)[0].partition("/executorch/")[0])
_ROOTS = {Path(): "src", _HEADERS: "src", _HEADERS / "executorch/runtime/core/portable_type/c10": "src"}
_SOURCES = [Path(path) for path in os.environ["SOURCES"].split()]


def _cmake(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(_CMAKE / "cmake"), *map(str, arguments)], capture_output=True, text=True, check=False, errors="replace"
    )


def _run_compiler(*arguments: object, output: str | Path = os.devnull) -> subprocess.CompletedProcess[str]:
    """Runs GCC for a Cortex-M4."""
    command = [_GCC / "bin/arm-none-eabi-g++", *_FLAGS.split()[:-1], *arguments, "-o", output]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def _compile(*arguments: object, output: str | Path = os.devnull) -> None:
    result = _run_compiler(*arguments, output=output)
    assert result.returncode == 0, result.stderr


def _configure(source: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    """Makes source/build for a core without an operating system."""
    tools = _GCC / "bin"
    return _cmake(
        *("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={_CMAKE / 'ninja'}", "-S", source, "-B", source / "build"),
        *("-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"),
        *(f"-DCMAKE_C_COMPILER={tools / 'arm-none-eabi-gcc'}", f"-DCMAKE_CXX_COMPILER={tools / 'arm-none-eabi-g++'}"),
        *(f"-DCMAKE_C_FLAGS={_FLAGS}", f"-DCMAKE_CXX_FLAGS={_FLAGS}"),
        *settings,
    )


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def _write_package(
    folder: Path, name: str, archives: Sequence[str] = (), memories: Mapping[str, int] | None = None
) -> None:
    """A package of sine; one of archives, as its sources."""
    files = {"".join(path.suffixes): path for path in map(Path, os.environ["PROGRAM"].split())}
    model = Model(files[".pte"], "forward", "sine", files[".manifest.json"], files[".golden.npz"])
    files = pack(name, "host", "cmake", [model], Sources(_ROOTS, shared=_SOURCES), archives=archives, memories=memories)
    _write_files(folder, {path: text.encode() for path, text in files.items()})


def _write_application(folder: Path, find: str, packages: str) -> None:
    """Writes a project whose application runs sine, without start-up code."""
    folder.mkdir()
    (folder / "main.c").write_text(
        '#include "sine.h"\nsine_model_t model;\nint main(void) { return sine_run(&model); }\n', encoding="utf-8"
    )
    (folder / "CMakeLists.txt").write_text(
        f"""\
cmake_minimum_required(VERSION 3.16)
project(application LANGUAGES C CXX)
{find}
add_executable(application main.c)
target_link_libraries(application PRIVATE {packages})
target_link_options(application PRIVATE
  -nostdlib -L${{CMAKE_CURRENT_SOURCE_DIR}} -Wl,-e,main -Wl,--gc-sections -Wl,--unresolved-symbols=ignore-all)
""",
        encoding="utf-8",
    )
    # The C library is not looked for on this machine. This is an archive of nothing.
    (folder / "libm.a").write_bytes(b"!<arch>\n")


def _build(folder: Path, *settings: str) -> None:
    for result in (_configure(folder, *settings), _cmake("--build", folder / "build")):
        assert result.returncode == 0, result.stdout + result.stderr
    assert b"sine_run" in (folder / "build/application").read_bytes()


@pytest.fixture(name="prefix", scope="module")
def _prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installed package whose own folder is deleted."""
    package, prefix = tmp_path_factory.mktemp("packages") / "networks", tmp_path_factory.mktemp("prefix")
    _write_package(package, "networks")
    (package / "LICENSE").write_text("Of the test.\n", encoding="utf-8")
    build = package / "build"
    for result in (
        _configure(package),
        _cmake("--build", build, "--target", "networks"),
        _cmake("--install", build, "--prefix", prefix),
    ):
        assert result.returncode == 0, result.stdout + result.stderr
    package.rename(package.with_name("moved"))
    return prefix


def test_a_project_finds_a_package_in_the_prefix_that_it_was_installed_to(prefix: Path, tmp_path: Path) -> None:
    _write_application(tmp_path / "project", "find_package(networks 1.0 REQUIRED)", "networks::networks")
    _build(tmp_path / "project", f"-DCMAKE_PREFIX_PATH={prefix}")


def test_an_installed_package_is_headers_an_archive_and_licences(prefix: Path) -> None:
    files = {path.relative_to(prefix).as_posix() for path in prefix.rglob("*") if path.is_file()}
    assert {"include/networks/sine.h", "include/networks/torch_fusion.h", "lib/libnetworks.a"} <= files
    assert (prefix / "share/licenses/networks/LICENSE").read_text(encoding="utf-8") == "Of the test.\n"
    assert not [path for path in files if path.endswith((".c", ".cpp"))]
    # It may be moved.
    for path in prefix.rglob("*.cmake"):
        assert "/packages" not in path.read_text(encoding="utf-8")


def test_a_project_finds_an_archive_in_the_prefix_that_a_package_of_archives_was_installed_to(prefix, tmp_path) -> None:
    _write_package(tmp_path / "sources", "networks", ["cortex_m4-hard"])
    archive = (prefix / "lib/libnetworks.a").read_bytes()
    package = tmp_path / "networks"
    _write_files(package, folder_of(tmp_path / "sources", "cmake", {}, {"cortex_m4-hard": archive}, "networks"))
    for result in (_configure(package), _cmake("--install", package / "build", "--prefix", tmp_path / "prefix")):
        assert result.returncode == 0, result.stdout + result.stderr
    package.rename(package.with_name("moved"))
    _write_application(tmp_path / "project", "find_package(networks 1.0 REQUIRED)", "networks::networks")
    _build(tmp_path / "project", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}")


def test_a_project_that_wants_a_newer_package_is_told_which_there_is(prefix: Path, tmp_path: Path) -> None:
    _write_application(tmp_path / "project", "find_package(networks 2.0 REQUIRED)", "networks")
    result = _configure(tmp_path / "project", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert result.returncode != 0
    assert "networks-config.cmake, version: 1.0.0" in result.stderr


def test_installed_packages_are_compared_as_others_are(prefix: Path, tmp_path: Path) -> None:
    """Another one with a model of the same name."""
    _write_package(tmp_path / "others", "others")
    text = (tmp_path / "others/CMakeLists.txt").read_text(encoding="utf-8")
    marker = "INTERFACE_TORCH_FUSION_MODEL_sine "
    assert marker in text
    (tmp_path / "others/CMakeLists.txt").write_text(text.replace(marker, f"{marker}1"), encoding="utf-8")
    find = f"find_package(networks REQUIRED)\nadd_subdirectory({tmp_path / 'others'} others)"
    _write_application(tmp_path / "project", find, "networks others")
    result = _configure(tmp_path / "project", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert result.returncode != 0
    assert 'INTERFACE_TORCH_FUSION_MODEL_sine property of "others" does not agree' in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "source",
    [
        path
        for path in _SOURCES
        if path.match("kernels/cortex_m/*.cpp") and "__asm__" in path.read_text(encoding="utf-8")
    ],
    ids=lambda path: path.stem,
)
def test_kernels_for_dsp_compile_without_optimization(source: Path, tmp_path: Path) -> None:
    """Make's default and CMake's without a build type: their assembly takes all registers."""
    (tmp_path / SETTINGS_HEADER).write_text(SETTINGS, encoding="utf-8")
    includes = [word for root in _ROOTS for word in ("-isystem", root)]
    _compile("-std=c++17", "-include", tmp_path / SETTINGS_HEADER, *includes, "-O0", "-c", source)


@pytest.mark.parametrize("standard", ["gnu++11", "gnu++14", "c++20"])
def test_headers_compile_by_the_standards_of_frameworks(standard: str, tmp_path: Path) -> None:
    _write_package(tmp_path, "networks")
    source = tmp_path / "application.cpp"
    source.write_text('#include "sine.hpp"\n#include "sine_selftest.h"\n', encoding="utf-8")
    warnings = ("-Wall", "-Wextra", "-Wconversion", "-Wold-style-cast", "-Werror")
    _compile(f"-std={standard}", *warnings, "-I", tmp_path / "include", "-fsyntax-only", source)


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["-std=gnu++11"], "C++17 is needed: -std=c++17 or -std=gnu++17"),
        (["-std=gnu++14"], "C++17 is needed: -std=c++17 or -std=gnu++17"),
        (
            ["-std=gnu++17", "-mcpu=arm7tdmi", "-mfpu=auto", "-mfloat-abi=soft"],
            "no core is chosen for these sources: compile them by -mcpu and -mfloat-abi of the application",
        ),
    ],
)
def test_sources_name_the_standard_and_core_that_they_need_first(flags, error, tmp_path) -> None:
    _write_package(tmp_path, "networks")
    includes = [word for folder in ("include", "src") for word in ("-I", tmp_path / folder)]
    sources = sorted(tmp_path.glob("src/**/*.cpp"))
    assert sources
    for source in sources[:3]:
        errors = _run_compiler(*flags, *includes, "-c", source).stderr.splitlines()
        first = next(line for line in errors if "error: " in line)
        assert first.endswith(f'error: #error "{error}"'), source


@pytest.mark.parametrize("macro", ["WEIGHTS", "ARENA_DTCM"])
def test_weights_and_arenas_lie_in_the_users_section(macro: str, tmp_path: Path) -> None:
    _write_package(tmp_path, "networks", memories={"dtcm": 64, "ram": 4096})
    includes = [f"-I{tmp_path / folder}" for folder in ("include", "src")]
    for flags in ([], [f'-DTORCH_FUSION_{macro}=__attribute__((section(".mine")))']):
        _compile("-std=c++17", *flags, *includes, "-c", tmp_path / "src/models/sine.cpp", output=tmp_path / "sine.o")
        assert (b".mine" in (tmp_path / "sine.o").read_bytes()) == bool(flags)


def test_a_project_for_mbed_gives_its_flags(tmp_path: Path) -> None:
    """Also if it adds mbed-os after the package. A frame pointer would leave too few registers for kernels."""
    _write_package(tmp_path / "networks", "networks")
    find = f"""\
add_subdirectory({tmp_path / "networks"} networks)
add_library(mbed-core-flags INTERFACE)
target_compile_options(mbed-core-flags INTERFACE -O2 -fno-omit-frame-pointer)"""
    _write_application(tmp_path / "project", find, "networks")
    result = _configure(tmp_path / "project", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    assert result.returncode == 0, result.stderr
    commands = json.loads((tmp_path / "project/build/compile_commands.json").read_text(encoding="utf-8"))
    compiled = next(entry["command"].split() for entry in commands if entry["file"].endswith("/src/models/sine.cpp"))
    assert compiled.index("-O0") < compiled.index("-O2")
    assert compiled.index("-fno-omit-frame-pointer") < compiled.index("-fomit-frame-pointer")


def test_a_project_fetches_the_zip(tmp_path: Path) -> None:
    _write_package(tmp_path / "networks", "networks")
    with zipfile.ZipFile(tmp_path / "networks.zip", "w") as file:
        for path in sorted((tmp_path / "networks").rglob("*")):
            file.write(path, path.relative_to(tmp_path))
    find = f"""\
include(FetchContent)
FetchContent_Declare(networks URL {tmp_path / "networks.zip"})
FetchContent_MakeAvailable(networks)"""
    _write_application(tmp_path / "project", find, "networks::networks")
    _build(tmp_path / "project")
