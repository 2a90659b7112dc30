"""Describes to Bazel how to run arm-none-eabi-gcc."""

load("@rules_cc//cc:action_names.bzl", "ACTION_NAMES")
load("@rules_cc//cc:cc_toolchain_config_lib.bzl", "action_config", "env_entry", "env_set", "feature", "flag_group", "flag_set", "tool", "tool_path")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/toolchains:cc_toolchain_config_info.bzl", "CcToolchainConfigInfo")

_CPP_COMPILE = [
    ACTION_NAMES.cpp_compile,
    ACTION_NAMES.cpp_header_parsing,
    ACTION_NAMES.linkstamp_compile,
]
_COMPILE = _CPP_COMPILE + [
    ACTION_NAMES.assemble,
    ACTION_NAMES.c_compile,
    ACTION_NAMES.preprocess_assemble,
]
_LINK = [ACTION_NAMES.cpp_link_executable]

def _always(name, actions, flags):
    return feature(
        name = name,
        enabled = True,
        flag_sets = [flag_set(actions = actions, flag_groups = [flag_group(flags = flags)])],
    )

def _impl(ctx):
    repository = "external/" + ctx.label.workspace_name
    return cc_common.create_cc_toolchain_config_info(
        ctx = ctx,
        toolchain_identifier = ctx.label.name.removesuffix("_config"),
        compiler = "gcc",
        target_cpu = "arm",
        target_libc = "newlib",
        target_system_name = "arm-none-eabi",
        host_system_name = "local",
        abi_libc_version = "unknown",
        abi_version = "eabi",
        tool_paths = [
            tool_path(name = tool, path = "tools/" + tool)
            for tool in ["ar", "cpp", "gcc", "gcov", "ld", "nm", "objcopy", "objdump", "strip"]
        ],
        action_configs = [
            action_config(
                action_name = ACTION_NAMES.cpp_link_executable,
                # Bazel's own configuration of a linker has these.
                implies = [
                    "strip_debug_symbols",
                    "linkstamps",
                    "output_execpath_flags",
                    "runtime_library_search_directories",
                    "library_search_directories",
                    "libraries_to_link",
                    "user_link_flags",
                    "linker_param_file",
                ],
                tools = [tool(tool = ctx.file._linker)],
            ),
        ],
        cxx_builtin_include_directories = [repository + "/" + d for d in ctx.attr.builtin_include_directories + [ctx.attr.nano_include_directory]],
        features = [
            # newlib-nano: the C and C++ libraries built for size.
            _always("core", _COMPILE + _LINK, ctx.attr.core_flags + ["-mthumb", "--specs=nano.specs"]),
            _always("nano_headers", _COMPILE, ["-isystem", repository + "/" + ctx.attr.nano_include_directory]),

            # The same inputs give the same bytes: no dates, and no path of this machine in debug information, __FILE__
            # or dependencies.
            _always("deterministic", _COMPILE, [
                "-no-canonical-prefixes",
                "-fno-canonical-system-headers",
                "-ffile-prefix-map=/proc/self/cwd=.",  # the working directory's name, as Bazel tells it to compilers
                "-Wno-builtin-macro-redefined",
                "-D__DATE__=\"redacted\"",
                "-D__TIME__=\"redacted\"",
                "-D__TIMESTAMP__=\"redacted\"",
            ]),
            _always("deterministic_link", _LINK, ["-no-canonical-prefixes"]),

            # One section for each function and object, so that the linker leaves out what nothing uses.
            _always("sections", _COMPILE, ["-ffunction-sections", "-fdata-sections"]),
            _always("collect_garbage", _LINK, ["-Wl,--gc-sections"]),

            # The whole image is optimised at once, when it is linked: a quarter less code, and fewer calls. Objects hold no
            # machine code, which takes twice as long to compile; assembler sources and -fno-lto give some. One partition:
            # the linker's work is the same whatever the machine has of cores. Intermediate files get the output's name, as
            # random ones would be in the map. GCC 12's modref analysis misses what inline assembler reads through a pointer
            # in memory.
            _always("link_time_optimization", _COMPILE, ["-flto", "-fno-ipa-modref"]),
            _always("link_time_optimization_link", _LINK, [
                "-flto",
                "-flto-partition=one",
                "-fno-ipa-modref",
                "-save-temps=obj",
                "-Os",
                "-g",
                "-ffunction-sections",
                "-fdata-sections",
            ]),

            # Images are built the same way in every compilation mode; a target asks for speed in its own copts.
            _always("optimization", _COMPILE, ["-Os", "-g"]),
            _always("language", _CPP_COMPILE, ["-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]),

            # <cmath> without Bessel functions, elliptic integrals and their like: a tenth of a second for each source.
            _always("no_special_functions", _CPP_COMPILE, ["-D_GLIBCXX_BITS_SPECFUN_H"]),

            # C++'s library is not linked: :libstdcxx says why.
            _always("c_library", _LINK, ["-lm"]),

            # An image is one static program: no position independence, no shared libraries.
            feature(name = "supports_dynamic_linker", enabled = False),
            feature(name = "supports_pic", enabled = False),

            # Objects go to the linker as they are, see link.sh.
            feature(name = "supports_start_end_lib", enabled = True),
            feature(
                name = "linker_tools",
                enabled = True,
                env_sets = [env_set(
                    actions = _LINK,
                    env_entries = [env_entry(key = "TORCH_FUSION_TOOLS", value = repository + "/tools")],
                )],
            ),
        ],
    )

arm_gnu_cc_toolchain_config = rule(
    doc = "Configuration of arm-none-eabi-gcc for one core.",
    implementation = _impl,
    attrs = {
        "builtin_include_directories": attr.string_list(mandatory = True),
        "core_flags": attr.string_list(doc = "Flags that select the core, its FPU and the calling convention.", mandatory = True),
        "nano_include_directory": attr.string(mandatory = True),
        "_linker": attr.label(default = "//toolchains/arm_gnu:link.sh", allow_single_file = True),
    },
    provides = [CcToolchainConfigInfo],
)
