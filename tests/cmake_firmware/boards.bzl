"""Lists the boards that the project is for, by its address in their memory."""

BOARDS = {
    "mps2_an385": {
        "FLASH_ORIGIN": "0x00000000",
        "RAM_ORIGIN": "0x20000000",
    },
    "mps2_an386": {
        "FLASH_ORIGIN": "0x00000000",
        "RAM_ORIGIN": "0x20000000",
    },
    "mps2_an500": {
        "FLASH_ORIGIN": "0x00000000",
        "RAM_ORIGIN": "0x20000000",
    },
    "mps2_an505": {
        "FLASH_ORIGIN": "0x10000000",
        "RAM_ORIGIN": "0x38000000",
    },
    "mps3_an547": {
        "FLASH_ORIGIN": "0x11000000",
        "RAM_ORIGIN": "0x31000000",
    },
    "qemu_microbit": {
        "FLASH_ORIGIN": "0x00000000",
        "RAM_LENGTH": "16K",
        "RAM_ORIGIN": "0x20000000",
    },
}

BOARDS_WITH_FPU = [
    "mps2_an386",
    "mps2_an500",
    "mps2_an505",
    "mps3_an547",
]

NPU_BOARD = BOARDS["mps3_an547"]

# Each run of all tests has two packages, a core without FPU, C++'s library by `softfp`, and int8 kernels by other flags
# than this build's, which leave inline assembly other registers; the others, which take a minute of compiling, are run
# at night.
BRIEF = [
    ("two", "mps2_an386"),
    ("softfp", "mps2_an386"),
    ("clang_int8", "mps2_an386"),
]
