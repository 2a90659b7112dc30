"""QEMU's machines after Arm's MPS2 boards: what their boards have in common."""

load("//rules:board.bzl", "board")
load("//rules:board_support.bzl", "board_support")

def mps2_board(name, core, description, flash, ram, host, timer0, uart0, clock_hz = 25000000, machine = "", support = "", **kwargs):
    """A board on a machine whose timer and UART are those of the Cortex-M System Design Kit.

    Args:
      name: the board's name.
      core: its core.
      description: one line for people.
      flash: where SSRAM1 begins, which the image is loaded to.
      ram: where SSRAM2 begins, which SSRAM3 follows.
      host: where the PSRAM's part begins that inputs and outputs of tests are in.
      timer0: where timer 0 is.
      uart0: where UART 0 is.
      clock_hz: the system clock, which both have.
      machine: QEMU's; by default that of the board's name, with hyphens.
      support: the library that its images link, another board's on that machine; by default `:support`, which this
          makes.
      **kwargs: further attributes of `board`.
    """
    board(
        name = name,
        clock_hz = clock_hz,
        console = {
            "uart": "UART0",
            "baud": "115200",
            "description": "the emulator's first serial port",
        },
        core = core,
        description = description,
        emulator_machine = machine or name.replace("_", "-"),
        memory = {
            "flash": flash + " 4M SSRAM1, which the image is loaded to",
            "ram": ram + " 4M SSRAM2 and SSRAM3",
            "host": host + " 16M PSRAM: inputs and outputs of tests, no part of the image",
        },
        deps = [support or ":support"],
        **kwargs
    )
    if support:
        return
    board_support(
        name = "support",
        srcs = [Label("//firmware/chips/mps2:cmsdk_board.c")],
        local_defines = [
            "CLOCK_HZ=%d" % clock_hz,
            "TIMER0=%su" % timer0,
            "UART0=%su" % uart0,
        ],
        semihosting = True,
        deps = [
            Label("//firmware/chips/mps2:board"),
            Label("//firmware/chips/mps2:cmsdk"),
        ],
    )
