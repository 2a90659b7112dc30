"""The `firmware_test` macro: an image on emulated and simulated boards, compared with PyTorch."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("//rules/private:emulator.bzl", "EMULATOR_ATTRS", "emulator_arguments", "environment_arguments")
load(":firmware_flash.bzl", "flash_arguments")
load(":firmware_image.bzl", "firmware_image")
load(":launcher.bzl", "create_launcher")
load(":providers.bzl", "FirmwareInfo")

def _probes_of(ctx, board):
    """Returns the probes of a board by --//firmware:probes or --//firmware:pool, as arguments of //tools/commands/on_board."""
    arguments = []
    if not ctx.attr.on_board:
        return arguments
    for entry in ctx.attr._probes[BuildSettingInfo].value:
        name, _, probe = entry.partition("=")
        if not name or not probe.partition("@")[0]:
            fail("--//firmware:probes: \"%s\" is no BOARD=PROBE or BOARD=PROBE@PORT, such as nucleo_wb55rg=066DFF49" % entry)
        if name == board.name:
            arguments += ["--probe", probe]
    return arguments or (["--probe", "any"] if _is_in_pool(ctx, board) else [])

def _is_in_pool(ctx, board):
    return board.name in ctx.attr._pool[BuildSettingInfo].value

def _firmware_test_impl(ctx):
    firmware = ctx.attr.firmware[FirmwareInfo]
    board = firmware.board
    probes = _probes_of(ctx, board)
    if probes:
        tool, arguments = ctx.attr.on_board, environment_arguments(ctx) + probes + flash_arguments(firmware)
    elif board.emulated:
        tool, arguments = ctx.attr._emulate, emulator_arguments(ctx)
    elif board.simulated:
        tool, arguments = ctx.attr._simulate, environment_arguments(ctx)
    else:
        fail("%s: board %s can't be tested here; use one with emulator_machine or simulator set" % (ctx.label, board.name))
    arguments += ["--test", "--atol", ctx.attr.atol, "--rtol", ctx.attr.rtol]

    # The whole evaluation set in the emulator, samples of it on a simulated board.
    if ctx.attr.min_accuracy:
        arguments += ["--min-accuracy", ctx.attr.min_accuracy]
    if ctx.attr.max_accuracy_drop:
        arguments += ["--max-accuracy-drop", ctx.attr.max_accuracy_drop]
    launcher = create_launcher(ctx, tool, arguments, [])

    # A board's result is not of files alone, and the board is on this machine unless a pool has it.
    place = {} if _is_in_pool(ctx, board) else {"local": ""}
    return [launcher, testing.ExecutionInfo({"no-cache": "", "external": ""} | place)] if probes else [launcher]

firmware_image_test = rule(
    implementation = _firmware_test_impl,
    doc = """Runs one image and compares its outputs with the eager module's: in QEMU on all golden inputs, or, on a board
that //boardsim simulates, the very image that gets flashed on some of them; accuracies are then those of the samples.
With --//firmware:environment=board the boards that --//firmware:probes names run it themselves.""",
    attrs = EMULATOR_ATTRS | {
        "atol": attr.string(default = "1e-5", doc = "Absolute tolerance of an output element."),
        "rtol": attr.string(default = "1e-5", doc = "Relative tolerance of an output element."),
        "on_board": attr.label(executable = True, cfg = "exec", doc = "The tool that runs the image on a real board, where --//firmware:environment=board."),
        "_pool": attr.label(default = "//firmware:pool"),
        "_probes": attr.label(default = "//firmware:probes"),
        "_simulate": attr.label(default = "//boardsim:simulate", executable = True, cfg = "exec"),
        "min_accuracy": attr.string(doc = "Least share of evaluation samples classified right, 0 to 1; needs a model with evaluation_set()."),
        "max_accuracy_drop": attr.string(doc = "The largest permitted loss of accuracy of a quantized program against the floating-point module, 0 to 1."),
    },
    test = True,
)

def firmware_test(name, model = None, boards = [], nightly_boards = [], models = None, method = "forward", srcs = None, copts = [], deps = [], engine = "auto", size = "small", tags = [], **kwargs):
    """Tests a model's firmware on emulated and simulated boards.

    Creates `<name>_<board>` per board, from the image `<name>_<board>.image`, and the suite `<name>`. A crash, a hang, a
    wrong output, an arena that isn't used to the planned byte or a missing PASS fails the test, with the console shown.
    On a simulated board a mistake that the hardware notices fails it, too, such as a clock that is set up in the wrong order.
    With `--@torch_fusion//firmware:environment=board` and `--@torch_fusion//firmware:probes=BOARD=PROBE` the tests of that
    board program it, run on it, one at a time for each probe, and compare more samples. With `--@torch_fusion//firmware:pool=BOARD`
    remote execution gives them to workers with the platform property `board`.

    Args:
      name: name of the test suite.
      model: the torch_program.
      boards: labels of boards with an emulator or a simulator.
      nightly_boards: further ones, in tests of their own suite `<name>_nightly`, which have the tags `manual` and `nightly`.
      models: instead of `model`: several in one image, with the usual application; each is chosen and compared.
      method: as of torch_firmware.
      srcs: an application of your own; None: the usual one. In QEMU it takes its inputs from firmware/host.h, on
        a simulated board it runs the program on the embedded example and ends with PASS on its console.
      copts: as of torch_firmware.
      deps: as of torch_firmware.
      engine: as of torch_firmware.
      size: Bazel's test size of each test.
      tags: tags of the suite and of each test.
      **kwargs: `atol`, `rtol`, `min_accuracy`, `max_accuracy_drop` of the comparison.
    """
    if not boards:
        fail("//%s:%s: boards is empty; name at least one board" % (native.package_name(), name))
    if bool(model) == bool(models):
        fail("//%s:%s: give either model or models" % (native.package_name(), name))
    tests = {"": [], "_nightly": []}
    for board in boards + nightly_boards:
        suite, test_tags = ("", tags) if board in boards else ("_nightly", tags + ["manual", "nightly"])
        test = "%s_%s" % (name, Label(board).name)
        firmware_image(
            name = test + ".image",
            board = board,
            console = "on",
            method = method,
            engine = engine,
            summary = False,
            tags = ["manual"],
            copts = copts,
            deps = deps,
            **(({"models": models} if models else {"model": model}) | ({"srcs": srcs} if srcs else {}))
        )
        firmware_image_test(
            name = test,
            size = size,
            firmware = test + ".image",
            exec_properties = select({
                native.package_relative_label(board).same_package_label(Label(board).name + ".in_pool"): {"test.board": Label(board).name},
                "//conditions:default": {},
            }),
            # Only then is pyOCD fetched.
            on_board = select({
                Label("//firmware:on_boards"): Label("//tools/commands/on_board"),
                "//conditions:default": None,
            }),
            tags = test_tags,
            **kwargs
        )
        tests[suite].append(test)
    native.test_suite(name = name, tags = tags, tests = tests[""])
    if nightly_boards:
        native.test_suite(name = name + "_nightly", tags = tags + ["manual"], tests = tests["_nightly"])
