"""Builds a firmware project that has a CMakeLists.txt, with this build's toolchain and packages of models.

The project is copied, so that nothing is written to it; its ELF image and the linker's map depend on its contents, not
on its location. The output of CMake, the compiler and the linker is shown if they fail.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.quiet.console import UserError
from tools.quiet.tool import run_tool

_MAP = "firmware.map"
_PREFIX = "arm-none-eabi-"
# Programs that search for headers and libraries.
_DRIVERS = ("c++", "cpp", "g++", "gcc")
# The linker's messages for a project that needs libstdc++.
_NEEDS_LIBSTDCXX = ("cannot find -lstdc++", "undefined reference to `operator new", "undefined reference to `std::")
# Those for static data, among it stacks, that leaves no room for itself or for a framework's heap.
_NEEDS_MEMORY = (" overflowed ",)


def write_programs(folder: Path, programs: Path, search: Sequence[str], others: dict[str, Path]) -> None:
    """Makes the folder that is the whole PATH: the toolchain's programs under their usual names, and others.

    Args:
        folder: the folder to make.
        programs: the toolchain's programs, `arm-none-eabi-gcc` and so on.
        search: compiler options with the locations of headers and libraries besides GCC's own.
        others: further programs by their names.
    """
    folder.mkdir()
    toolchain = {path.name: path.absolute() for path in programs.glob(f"{_PREFIX}*")}
    for name, program in (toolchain | others).items():
        options = search if name.removeprefix(_PREFIX) in _DRIVERS else ()
        wrapper = folder / name
        # CMake's launcher sets LD_LIBRARY_PATH to its own libraries, which other programs must not use.
        wrapper.write_text(
            f'#!/bin/sh\nunset LD_LIBRARY_PATH\nexec {shlex.join([str(program), *options])} "$@"\n', encoding="utf-8"
        )
        wrapper.chmod(0o755)


def toolchain_file(
    programs: Path,
    flags: Sequence[str],
    work: Path,
    clang: Path | None = None,
    clang_flags: Sequence[str] = (),
    libstdcxx: bool = False,
) -> str:
    """Returns CMake's description of the cross compiler.

    Args:
        programs: the folder with arm-none-eabi-gcc and so on.
        flags: the options that select the core, for compiler and linker.
        work: the folder in which the project is built; debug information must not name it.
        clang: the compiler that replaces GCC, which then only links.
        clang_flags: the options that select the core and the headers for it.
        libstdcxx: whether C++ code is linked with libstdc++.
    """
    always = [f"-ffile-prefix-map={work}=.", "-no-canonical-prefixes"]
    gcc, gxx = (programs / f"{_PREFIX}{name}" for name in ("gcc", "g++" if libstdcxx else "gcc"))
    common = " ".join([*(clang_flags if clang else flags), *always])
    linked = " ".join([f"-Wl,-Map={_MAP}", "-no-canonical-prefixes"])
    text = f"""\
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_COMPILER {clang or gcc})
set(CMAKE_CXX_COMPILER {clang or gxx})
set(CMAKE_ASM_COMPILER {clang or gcc})
set(CMAKE_AR {gcc}-ar CACHE FILEPATH "")
set(CMAKE_OBJCOPY {programs / _PREFIX}objcopy CACHE FILEPATH "")
set(CMAKE_SIZE {programs / _PREFIX}size CACHE FILEPATH "")
set(CMAKE_C_FLAGS_INIT "{common}")
set(CMAKE_CXX_FLAGS_INIT "{common}")
set(CMAKE_ASM_FLAGS_INIT "{common}")
set(CMAKE_EXE_LINKER_FLAGS_INIT "{linked}")
# No dates; the archiver writes the index itself.
foreach(language C CXX ASM)
  set(CMAKE_${{language}}_ARCHIVE_CREATE "<CMAKE_AR> qcsD <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${{language}}_ARCHIVE_APPEND "<CMAKE_AR> qsD <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${{language}}_ARCHIVE_FINISH "")
endforeach()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
"""
    if clang is None:
        return text
    linker = " ".join([str(gxx), *flags, *always])
    return (
        text
        + f"""\
foreach(language C CXX)
  set(CMAKE_${{language}}_LINK_EXECUTABLE "{linker} <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES>")
endforeach()
"""
    )


def build(arguments: argparse.Namespace, work: Path) -> tuple[Path, Path]:
    """Builds the project in a folder; returns the image and the map.

    Raises:
        UserError: CMake or the build fails, or there is no such image.
    """
    here = Path.cwd()
    source, output, packages = work / "project", work / "build", work / "packages"
    for file in arguments.file:
        copy = source / os.path.relpath(file, arguments.project)
        if source not in copy.parents or ".." in copy.relative_to(source).parts:
            raise UserError(f"file {file} is not below the project's folder, {arguments.project}")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    for folder, path, file in arguments.tree_file:
        copy = source / folder / path
        if copy.exists():
            raise UserError(f"file {file} of a tree would be {folder}/{path} of the project, which has such a file")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    packages.mkdir()
    for name, folder in arguments.package:
        shutil.copytree(folder, packages / name)
    cmake, ninja = (here / arguments.cmake / name for name in ("cmake", "ninja"))
    search, clang_flags = (
        [flag.replace("{here}", str(here)) for flag in each] for each in (arguments.search, arguments.clang_flag)
    )
    clang = here / arguments.clang if arguments.clang else None
    programs = work / "bin"
    # The interpreter that runs this tool.
    others = {"cmake": cmake, "ninja": ninja, "python3": Path(sys.executable)}
    options = [word for flag in search for word in flag.split(" ", 1)]
    if arguments.own_toolchain:
        # A framework replaces our compiler description, which has options for debug information and the map.
        toolchain_root = (here / arguments.programs).resolve().parent
        places = {here: ".", toolchain_root: "toolchain", work: "."}
        options += [*(f"-ffile-prefix-map={place}={name}" for place, name in places.items()), "-no-canonical-prefixes"]
        options += [] if arguments.map_file else [f"-Wl,-Map={output / _MAP}"]
    write_programs(programs, here / arguments.programs, options, others)
    toolchain = toolchain_file(programs, arguments.flag, work, clang, clang_flags, arguments.libstdcxx)
    (work / "toolchain.cmake").write_text(toolchain, encoding="utf-8")
    # The environment has nothing of the machine: neither its home folder nor its programs.
    environment = {
        **{"PATH": str(programs), "HOME": str(work), "SOURCE_DATE_EPOCH": "0"},
        **{"PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"},
        "PYTHONPATH": ":".join(str(here / path) for path in arguments.python_path),
    }
    configure = [
        *(str(cmake), "-S", str(source), "-B", str(output), "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"),
        *([] if arguments.own_toolchain else [f"-DCMAKE_TOOLCHAIN_FILE={work / 'toolchain.cmake'}"]),
        f"-DCMAKE_BUILD_TYPE={arguments.build_type}",
        *(f"-DCMAKE_PREFIX_PATH={packages}", "-DFETCHCONTENT_FULLY_DISCONNECTED=ON", "--no-warn-unused-cli"),
        # Otherwise CMake would search the machine's folders for programs that are not on the PATH.
        "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF",
        *(f"-D{definition}" for definition in arguments.define),
    ]
    _run(configure, "CMake", environment, work)
    try:
        _run([str(ninja), "-C", str(output), arguments.executable], "the build", environment, work)
    except UserError as error:
        if any(said in str(error) for said in _NEEDS_MEMORY):
            hint = (
                "make a stack smaller, down to NAME_STACK_SIZE of the package's header for run and what its thread "
                "needs besides, or the framework's heap, or take a smaller model"
            )
        elif any(said in str(error) for said in _NEEDS_LIBSTDCXX) and not arguments.libstdcxx:
            hint = "C++'s library is linked with libstdcxx = True of the cmake_firmware"
        else:
            raise
        raise UserError(f"{error}\n{hint}") from error
    found = sorted(
        path for name in (arguments.executable, f"{arguments.executable}.elf") for path in output.rglob(name)
    )
    images = [path for path in found if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    if len(images) != 1:
        raise UserError(
            f"target {arguments.executable} of {arguments.project}/CMakeLists.txt made {len(images)} ELF images of its "
            "name; it has to be one of add_executable()"
        )
    return images[0], output / (arguments.map_file or _MAP)


def _run(command: list[str], what: str, environment: dict[str, str], work: Path) -> None:
    result = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if result.returncode:
        text = result.stdout.replace(f"{work}/project/", "").replace(f"{work}/", "")
        raise UserError(f"{what} failed:\n{text}")


def _write(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="cmake_build") as name:
        work = Path(name).resolve()
        image, linker_map = build(arguments, work)
        shutil.copyfile(image, arguments.elf)
        if not linker_map.is_file():
            ours = "the linker wrote no map; keep CMAKE_EXE_LINKER_FLAGS in its flags"
            missing = f"there is no {arguments.map_file} in the build's folder" if arguments.map_file else ours
            raise UserError(f"{arguments.project}: {missing}, or set map to the one that the project writes")
        text = linker_map.read_text(encoding="utf-8", errors="replace")
        text = text.replace(str(work), ".").replace(str(Path.cwd()), ".")
        arguments.map.write_text(text, encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="cmake_build",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # A framework has more files than a command line can hold: @FILE has one argument per line.
        fromfile_prefix_chars="@",
    )
    parser.add_argument("--project", type=Path, required=True, help="the folder of CMakeLists.txt")
    parser.add_argument("--file", type=Path, action="append", required=True, help="a file of the project; repeatable")
    parser.add_argument(
        "--package", nargs=2, action="append", default=[], metavar=("NAME", "FOLDER"), help="a package; repeatable"
    )
    parser.add_argument(
        "--tree-file",
        nargs=3,
        action="append",
        default=[],
        metavar=("FOLDER", "PATH", "FILE"),
        help="a file from elsewhere, the project's folder that it gets into, and its path there; repeatable",
    )
    parser.add_argument("--build-type", default="MinSizeRel", help="CMAKE_BUILD_TYPE")
    parser.add_argument("--own-toolchain", action="store_true", help="the project says what compiles it")
    parser.add_argument("--map-file", help="the map that the project writes, below the folder that it is built in")
    parser.add_argument(
        "--python-path", type=Path, action="append", default=[], help="where scripts find Python packages; repeatable"
    )
    parser.add_argument("--executable", required=True, help="the target of add_executable()")
    parser.add_argument("--define", action="append", default=[], metavar="NAME=VALUE", help="a variable of CMake")
    parser.add_argument("--flag", action="append", default=[], help="a flag that selects the core; repeatable")
    parser.add_argument("--search", action="append", default=[], help="where headers or libraries are; repeatable")
    parser.add_argument("--libstdcxx", action="store_true", help="C++ is linked with its library")
    parser.add_argument("--clang", type=Path, help="a Clang that compiles in GCC's place, which links")
    parser.add_argument("--clang-flag", action="append", default=[], help="a flag for it; repeatable")
    parser.add_argument("--programs", type=Path, required=True, help="the folder of arm-none-eabi-gcc and so on")
    parser.add_argument("--cmake", type=Path, required=True, help="the folder of CMake and Ninja")
    parser.add_argument("--elf", type=Path, required=True, help="the image to write")
    parser.add_argument("--map", type=Path, required=True, help="the linker's map to write")
    return run_tool("cmake_build", _write, parser.parse_args(argv))
