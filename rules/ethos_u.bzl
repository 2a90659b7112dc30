"""`ethos_u()`: the NPU of a board."""

load("//rules/private:npu_errors.bzl", "npu_error", "port_error")

def npu_port(memory, clock_scale, burst_length = 32, read_latency = 32, write_latency = 32, max_reads = 4, max_writes = 4):
    """Describes the memory behind a port of an NPU, for Vela's estimates and decisions.

    Args:
      memory: the kind, one of `Sram`, `Dram`, `OnChipFlash` and `OffChipFlash`.
      clock_scale: bandwidth, as a share of the 8 or 16 bytes that the port moves per cycle: a string such as "0.125".
      burst_length: bytes of an efficient burst.
      read_latency: cycles of the NPU until the first byte arrives.
      write_latency: cycles of the NPU.
      max_reads: the most concurrent reads.
      max_writes: the most concurrent writes.

    Returns:
      A value for `ethos_u()`.
    """
    port = {
        "memory": memory,
        "clock_scale": clock_scale,
        "burst_length": burst_length,
        "read_latency": read_latency,
        "write_latency": write_latency,
        "max_reads": max_reads,
        "max_writes": max_writes,
    }
    error = port_error(port)
    if error:
        fail("npu_port: " + error)
    return port

def ethos_u(accelerator, clock_hz, axi0, axi1, arena_bytes, memory_mode = "shared_sram", arena_memory = "ram", cache_bytes = 0, cache_memory = "", base = "", interrupt = 0, secure = True, privileged = True, timeout_ms = 10000):
    """Describes an Ethos-U of a board, for `board(npu = ...)`.

    Args:
      accelerator: configuration of the NPU, such as `ethos-u55-128`: its product and multiply-accumulates per cycle.
      clock_hz: clock of the NPU.
      axi0: `npu_port()` of the first port, that of the SRAM.
      axi1: `npu_port()` of the second port, the memory of the weights.
      arena_bytes: the most bytes for the NPU's tensors; a program that needs more fails to build.
      memory_mode: `shared_sram`: tensors behind axi0, weights behind axi1; `sram_only`: both behind axi0;
        `dedicated_sram`: both behind axi1, and the NPU uses the SRAM behind axi0 as a cache of its own.
      arena_memory: region of the board's `memory` for the tensors of images. Weights and commands are in its `flash`.
      cache_bytes: size of the SRAM of `dedicated_sram`.
      cache_memory: region of the board's `memory` with that SRAM. Without it, only programs can be built, but no
        images.
      base: address of the registers, such as "0x48102000". Without it, only programs can be built, but no images.
      interrupt: number of the interrupt.
      secure: whether the NPU's accesses are secure.
      privileged: whether they are privileged.
      timeout_ms: an execution that takes longer fails with an error. A polling driver counts its reads of the status,
        so that its timeout is at least that long; one that waits for the interrupt by `ethos_u_wait()` waits no longer.

    Returns:
      A value for `npu` of `board()`.
    """
    values = {
        "accelerator": accelerator,
        "memory_mode": memory_mode,
        "clock_hz": clock_hz,
        "arena_bytes": arena_bytes,
        "arena_memory": arena_memory,
        "cache_bytes": cache_bytes,
        "cache_memory": cache_memory,
        "base": base,
        "interrupt": interrupt,
        "secure": secure,
        "privileged": privileged,
        "timeout_ms": timeout_ms,
    }
    error = npu_error(values | {"axi0": axi0, "axi1": axi1})
    if error:
        fail("ethos_u: " + error)
    return values | {
        "format": "NPU description",
        "version": 1,
        "ports": {"axi0": axi0, "axi1": axi1},
    }
