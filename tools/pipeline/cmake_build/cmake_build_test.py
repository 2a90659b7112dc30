"""Tests the arguments of CMake and failing builds, with shell scripts in place of CMake and Ninja."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.pipeline.cmake_build.cmake_build import main

_NINJA_MAKES_AN_IMAGE = 'printf "\\177ELF" > "$2/firmware"; echo "map of $2/a.o" > "$2/firmware.map"'


def _build(
    folder: Path,
    cmake: str = "",
    ninja: str = _NINJA_MAKES_AN_IMAGE,
    file: str = "project/main.c",
    more: Sequence[str] = (),
) -> int:
    """Builds a project of two files; returns the exit status."""
    for name, text in {"cmake": cmake, "ninja": ninja}.items():
        program = folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\nset -eu\ndeclared=$PATH PATH=/usr/bin:/bin\n{text}\n", encoding="utf-8")
        program.chmod(0o755)
    for path in ("project/CMakeLists.txt", "package/net-config.cmake", "gcc/arm-none-eabi-gcc", file):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("", encoding="utf-8")
    arguments = ["--project", str(folder / "project"), "--executable", "firmware", "--flag=-mcpu=cortex-m4"]
    arguments += ["--file", str(folder / "project/CMakeLists.txt"), "--file", str(folder / file)]
    arguments += ["--package", "net", str(folder / "package"), "--define", "LEVEL=3"]
    arguments += ["--programs", str(folder / "gcc"), "--cmake", str(folder / "bin")]
    return main([*arguments, *more, "--elf", str(folder / "out.elf"), "--map", str(folder / "out.map")])


def test_a_project_is_built_with_packages_and_nothing_of_this_machine(tmp_path: Path) -> None:
    check = """mkdir "$4"; cd "$4"/..
[ "$declared" = "$PWD/bin" ] && [ "$(ls bin | tr '\\n' ' ')" = "arm-none-eabi-gcc cmake ninja python3 " ]
PATH=$declared python3 -c pass
[ -f project/main.c ] && [ -f packages/net/net-config.cmake ] && [ "$HOME" = "$PWD" ]
grep -q -- -mcpu=cortex-m4 toolchain.cmake
case "$*" in *"-DCMAKE_PREFIX_PATH=$PWD/packages"*"-DLEVEL=3"*) ;; *) exit 1 ;; esac"""
    assert _build(tmp_path, check) == 0
    assert (tmp_path / "out.elf").read_bytes() == b"\x7fELF"
    assert (tmp_path / "out.map").read_text(encoding="utf-8") == "map of ./build/a.o\n"


def test_a_framework_has_its_own_toolchain_map_and_build_type(tmp_path: Path) -> None:
    """The framework is a tree beside the project, and its scripts import packages."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/needed.py").touch()
    tree = tmp_path / "setup.cmake"
    tree.touch()
    check = """mkdir "$4"; cd "$4"/..
[ -f project/framework/tools/setup.cmake ]
PATH=$declared python3 -c "import needed"
grep -q -- " -ffile-prefix-map=.*=. -no-canonical-prefixes " bin/arm-none-eabi-gcc
case "$*" in *CMAKE_TOOLCHAIN_FILE*) exit 1 ;; *-DCMAKE_BUILD_TYPE=Release*) ;; *) exit 1 ;; esac"""
    ninja = _NINJA_MAKES_AN_IMAGE.replace("firmware.map", "firmware.elf.map")
    more = ["--own-toolchain", "--build-type", "Release", "--map-file", "firmware.elf.map"]
    # The build writes arguments for thousands of files to a file.
    files = tmp_path / "files.params"
    files.write_text(f"--tree-file\nframework\ntools/setup.cmake\n{tree}\n", encoding="utf-8")
    more += ["--python-path", str(tmp_path / "site"), f"@{files}"]
    assert _build(tmp_path, check, ninja, more=more) == 0
    assert (tmp_path / "out.map").read_text(encoding="utf-8") == "map of ./build/a.o\n"


def test_what_a_framework_lacks_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _build(tmp_path, 'mkdir "$4"', more=["--map-file", "other.map"]) == 1
    assert "there is no other.map in the build's folder, or set map to the one that the project writes" in (
        capfd.readouterr().err
    )
    assert _build(tmp_path, more=["--tree-file", ".", "main.c", __file__]) == 1
    assert "of a tree would be ./main.c of the project, which has such a file" in capfd.readouterr().err


def test_clang_compiles_by_its_own_flags_and_gcc_links(tmp_path: Path) -> None:
    check = """mkdir "$4"; cd "$4"/..
grep -qx "set(CMAKE_C_COMPILER .*/clang)" toolchain.cmake
grep -q "^set(CMAKE_C_FLAGS_INIT \\"--target=arm-none-eabi -ffile" toolchain.cmake
grep -q "_LINK_EXECUTABLE \\".*bin/arm-none-eabi-gcc -mcpu=cortex-m4 " toolchain.cmake"""
    assert _build(tmp_path, check, more=["--clang", "clang", "--clang-flag=--target=arm-none-eabi"]) == 0


def test_the_compiler_looks_for_headers_and_libraries_where_it_is_told(tmp_path: Path) -> None:
    check = """mkdir "$4"; cd "$4"/..
grep -q -- "gcc -B/libraries/ -isystem '*/with space'* " bin/arm-none-eabi-gcc
grep -q "set(CMAKE_CXX_COMPILER .*bin/arm-none-eabi-g++)" toolchain.cmake"""
    more = ["--search=-B/libraries/", "--search=-isystem /with space", "--libstdcxx"]
    assert _build(tmp_path, check, more=more) == 0


def test_with_cpp_library_nothing_is_said_of_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ninja = "echo 'main.cpp: undefined reference to `std::mine()'; exit 1".replace("`", "\\`").replace("'", '"')
    assert _build(tmp_path, 'mkdir "$4"', ninja, more=["--libstdcxx"]) == 1
    said = capfd.readouterr().err
    assert "undefined reference to `std::mine()" in said and "libstdcxx = True" not in said


@pytest.mark.parametrize(
    ("cmake", "ninja", "message"),
    [
        ("echo no package; exit 1", "", "CMake failed:\nno package"),
        (
            'mkdir "$4"',
            'echo "$2/../project/main.c:1: error"; exit 1',
            "the build failed:\nbuild/../project/main.c:1: er",
        ),
        ('mkdir "$4"', "echo 'ld: cannot find -lstdc++_nano'; exit 1", "library is linked with libstdcxx = True"),
        (
            'mkdir "$4"',
            "echo 'ld: region RAM overflowed by 512 bytes'; exit 1",
            "make a stack smaller, down to NAME_STACK",
        ),
        ('mkdir "$4"', "", "made 0 ELF images of its name; it has to be one of add_executable()"),
        ('mkdir "$4"', 'printf "\\177ELF" > "$2/firmware"', "the linker wrote no map; keep CMAKE_EXE_LINKER_FLAGS"),
    ],
)
def test_what_fails_is_shown(cmake, ninja, message, tmp_path, capfd) -> None:
    assert _build(tmp_path, cmake, ninja) == 1
    assert message in capfd.readouterr().err


def test_a_file_beside_the_project_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _build(tmp_path, file="elsewhere/main.c") == 1
    assert "elsewhere/main.c is not below the project's folder" in capfd.readouterr().err
