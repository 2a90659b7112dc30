"""The `torch_firmware` macro: an image, and what a user runs on it."""

load("//rules/private:firmware_commands.bzl", "firmware_commands")
load(":firmware_image.bzl", "firmware_image")

def torch_firmware(name, tags = [], visibility = None, **kwargs):
    """An image, and commands on it.

    Besides the image, `<name>`, these can be run: `<name>.copy -- FOLDER` copies it with its map and reports to where the user
    wants them, `<name>.flash` programs a board, `<name>.gdb` debugs on one, and on a
    board, in the emulator or on the simulator `<name>.monitor` shows the console, `<name>.infer` runs the program on inputs of the
    user's, `<name>.plot` plots its outputs. `<name>.simulate` runs it on the board simulator. `<name>.verify -- IMAGE`
    says whether a file holds the bytes that this tree builds.

    Args:
      name: the image.
      tags: tags of the image.
      visibility: visibility of all.
      **kwargs: attributes of `firmware_image_rule`.
    """
    firmware_image(name = name, tags = tags, visibility = visibility, **kwargs)
    firmware_commands(name, visibility, kwargs.get("testonly"))
