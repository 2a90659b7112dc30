"""Packages for make."""

from tools.pipeline.package.archive_check import definition
from tools.pipeline.package.layout import Layout, Package, archive_path, main_c


def _make(package: Package) -> dict[str, str]:
    variable = package.name.upper()
    text = _imported(package, variable) if package.archives else _library(package, variable)
    makefile = f"""\
# The example: runs the self-tests.
all: build/example

include {package.name}.mk

build/example: example/main.c $({variable}_LIBRARY)
\t@mkdir -p build
\t$(CC) $(CFLAGS) $({variable}_CPPFLAGS) -c example/main.c -o build/main.o
\t$(CXX) $(CXXFLAGS) $(LDFLAGS) -Wl,--gc-sections build/main.o $({variable}_LIBRARY) $({variable}_LDLIBS) -o $@

check: build/example
\t@build/example

clean:
\trm -rf build

.PHONY: all check clean
"""
    return {f"{package.name}.mk": text, "Makefile": makefile, "example/main.c": main_c(package)}


def _imported(package: Package, variable: str) -> str:
    default = f"{variable}_ARCHIVE ?= {package.archives[0]}\n" if len(package.archives) == 1 else ""
    return f"""\
# include this file: $({variable}_LIBRARY) is the archive for $({variable}_ARCHIVE), a core and float ABI: those that
# $(CFLAGS) has. Compile what uses the models with $({variable}_CPPFLAGS), and link $({variable}_LDLIBS) after it.
{variable}_DIR := $(dir $(lastword $(MAKEFILE_LIST)))
{variable}_ARCHIVES := {" ".join(package.archives)}
{default}ifeq ($(filter $({variable}_ARCHIVE),$({variable}_ARCHIVES)),)
$(error {variable}_ARCHIVE is '$({variable}_ARCHIVE)'; there is $({variable}_ARCHIVES))
endif
{variable}_CPPFLAGS := -I$({variable}_DIR)include -D{definition(package.name, "")}$(subst -,_,$({variable}_ARCHIVE))
{variable}_LDLIBS := -lm
{variable}_LIBRARY := $({variable}_DIR){archive_path(package.name, f"$({variable}_ARCHIVE)")}
"""


def _library(package: Package, variable: str) -> str:
    sources = " \\\n".join(f"  $({variable}_DIR){source}" for source in package.sources)
    return f"""\
# include this file: it makes $({variable}_LIBRARY), an archive, with $(CC), $(CXX), $(AR), $(CFLAGS) and $(CXXFLAGS).
# Compile what uses the models with $({variable}_CPPFLAGS), and link the archive and $({variable}_LDLIBS) with $(CXX).
{variable}_DIR := $(dir $(lastword $(MAKEFILE_LIST)))
{variable}_BUILD ?= build/{package.name}
{variable}_CPPFLAGS := -I$({variable}_DIR)include
{variable}_LDLIBS := -lm
# The default goal stays that of the file that includes this one.
{variable}_GOAL := $(.DEFAULT_GOAL)
# A folder of its own for this content of the package: files of a .zip are older than what was made of an older one.
{variable}_OUTPUT := $({variable}_BUILD)/{package.content_fingerprint}
{variable}_LIBRARY := $({variable}_OUTPUT)/lib{package.name}.a
{variable}_SOURCES := \\
{sources}
{variable}_OBJECTS := $(patsubst $({variable}_DIR)%,$({variable}_OUTPUT)/%.o,$({variable}_SOURCES))
{variable}_CXX := -std=c++17 -fno-exceptions -fno-rtti -fno-threadsafe-statics -Wno-psabi
# Clang's default for Arm is a frame pointer in a register that inner loops need.
{variable}_FLAGS := -ffunction-sections -fdata-sections -fomit-frame-pointer
{variable}_FLAGS += $({variable}_CPPFLAGS) -I$({variable}_DIR)src

$({variable}_OUTPUT)/%.cpp.o: $({variable}_DIR)%.cpp
\t@mkdir -p $(dir $@)
\t$(CXX) $(CPPFLAGS) $(CXXFLAGS) $({variable}_CXX) $({variable}_FLAGS) -c $< -o $@

$({variable}_OUTPUT)/%.c.o: $({variable}_DIR)%.c
\t@mkdir -p $(dir $@)
\t$(CC) $(CPPFLAGS) $(CFLAGS) $({variable}_FLAGS) -c $< -o $@

$({variable}_LIBRARY): $({variable}_OBJECTS)
\t@rm -f $@
\t$(AR) rcs $@ $^

.DEFAULT_GOAL := $({variable}_GOAL)
"""


def _use(package: Package) -> str:
    library, flags, libraries = (f"$({package.name.upper()}_{name})" for name in ("LIBRARY", "CPPFLAGS", "LDLIBS"))
    return f"""\
In a Makefile, whose path and the folder's have no spaces, as make takes none:

    include {package.name}/{package.name}.mk

    application: main.c {library}
    \t$(CC) $(CFLAGS) {flags} -c main.c -o main.o
    \t$(CXX) $(CXXFLAGS) $(LDFLAGS) main.o {library} {libraries} -o $@

`CC`, `CXX`, `AR`, `CFLAGS` and `CXXFLAGS` select the compiler and the core, for all of this: `CC=arm-none-eabi-gcc
CXX=arm-none-eabi-g++ AR=arm-none-eabi-ar`, and as both flags `-mcpu=cortex-m4 -mthumb -mfloat-abi=hard
-mfpu=fpv4-sp-d16 -Os`. `LDFLAGS=-Wl,--gc-sections` leaves out what is not called. By itself `make check` runs the
example on this machine."""


MAKE = Layout(files=_make, use=_use, archive=archive_path)
