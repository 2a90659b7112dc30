"""Networks of this folder: programs in several forms with their tests, and images that are measured."""

load("//firmware/boards:boards.bzl", "DAILY_EMULATED_BOARDS", "EMULATED_BOARDS", "VECTOR_BOARDS")
load("//rules:defs.bzl", "firmware_benchmark", "firmware_profile", "firmware_test", "quantization", "torch_firmware", "torch_program")

_QUANTIZATIONS = {
    "_int4": quantization(weight_dtype = "int4"),
    "_int8": None,
}

def network(name, nightly_boards, srcs = [], vectors = ["_int4", "_int8"]):
    """Declares the programs of `<name>.py`, and tests that they compute on boards what PyTorch does.

    The program `<name>` is in float32. All others are int8 programs.

    Args:
      name: of the model file and of the program in float32.
      nightly_boards: by the ends of the programs' names, "" or those of _QUANTIZATIONS, the boards of the nightly tests.
      vectors: those of _QUANTIZATIONS that each run of all tests has on a core with vectors, too; the others have it at night.
      srcs: further model files of the folder that other packages use.
    """
    native.exports_files([name + ".py"] + srcs)
    for end, boards in nightly_boards.items():
        options = dict(
            backend = "cortex_m",
            io = "int8",
            quantization = _QUANTIZATIONS[end],
        ) if end else {}
        torch_program(
            name = name + end,
            src = name + ".py",
            **options
        )
        firmware_test(
            name = name + end + "_test",
            boards = DAILY_EMULATED_BOARDS + (VECTOR_BOARDS if end in vectors else []),
            model = ":" + name + end,
            nightly_boards = boards + (VECTOR_BOARDS if end and end not in vectors else []),
        )

def measured(name):
    """Declares images of `<name>` and `<name>_int8` on an emulated board, `benchmark` of both, and `profile` of the second.

    Args:
      name: of the program in float32.
    """
    for program in [name, name + "_int8"]:
        torch_firmware(
            name = "emulated_" + program,
            board = EMULATED_BOARDS[0],
            model = ":" + program,
        )
    firmware_benchmark(
        name = "benchmark",
        firmware = {
            ":emulated_" + name: name + " float32",
            ":emulated_%s_int8" % name: name + " int8",
        },
    )
    firmware_profile(
        name = "profile",
        firmware = [":emulated_%s_int8" % name],
    )
