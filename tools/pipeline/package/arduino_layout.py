"""Lays out packages for Arduino and PlatformIO."""

import json
import re

from tools.pipeline.package.layout import Layout, Package, instances, reports
from tools.quiet.console import UserError


def _arduino(package: Package) -> dict[str, str]:
    properties = {
        "name": package.name,
        "version": package.version,
        "author": package.author,
        "maintainer": package.author,
        "sentence": package.sentence,
        "paragraph": "Made by Torch Fusion." + ("" if package.archives else " Needs a core that compiles C++17."),
        "category": "Data Processing",
        "url": package.url,
        "architectures": "*",
        "includes": ",".join(f"{model}.h" for model in package.models),
        # An archive: the linker takes one copy of a source that several packages have.
        "dot_a_linkage": "true",
    }
    if package.archives:
        properties |= {"precompiled": "true", "ldflags": f"-l{package.name}"}
    return {
        "library.properties": "".join(f"{key}={value}\n" for key, value in properties.items()),
        "examples/selftest/selftest.ino": _sketch(package),
    }


# The FPU's name by GCC's -mfpu in boards' platform.txt, for folders of precompiled libraries. MVE passes numbers in the
# FPU's registers even without an FPU, for which -mfpu has no name.
_SINGLE, _DOUBLE = "fpv5-sp-d16", "fpv5-d16"
FPUS = {
    "cortex_m4": "fpv4-sp-d16",
    "cortex_m7": _DOUBLE,
    "cortex_m7_sp": _SINGLE,
    "cortex_m33": _SINGLE,
    "cortex_m33_nodsp": _SINGLE,
    "cortex_m35p": _SINGLE,
    **{
        f"cortex_m{number}{variant}": fpu
        for number in (52, 55, 85)
        for variant, fpu in (("", _DOUBLE), ("_nomve", _DOUBLE), ("_mve_int", "auto"))
    },
}


def _archive(name: str, identity: str) -> str:
    """Returns src/MCU/FPU-ABI/, or src/MCU/ without an FPU: "Precompiled binaries" in the library specification.

    A board's MCU is the core without its optional features.
    """
    core, abi = identity.split("-")
    variant = core.split("_")[1]
    folder = f"src/cortex-{variant}"
    return f"{folder}/lib{name}.a" if abi == "soft" else f"{folder}/{FPUS[core]}-{abi}/lib{name}.a"


def _sketch(package: Package) -> str:
    return f"""\
// Runs each model of {package.name} on its example, once a second.
{instances(package)}

static void report(const char* model, int result) {{
  Serial.print(model);
  Serial.println(result == 0 ? ": as PyTorch" : ": wrong");
}}

void setup() {{
  Serial.begin(115200);
}}

void loop() {{
{reports(package, '  report("{name}", {result});')}
  delay(1000);
}}
"""


def _check_arduino(package: Package) -> None:
    # https://docs.arduino.cc/arduino-cli/library-specification
    if not package.url:
        raise UserError(
            f'package {package.name}: Arduino\'s libraries say where they are described; set url = "https://..."'
        )
    if not re.fullmatch(r"(?!arduino)[A-Za-z][A-Za-z0-9_]{0,62}", package.name, re.IGNORECASE):
        raise UserError(
            f"package name '{package.name}': Arduino's libraries begin with a letter, and not with 'Arduino', and have "
            "at most 63 characters"
        )


def _arduino_use(package: Package) -> str:
    needs = (
        f"""What is compiled already is for {", ".join(package.archives)};
the headers compile by any standard from `-std=gnu++11` on, which cores of boards have."""
        if package.archives
        else """The board's core has to compile C++17
(`-std=gnu++17` in its `platform.txt`), which an Arduino library can't ask for; one that doesn't ends in an error that
says so."""
    )
    return f"""\
Copy the folder, or let the IDE add the .zip ("Add .ZIP Library"), to `libraries/`; `#include <{package.models[0]}.h>`.
`File > Examples > {package.name} > selftest` runs the models on their examples. {needs}"""


ARDUINO = Layout(files=_arduino, use=_arduino_use, headers="src", archive=_archive, check=_check_arduino)


def _platformio(package: Package) -> dict[str, str]:
    manifest = {
        "name": _slug(package.name),
        "version": package.version,
        "description": package.sentence,
        "keywords": ["pytorch", "machine-learning", "neural-network"],
        "authors": [{"name": package.author, "maintainer": True}],
        **({"homepage": package.url} if package.url else {}),
        "license": "Apache-2.0 AND BSD-3-Clause",
        "frameworks": "*",
        "platforms": "*",
        "headers": [f"{model}.h" for model in package.models],
        "examples": [{"name": "selftest", "base": "examples/selftest", "files": ["platformio.ini", "src/main.cpp"]}],
        "build": {"includeDir": "include", "srcDir": "src", "extraScript": "cpp17.py"},
    }
    settings = """\
[env:nano33ble]
platform = nordicnrf52
board = nano33ble
framework = arduino
monitor_speed = 115200
lib_deps = symlink://../..
"""
    script = """\
# The last -std that GCC reads is the one that it takes; "flags" of library.json would be C's, too. And no remarks
# on an ABI that changed with GCC 7, and no frame pointer in a register that inner loops need.
Import("env")  # noqa: F821
env.Append(CXXFLAGS=["-std=gnu++17", "-Wno-psabi", "-fomit-frame-pointer"])  # noqa: F821
"""
    return {
        "library.json": json.dumps(manifest, indent=2) + "\n",
        "cpp17.py": script,
        "examples/selftest/platformio.ini": settings,
        "examples/selftest/src/main.cpp": "#include <Arduino.h>\n\n" + _sketch(package),
    }


def _slug(name: str) -> str:
    """Converts a name to the form of PlatformIO's registry: a-z, digits, and single dashes in between."""
    return re.sub(r"-+", "-", name.lower().replace("_", "-")).strip("-")


def _check_platformio(package: Package) -> None:
    # https://docs.platformio.org/en/latest/manifests/library-json/fields/name.html
    if not 1 <= len(_slug(package.name)) <= 50:
        raise UserError(f"package name '{package.name}': PlatformIO's libraries have names of 1 to 50 characters")


def _platformio_use(package: Package) -> str:
    return f"""\
In `platformio.ini`

    lib_deps = symlink://{package.name}

or the folder in `lib/`. `examples/selftest` runs the models on their examples: `pio run -d examples/selftest`."""


PLATFORMIO = Layout(files=_platformio, use=_platformio_use, check=_check_platformio)
