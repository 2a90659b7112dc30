"""Lays out packages for CMake, alone and in the build systems of Mbed OS and Zephyr."""

import re

from tools.artifacts.core.core import CORTEX_M, layout, platform_name
from tools.pipeline.package.archive_check import definition
from tools.pipeline.package.layout import Layout, Package, archive_path, instances, lines, main_c, reports
from tools.quiet.console import UserError

# CMake's own targets (listed in its manual at policy CMP0037), and the library that ours links with.
_TARGETS = (
    *("all", "clean", "edit_cache", "help", "install", "list_install_components", "m", "package", "package_source"),
    *("rebuild_cache", "test"),
)


def library(package: Package, folder: str = "") -> str:
    """Returns CMake's description of the library `<name>`.

    Args:
        package: the package.
        folder: the package's folder relative to the file: empty, or ending in a slash.
    """
    if package.archives:
        return _imported(package, folder) + _compatible(package)
    return f"""\
# An archive: of a source that another package has, too, the linker takes one.
add_library({package.name} STATIC
{lines([folder + source for source in package.sources])}
)
target_compile_features({package.name} PRIVATE cxx_std_17)
target_include_directories({package.name} PUBLIC
  $<BUILD_INTERFACE:${{CMAKE_CURRENT_SOURCE_DIR}}/{folder}include>
  $<INSTALL_INTERFACE:include/{package.name}>
)
target_include_directories({package.name} PRIVATE ${{CMAKE_CURRENT_SOURCE_DIR}}/{folder}src)
target_compile_options({package.name} PRIVATE
  -ffunction-sections
  -fdata-sections
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>
  $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>
  $<$<COMPILE_LANGUAGE:CXX>:-fno-threadsafe-statics>
  # GCC's remarks on an ABI that changed with its version 7.
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-psabi>
)
# A frame pointer would be in a register that inner loops need. Of a source, this is behind what frameworks ask for.
get_target_property({package.name}_sources {package.name} SOURCES)
set_source_files_properties(${{{package.name}_sources}} PROPERTIES COMPILE_OPTIONS -fomit-frame-pointer)
{_compatible(package)}"""


def _mbed_flags(package: Package) -> str:
    """Mbed CE keeps the flags of the target's core, and optimization flags, separate for libraries."""
    return f"""
# Of an application for Mbed CE, wherever it adds mbed-os.
target_link_libraries({package.name} PRIVATE $<TARGET_NAME_IF_EXISTS:mbed-core-flags>)
"""


def _compatible(package: Package) -> str:
    """Defines the properties that CMake compares for all packages that an application links with."""
    properties = {"TORCH_FUSION_VERSION_OF_PACKAGES": package.fingerprint}
    properties |= {f"TORCH_FUSION_MODEL_{name}": value for name, value in package.model_fingerprints.items()}
    return f"""\
# Packages of an application have to be made by one version of Torch Fusion, as they share kernels, and their models
# need names of their own, as the linker takes one of two. CMake's error names package and property otherwise.
set_target_properties({package.name} PROPERTIES
{lines([f"INTERFACE_{name} {value}" for name, value in properties.items()])}
)
set_property(TARGET {package.name} APPEND PROPERTY COMPATIBLE_INTERFACE_STRING
{lines(list(properties))}
)
"""


def _imported(package: Package, folder: str) -> str:
    variable = f"{package.name.upper()}_ARCHIVE"
    only = f"  set({variable} {package.archives[0]})" if len(package.archives) == 1 else ""
    lib = archive_path(package.name, f"${{{variable}}}")
    return f"""\
# {variable}, which who includes this sets, says for which core and float ABI: those that the application's flags have.
set({package.name}_archives {" ".join(package.archives)})
if(NOT DEFINED {variable})
{only or f'  message(FATAL_ERROR "set {variable} to one of ${{{package.name}_archives}}")'}
endif()
if(NOT {variable} IN_LIST {package.name}_archives)
  message(FATAL_ERROR "{variable} is ${{{variable}}}; there is ${{{package.name}_archives}}")
endif()
string(REPLACE "-" "_" {package.name}_identity ${{{variable}}})
add_library({package.name} STATIC IMPORTED GLOBAL)
set_target_properties({package.name} PROPERTIES
  INTERFACE_COMPILE_DEFINITIONS {definition(package.name, "")}${{{package.name}_identity}}
  IMPORTED_LOCATION ${{CMAKE_CURRENT_SOURCE_DIR}}/{folder}{lib}
  INTERFACE_INCLUDE_DIRECTORIES ${{CMAKE_CURRENT_SOURCE_DIR}}/{folder}include
)
"""


def _once(package: Package) -> str:
    """Lets several parts of an application add the folder, with a binary folder of their own, and share it."""
    return f"""\
# Several parts of an application may add this folder.
get_property({package.name}_folder GLOBAL PROPERTY TORCH_FUSION_FOLDER_OF_{package.name})
if({package.name}_folder STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  return()
endif()
set_property(GLOBAL PROPERTY TORCH_FUSION_FOLDER_OF_{package.name} ${{CMAKE_CURRENT_SOURCE_DIR}})

"""


def _check(package: Package) -> None:
    if package.name in _TARGETS:
        raise UserError(
            f"package name '{package.name}': CMake's target {package.name} is another; rename the torch_package"
        )


def _installation(package: Package) -> str:
    """Defines `cmake --install`: it installs the compiled library, or the folder with archives, which needs no
    compilation.
    """
    name = package.name
    # CMake searches this folder of a prefix; it has none for libraries of a single core.
    to = f"lib/cmake/{name}"
    config = f"{name}-config.cmake {name}-config-version.cmake"
    licences = f"""\
  file(GLOB licences LICENSE*)
  install(FILES ${{licences}} DESTINATION share/licenses/{name})
"""
    if package.archives:
        return f"""\
{licences}  install(DIRECTORY include lib DESTINATION {to})
  install(FILES CMakeLists.txt {config} DESTINATION {to})
"""
    return f"""\
{licences}  install(TARGETS {name} EXPORT {name} ARCHIVE DESTINATION lib)
  install(DIRECTORY include/ DESTINATION include/{name})
  install(EXPORT {name} FILE {name}-targets.cmake DESTINATION {to})
  install(FILES {config} DESTINATION {to})
"""


def _cmake(package: Package) -> dict[str, str]:
    refusal = (
        ""
        if package.archives
        else f"""\

# A language that is enabled here is not in the folder above, where the application is linked.
get_directory_property(above PARENT_DIRECTORY)
if(above AND NOT CMAKE_CXX_COMPILER_LOADED)
  message(FATAL_ERROR "{package.name} is C++, and ${{CMAKE_PROJECT_NAME}} has no such compiler: write "
    "project(${{CMAKE_PROJECT_NAME}} LANGUAGES C CXX)")
endif()
"""
    )
    text = f"""\
cmake_minimum_required(VERSION 3.16)
{_once(package)}{refusal}project({package.name} VERSION {package.version} LANGUAGES C CXX)

{library(package)}{"" if package.archives else _mbed_flags(package)}
if(NOT WIN32)
  # fmaf() of cores without the instruction, and the like.
  target_link_libraries({package.name} {"INTERFACE" if package.archives else "PUBLIC"} m)
endif()
if(NOT TARGET {package.name}::{package.name})
  add_library({package.name}::{package.name} ALIAS {package.name})
endif()

if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  # By itself: the example.
  enable_testing()
  add_executable({package.name}_example example/main.c)
  target_link_libraries({package.name}_example PRIVATE {package.name})
  add_test(NAME selftest COMMAND {package.name}_example)
{_installation(package)}endif()
"""
    config = f"""\
# find_package({package.name}) in a project whose CMAKE_PREFIX_PATH has the folder that this one is in, or one that this
# package was installed to.
if(NOT TARGET {package.name})
  if(EXISTS ${{CMAKE_CURRENT_LIST_DIR}}/{package.name}-targets.cmake)
    include(${{CMAKE_CURRENT_LIST_DIR}}/{package.name}-targets.cmake)
    add_library({package.name}::{package.name} INTERFACE IMPORTED)
    set_target_properties({package.name}::{package.name} PROPERTIES INTERFACE_LINK_LIBRARIES {package.name})
  else()
    add_subdirectory(${{CMAKE_CURRENT_LIST_DIR}} ${{CMAKE_BINARY_DIR}}/{package.name})
  endif()
endif()
"""
    version = f"""\
set(PACKAGE_VERSION {package.version})
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
"""
    return {
        "CMakeLists.txt": text,
        f"{package.name}-config.cmake": config,
        f"{package.name}-config-version.cmake": version,
        "example/main.c": main_c(package),
    }


def _cmake_use(package: Package) -> str:
    return f"""\
    add_subdirectory({package.name})
    target_link_libraries(application PRIVATE {package.name})

in a project of C and C++ (`project(application LANGUAGES C CXX)`); or, with the folder that this one is in among
`CMAKE_PREFIX_PATH`, `find_package({package.name})` instead of the first line. By itself the folder builds the example,
which runs the self-tests, and can be installed for `find_package({package.name})`:

    cmake -S {package.name} -B build && cmake --build build && cd build && ctest
    cmake --install build --prefix PREFIX  # another project: -DCMAKE_PREFIX_PATH=PREFIX

For a core without an operating system, whose programs need a linker script, build the library alone before that:
`cmake --build build --target {package.name}`."""


CMAKE = Layout(files=_cmake, use=_cmake_use, archive=archive_path, check=_check)


def _mbed(package: Package) -> dict[str, str]:
    name = package.name
    text = _once(package) + library(package)
    if not package.archives:
        text += _mbed_flags(package)
    application = f"""\
# An application for Mbed CE: mbed-os is a folder beside this file, as in its other examples.
cmake_minimum_required(VERSION 3.19)
cmake_policy(VERSION 3.19...3.22)

set(MBED_APP_JSON_PATH mbed_app.json5)
include(mbed-os/tools/cmake/mbed_toolchain_setup.cmake)
project({name}_example LANGUAGES C CXX ASM)
include(mbed_project_setup)

add_subdirectory(mbed-os)
add_subdirectory(.. {name})

add_executable({name}_example main.cpp)
target_link_libraries({name}_example mbed-os {name})
mbed_set_post_build({name}_example)
"""
    source = f"""\
// Runs each model of {name} on its example, in a thread of its own.
#include "mbed.h"

{instances(package)}

static void report(const char* model, int result) {{
  printf("%s: %s (%d)\\n", model, result == 0 ? "as PyTorch" : "wrong", result);
}}

static void run_models() {{
{reports(package, '  report("{name}", {result});')}
}}

// Not of the heap, which some targets have no more of than such a stack.
alignas(8) static unsigned char stack[4096];
static rtos::Thread thread(osPriorityNormal, sizeof(stack), stack, "models");

int main() {{
  if (thread.start(run_models) != osOK) {{
    printf("the thread does not start\\n");
    return 1;
  }}
  thread.join();
}}
"""
    return {
        "CMakeLists.txt": text,
        "mbed_lib.json5": f'{{\n    "name": "{name}",\n}}\n',
        "example/CMakeLists.txt": application,
        "example/mbed_app.json5": '{\n    "target_overrides": {\n        "*": {\n'
        '            "platform.stdio-baud-rate": 115200,\n            "platform.stdio-buffered-serial": 1,\n'
        "        },\n    },\n}\n",
        "example/main.cpp": source,
    }


def _mbed_use(package: Package) -> str:
    return f"""\
In the `CMakeLists.txt` of an application for Mbed CE, after `add_subdirectory(mbed-os)`:

    add_subdirectory({package.name})
    target_link_libraries(application {package.name})

`example/` is an application: it wants `mbed-os` beside its `CMakeLists.txt`."""


MBED = Layout(files=_mbed, use=_mbed_use, archive=archive_path, check=_check)


def _symbol(package: Package) -> str:
    """Returns a symbol for Kconfig that differs from Zephyr's own, which has SENSOR and thousands more."""
    return f"TORCH_FUSION_{package.name.upper()}"


# Zephyr boards whose core has an FPU. A sample enables it in a file of the board, because others have no such setting.
_FPU_BOARDS = {
    "mps3_corstone300_an547": "cortex-m55",
    "nrf52840dk_nrf52840": "cortex-m4",
    "nucleo_h743zi": "cortex-m7",
    "nucleo_wb55rg": "cortex-m4",
    "rpi_pico2_rp2350a_m33": "cortex-m33",
}
# Kconfig's symbols of the cores for each layout of int8 programs.
_CORES_WITH = {
    "scalar": "!CPU_CORTEX_M4 && !CPU_CORTEX_M7 && !ARMV8_M_DSP && !ARMV8_1_M_MVEI",
    "dsp": "(CPU_CORTEX_M4 || CPU_CORTEX_M7 || ARMV8_M_DSP) && !ARMV8_1_M_MVEI",
    "mve": "ARMV8_1_M_MVEI",
}


def _cores_of(package: Package) -> str:
    """Returns Kconfig's condition for the cores that a package is for; empty if it is for any."""
    if package.archives:
        names = {platform_name(core): core for core in CORTEX_M}
        cores = {names[identity.split("-")[0]] for identity in package.archives}
        symbols = {"CPU_" + "_".join(platform_name(core).upper().split("_")[:2]) for core in cores}
        return " || ".join(sorted(symbols))
    return "" if package.core == "host" else f"CPU_CORTEX_M && {_CORES_WITH[layout(package.core)]}"


def _twister_filter(condition: str) -> str:
    """Converts the condition to Twister's syntax."""
    for kconfig, twister in (("!", "not "), ("&&", "and"), ("||", "or")):
        condition = condition.replace(kconfig, twister)
    return re.sub(r"\b[A-Z]\w+", r"CONFIG_\g<0>", condition)


def _zephyr(package: Package) -> dict[str, str]:
    name = package.name
    symbol = _symbol(package)
    cores = _cores_of(package)
    flags = f"""
# The flags of the board's core, and its C library.
target_link_libraries({name} PRIVATE zephyr_interface)
add_dependencies({name} zephyr_generated_headers)
"""
    text = f"if(CONFIG_{symbol})\n{library(package, '../')}{'' if package.archives else flags}endif()\n"
    kconfig = f"""\
config {symbol}
\tbool "PyTorch models of {name}"
\tdepends on CPP && REQUIRES_FULL_LIBCPP
{f"{chr(9)}depends on {cores}{chr(10)}" if cores else ""}\thelp
\t  {package.sentence}
\t  An application that wants them links with {name}.
"""
    sample = f"""\
cmake_minimum_required(VERSION 3.20.0)

# As long as west.yml has no such module.
list(APPEND ZEPHYR_EXTRA_MODULES ${{CMAKE_CURRENT_SOURCE_DIR}}/../..)
find_package(Zephyr REQUIRED HINTS $ENV{{ZEPHYR_BASE}})
project({name}_selftest)

target_sources(app PRIVATE src/main.cpp)
target_link_libraries(app PRIVATE {name})
"""
    source = f"""\
// Runs each model of {name} on its example.
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

{instances(package)}

static void report(const char* model, int result) {{
  printk("%s: %s (%d)\\n", model, result == 0 ? "as PyTorch" : "wrong", result);
}}

int main(void) {{
{reports(package, '  report("{name}", {result});')}
  return 0;
}}
"""
    config = f"""\
CONFIG_CPP=y
CONFIG_STD_CPP17=y
CONFIG_REQUIRES_FULL_LIBCPP=y
CONFIG_MAIN_STACK_SIZE=4096
CONFIG_{symbol}=y
"""
    expected = "\n".join(f'      - "{model}: as PyTorch"' for model in package.models)
    yaml = f"""\
sample:
  name: Self-test of {name}
tests:
  {name}.selftest:
    tags: {name}
{f"    filter: {_twister_filter(cores)}{chr(10)}" if cores else ""}    harness: console
    harness_config:
      type: multi_line
      regex:
{expected}
"""
    module = f"name: {name}\nbuild:\n  cmake: zephyr\n  kconfig: zephyr/Kconfig\nsamples:\n  - samples\n"
    return {
        "zephyr/module.yml": module,
        "zephyr/CMakeLists.txt": text,
        "zephyr/Kconfig": kconfig,
        "samples/selftest/CMakeLists.txt": sample,
        "samples/selftest/prj.conf": config,
        "samples/selftest/sample.yaml": yaml,
        "samples/selftest/src/main.cpp": source,
        **{
            f"samples/selftest/boards/{board}.conf": "CONFIG_FPU=y\n"
            for board, core in _FPU_BOARDS.items()
            if package.core in ("host", core)
        },
    }


def _zephyr_use(package: Package) -> str:
    return f"""\
The folder is a Zephyr module: a project of `west.yml`, or in an application's `CMakeLists.txt`

    list(APPEND ZEPHYR_EXTRA_MODULES ${{CMAKE_CURRENT_SOURCE_DIR}}/{package.name})
    find_package(Zephyr REQUIRED HINTS $ENV{{ZEPHYR_BASE}})
    ...
    target_link_libraries(app PRIVATE {package.name})

and in its `prj.conf` CONFIG_CPP=y, CONFIG_STD_CPP17=y, CONFIG_REQUIRES_FULL_LIBCPP=y, CONFIG_{_symbol(package)}=y.
`samples/selftest` is such an application."""


ZEPHYR = Layout(files=_zephyr, use=_zephyr_use, archive=archive_path, check=_check)
