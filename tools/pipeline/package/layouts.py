"""Build files of a package, by the build system that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# What the sources are compiled with, whatever compiles them.
DEFINITIONS = ("NDEBUG", "ET_LOG_ENABLED=0", "C10_USING_CUSTOM_GENERATED_MACROS")
INCLUDES = ("src", "third_party/executorch", "third_party/executorch/executorch/runtime/core/portable_type/c10")


@dataclass(frozen=True)
class Package:
    """A package.

    Attributes:
        name: its name, a C identifier.
        core: the core that it is for, `host` for any: its models are portable.
        models: names of its models.
        sources: C and C++ sources in it.
    """

    name: str
    core: str
    models: tuple[str, ...]
    sources: tuple[str, ...]


def example(package: Package) -> str:
    """example/main.c: runs the self-tests."""
    includes = "\n".join(f'#include "{model}_selftest.h"' for model in package.models)
    instances = "\n".join(f"static {model}_model_t {model};" for model in package.models)
    calls = "\n".join(f"  failed |= {model}_selftest(&{model});" for model in package.models)
    return f"""\
/* Runs each model of {package.name} on its example. The exit status is 0 if all compute what PyTorch does. */
{includes}

{instances}

int main(void) {{
  int failed = 0;
{calls}
  return failed != 0;
}}
"""


def cmake(package: Package) -> dict[str, str]:
    """Files for CMake: add_subdirectory() or FetchContent, and target_link_libraries(... NAME)."""
    sources = "\n".join(f"  {source}" for source in package.sources)
    includes = "\n".join(f"  {folder}" for folder in INCLUDES)
    definitions = "\n".join(f"  {definition}" for definition in DEFINITIONS)
    text = f"""\
cmake_minimum_required(VERSION 3.16)
project({package.name} LANGUAGES C CXX)

# An archive: of a source that another package has, too, the linker takes one.
add_library({package.name} STATIC
{sources}
)
add_library({package.name}::{package.name} ALIAS {package.name})
target_compile_features({package.name} PUBLIC cxx_std_17)
target_include_directories({package.name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}}/include)
target_include_directories({package.name} SYSTEM PRIVATE
{includes}
)
target_compile_definitions({package.name} PRIVATE
{definitions}
)
target_compile_options({package.name} PRIVATE
  -ffunction-sections
  -fdata-sections
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>
  $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>
  $<$<COMPILE_LANGUAGE:CXX>:-fno-threadsafe-statics>
)

if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  # By itself: the example.
  enable_testing()
  add_executable({package.name}_example example/main.c)
  target_link_libraries({package.name}_example PRIVATE {package.name})
  add_test(NAME selftest COMMAND {package.name}_example)
endif()
"""
    return {"CMakeLists.txt": text}


def make(package: Package) -> dict[str, str]:
    """Files for make: one include, {name}.mk."""
    variable = package.name.upper()
    sources = _lines([f"$({variable}_DIR){source}" for source in package.sources])
    includes = " ".join(f"-isystem $({variable}_DIR){folder}" for folder in INCLUDES)
    definitions = " ".join(f"-D{definition}" for definition in DEFINITIONS)
    text = f"""\
# include this file: it makes $({variable}_LIBRARY), an archive, with $(CC), $(CXX), $(AR), $(CFLAGS) and $(CXXFLAGS).
# Compile what uses the models with $({variable}_CPPFLAGS), and link the archive with $(CXX).
{variable}_DIR := $(dir $(lastword $(MAKEFILE_LIST)))
{variable}_BUILD ?= build/{package.name}
{variable}_CPPFLAGS := -I$({variable}_DIR)include
{variable}_LIBRARY := $({variable}_BUILD)/lib{package.name}.a
{variable}_SOURCES := \\
{sources}
{variable}_OBJECTS := $(patsubst $({variable}_DIR)%,$({variable}_BUILD)/%.o,$({variable}_SOURCES))
{variable}_CXX := -std=c++17 -fno-exceptions -fno-rtti -fno-threadsafe-statics
{variable}_FLAGS := -ffunction-sections -fdata-sections $({variable}_CPPFLAGS) {includes} {definitions}

$({variable}_BUILD)/%.cpp.o: $({variable}_DIR)%.cpp
\t@mkdir -p $(dir $@)
\t$(CXX) $(CPPFLAGS) $(CXXFLAGS) $({variable}_CXX) $({variable}_FLAGS) -c $< -o $@

$({variable}_BUILD)/%.c.o: $({variable}_DIR)%.c
\t@mkdir -p $(dir $@)
\t$(CC) $(CPPFLAGS) $(CFLAGS) $({variable}_FLAGS) -c $< -o $@

$({variable}_LIBRARY): $({variable}_OBJECTS)
\t$(AR) rcs $@ $^
"""
    makefile = f"""\
# The example: runs the self-tests.
all: build/example

include {package.name}.mk

build/example: example/main.c $({variable}_LIBRARY)
\t$(CC) $(CFLAGS) $({variable}_CPPFLAGS) -c example/main.c -o build/main.o
\t$(CXX) $(LDFLAGS) -Wl,--gc-sections build/main.o $({variable}_LIBRARY) -o $@

check: build/example
\tbuild/example

clean:
\trm -rf build

.PHONY: all check clean
"""
    return {f"{package.name}.mk": text, "Makefile": makefile}


LAYOUTS = {"cmake": cmake, "make": make}


def _lines(items: Sequence[str]) -> str:
    return " \\\n".join(f"  {item}" for item in items)
