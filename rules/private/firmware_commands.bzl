"""The commands that users run on an image."""

load("//rules:firmware_command.bzl", "firmware_command")
load("//rules:firmware_flash.bzl", "firmware_flash")

visibility(["//rules/..."])

# Target suffix -> tool, and its `uses`.
_COMMANDS = {
    "copy": (Label("//tools/commands/copy"), ["files"]),
    "gdb": (Label("//tools/commands/gdb"), ["algorithm"]),
    "infer": (Label("//tools/commands/infer"), ["golden", "qemu"]),
    "live": (Label("//tools/commands/plot:live"), ["golden", "qemu", "report"]),
    "monitor": (Label("//tools/commands/monitor"), ["addr2line", "qemu"]),
    "plot": (Label("//tools/commands/plot"), ["golden", "qemu", "report"]),
    "simulate": (Label("//boardsim:simulate"), []),
    "verify": (Label("//tools/commands/verify"), ["files"]),
}

# The commands for an image whose application is not this project's; it doesn't answer the others.
OWN_APPLICATION = ["copy", "gdb", "monitor", "simulate", "verify"]

def firmware_commands(firmware, visibility, testonly = False, commands = _COMMANDS):
    """Declares `<firmware>.flash`, and `<firmware>.COMMAND` for each of some commands.

    Args:
      firmware: name of the image.
      visibility: visibility of all targets.
      testonly: whether image and commands are for tests only.
      commands: the other commands.
    """
    firmware_flash(
        name = firmware + ".flash",
        testonly = testonly,
        firmware = firmware,
        tags = ["manual"],
        visibility = visibility,
    )
    for suffix in commands:
        tool, uses = _COMMANDS[suffix]
        firmware_command(
            name = "%s.%s" % (firmware, suffix),
            testonly = testonly,
            firmware = firmware,
            tags = ["manual"],
            tool = tool,
            uses = uses,
            visibility = visibility,
        )
