"""The layouts of torch_package; layouts.py has what each is."""

LAYOUTS = ["arduino", "cmake", "make", "mbed", "platformio", "zephyr"]
