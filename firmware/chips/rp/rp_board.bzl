"""Raspberry Pi's boards with an RP2040 or RP2350: what they have in common."""

load("@rules_cc//cc:cc_library.bzl", "cc_library")
load("//rules:board.bzl", "board")
load("//rules:board_support.bzl", "board_support")
load("//rules:copts.bzl", "COPTS")

def rp_board(name, chip, clock_hz, core, description, flash, ram, uf2_family, deps, srcs = ["board.c"]):
    """A board with flash behind the XIP cache, a 12 MHz crystal, and consoles on UART0 and on USB.

    Args:
      name: the board's name.
      chip: what pyOCD, OpenOCD and the simulator call the chip.
      clock_hz: the system clock.
      core: its core.
      description: one line for people.
      flash: size of the flash on the board.
      ram: size and names of the SRAM, as in "264K SRAM0 to SRAM5".
      uf2_family: the chip's, in the UF2 specification's list of families.
      deps: libraries of the chip.
      srcs: sources of the board, besides rp_board.c.
    """
    board(
        name = name,
        clock_hz = clock_hz,
        console = {
            "uart": "UART0",
            "baud": "115200",
            "pins": "GP0 (TX), GP1 (RX)",
            "description": "a debug probe's or a USB adapter's serial port; also on the board's own USB",
        },
        core = core,
        description = description,
        memory = {
            "flash": "0x10000000 %s application" % flash,
            "ram": "0x20000000 " + ram,
        },
        programmer = {
            "pyocd_target": chip,
            # The chip's, for a board has no probe of its own: the Raspberry Pi Debug Probe speaks CMSIS-DAP.
            "openocd_config": "interface/cmsis-dap.cfg target/%s.cfg" % chip,
        },
        simulator = {
            "chip": chip,
            "xosc_hz": "12000000",
        },
        uf2_family = uf2_family,
        deps = [":support"],
    )
    board_support(
        name = "support",
        srcs = [Label("//firmware/chips/rp:rp_board.c")],
        local_defines = select({
            Label("//firmware:sleep_on"): ["BOARD_SLEEP=1"],
            "//conditions:default": ["BOARD_SLEEP=0"],
        }),
        deps = [":parts"],
    )

    # All but rp_board.c, which tests take with mistakes in it.
    cc_library(
        name = "parts",
        srcs = srcs,
        copts = COPTS,
        target_compatible_with = [Label("@platforms//os:none")],
        deps = [Label("//firmware:board_api")] + deps,
        alwayslink = True,
    )
