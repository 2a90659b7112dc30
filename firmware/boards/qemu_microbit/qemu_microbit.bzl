"""The `qemu_microbit` macro: declares a board of QEMU's machine microbit."""

load("//rules:board.bzl", "board")

visibility(["//firmware/boards/..."])

def qemu_microbit(name, core, description):
    """Declares the machine microbit with a core.

    Its chip is an nRF51822 (nRF51 Series Reference Manual, memory map) with 256 KB of flash and 16 KB of RAM: too few for most models
    and for what their tests exchange with the host, so the emulator gives it more.

    Args:
      name: the board.
      core: the core that images are for: Cortex-M0, or M0+ with the same instructions.
      description: what people call it.
    """
    board(
        name = name,
        clock_hz = 16000000,
        console = {
            "uart": "UART0",
            "baud": "115200",
            "description": "the emulator's first serial port",
        },
        core = core,
        description = description,
        emulator_arguments = [
            "-global",
            "nrf51-soc.flash-size=0x400000",
            "-global",
            "nrf51-soc.sram-size=0x1400000",
        ],
        emulator_machine = "microbit",
        memory = {
            "flash": "0x00000000 4M flash, which the image is loaded to",
            "ram": "0x20000000 4M SRAM",
            "host": "0x20400000 16M SRAM: inputs and outputs of tests, no part of the image",
        },
        deps = ["//firmware/boards/qemu_microbit:support"],
    )
