"""The `board_npu` rule: the NPU of a board, as a value of the build setting //rules:npu."""

load("//rules/private:memory_regions.bzl", "check_npu_regions", "memory_regions")
load(":providers.bzl", "NpuInfo")

def _write_device(ctx, npu):
    """Writes `npu_device.cpp`, which defines the NPU for firmware/ethos_u/driver.h.

    Args:
      ctx: rule context.
      npu: dict, a result of `ethos_u()`.

    Returns:
      (File or None, str: why there is no file)
    """
    board = ctx.label.name.removesuffix(".npu")
    if not npu["base"]:
        return None, "board %s doesn't say where it is; give base to its ethos_u()" % board
    if npu["memory_mode"] == "dedicated_sram" and not npu["cache_memory"]:
        return None, "board %s doesn't say where the SRAM of memory_mode 'dedicated_sram' is; give cache_memory to its ethos_u()" % board
    regions = memory_regions(ctx.label, ctx.attr.memory)
    check_npu_regions(ctx.label, npu, regions)
    cache = regions[npu["cache_memory"]]["origin"] if npu["cache_memory"] else 0

    # REGIONCFG (weights, tensors, fast tensors) and QCONFIG: 0 and 1 are memory behind the first port, 2 and 3 behind
    # the second one. The memory's type is normal, non-cacheable and bufferable (3).
    places = {"shared_sram": [2, 0, 0], "sram_only": [0, 0, 0], "dedicated_sram": [2, 2, 0]}[npu["memory_mode"]]
    memory = []
    for number, port in enumerate(["axi0", "axi0", "axi1", "axi1"]):
        values = npu["ports"][port]
        if npu["accelerator"].startswith("ethos-u85"):
            memory.append("0x%x" % (number // 2 << 2 | 3 << 4))
        else:
            beats = {64: 0, 128: 1, 256: 2}.get(values["burst_length"], 0)
            memory.append("0x%x" % (beats | 3 << 4 | max(values["max_reads"] - 1, 0) << 16 | max(values["max_writes"] - 1, 0) << 24))
    source = ctx.actions.declare_file(ctx.label.name + "/npu_device.cpp")
    ctx.actions.write(source, """#include "firmware/ethos_u/driver.h"

namespace torch_fusion::ethos_u {{

// The board {board} has these: base, interrupt, REGIONCFG, QCONFIG, memory, protection, wait_limit, timeout_ms,
// cache, cache_size.
extern const Device kDevice = {{{base}, {interrupt}, {regions}, {queue}, {{{memory}}}, {protection}, {wait_limit}, {timeout_ms}, {cache}, {cache_size}}};

}} // namespace torch_fusion::ethos_u
""".format(
        board = board,
        base = npu["base"],
        interrupt = npu["interrupt"],
        regions = "0x%x" % (places[0] | places[1] << 2 | places[2] << 4),
        queue = places[0],
        memory = ", ".join(memory),
        protection = (1 if npu["privileged"] else 0) | (0 if npu["secure"] else 2),
        timeout_ms = npu["timeout_ms"],
        cache = "0x%x" % cache,
        cache_size = npu["cache_bytes"],
        # Reading STATUS takes at least 8 cycles of the core.
        wait_limit = min(ctx.attr.clock_hz // 8000 * npu["timeout_ms"], 0xffffffff),
    ))
    return source, ""

def _board_npu_impl(ctx):
    if not ctx.attr.description:
        return [NpuInfo(accelerator = "", values = None, description = None, device = None, problem = "the board has no NPU")]
    description = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(description, ctx.attr.description + "\n")
    npu = json.decode(ctx.attr.description)
    device, problem = _write_device(ctx, npu)
    return [
        DefaultInfo(files = depset([description])),
        NpuInfo(accelerator = npu["accelerator"], values = npu, description = description, device = device, problem = problem),
    ]

board_npu = rule(
    implementation = _board_npu_impl,
    doc = "The NPU of a board; every `board()` has one, `<name>.npu`.",
    attrs = {
        "description": attr.string(doc = "The value of `ethos_u()`, as JSON; empty for a board without an NPU."),
        "clock_hz": attr.int(doc = "Clock of the board's core, by which its driver waits."),
        "memory": attr.string_dict(doc = "The board's memory, of which the NPU's description names regions."),
    },
    provides = [NpuInfo],
)
