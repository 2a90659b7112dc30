"""Networks with random weights, whose sizes and instructions matter: their programs in several forms, and tests of them."""

load("//firmware/boards:boards.bzl", "DAILY_EMULATED_BOARDS", "VECTOR_BOARDS")
load("//rules:defs.bzl", "firmware_test", "quantization", "torch_program")

_QUANTIZATIONS = {
    "_int4": quantization(weight_dtype = "int4"),
    "_int8": None,
}

def network(name, nightly_boards, srcs = []):
    """Declares the programs of `<name>.py`, and tests that they compute on boards what PyTorch does.

    The program `<name>` is in float32. All others are int8 programs.

    Args:
      name: of the model file and of the program in float32.
      nightly_boards: by the ends of the programs' names, "" or those of _QUANTIZATIONS, the boards of the nightly tests.
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
            boards = DAILY_EMULATED_BOARDS + (VECTOR_BOARDS if end else []),
            model = ":" + name + end,
            nightly_boards = boards,
        )
