"""QEMU's machine mps3-an547: what its boards have in common, with or without an NPU."""

load("//rules:board.bzl", "board")

def mps3_an547(name, description, memory = {}, **kwargs):
    """A board on this machine.

    Memory: Application Note AN547 (DAI 0547), memory map: secure aliases. The ITCM, at whose vector table the core would
    start, has 512 KB: too few for some models with the data of their tests.

    Args:
      name: the board's name.
      description: one line for people.
      memory: further regions of memory, or others for these, as `board` takes them.
      **kwargs: further attributes of `board`.
    """
    board(
        name = name,
        clock_hz = 32000000,
        console = {
            "uart": "UART0",
            "baud": "115200",
            "description": "the emulator's first serial port",
        },
        core = "cortex_m55",
        description = description,
        emulator_arguments = [
            "-device",
            "loader,addr={entry},cpu-num=0",
        ],
        emulator_machine = "mps3-an547",
        memory = {
            "flash": "0x11000000 2M SRAM, which the image is loaded to",
            "ram": "0x31000000 4M internal SRAM",
            "host": "0x70000000 16M DDR4: inputs and outputs of tests, no part of the image",
        } | memory,
        deps = [Label("//firmware/boards/mps3_an547:support")],
        **kwargs
    )
