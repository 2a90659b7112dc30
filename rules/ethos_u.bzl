"""`ethos_u()`: the NPU of a board."""

# Configurations that Vela knows.
ACCELERATORS = [
    "ethos-u55-32",
    "ethos-u55-64",
    "ethos-u55-128",
    "ethos-u55-256",
    "ethos-u65-256",
    "ethos-u65-512",
    "ethos-u85-128",
    "ethos-u85-256",
    "ethos-u85-512",
    "ethos-u85-1024",
    "ethos-u85-2048",
]

_MEMORY_MODES = ["shared_sram", "sram_only", "dedicated_sram"]
_MEMORIES = ["Sram", "Dram", "OnChipFlash", "OffChipFlash"]

def npu_port(memory, clock_scale, burst_length = 32, read_latency = 32, write_latency = 32, max_reads = 4, max_writes = 4):
    """What is behind a port of an NPU, for Vela's estimates and decisions.

    Args:
      memory: the kind, one of `Sram`, `Dram`, `OnChipFlash` and `OffChipFlash`.
      clock_scale: bandwidth, as a share of the 8 or 16 bytes that the port moves a cycle: a string such as "0.125".
      burst_length: bytes of a burst that the memory likes.
      read_latency: cycles of the NPU until the first byte arrives.
      write_latency: cycles of the NPU.
      max_reads: reads that can be under way at once.
      max_writes: writes that can be under way at once.

    Returns:
      A value for `ethos_u()`.
    """
    if memory not in _MEMORIES:
        fail("npu_port: memory '%s' is unknown; allowed: %s" % (memory, _MEMORIES))
    return {
        "memory": memory,
        "clock_scale": clock_scale,
        "burst_length": burst_length,
        "read_latency": read_latency,
        "write_latency": write_latency,
        "max_reads": max_reads,
        "max_writes": max_writes,
    }

def ethos_u(accelerator, clock_hz, axi0, axi1, arena_bytes, memory_mode = "shared_sram", cache_bytes = 0, base = "", interrupt = 0, secure = True, privileged = True, timeout_ms = 10000):
    """An Ethos-U of a board, for `board(npu = ...)`.

    Args:
      accelerator: configuration of the NPU, such as `ethos-u55-128`: its product and multiply-accumulates a cycle.
      clock_hz: clock of the NPU.
      axi0: `npu_port()` of the first port, that of the SRAM.
      axi1: `npu_port()` of the second port, the memory of the weights.
      arena_bytes: most bytes that the tensors of the NPU may take; a program that needs more fails to build.
      memory_mode: `shared_sram`: tensors behind axi0, weights behind axi1; `sram_only`: both behind axi0;
        `dedicated_sram`: both behind axi1, and the SRAM behind axi0 is the NPU's alone, as a cache.
      cache_bytes: size of that SRAM with `dedicated_sram`.
      base: address of the registers, such as "0x48102000". Without it programs can be built, and images can't.
      interrupt: number of the interrupt.
      secure: whether the NPU's accesses are secure.
      privileged: whether they are privileged.
      timeout_ms: an execution that takes longer fails with an error. The driver counts how often it looks for the end, so it
        is at least that long.

    Returns:
      A value for the attribute `npu` of `board()`.
    """
    if accelerator not in ACCELERATORS:
        fail("ethos_u: accelerator '%s' is unknown; allowed: %s" % (accelerator, ACCELERATORS))
    if memory_mode not in _MEMORY_MODES:
        fail("ethos_u: memory_mode '%s' is unknown; allowed: %s" % (memory_mode, _MEMORY_MODES))
    if memory_mode == "dedicated_sram" and "u55" in accelerator:
        fail("ethos_u: memory_mode 'dedicated_sram' is for Ethos-U65 and U85, whose second port can write; %s can't" % accelerator)
    if (memory_mode == "dedicated_sram") != bool(cache_bytes):
        fail("ethos_u: cache_bytes = %d with memory_mode '%s'; 'dedicated_sram' needs it, and the others have none" % (cache_bytes, memory_mode))
    if timeout_ms <= 0:
        fail("ethos_u: timeout_ms = %d: give the milliseconds that an execution may take" % timeout_ms)
    if base and (not base.startswith("0x") or not base[2:] or [c for c in base[2:].elems() if c not in "0123456789abcdefABCDEF"]):
        fail("ethos_u: base '%s' is no address such as 0x48102000" % base)
    return json.encode({
        "format": "NPU description",
        "version": 1,
        "accelerator": accelerator,
        "memory_mode": memory_mode,
        "clock_hz": clock_hz,
        "ports": {"axi0": axi0, "axi1": axi1},
        "arena_bytes": arena_bytes,
        "cache_bytes": cache_bytes,
        "base": base,
        "interrupt": interrupt,
        "secure": secure,
        "privileged": privileged,
        "timeout_ms": timeout_ms,
    })
