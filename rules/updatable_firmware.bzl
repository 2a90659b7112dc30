"""The `updatable_firmware` macro: an image that takes signed programs."""

load(":firmware_command.bzl", "firmware_command")
load(":torch_firmware.bzl", "torch_firmware")

def updatable_firmware(name, settings, visibility = None, testonly = None, **kwargs):
    """Makes an image that runs its program or a newer one that was signed, and commands on it.

    `bazel run <name>.update -- FILE` sends a `signed_program` over the console; the board then runs it. The runtime loads
    programs on the device: they call the kernels of the image's own program, and have its inputs and outputs. docs/update.md.

    Args:
      name: the image.
      settings: the `update_settings`.
      visibility: visibility of all targets.
      testonly: whether image and commands are for tests only.
      **kwargs: attributes of `torch_firmware`, but `srcs`, `deps` and `engine`.
    """
    torch_firmware(
        name = name,
        srcs = [Label("//firmware/update:application.cpp")],
        engine = "loaded",
        testonly = testonly,
        visibility = visibility,
        deps = [settings, Label("//firmware/update:application_deps")],
        **kwargs
    )
    firmware_command(
        name = name + ".update",
        firmware = name,
        tags = ["manual"],
        testonly = testonly,
        tool = Label("//tools/commands/update"),
        visibility = visibility,
    )
