"""Checks the arguments of `ethos_u()` and `npu_port()`."""

# The configurations that Vela supports.
_ACCELERATORS = [
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

# The memories that Vela supports behind axi1, by memory mode; it only allows weights in SRAM with `sram_only`.
_BEHIND_AXI1 = {
    "shared_sram": ["Dram", "OnChipFlash", "OffChipFlash"],
    "sram_only": _MEMORIES,
    "dedicated_sram": ["Dram"],
}

# The smallest values of numbers.
_LEAST_OF_PORT = {"burst_length": 1, "read_latency": 0, "write_latency": 0, "max_reads": 1, "max_writes": 0}
_LEAST_OF_NPU = {"clock_hz": 1, "arena_bytes": 1, "cache_bytes": 0, "interrupt": 0, "timeout_ms": 1}

def _small_value(values, least):
    for name, value in least.items():
        if type(values[name]) != "int" or values[name] < value:
            return "%s = %r is no whole number from %d on" % (name, values[name], value)
    return None

def _is_share(text):
    """Returns whether a string is a decimal number above 0 and at most 1."""
    whole, point, fraction = text.partition(".")
    digits = whole + fraction
    if not digits or [c for c in digits.elems() if not c.isdigit()] or (point and not fraction):
        return False
    return int(whole or "0") == (0 if fraction.strip("0") else 1)

def port_error(port):
    """Explains why a value of `npu_port()` is invalid; returns None if it is valid.

    Args:
      port: its arguments, as a dict.
    """
    if port["memory"] not in _MEMORIES:
        return "memory '%s' is unknown; allowed: %s" % (port["memory"], _MEMORIES)
    if type(port["clock_scale"]) != "string" or not _is_share(port["clock_scale"]):
        return "clock_scale %r is no share of the port's bandwidth; allowed: strings above \"0\" up to \"1\", such as \"0.125\"" % port["clock_scale"]
    return _small_value(port, _LEAST_OF_PORT)

def npu_error(npu):
    """Explains why a value of `ethos_u()` is invalid; returns None if it is valid.

    Args:
      npu: its arguments, as a dict.
    """
    mode, axi0, axi1 = npu["memory_mode"], npu["axi0"], npu["axi1"]
    if npu["accelerator"] not in _ACCELERATORS:
        return "accelerator '%s' is unknown; allowed: %s" % (npu["accelerator"], _ACCELERATORS)
    if mode not in _MEMORY_MODES:
        return "memory_mode '%s' is unknown; allowed: %s" % (mode, _MEMORY_MODES)
    if mode == "dedicated_sram" and "u55" in npu["accelerator"]:
        return "memory_mode 'dedicated_sram' is for Ethos-U65 and U85, whose second port can write; %s can't" % npu["accelerator"]
    if (mode == "dedicated_sram") != bool(npu["cache_bytes"]):
        return "cache_bytes = %d with memory_mode '%s'; 'dedicated_sram' needs it, and the others have none" % (npu["cache_bytes"], mode)
    if npu["cache_memory"] and mode != "dedicated_sram":
        return "cache_memory = '%s' with memory_mode '%s'; only 'dedicated_sram' has one" % (npu["cache_memory"], mode)
    if axi0["memory"] != "Sram":
        return "axi0 has the memory '%s'; allowed: 'Sram', in which Vela keeps tensors, or with 'dedicated_sram' its cache" % axi0["memory"]
    if axi1["memory"] not in _BEHIND_AXI1[mode]:
        return "axi1 has the memory '%s' with memory_mode '%s'; allowed: %s" % (axi1["memory"], mode, _BEHIND_AXI1[mode])
    if axi0["memory"] == axi1["memory"] and axi0 != axi1:
        return "axi0 and axi1 have the memory '%s' with other values each; Vela knows one set of values for a kind of memory" % axi0["memory"]
    base = npu["base"]
    if base and (not base.startswith("0x") or not base[2:] or [c for c in base[2:].elems() if c not in "0123456789abcdefABCDEF"]):
        return "base '%s' is no address such as 0x48102000" % base
    return _small_value(npu, _LEAST_OF_NPU)
