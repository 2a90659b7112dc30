"""The `torch_firmware` macro: an image, and what a user runs on it."""

load(":firmware_command.bzl", "firmware_command")
load(":firmware_flash.bzl", "firmware_flash")
load(":firmware_image.bzl", "firmware_image")

# Target suffix -> tool, and what it uses.
_COMMANDS = {
    "copy": (Label("//tools/commands/copy"), ["files"]),
    "gdb": (Label("//tools/commands/gdb"), ["algorithm"]),
    "infer": (Label("//tools/commands/infer"), ["qemu"]),
    "monitor": (Label("//tools/commands/monitor"), ["addr2line", "qemu"]),
    "plot": (Label("//tools/commands/plot"), ["qemu"]),
    "simulate": (Label("//boardsim:simulate"), []),
}

def torch_firmware(name, tags = [], visibility = None, **kwargs):
    """An image, and commands on it.

    Besides the image, `<name>`, these can be run: `<name>.copy -- FOLDER` copies it with its map and reports to where the user
    wants them, `<name>.flash` programs a board, `<name>.gdb` debugs on one, and on a
    board, in the emulator or on the simulator `<name>.monitor` shows the console, `<name>.infer` runs the program on inputs of the
    user's, `<name>.plot` plots its outputs. `<name>.simulate` runs it on the board simulator.

    Args:
      name: the image.
      tags: tags of the image.
      visibility: visibility of all.
      **kwargs: attributes of `firmware_image_rule`.
    """
    firmware_image(name = name, tags = tags, visibility = visibility, **kwargs)
    firmware_flash(name = name + ".flash", firmware = name, tags = ["manual"], visibility = visibility)
    for suffix, (tool, uses) in _COMMANDS.items():
        firmware_command(
            name = "%s.%s" % (name, suffix),
            firmware = name,
            tags = ["manual"],
            tool = tool,
            uses = uses,
            visibility = visibility,
        )
