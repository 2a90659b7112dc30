"""The `firmware_test` macro: an image on emulated boards, compared with PyTorch."""

load(":torch_firmware.bzl", "torch_firmware")
load("//rules/private:emulator.bzl", "EMULATOR_ATTRS", "emulator_arguments")
load("//rules/private:launcher.bzl", "create_launcher")

def _firmware_test_impl(ctx):
    arguments = emulator_arguments(ctx) + ["--test", "--atol", ctx.attr.atol, "--rtol", ctx.attr.rtol]
    if ctx.attr.min_accuracy:
        arguments += ["--min-accuracy", ctx.attr.min_accuracy]
    if ctx.attr.max_accuracy_drop:
        arguments += ["--max-accuracy-drop", ctx.attr.max_accuracy_drop]
    return [create_launcher(ctx, ctx.attr._emulate, arguments, [])]

_firmware_test = rule(
    implementation = _firmware_test_impl,
    doc = "Runs one image in its board's emulator and compares its outputs with the eager module's.",
    attrs = EMULATOR_ATTRS | {
        "atol": attr.string(default = "1e-5", doc = "Absolute tolerance of an output element."),
        "rtol": attr.string(default = "1e-5", doc = "Relative tolerance of an output element."),
        "min_accuracy": attr.string(doc = "Least share of evaluation samples classified right, 0 to 1; needs a model with evaluation_set()."),
        "max_accuracy_drop": attr.string(doc = "How far the accuracy of a quantized program may be below that of the module in floating point, 0 to 1."),
    },
    test = True,
)

def firmware_test(name, model, boards, size = "small", tags = [], **kwargs):
    """Tests a model's firmware on emulated boards.

    Creates `<name>_<board>` per board, from the image `<name>_<board>.image`, and the suite `<name>`. A crash, a hang, a
    wrong output, an arena that isn't used to the planned byte or a missing PASS fails the test, with the console shown.

    Args:
      name: name of the test suite.
      model: the torch_program.
      boards: labels of boards with an emulator.
      size: Bazel's test size of each test.
      tags: tags of each test.
      **kwargs: `atol`, `rtol`, `min_accuracy`, `max_accuracy_drop` of the comparison.
    """
    tests = []
    for board in boards:
        test = "%s_%s" % (name, Label(board).name)
        torch_firmware(
            name = test + ".image",
            board = board,
            console = "on",
            model = model,
            summary = False,
            tags = ["manual"],
        )
        _firmware_test(name = test, firmware = test + ".image", size = size, tags = tags, **kwargs)
        tests.append(test)
    native.test_suite(name = name, tests = tests)
