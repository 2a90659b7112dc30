"""The memory of a board: its regions, and those that its NPU uses."""

visibility(["//rules/..."])

_UNITS = {"K": 1024, "M": 1024 * 1024}

def parse_number(label, what, text):
    """Reads `0x...`, decimal, or decimal with a K or M suffix.

    Args:
      label: the target's label, for messages.
      what: the number's name, for messages.
      text: str.

    Returns:
      int
    """
    digits, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    hexadecimal = digits.startswith("0x")
    alphabet = "0123456789abcdefABCDEF" if hexadecimal else "0123456789"
    body = digits[2:] if hexadecimal else digits
    if not body or [c for c in body.elems() if c not in alphabet]:
        fail("%s: %s: '%s' is not a number; use 0x20000000, 4096, 192K or 1M" % (label, what, text))
    return int(digits, 16 if hexadecimal else 10) * unit

def _memory_region(label, name, text):
    origin, _, rest = text.partition(" ")
    length, _, use = rest.partition(" ")
    if not length:
        fail("%s: memory region '%s' is '%s'; give its origin, its length and, if it has one, its use: '0x20000000 192K SRAM1'" % (label, name, text))
    return {
        "name": name,
        "origin": parse_number(label, "origin of " + name, origin),
        # A unit after a space would be taken for the use, and the region for one of a few bytes.
        "length": parse_number(label, "length of " + name, rest if use in ["B", "K", "KB", "KiB", "M", "MB", "MiB"] else length),
        "use": use,
    }

def memory_regions(label, memory):
    """Reads the attribute `memory` of a board.

    Args:
      label: the board's label, for messages.
      memory: dict of a region's name to its origin, length and use, between spaces.

    Returns:
      dict of names to dicts with name, origin, length and use
    """
    regions = {name: _memory_region(label, name, values) for name, values in memory.items()}
    for needed in ["flash", "ram"]:
        if needed not in regions:
            fail("%s: memory has no region '%s'; it has %s" % (label, needed, sorted(regions.keys())))
    return regions

def check_npu_regions(label, npu, regions):
    """Fails for memory regions that an NPU's description names, but the board lacks.

    Args:
      label: the board's label, for messages.
      npu: dict, a result of `ethos_u()`.
      regions: result of memory_regions().
    """
    for attribute in ["arena_memory", "cache_memory"]:
        name = npu[attribute]
        others = [other for other in sorted(regions) if other != "flash" and (other != "ram" or attribute == "arena_memory")]
        if name and name not in others:
            fail("%s: %s '%s' of its ethos_u() is none of its regions of memory; allowed: %s" % (label, attribute, name, others))
    cache = npu["cache_memory"]
    if not cache:
        return
    if cache == npu["arena_memory"]:
        fail("%s: cache_memory and arena_memory of its ethos_u() are both '%s'; the cache is a memory of its own" % (label, cache))
    if regions[cache]["length"] < npu["cache_bytes"]:
        fail("%s: cache_bytes = %d of its ethos_u() are more than the %d bytes of '%s'" % (label, npu["cache_bytes"], regions[cache]["length"], cache))
