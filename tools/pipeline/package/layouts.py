"""Layouts of packages, by the build system that reads them; layouts.bzl has the names for rules."""

from tools.pipeline.package.arduino_layout import ARDUINO, PLATFORMIO
from tools.pipeline.package.cmake_layout import CMAKE, MBED, ZEPHYR
from tools.pipeline.package.make_layout import MAKE

LAYOUTS = {"arduino": ARDUINO, "cmake": CMAKE, "make": MAKE, "mbed": MBED, "platformio": PLATFORMIO, "zephyr": ZEPHYR}
