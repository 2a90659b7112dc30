"""Analysis tests of the rules: their providers and error messages."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts", "unittest")
load("@bazel_skylib//rules:write_file.bzl", "write_file")
load("//platforms:cores.bzl", "float_abi_constraints", "float_abi_error", "float_abi_flags")
load("//rules:board_npu.bzl", "board_npu")
load("//rules:defs.bzl", "BoardInfo", "FirmwareInfo", "KernelRegistryInfo", "MemoryPlanInfo", "ProgramDataInfo", "TorchProgramInfo", "board", "cmake_firmware", "exploration_test", "firmware_benchmark", "firmware_budget_test", "firmware_emulate", "firmware_test", "kernel_registry", "pte_program", "quantization", "quantization_report", "torch_cpp_library", "torch_firmware", "torch_operator", "torch_package", "torch_program", "updatable_firmware", "update_settings")
load("//rules:ethos_u.bzl", "ethos_u", "npu_port")
load("//rules/private:file_errors.bzl", "model_error", "program_error")
load("//rules/private:npu_errors.bzl", "npu_error", "port_error")
load("//rules/private:transitions.bzl", "bare_board", "image_options", "no_board")

def _refusal_test_impl(ctx):
    env = analysistest.begin(ctx)
    for message in ctx.attr.messages:
        asserts.expect_failure(env, message)
    return analysistest.end(env)

_refusal_test = analysistest.make(
    _refusal_test_impl,
    attrs = {"messages": attr.string_list()},
    expect_failure = True,
)

# A board's rule is only analysed for its own platform, as in an image.
_refusal_on_cortex_m4_test = analysistest.make(
    _refusal_test_impl,
    attrs = {"messages": attr.string_list()},
    config_settings = {"//command_line_option:platforms": str(Label("//platforms:cortex_m4"))},
    expect_failure = True,
)

_refusal_on_probes_test = analysistest.make(
    _refusal_test_impl,
    attrs = {"messages": attr.string_list()},
    config_settings = {
        str(Label("//firmware:environment")): "board",
        str(Label("//firmware:probes")): ["nucleo_wb55rg"],
    },
    expect_failure = True,
)

def _command_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.true(env, analysistest.target_under_test(env)[DefaultInfo].files_to_run.executable != None, "nothing to run")
    return analysistest.end(env)

_command_test = analysistest.make(_command_test_impl)

# Rules refuse such a board in their transition, of which an analysis test knows nothing.
def _no_board_test_impl(ctx):
    env = unittest.begin(ctx)
    asserts.true(env, "nucleo_wb55; there are b_l475e_iot01a, " in no_board(Label("//firmware/boards/nucleo_wb55")))
    for board in ["//firmware/boards/nucleo_wb55rg", "//examples/own_board:mine", "@bazel_skylib//firmware/boards/mine"]:
        asserts.equals(env, None, no_board(Label(board)))
        asserts.equals(env, None, bare_board(board, []))
    asserts.equals(env, None, bare_board("pico", ["pico"]))
    asserts.true(env, "give its label, \"@torch_fusion//firmware/boards/pico\"" in bare_board("pico", []))
    return unittest.end(env)

_no_board_test = unittest.make(_no_board_test_impl)

# An analysis test sees no compilations of an image's dependencies.
def _image_options_test_impl(ctx):
    env = unittest.begin(ctx)
    names = ["//command_line_option:" + name for name in ["conlyopt", "copt", "cxxopt"]]
    given = {name: ["-O0", "-g3", "-Og", "-DMINE=1", "-O"] for name in names}
    asserts.equals(env, {name: ["-g3", "-DMINE=1"] for name in names}, image_options(given))
    return unittest.end(env)

_image_options_test = unittest.make(_image_options_test_impl)

def _files_test_impl(ctx):
    env = unittest.begin(ctx)
    for says, src, weights, others in [
        ("there is no model: src is the model file", None, None, {"model": "net.py"}),
        ("there is no int8: backend = \"cortex_m\"", "net.py", None, {"int8": True}),
        ("//tools:new_model -- net.pt2` writes one", "net.pt2", None, {}),
        ("put the file into data, and load_state_dict(torch.load(\"net.pt\"))", "net.py", "net.pt", {}),
    ]:
        asserts.true(env, says in program_error(src, weights, others))
    asserts.equals(env, None, program_error("net.py", "//models/sine", {"data": ["net.pt"]}))
    asserts.true(env, "give the torch_program" in model_error(None, [":net", "net.py"]))
    asserts.equals(env, None, model_error(":net", [Label("//models/sine"), "//models/sine"]))
    return unittest.end(env)

_files_test = unittest.make(_files_test_impl)

# Incompatible targets don't fail the analysis; .ci/run checks Bazel's message about one.
def _float_abi_test_impl(ctx):
    env = unittest.begin(ctx)
    soft_alone, no_soft = Label("//platforms:core_cortex_m3"), Label("//platforms:core_cortex_m55")
    for abi, core, reason in [
        ("", soft_alone, None),
        ("hard", soft_alone, "float_abi_hard_needs_an_fpu"),
        ("softfp", soft_alone, "float_abi_softfp_needs_an_fpu"),
        ("soft", soft_alone, None),
        ("softfp", no_soft, None),
        ("soft", no_soft, "float_abi_soft_has_no_vector_instructions"),
        ("soft", Label("//platforms:core_cortex_m4"), None),
    ]:
        reasons = float_abi_constraints(abi).get(core, [])
        asserts.equals(env, [reason] if reason else [], [label.name for label in reasons])
    asserts.equals(env, "float_abi = \"softp\" is unknown; allowed: [\"soft\", \"softfp\", \"hard\"]", float_abi_error("softp").split(", or")[0])
    for abi in ["", "soft", "softfp", "hard"]:
        asserts.equals(env, None, float_abi_error(abi))
    asserts.equals(env, ["-mfloat-abi=soft", "-mcpu=cortex-m4"], float_abi_flags("cortex_m4", "soft"))
    return unittest.end(env)

_float_abi_test = unittest.make(_float_abi_test_impl)

# Macros refuse these where they are called, of which an analysis test knows nothing.
def _npu_error_test_impl(ctx):
    env = unittest.begin(ctx)
    sram, flash, dram = [npu_port(memory = memory, clock_scale = "0.5") for memory in ["Sram", "OffChipFlash", "Dram"]]
    for changed, message in [
        ({}, None),
        ({"clock_scale": "1"}, None),
        ({"clock_scale": "1.0"}, None),
        ({"memory": "SRAM"}, "memory 'SRAM' is unknown; allowed: "),
        ({"clock_scale": "half"}, "clock_scale \"half\" is no share"),
        ({"clock_scale": "0.0"}, "clock_scale \"0.0\" is no share"),
        ({"clock_scale": "1.5"}, "clock_scale \"1.5\" is no share"),
        ({"clock_scale": 0.5}, "clock_scale 0.5 is no share"),
        ({"max_reads": 0}, "max_reads = 0 is no whole number from 1 on"),
        ({"read_latency": -1}, "read_latency = -1 is no whole number from 0 on"),
    ]:
        error = port_error(sram | changed)
        asserts.true(env, error == message or (message and error and error.startswith(message)), "%s: %s" % (changed, error))
    npu = {
        "accelerator": "ethos-u65-256",
        "memory_mode": "shared_sram",
        "clock_hz": 1000,
        "arena_bytes": 1000,
        "cache_bytes": 0,
        "cache_memory": "",
        "base": "",
        "interrupt": 0,
        "timeout_ms": 1,
        "axi0": sram,
        "axi1": flash,
    }
    dedicated = {"memory_mode": "dedicated_sram", "cache_bytes": 1000}
    for changed, message in [
        ({}, None),
        ({"axi1": sram, "memory_mode": "sram_only"}, None),
        (dedicated | {"axi1": dram}, None),
        ({"accelerator": "ethos-u55-512"}, "accelerator 'ethos-u55-512' is unknown; allowed: "),
        ({"memory_mode": "shared"}, "memory_mode 'shared' is unknown; allowed: "),
        (dedicated | {"accelerator": "ethos-u55-128"}, "memory_mode 'dedicated_sram' is for Ethos-U65 and U85"),
        ({"cache_bytes": 1000}, "cache_bytes = 1000 with memory_mode 'shared_sram'"),
        ({"cache_memory": "sram"}, "cache_memory = 'sram' with memory_mode 'shared_sram'"),
        ({"axi0": dram}, "axi0 has the memory 'Dram'; allowed: 'Sram'"),
        ({"axi1": sram}, "axi1 has the memory 'Sram' with memory_mode 'shared_sram'; allowed: "),
        (dedicated, "axi1 has the memory 'OffChipFlash' with memory_mode 'dedicated_sram'; allowed: "),
        ({"axi1": sram | {"read_latency": 9}, "memory_mode": "sram_only"}, "axi0 and axi1 have the memory 'Sram' with other values each"),
        ({"base": "48102000"}, "base '48102000' is no address"),
        ({"clock_hz": 0}, "clock_hz = 0 is no whole number from 1 on"),
        ({"arena_bytes": -1}, "arena_bytes = -1 is no whole number from 1 on"),
        ({"interrupt": -1}, "interrupt = -1 is no whole number from 0 on"),
        ({"timeout_ms": 0}, "timeout_ms = 0 is no whole number from 1 on"),
    ]:
        error = npu_error(npu | changed)
        asserts.true(env, error == message or (message and error and error.startswith(message)), "%s: %s" % (changed, error))
    return unittest.end(env)

_npu_error_test = unittest.make(_npu_error_test_impl)

def _npu_device_test_impl(ctx):
    env = analysistest.begin(ctx)
    [source] = [action.content for action in analysistest.target_actions(env) if action.mnemonic == "FileWrite" and "kDevice" in action.content]
    [line] = [line for line in source.splitlines() if line.startswith("extern const Device kDevice = ")]
    asserts.equals(env, ctx.attr.values, line.removeprefix("extern const Device kDevice = "))
    return analysistest.end(env)

_npu_device_test = analysistest.make(_npu_device_test_impl, attrs = {"values": attr.string()})

_MEMORY = {
    "flash": "0x08000000 512K",
    "ram": "0x20000000 192K",
    "shared": "0x20030000 64K the other core's",
}

def _npu_device_tests():
    """Tests the registers that the driver sets for an NPU.

    REGIONCFG and QCONFIG choose among AXI_LIMIT0 to 3 (U85: MEM_ATTR0 to 3), of which 0 and 1 belong to the first port:
    102420, Ethos-U55 Technical Reference Manual, "Register descriptions".
    """
    sram = npu_port(memory = "Sram", clock_scale = "1.0", max_reads = 8, max_writes = 16, burst_length = 128)
    flash = npu_port(memory = "OffChipFlash", clock_scale = "0.5", max_reads = 2, max_writes = 0, burst_length = 64)
    common = {"arena_bytes": 1024, "axi0": sram, "base": "0x40003000", "clock_hz": 1000, "interrupt": 13, "timeout_ms": 500}
    axi = ", ".join(["0xf070031"] * 2 + ["0x10030"] * 2)
    for name, npu, values in [
        # Weights and commands behind the second port; accesses are secure (0) and privileged (1).
        (
            "u55",
            ethos_u(accelerator = "ethos-u55-128", axi1 = flash, **common),
            "{0x40003000, 13, 0x2, 2, {%s}, 1, 4000000, 500, 0x0, 0};" % axi,
        ),
        # These follow the first one.
        (
            "u65_sram_only_non_secure",
            ethos_u(accelerator = "ethos-u65-256", axi1 = sram, memory_mode = "sram_only", privileged = False, secure = False, **common),
            "{0x40003000, 13, 0x0, 0, {%s}, 2, 4000000, 500, 0x0, 0};" % ", ".join(["0xf070031"] * 4),
        ),
        (
            "u55_non_secure_privileged",
            ethos_u(accelerator = "ethos-u55-64", axi1 = flash, secure = False, **common),
            "{0x40003000, 13, 0x2, 2, {%s}, 3, 4000000, 500, 0x0, 0};" % axi,
        ),
        # MEM_ATTR has no limits, but the port.
        (
            "u85_unprivileged",
            ethos_u(accelerator = "ethos-u85-256", axi1 = flash, privileged = False, **common),
            "{0x40003000, 13, 0x2, 2, {0x30, 0x30, 0x34, 0x34}, 0, 4000000, 500, 0x0, 0};",
        ),
        # Weights, commands and tensors behind the second port; the first one has the memory of region 2.
        (
            "u85_dedicated_sram",
            ethos_u(
                accelerator = "ethos-u85-256",
                axi1 = npu_port(memory = "Dram", clock_scale = "0.5"),
                cache_bytes = 4096,
                cache_memory = "npu_sram",
                memory_mode = "dedicated_sram",
                **common
            ),
            "{0x40003000, 13, 0xa, 2, {0x30, 0x30, 0x34, 0x34}, 1, 4000000, 500, 0x30000000, 4096};",
        ),
    ]:
        board_npu(name = "npu_" + name, clock_hz = 64000000, description = json.encode(npu), memory = _MEMORY | {"npu_sram": "0x30000000 4K"}, tags = ["manual"])
        _npu_device_test(name = "npu_device_%s_test" % name, target_under_test = ":npu_" + name, values = values)

def _action_arguments(env, mnemonic):
    for action in analysistest.target_actions(env):
        if action.mnemonic == mnemonic:
            return action.argv
    return []

def _value_of(arguments, option):
    for i, argument in enumerate(arguments):
        if argument == option:
            return arguments[i + 1]
    return None

def _firmware_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    firmware = target[FirmwareInfo]
    asserts.equals(env, ctx.attr.board, firmware.board.name)
    asserts.equals(env, ctx.attr.core, firmware.board.core)
    asserts.equals(env, "off", firmware.console)
    asserts.equals(env, "portable", firmware.program.core)
    asserts.equals(env, "sine", target[TorchProgramInfo].name)
    asserts.equals(env, ctx.attr.core, target[MemoryPlanInfo].core)
    asserts.equals(env, "sine_pte.h", target[ProgramDataInfo].header.basename)
    asserts.equals(env, "registry.cpp", target[KernelRegistryInfo].source.basename)
    asserts.equals(env, ctx.attr.core, _value_of(_action_arguments(env, "CompileProgram"), "--core"))
    asserts.true(env, "--golden" not in _action_arguments(env, "CompileProgram"), "example = False embeds an example")
    names = [file.basename for file in target[DefaultInfo].files.to_list()]
    for extension in ["elf", "bin", "hex", "map", "report.txt", "report.json"]:
        asserts.true(env, "%s.%s" % (target.label.name, extension) in names, "no .%s in %s" % (extension, names))

    # An image that is too large for its board fails all builds that it is part of.
    asserts.equals(env, [firmware.report_json], target[OutputGroupInfo]._validation.to_list())
    return analysistest.end(env)

_firmware_test = analysistest.make(
    _firmware_test_impl,
    attrs = {"board": attr.string(), "core": attr.string()},
)

def _engine_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.equals(env, ctx.attr.engine, _value_of(_action_arguments(env, "ImageFiles"), "--engine"))
    mnemonics = [action.mnemonic for action in analysistest.target_actions(env)]
    asserts.equals(env, ctx.attr.engine == "compiled", "CompileProgram" in mnemonics)
    asserts.equals(env, ctx.attr.engine != "compiled", "EmbedProgram" in mnemonics)
    return analysistest.end(env)

_engine_test = analysistest.make(_engine_test_impl, attrs = {"engine": attr.string()})

def _shared_program_test_impl(ctx):
    env = analysistest.begin(ctx)
    first, second = [target[TorchProgramInfo].program for target in [analysistest.target_under_test(env), ctx.attr.other]]
    asserts.equals(env, first, second)
    return analysistest.end(env)

_shared_program_test = analysistest.make(
    _shared_program_test_impl,
    attrs = {"other": attr.label(providers = [TorchProgramInfo])},
)

def _shared_libraries_test_impl(ctx):
    env = analysistest.begin(ctx)
    [link] = [action for action in analysistest.target_actions(env) if action.mnemonic == "CppLink"]
    image = link.outputs.to_list()[0].root.path
    objects = [file for file in link.inputs.to_list() if file.extension == "o"]
    for room in ["firmware", "kernels", "runtime"]:
        libraries = [file for file in objects if file.short_path.startswith(room + "/")]
        asserts.true(env, libraries, "no object of %s is linked" % room)
        for file in libraries:
            asserts.true(env, file.root.path != image, "%s is built for the board, not for its core" % file.path)
    return analysistest.end(env)

_shared_libraries_test = analysistest.make(_shared_libraries_test_impl)

def _board_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    info = target[BoardInfo]
    asserts.equals(env, "good_board", info.name)
    asserts.false(env, info.emulated)
    content = [action.content for action in analysistest.target_actions(env) if action.mnemonic == "FileWrite"][0]
    description = json.decode(content)
    asserts.equals(env, 0x08000000, int(description["flash"]["origin"]))
    asserts.equals(env, 512 * 1024, int(description["flash"]["length"]))
    asserts.equals(env, ["shared"], [region["name"] for region in description["reserved"]])
    return analysistest.end(env)

_board_test = analysistest.make(
    _board_test_impl,
    config_settings = {"//command_line_option:platforms": str(Label("//platforms:cortex_m4"))},
)

def _manual(rule, name, **kwargs):
    """Instantiates a rule for the tests alone."""
    rule(name = name, tags = ["manual"], **kwargs)

def _manual_board(name, **kwargs):
    _manual(board, name, clock_hz = 64000000, description = "A board that exists in this test only", **kwargs)

def _manual_program(name, **kwargs):
    _manual(torch_program, name, src = "//models/sine:sine.py", **kwargs)

def _manual_firmware(name, board = "mps2_an386", **kwargs):
    _manual(torch_firmware, name, board = "//firmware/boards/" + board, **kwargs)

def _manual_package(name, models = ["//models/sine"], layout = "cmake", **kwargs):
    _manual(torch_package, name, layout = layout, models = models, **kwargs)

def _manual_cmake_firmware(name, board = "//firmware/boards/mps2_an386", **kwargs):
    _manual(cmake_firmware, name, board = board, project = ":CMakeLists.txt", summary = False, **kwargs)

def _manual_operator(name, operator = "mine::twice", **kwargs):
    torch_operator(
        name = name,
        src = "//models/sine:sine.py",
        header = ":twice.h",
        kernel = "mine::twice_out",
        operator = operator,
        tags = ["manual"],
        test_boards = [],
        **kwargs
    )

def rules_test_suite(name):
    """Declares the analysis tests.

    Args:
      name: the test suite of all of them.
    """
    _manual_board("good_board", core = "cortex_m4", memory = _MEMORY)
    _manual_board("bad_number_board", core = "cortex_m4", memory = _MEMORY | {"ram": "0x20000000 192 KB"})
    _manual_board("no_ram_board", core = "cortex_m4", memory = {"flash": "0x08000000 512K"})
    _manual_board("short_region_board", core = "cortex_m4", memory = _MEMORY | {"flash": "0x08000000"})
    _manual_board("short_setting_board", core = "cortex_m4", memory = _MEMORY, prove_settings = {"at 32 MHz": "0x58000088 3 1; 0x58000008 0x80"})
    for region, places in {
        "unknown_arena": {"arena_memory": "dram"},
        "cache_in_ram": {"cache_memory": "ram"},
        "cache_in_arena": {"arena_memory": "shared", "cache_memory": "shared"},
        "large_cache": {"cache_bytes": 65537, "cache_memory": "shared"},
    }.items():
        _manual_board(
            region + "_board",
            core = "cortex_m4",
            memory = _MEMORY,
            npu = ethos_u(**({
                "accelerator": "ethos-u65-256",
                "arena_bytes": 1024,
                "axi0": npu_port(memory = "Sram", clock_scale = "1.0"),
                "axi1": npu_port(memory = "Dram", clock_scale = "0.5"),
                "cache_bytes": 4096,
                "clock_hz": 1000,
                "memory_mode": "dedicated_sram",
            } | places)),
        )
    _manual_program("bad-name")
    _manual(pte_program, "pte-name", src = "//conformance/old_programs:1.0.0/cnn.pte")
    _manual_program("int8_of_a_portable", io = "int8")
    _manual_program("smallest_of_a_portable", memory = "stream_rows")
    _manual_program("quantization_of_a_portable", quantization = quantization())
    for program_name, (io, arguments) in {
        "activation_range_unknown": ("float32", {"activation_range": "widest"}),
        "auto_of_no_ratio": ("int8", {"weight_dtype": "auto"}),
        "float_growth_below_zero": ("float32", {"float_growth": -1}),
        "group_of_sixteen": ("float32", {"group_size": 16}),
        "int3_of_a_layer": ("float32", {"weight_dtypes": {"head": "int3"}}),
        "int4_that_is_plain": ("float32", {"packed": False, "weight_dtypes": {"head": "int4"}}),
        "min_accuracy_in_percent": ("float32", {"min_accuracy": "90"}),
        "min_accuracy_of_integers": ("int8", {"min_accuracy": "0.9"}),
        "min_snr_below_zero": ("float32", {"min_snr": -30}),
        "min_snr_of_integers": ("int8", {"min_snr": 30}),
        "unknown_activation_range_of_a_layer": ("float32", {"activation_ranges": {"head": "widest"}}),
    }.items():
        _manual_program(program_name, backend = "cortex_m", io = io, quantization = quantization(**arguments))
    _manual_program("untrained")
    _manual_program("sine_again", program_name = "sine")
    _manual_program("weights_of_an_untrained", weights = ":untrained")
    _manual_program("method_forward", methods = ["forward"])
    _manual_program("trained_twice", train = True, weights = "//models/sine")
    _manual(write_file, "twice_header", out = "twice.h")
    _manual_operator("operator_without_namespace", operator = "twice")
    _manual_operator("operator_of_pytorch", operator = "aten::twice")
    _manual_operator("operator_on_complex", dtypes = ["complex64"])
    _manual_operator("twice")
    _manual_operator("twice_again")
    _manual_program("operators_of_one_name", operators = [":twice", ":twice_again"])
    _manual(kernel_registry, "kernels_of_one_name", programs = [":operators_of_one_name"])
    _manual(quantization_report, "report_of_a_portable", program = ":untrained")
    for board_name, core in {"mps2_an386": "cortex-m4", "mps2_an505": "cortex-m33"}.items():
        _manual_firmware("sine_" + board_name, board = board_name, console = "off", example = False, model = "//models/sine", summary = False)
        _firmware_test(
            name = "firmware_%s_test" % board_name,
            board = board_name,
            core = core,
            target_under_test = ":sine_" + board_name,
        )
    _manual_firmware("for_tests", board = "nucleo_wb55rg", testonly = True, model = "//models/sine", summary = False)
    for command in ["flash", "copy"]:
        _command_test(name = "%s_for_tests_test" % command, target_under_test = ":for_tests." + command)
    _manual_firmware("not_emulated", board = "nucleo_wb55rg", model = "//models/sine", summary = False)
    _manual(update_settings, "settings", product = "sensor", public_key = ":BUILD.bazel")
    _manual(updatable_firmware, "updates_without_a_driver", board = "//firmware/boards/pico2_w", model = "//models/sine", settings = ":settings")
    _manual(firmware_emulate, "emulate_not_emulated", firmware = ":not_emulated")
    _manual(firmware_benchmark, "benchmark_not_emulated", firmware = {":not_emulated": "sine float32"})
    _manual(firmware_benchmark, "benchmark_without_variant", firmware = {":sine_mps2_an386": "sine"})
    _manual(exploration_test, "exploration_without_limit", page = ":sine_mps2_an386")
    _manual(exploration_test, "exploration_of_no_page", flash = "64K", page = ":sine_mps2_an386")
    _manual(firmware_budget_test, "budget_not_emulated", firmware = ":not_emulated", ms = "20")
    _manual(firmware_budget_test, "budget_of_nothing", firmware = ":sine_mps2_an386")
    _manual(firmware_budget_test, "budget_of_float", accuracy = "0.9", firmware = ":sine_mps2_an386")
    _manual(firmware_test, "tested", boards = [":good_board"], model = "//models/sine")

    _manual_firmware("firmware_of_no_method", method = "encode", model = "//models/sine")
    _manual(torch_cpp_library, "library_of_no_method", method = "encode", model = "//models/sine")
    torch_cpp_library(
        name = "library_of_board_and_core",
        board = "//firmware/boards/mps2_an386",
        core = "cortex_m4",
        model = "//models/sine",
        tags = ["manual"],
    )
    _manual(torch_cpp_library, "library_without_name", library_name = "7 nets", model = "//models/sine")
    _manual_package("package_of_board_and_core", board = "//firmware/boards/mps2_an386", core = "cortex_m4")
    _manual_package("package_for_an_unknown_core", cores = ["cortex_m99"])
    _manual_package("archives_for_no_core", cores = [], form = "archives")
    _manual_package("package_of_operators_of_one_name", models = [":twice_program", ":twice_again_program"])
    _manual_program("twice_program", operators = [":twice"])
    _manual_program("twice_again_program", operators = [":twice_again"])
    _manual_package("package_of_two_alike", models = ["//models/sine", ":sine_again"])
    _manual_package("package_for_make", cores = [], layout = "make")
    _manual_package("archives_for_m33", cores = ["cortex_m33"], form = "archives")
    _manual(write_file, "cmake_lists", out = "CMakeLists.txt")
    _manual(write_file, "c_application", out = "application.c")
    _manual_cmake_firmware("project_with_a_package_for_make", packages = [":package_for_make"])
    _manual_cmake_firmware("project_with_archives_for_m33", float_abi = "softfp", packages = [":archives_for_m33"])

    # Incompatible: .ci/run holds the reasons.
    _manual_program("for_cortex_m4", cores = ["cortex_m4"])
    _manual_package("package_for_another_core", core = "cortex_m33", models = [":for_cortex_m4"])
    _manual_package("package_for_no_core", models = [":for_cortex_m4"])
    _manual_cmake_firmware("soft_vectors", board = "//firmware/boards/mps3_an547", float_abi = "soft")
    for program_name in ["SINE", "sine_set"]:
        _manual_program("called_" + program_name, program_name = program_name)
        _manual_firmware("compiled_beside_" + program_name, srcs = ["//firmware/tests:undefined.cpp"], engine = "compiled", models = ["//models/sine", "called_" + program_name])
    _manual_firmware("compiled_with_backends", backends = ["//firmware/ethos_u:backend"], engine = "compiled", model = "//models/sine")
    for engine_name, (engine, attributes) in {
        "by_default": ("compiled", {"model": "//models/sine"}),
        "loaded": ("loaded", {"engine": "loaded", "model": "//models/sine"}),
        "with_backends": ("loaded, as it has backends", {"backends": ["//firmware/ethos_u:backend"], "model": "//models/sine"}),
        "of_several": (
            "loaded, as srcs are an application of its own, which calls the runtime unless engine = \"compiled\"",
            {"models": ["//models/sine"], "srcs": ["//firmware/tests:undefined.cpp"]},
        ),
        "of_several_compiled": (
            "compiled",
            {"engine": "compiled", "models": ["//models/sine", "//models/softmax"], "srcs": ["//firmware/tests:undefined.cpp"]},
        ),
        "of_c": ("compiled", {"model": "//models/sine", "srcs": [":application.c"]}),
        "of_several_by_default": ("compiled", {"models": ["//models/sine", "//models/softmax"]}),
        "with_srcs": (
            "loaded, as srcs are an application of its own, which calls the runtime unless engine = \"compiled\"",
            {"model": "//models/sine", "srcs": ["//firmware/tests:undefined.cpp"]},
        ),
    }.items():
        _manual_firmware("engine_" + engine_name, **attributes)
        _engine_test(name = "engine_%s_test" % engine_name, engine = engine, target_under_test = ":engine_" + engine_name)
    for firmware_name, models in {
        "firmware_of_none": [],
        "firmware_of_two_alike": ["//models/sine", ":sine_again"],
    }.items():
        _manual_firmware(firmware_name, srcs = ["//firmware/tests:undefined.cpp"], models = models)
    _manual_program("smallest", backend = "cortex_m", memory = "smallest")
    _manual_firmware("in_one_twice", arena_memories = ["ram", "ram"], model = "//models/sine")
    _manual_firmware("smallest_loaded", engine = "loaded", model = ":smallest")
    for firmware_name, attributes in {
        "several_loaded": {"engine": "loaded"},
        "several_with_backends": {"backends": ["//firmware/ethos_u:backend"]},
        "several_in_dtcm": {"arena_memories": ["dtcm"]},
    }.items():
        _manual_firmware(firmware_name, models = ["//models/sine", "//models/softmax"], **attributes)

    _npu_device_tests()
    _files_test(name = "files_test")
    _no_board_test(name = "no_board_test")
    _image_options_test(name = "image_options_test")
    _npu_error_test(name = "npu_error_test")
    _float_abi_test(name = "float_abi_test")
    _board_test(name = "board_test", target_under_test = ":good_board")
    _shared_program_test(
        name = "shared_program_test",
        other = ":sine_mps2_an505",
        target_under_test = ":sine_mps2_an386",
    )
    for board_name in ["mps2_an386", "nucleo_wb55rg"]:
        _manual_firmware("sine_int8_" + board_name, board = board_name, model = "//models/sine:sine_int8", summary = False)
    _shared_program_test(
        name = "shared_int8_program_test",
        other = ":sine_int8_nucleo_wb55rg",
        target_under_test = ":sine_int8_mps2_an386",
    )
    _shared_program_test(
        name = "int8_program_without_board_test",
        other = ":sine_int8_nucleo_wb55rg",
        target_under_test = "//models/sine:sine_int8",
    )
    _manual_firmware("sine_on_npu_board", board = "mps3_an547_u55", model = "//models/sine", summary = False)
    _shared_libraries_test(
        name = "shared_libraries_test",
        target_under_test = ":sine_on_npu_board",
    )
    refusals = {
        "bad-name": ["rules/tests:bad-name", "program name 'bad-name' is not a C identifier"],
        "archives_for_no_core": ["archives_for_no_core: form = \"archives\" with cores = []; give the cores that it is for, of [\"cortex_m0\", "],
        "benchmark_not_emulated": ["board nucleo_wb55rg of", "has no emulator"],
        "benchmark_without_variant": ["row 'sine' of", "is not 'model variant'"],
        "budget_not_emulated": ["board nucleo_wb55rg has no emulator to count instructions and ms in"],
        "budget_of_float": ["accuracy is known of quantized models, and sine is not; leave it out"],
        "budget_of_nothing": ["it has no limit; give at least one of flash, ram, instructions, ms and accuracy"],
        "engine_of_several_by_default.prove": ["the image has several models; prove an image of each"],
        "exploration_of_no_page": ["//rules/tests:sine_mps2_an386 is not a model_page"],
        "exploration_without_limit": ["it has no limit; give at least one of flash, ram, instructions, ms and accuracy"],
        "emulate_not_emulated": ["board nucleo_wb55rg of", "has no emulator; use one with emulator_machine set"],
        "firmware_of_none": ["give either model or models"],
        "several_loaded": ["without srcs, several models run compiled only, and engine = \"loaded\" asks for the runtime"],
        "several_with_backends": ["without srcs, several models run compiled only, and it has backends"],
        "several_in_dtcm": ["arena_memories: 'dtcm': board mps2_an386 has no memory for arenas besides ram"],
        "firmware_of_two_alike": ["are both called sine; set program_name of one"],
        "quantization_of_a_portable": ["rules/tests:quantization_of_a_portable: quantization is for backend = \"cortex_m\", not 'portable'"],
        "smallest_of_a_portable": ["memory = \"stream_rows\" is for backend = \"cortex_m\", not 'portable'; leave it out"],
        "in_one_twice": ["arena_memories = [\"ram\", \"ram\"] name a memory twice"],
        "smallest_loaded": ["has memory = \"smallest\", which only compiled models have; leave it out, or use engine = \"compiled\""],
        "int8_of_a_portable": ["io is for backends that quantize; a portable program takes the dtypes of the model"],
        "kernels_of_one_name": ["operator mine::twice is defined twice, by", "rules/tests:twice and", "rules/tests:twice_again"],
        "firmware_of_no_method": ["models/sine:sine has no method encode; it has [\"forward\"]"],
        "compiled_with_backends": ["engine = \"compiled\" is not possible: it has backends; leave engine out"],
        "compiled_beside_SINE": ["models sine and SINE would have macros of one name; set program_name of one"],
        "compiled_beside_sine_set": ["functions of the models sine and sine_set would have one name; give the program another one"],
        "library_of_no_method": ["models/sine:sine has no method encode; it has [\"forward\"]"],
        "library_of_board_and_core": ["rules/tests:library_of_board_and_core: give either board or core"],
        "library_without_name": ["library_name '7 nets' is not a C identifier"],
        "method_forward": ["methods: 'forward' is not the name of a method besides forward"],
        "operator_of_pytorch": ["operator 'aten::twice': the namespace is taken"],
        "operator_on_complex": ["dtypes [\"complex64\"]: give some of"],
        "operator_without_namespace": ["operator 'twice' is no name such as mine::soft_threshold"],
        "package_for_an_unknown_core": ["cores = [\"cortex_m99\"]: there is no [\"cortex_m99\"]; there are [\"cortex_m0\", "],
        "package_of_board_and_core": ["rules/tests:package_of_board_and_core: give either board or core"],
        "package_of_operators_of_one_name": ["rules/tests:package_of_operators_of_one_name: operator mine::twice is defined twice, by", "rules/tests:twice and"],
        "package_of_two_alike": ["two models are called sine; set program_name of one"],
        "project_with_a_package_for_make": ["package_for_make has layout \"make\"; find_package() needs \"cmake\""],
        "project_with_archives_for_m33": ["package archives_for_m33 has archives for [\"cortex_m33-soft\", \"cortex_m33-softfp\", \"cortex_m33-hard\"], and none for cortex_m4-softfp"],
        "pte-name": ["rules/tests:pte-name", "program name 'pte-name' is not a C identifier; set program_name"],
        "report_of_a_portable": ["untrained is not quantized; a report needs backend = \"cortex_m\""],
        "tested_good_board": ["board good_board can't be tested here"],
        "trained_twice": ["train = True and weights = ", "exclude each other"],
        "updates_without_a_driver": ["board pico2_w takes no updates, as it has no flash_driver; docs/update.md lists"],
        "weights_of_an_untrained": ["untrained is a program that is not trained; set train = True there"],
    }
    refusals_on_cortex_m4 = {
        "activation_range_unknown": ["activation_range = \"widest\"; allowed: [\"auto\", "],
        "group_of_sixteen": ["group_size = 16; allowed: [32, 0]"],
        "auto_of_no_ratio": ["weight_dtype = \"auto\" needs min_snr"],
        "bad_number_board": ["rules/tests:bad_number_board", "length of ram: '192 KB' is not a number"],
        "float_growth_below_zero": ["rules/tests:float_growth_below_zero: quantization: float_growth = -1; it is a number of bytes, 0 for none"],
        "int3_of_a_layer": ["weight_dtypes: 'head' has 'int3'; allowed: [\"int8\", \"int4\"]"],
        "unknown_activation_range_of_a_layer": ["activation_ranges: 'head' has 'widest'; allowed: [\"auto\", \"min_max\", \"percentile\", \"mse\"]"],
        "int4_that_is_plain": ["int4 weights are for packed = True"],
        "min_snr_below_zero": ["min_snr = -30; it is a number of dB, 0 for none"],
        "min_snr_of_integers": ["min_snr is for io = \"float32\" or weight_dtype = \"auto\""],
        "min_accuracy_of_integers": ["min_accuracy is for io = \"float32\""],
        "min_accuracy_in_percent": ["min_accuracy = \"90\"; it is a share from 0 to 1, such as \"0.95\""],
        "no_ram_board": ["rules/tests:no_ram_board", "memory has no region 'ram'"],
        "unknown_arena_board": ["rules/tests:unknown_arena_board: arena_memory 'dram' of its ethos_u() is none of its regions of memory; allowed: [\"ram\", \"shared\"]"],
        "cache_in_ram_board": ["cache_memory 'ram' of its ethos_u() is none of its regions of memory; allowed: [\"shared\"]"],
        "cache_in_arena_board": ["cache_memory and arena_memory of its ethos_u() are both 'shared'"],
        "large_cache_board": ["cache_bytes = 65537 of its ethos_u() are more than the 65536 bytes of 'shared'"],
        "short_region_board": ["memory region 'flash' is '0x08000000'; give its origin, its length"],
        "short_setting_board": ["prove_settings: 'at 32 MHz' is '0x58000088 3 1; 0x58000008 0x80'; give an address, a mask and a value of each change"],
    }
    for target, messages in refusals.items():
        _refusal_test(name = target + "_test", messages = messages, target_under_test = target)
    for target, messages in refusals_on_cortex_m4.items():
        _refusal_on_cortex_m4_test(name = target + "_test", messages = messages, target_under_test = target)
    _refusal_on_probes_test(
        name = "probe_without_board_test",
        messages = ["//firmware:probes: \"nucleo_wb55rg\" is no BOARD=PROBE or BOARD=PROBE@PORT"],
        target_under_test = "//models/softmax:softmax_test_nucleo_wb55rg",
    )

    # All tests of the package.
    native.test_suite(name = name)
