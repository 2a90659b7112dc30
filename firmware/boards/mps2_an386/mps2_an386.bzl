"""QEMU's machine mps2-an386: what its boards have in common, with or without an NPU."""

load("//firmware/chips/mps2:mps2_board.bzl", "mps2_board")

def mps2_an386(name, description, **kwargs):
    """A board on this machine. Memory: Application Note AN386 (DAI 0386D), memory map.

    Args:
      name: the board's name.
      description: one line for people.
      **kwargs: further attributes of `mps2_board`.
    """
    mps2_board(
        name = name,
        core = "cortex_m4",
        description = description,
        flash = "0x00000000",
        host = "0x21000000",
        machine = "mps2-an386",
        ram = "0x20000000",
        timer0 = "0x40000000",
        uart0 = "0x40004000",
        **kwargs
    )
