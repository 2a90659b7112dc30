"""The NuMaker-M55M1: what the board and its stand-in for the simulator have in common."""

load("//rules:board.bzl", "board")
load("//rules:ethos_u.bzl", "ethos_u", "npu_port")

def numaker_m55m1(name, core, description, **kwargs):
    """A board with the M55M1's memories, peripherals and NPU.

    Memory: M55M1 Series Technical Reference Manual, "System Memory Map", secure addresses. The NPU reaches only banks 0
    and 1 of the SRAM, which are adjacent.

    Args:
      name: the board's name.
      core: the core.
      description: one line for people.
      **kwargs: further attributes of `board`.
    """
    board(
        name = name,
        clock_hz = 220000000,
        console = {
            "uart": "UART0",
            "baud": "115200",
            "pins": "PB13 (TX), PB12 (RX)",
            "description": "the Nu-Link2-Me's virtual COM port",
        },
        core = core,
        description = description,
        memory = {
            "flash": "0x00100000 2M application (APROM)",
            "ram": "0x20100000 1M SRAM0 and SRAM1",
            "sram2": "0x20200000 320K SRAM2, which the NPU does not reach, not used",
            "dtcm": "0x20000000 128K DTCM, not used",
            "itcm": "0x00000000 64K ITCM, not used",
        },
        # The NPU is at 0x40003000, with interrupt 13 and the core's clock. The manual does not give the rates of the
        # buses and the flash: the SRAM has half of the port's rate, and the flash, which has eight wait states at this
        # clock, an eighth.
        npu = ethos_u(
            accelerator = "ethos-u55-256",
            arena_bytes = 768 * 1024,
            axi0 = npu_port(
                clock_scale = "0.5",
                memory = "Sram",
            ),
            axi1 = npu_port(
                burst_length = 16,
                clock_scale = "0.125",
                max_reads = 2,
                max_writes = 0,
                memory = "OnChipFlash",
                read_latency = 64,
                write_latency = 0,
            ),
            base = "0x40003000",
            clock_hz = 220000000,
            interrupt = 13,
        ),
        deps = [Label("//firmware/boards/numaker_m55m1:support")],
        **kwargs
    )
