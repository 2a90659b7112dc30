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

# Least values of what counts something.
_LEAST_OF_PORT = {"burst_length": 1, "read_latency": 0, "write_latency": 0, "max_reads": 1, "max_writes": 0}
_LEAST_OF_NPU = {"clock_hz": 1, "arena_bytes": 1, "cache_bytes": 0, "interrupt": 0, "timeout_ms": 1}

def _small_value(values, least):
    for name, value in least.items():
        if type(values[name]) != "int" or values[name] < value:
            return "%s = %r is no whole number from %d on" % (name, values[name], value)
    return None

def _is_share(text):
    """Whether a string is a decimal number above 0 and at most 1."""
    whole, point, fraction = text.partition(".")
    digits = whole + fraction
    if not digits or [c for c in digits.elems() if not c.isdigit()] or (point and not fraction):
        return False
    return int(whole or "0") == (0 if fraction.strip("0") else 1)

def port_error(port):
    """Why a value of `npu_port()` can't be, or None.

    Args:
      port: its arguments, as a dict.
    """
    if port["memory"] not in _MEMORIES:
        return "memory '%s' is unknown; allowed: %s" % (port["memory"], _MEMORIES)
    if type(port["clock_scale"]) != "string" or not _is_share(port["clock_scale"]):
        return "clock_scale %r is no share of the port's bandwidth; allowed: strings above \"0\" up to \"1\", such as \"0.125\"" % port["clock_scale"]
    return _small_value(port, _LEAST_OF_PORT)

def npu_error(npu):
    """Why a value of `ethos_u()` can't be, or None.

    Args:
      npu: its arguments, as a dict.
    """
    mode, axi0, axi1 = npu["memory_mode"], npu["axi0"], npu["axi1"]
    if npu["accelerator"] not in ACCELERATORS:
        return "accelerator '%s' is unknown; allowed: %s" % (npu["accelerator"], ACCELERATORS)
    if mode not in _MEMORY_MODES:
        return "memory_mode '%s' is unknown; allowed: %s" % (mode, _MEMORY_MODES)
    if mode == "dedicated_sram" and "u55" in npu["accelerator"]:
        return "memory_mode 'dedicated_sram' is for Ethos-U65 and U85, whose second port can write; %s can't" % npu["accelerator"]
    if (mode == "dedicated_sram") != bool(npu["cache_bytes"]):
        return "cache_bytes = %d with memory_mode '%s'; 'dedicated_sram' needs it, and the others have none" % (npu["cache_bytes"], mode)
    if axi0["memory"] != "Sram":
        return "axi0 has the memory '%s'; allowed: 'Sram', in which Vela keeps tensors, or with 'dedicated_sram' its cache" % axi0["memory"]
    if mode == "dedicated_sram" and axi1["memory"] not in ("Sram", "Dram"):
        return "axi1 has the memory '%s' with memory_mode 'dedicated_sram', whose tensors lie there; allowed: 'Sram', 'Dram'" % axi1["memory"]
    if axi0["memory"] == axi1["memory"] and axi0 != axi1:
        return "axi0 and axi1 have the memory '%s' with other values each; Vela knows one set of values for a kind of memory" % axi0["memory"]
    base = npu["base"]
    if base and (not base.startswith("0x") or not base[2:] or [c for c in base[2:].elems() if c not in "0123456789abcdefABCDEF"]):
        return "base '%s' is no address such as 0x48102000" % base
    return _small_value(npu, _LEAST_OF_NPU)

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
    values = {
        "accelerator": accelerator,
        "memory_mode": memory_mode,
        "clock_hz": clock_hz,
        "arena_bytes": arena_bytes,
        "cache_bytes": cache_bytes,
        "base": base,
        "interrupt": interrupt,
        "secure": secure,
        "privileged": privileged,
        "timeout_ms": timeout_ms,
    }
    error = npu_error(values | {"axi0": axi0, "axi1": axi1})
    if error:
        fail("ethos_u: " + error)
    return json.encode(values | {
        "format": "NPU description",
        "version": 1,
        "ports": {"axi0": axi0, "axi1": axi1},
    })
