"""The boards that every model is tested on, as far as it fits."""

# Emulated by QEMU: one per core.
EMULATED_BOARDS = [
    "//firmware/boards/mps2_an386",
    "//firmware/boards/mps2_an505",
]

# Real boards, simulated by //boardsim: the images that get flashed.
SIMULATED_BOARDS = [
    "//firmware/boards/nucleo_wb55rg",
    "//firmware/boards/pico2_w",
]

# The one with more memory, for what does not fit into the other.
LARGE_SIMULATED_BOARDS = ["//firmware/boards/pico2_w"]

TEST_BOARDS = EMULATED_BOARDS + SIMULATED_BOARDS

# One per instruction set that int8 kernels have code of their own for.
INT8_BOARDS = EMULATED_BOARDS + ["//firmware/boards/mps3_an547"]
