"""Packages for make."""

from __future__ import annotations

from collections.abc import Sequence

from tools.pipeline.package.layout import Layout, Package, main_c


def _make(package: Package) -> dict[str, str]:
    variable = package.name.upper()
    sources = _lines([f"$({variable}_DIR){source}" for source in package.sources])
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
{variable}_FLAGS := -ffunction-sections -fdata-sections $({variable}_CPPFLAGS) -I$({variable}_DIR)src

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
    return {f"{package.name}.mk": text, "Makefile": makefile, "example/main.c": main_c(package)}


def _use(package: Package) -> str:
    return f"""\
    include {package.name}/{package.name}.mk

and link `$({package.name.upper()}_LIBRARY)`. By itself `make check` runs the example."""


def _lines(items: Sequence[str]) -> str:
    return " \\\n".join(f"  {item}" for item in items)


MAKE = Layout(files=_make, use=_use)
