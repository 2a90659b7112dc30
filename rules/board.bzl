"""The `board` rule: one definition from which all board-specific artifacts derive."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//platforms:cores.bzl", "CORES", "core_name")
load("//rules/private:memory_regions.bzl", "check_npu_regions", "memory_regions", "parse_number")
load(":board_npu.bzl", "board_npu")
load(":providers.bzl", "BoardInfo", "NpuInfo")

def _describe(ctx, folder, regions, npu, arena_memory = ""):
    """Writes the definition and the linker script; returns both Files.

    Args:
      ctx: rule context.
      folder: where they are, below the package.
      regions: the board's memories.
      npu: its NPU.
      arena_memory: the region with the memory of models, unless it is `ram` or the NPU's.
    """
    description = ctx.actions.declare_file(folder + "/board.json")
    optional = {"prove_settings": _prove_settings(ctx), "arena_memory": arena_memory, "arena_memories": ctx.attr.arena_memories}
    ctx.actions.write(description, json.encode_indent({
        # Read by tools/artifacts/board.
        "format": "board definition",
        "version": 1,
        "name": ctx.label.name,
        "description": ctx.attr.description,
        "core": core_name(ctx.attr.core),
        "flash": regions["flash"],
        "ram": regions["ram"],
        "reserved": [regions[name] for name in sorted(regions) if name not in ["flash", "ram"]],
        "clock_hz": ctx.attr.clock_hz,
        "stack_size": parse_number(ctx.label, "stack_size", ctx.attr.stack_size),
        "console": ctx.attr.console,
        "programmer": ctx.attr.programmer or None,
        "emulator": {
            "machine": ctx.attr.emulator_machine,
            "arguments": ctx.attr.emulator_arguments,
            # SysTick counts at the emulated clock, which -icount advances by 2**shift nanoseconds per instruction.
            "clock_hz": ctx.attr.clock_hz,
        } if ctx.attr.emulator_machine else None,
        "simulator": ctx.attr.simulator or None,
        "uf2_family": parse_number(ctx.label, "uf2_family", ctx.attr.uf2_family) if ctx.attr.uf2_family else None,
        "npu": npu,
    } | {name: value for name, value in optional.items() if value}, indent = "  ") + "\n")

    linker_script = ctx.actions.declare_file(folder + "/linker.ld")
    arguments = ctx.actions.args()
    arguments.add("--board", description)
    arguments.add("--output", linker_script)
    ctx.actions.run(
        executable = ctx.executable._linker_script,
        arguments = [arguments],
        inputs = [description],
        outputs = [linker_script],
        mnemonic = "LinkerScript",
        progress_message = "Generating the linker script of %{label}",
    )
    return description, linker_script

def _board_impl(ctx):
    regions = memory_regions(ctx.label, ctx.attr.memory)
    npu = ctx.attr.npu[NpuInfo].values
    if npu:
        check_npu_regions(ctx.label, npu, regions)

    driver = [ctx.attr.flash_driver] if ctx.attr.flash_driver else []
    description, linker_script = _describe(ctx, ctx.label.name, regions, npu)
    for memory in ctx.attr.arena_memories:
        if npu or memory not in regions or memory in ["flash", "ram"]:
            fail("%s: arena_memories: '%s' is no other memory than flash and ram, of a board without an NPU; it has %s" % (ctx.label, memory, sorted(regions)))
    arenas = {
        memory: _describe(ctx, "%s/%s" % (ctx.label.name, memory), regions, npu, memory)
        for memory in ctx.attr.arena_memories
    }
    return [
        DefaultInfo(files = depset([description, linker_script])),
        cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps + driver]),
        BoardInfo(
            name = ctx.label.name,
            core = core_name(ctx.attr.core),
            description = description,
            linker_script = linker_script,
            arenas = arenas,
            emulated = bool(ctx.attr.emulator_machine),
            simulated = bool(ctx.attr.simulator),
            flash_algorithm = ctx.file.flash_algorithm,
            takes_updates = bool(driver),
            clock_hz = ctx.attr.clock_hz,
            npu = npu,
            uf2_family = ctx.attr.uf2_family,
        ),
    ]

def _prove_settings(ctx):
    """Returns the changes of each setting: lists of address, mask and value."""
    result = {}
    for name, text in ctx.attr.prove_settings.items():
        changes = [change.strip().split(" ") for change in text.split(";")]
        if [change for change in changes if len(change) != 3]:
            fail("%s: prove_settings: '%s' is '%s'; give an address, a mask and a value of each change: '0x58004000 0x100 0'" % (ctx.label, name, text))
        result[name] = [[parse_number(ctx.label, "prove_settings", number) for number in change] for change in changes]
    return result

board_rule = rule(
    implementation = _board_impl,
    doc = "See the macro `board`.",
    attrs = {
        "description": attr.string(mandatory = True, doc = "One line of description: product name, chip, core."),
        "core": attr.string(mandatory = True, doc = "The core, one of those in docs/boards.md."),
        "memory": attr.string_dict(
            mandatory = True,
            doc = """Memory regions: name -> `"0x20000000 192K SRAM1"`, which is origin, length and use, or without the use. Images use `flash` and `ram`.
Other regions are reserved, for `ethos_u()` if it names them, or only documented. Numbers: 0x20000000, 4096, 192K, 1M.
""",
        ),
        "arena_memories": attr.string_list(
            doc = "Regions besides `ram` that are ready for use when an image starts: a torch_firmware may have its arenas there, by `arena_memories`.",
        ),
        "clock_hz": attr.int(mandatory = True, doc = "The core's clock in Hz after start-up, which is also SysTick's."),
        "stack_size": attr.string(default = "4K", doc = "Bytes reserved for the stack."),
        "console": attr.string_dict(doc = "Console: `uart`, `baud`, `pins`, `description`."),
        "programmer": attr.string_dict(doc = "Flash programming: `pyocd_target`, `openocd_config` (files, separated by spaces); empty for a board that only exists in an emulator."),
        "prove_settings": attr.string_dict(
            doc = """Settings of flash and clock that `.prove` measures beside the usual one: name -> `"0x58004000 0x100 0"`: address, mask and value of the bits
of a 32-bit register that may be changed while an image runs. Several changes are separated by `;` and are undone in reverse order; the console's baud rate
must remain the same.
""",
        ),
        "flash_algorithm": attr.label(
            allow_single_file = [".elf"],
            doc = "The flash_algorithm with which pyOCD programs the board, if pyOCD has none of its own.",
        ),
        "flash_driver": attr.label(
            providers = [CcInfo],
            doc = "cc_library of the functions of firmware/board_flash.h, which images with `update_settings` need.",
        ),
        "emulator_machine": attr.string(doc = "QEMU's machine name; empty without an emulator."),
        "emulator_arguments": attr.string_list(
            doc = "Further arguments for QEMU; `{entry}` is replaced by the address of the image's first instruction.",
        ),
        "simulator": attr.string_dict(doc = "//boardsim: `chip`, and options of the chip's model; empty if it has no model of the board's chip."),
        "uf2_family": attr.string(doc = "Family ID of the chip's UF2 boot loader, such as 0xe48bff59; empty without one."),
        "npu": attr.label(mandatory = True, providers = [NpuInfo], doc = "The board's NPU. Set by the macro."),
        "deps": attr.label_list(providers = [CcInfo], doc = "cc_library of the board's start-up code, clock, console and fault handler."),
        "_linker_script": attr.label(default = "//tools/pipeline/linker_script", executable = True, cfg = "exec"),
    },
    provides = [BoardInfo, CcInfo],
)

def board(name, core, npu = None, **kwargs):
    """Defines a board, its platform, `<name>.platform`, whose parent is the core's, and `<name>.npu`.

    `<name>.proofs` are the reports of real boards in the folder `proofs`, `<name>.document` the folder's README.md.
    `<name>.in_pool` is the condition that --//firmware:pool has the board.

    Args:
      name: the board's name.
      core: the core, a value of //platforms:core.
      npu: the board's NPU, a value of `ethos_u()`; None without one.
      **kwargs: attributes of `board_rule`.
    """
    if core not in CORES:
        fail("board %s: core '%s' is unknown; allowed: %s" % (name, core, sorted(CORES)))
    native.platform(
        name = name + ".platform",
        parents = [Label("//platforms:" + core)],
        constraint_values = [Label("//platforms:npu_ethos_u")] if npu else [],
    )
    native.config_setting(
        name = name + ".in_pool",
        flag_values = {str(Label("//firmware:pool")): name},
        visibility = ["//visibility:public"],
    )
    board_npu(
        name = name + ".npu",
        description = json.encode(npu) if npu else "",
        clock_hz = kwargs.get("clock_hz"),
        memory = kwargs.get("memory"),
        visibility = ["//visibility:public"],
    )
    for part, files in {"document": "README.md", "proofs": "proofs/*.json"}.items():
        native.filegroup(
            name = name + "." + part,
            srcs = native.glob([files], allow_empty = True),
            visibility = ["//visibility:public"],
        )
    board_rule(
        name = name,
        core = core,
        npu = name + ".npu",
        target_compatible_with = [Label("@platforms//os:none"), Label("//platforms:core_" + core)],
        **kwargs
    )
