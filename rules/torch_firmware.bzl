"""The `torch_firmware` macro: an image, and commands on it."""

load("//rules/private:firmware_commands.bzl", "firmware_commands")
load(":firmware_image.bzl", "firmware_image")
load(":firmware_prove.bzl", "firmware_prove")

# A layer of each kind, which `.prove` runs on the board after the model.
_KINDS = ["kinds", "kinds_int8"]

def torch_firmware(name, tags = [], visibility = None, **kwargs):
    """Makes an image, and commands on it.

    Besides the image, `<name>`, there are these targets for `bazel run`: `<name>.copy -- FOLDER` copies it with its
    map and reports to a folder, `<name>.flash` programs a board, `<name>.gdb` debugs on one. On a board, in the
    emulator or on the simulator, `<name>.monitor` shows the console, `<name>.infer` runs the program on your
    inputs, and `<name>.plot` plots its outputs, `<name>.live` in a window of the browser. `<name>.simulate` runs it
    on the board simulator. `<name>.verify -- IMAGE` checks whether a file has the bytes that this tree builds, and
    `<name>.prove` runs an image with one model on a board, compares it with PyTorch and writes a report.

    Args:
      name: the image.
      tags: tags of the image.
      visibility: visibility of all targets.
      **kwargs: attributes of `firmware_image_rule`.
    """
    firmware_image(name = name, tags = tags, visibility = visibility, **kwargs)
    testonly = kwargs.get("testonly")
    firmware_commands(name, visibility, testonly)
    for kinds in _KINDS:
        firmware_image(
            name = "%s.%s" % (name, kinds),
            testonly = testonly,
            board = kwargs["board"],
            console = "on",
            model = Label("//models/layers:" + kinds),
            summary = False,
            tags = ["manual"],
            visibility = ["//visibility:private"],
        )
    firmware_prove(
        name = name + ".prove",
        testonly = testonly,
        firmware = name,
        layers = ["%s.%s" % (name, kinds) for kinds in _KINDS],
        tags = ["manual"],
        visibility = visibility,
    )
