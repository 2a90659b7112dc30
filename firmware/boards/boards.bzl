"""Lists the boards of this tree, and the uses of each.

A new one is its folder and a line here, which `bazel run //tools:new_board` writes; without a role it costs tests one image
without a model, of which //firmware/tests:board_images_test holds that it is at the address that the board wants.
"""

# A board has these uses here:
#   emulated: QEMU emulates it; every model is tested on it, on the first one each time and on others at night
#   vector: an emulated board for int8 models alone, whose kernels have code of their own for its instructions
#   core: an emulated board for the kind of core that it has, on which a few models are tested by hand: each costs all kernels
#   scalar: the one of those whose core has least
#   simulated: //boardsim simulates it: every model that fits, some each time and others at night, in the very image that gets flashed
#   brief: //boardsim simulates it, too: one model, a fault and the watchdog are tested on it; the model at night on a core of its own
#   npu: a board with an NPU; the programs of //conformance/ethos_u are for it
#   large: a simulated board with memory for models that do not fit into others
#   asked: nothing here runs its images, which are built when they are asked for
_BOARDS = {
    "nucleo_wb55rg": ["simulated"],
    "pico2_w": ["simulated", "large"],
    "b_l475e_iot01a": ["brief"],
    "pico": ["brief"],
    "pico_w": ["brief"],
    "nrf52840_dk": ["brief"],
    "nano33_ble": ["brief"],
    "nucleo_h743zi": ["brief"],
    "mps2_an386": ["emulated"],
    "mps2_an505": ["emulated"],
    "mps3_an547": ["vector"],
    "mps3_an547_u55": ["npu"],
    "corstone320_u85": ["asked"],
    "numaker_m55m1": ["asked"],
    "qemu_microbit": ["core", "scalar"],
    "qemu_m0plus": [],
    "mps2_an385": ["core"],
    "mps2_an500": ["core"],
}

def _labels(role):
    return ["//firmware/boards/" + name for name, roles in _BOARDS.items() if role in roles]

# Names, which are folders of this package.
BOARDS = list(_BOARDS)

# Their image of //firmware is built when it is asked for.
ASKED_BOARDS = [name for name, roles in _BOARDS.items() if "asked" in roles]

# The runner of any program is linked for these.
QEMU_BOARDS = [name for name, roles in _BOARDS.items() if "emulated" in roles or "vector" in roles]

# Those that it is linked for on demand, and the one with which int8 programs of every layout run.
CORE_RUNNER_BOARDS = [name for name, roles in _BOARDS.items() if "core" in roles]

SCALAR_RUNNER_BOARD = "mps2_an385"

EMULATED_BOARDS = _labels("emulated")

SIMULATED_BOARDS = _labels("simulated")

BRIEF_BOARDS = _labels("brief")

LARGE_SIMULATED_BOARDS = _labels("large")

CORE_BOARDS = _labels("core")

SCALAR_BOARDS = _labels("scalar")

TEST_BOARDS = EMULATED_BOARDS + SIMULATED_BOARDS

VECTOR_BOARDS = _labels("vector")

INT8_BOARDS = EMULATED_BOARDS + VECTOR_BOARDS

# A model is tested on the first emulated board each time, which has the simulated boards' kernels, and at night on the
# others of TEST_BOARDS. Tests of kernels run on each kind of core each time, and some models on each board.
DAILY_EMULATED_BOARDS = EMULATED_BOARDS[:1]

# These are for models that are tested on a simulated board each time, too.
DAILY_BOARDS = DAILY_EMULATED_BOARDS + SIMULATED_BOARDS[:1]

NIGHTLY_BOARDS = EMULATED_BOARDS[1:] + SIMULATED_BOARDS[1:]

NPU_BOARDS = _labels("npu")

def check_boards(folders):
    """Fails where list and folders differ.

    Args:
      folders: names of the folders of //firmware/boards.
    """
    for folder in folders:
        if folder not in _BOARDS:
            fail('firmware/boards/%s is not in firmware/boards/boards.bzl: add the line "%s": [], to _BOARDS' % (folder, folder))
    for board in _BOARDS:
        if board not in folders:
            fail("firmware/boards/boards.bzl lists %s, but there is no folder firmware/boards/%s" % (board, board))
