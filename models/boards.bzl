"""The emulated boards that every model is tested on: one per core."""

TEST_BOARDS = [
    "//firmware/boards/mps2_an386",
    "//firmware/boards/mps2_an505",
]
