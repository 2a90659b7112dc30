"""Describes to Bazel how to run Debian's Clang."""

load("@rules_cc//cc:action_names.bzl", "ACTION_NAMES")
load("@rules_cc//cc:cc_toolchain_config_lib.bzl", "feature", "flag_group", "flag_set", "tool_path")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/toolchains:cc_toolchain_config_info.bzl", "CcToolchainConfigInfo")

_COMPILE = [
    ACTION_NAMES.assemble,
    ACTION_NAMES.c_compile,
    ACTION_NAMES.cpp_compile,
    ACTION_NAMES.cpp_header_parsing,
    ACTION_NAMES.linkstamp_compile,
    ACTION_NAMES.preprocess_assemble,
]
_LINK = [
    ACTION_NAMES.cpp_link_dynamic_library,
    ACTION_NAMES.cpp_link_executable,
    ACTION_NAMES.cpp_link_nodeps_dynamic_library,
]

def _always(name, actions, flags):
    return feature(
        name = name,
        enabled = True,
        flag_sets = [flag_set(actions = actions, flag_groups = [flag_group(flags = flags)])],
    )

def _impl(ctx):
    repository = "external/" + ctx.label.workspace_name
    sysroot = repository + "/sysroot"
    return cc_common.create_cc_toolchain_config_info(
        ctx = ctx,
        toolchain_identifier = "host_clang",
        compiler = "clang",
        target_cpu = "k8",
        target_libc = "glibc",
        target_system_name = "x86_64-linux-gnu",
        host_system_name = "local",
        abi_libc_version = "unknown",
        abi_version = "unknown",
        # The driver does it all, except for archives. Coverage and stripping are not for tests.
        tool_paths = [
            tool_path(name = tool, path = "tools/" + ("ar" if tool == "ar" else "clang"))
            for tool in ["ar", "cpp", "gcc", "gcov", "ld", "nm", "objdump", "strip"]
        ],
        cxx_builtin_include_directories = [
            repository + "/compiler/lib/llvm-19/lib/clang/19/include",
            repository + "/compiler/lib/llvm-19/lib/clang/19/share",
            sysroot + "/usr/include",
        ],
        features = [
            # Paths stay relative to the execution root, and the machine's own headers and libraries out of it.
            _always("sysroot", _COMPILE + _LINK, [
                "--target=x86_64-linux-gnu",
                "--sysroot=" + sysroot,
                "--gcc-toolchain=" + sysroot + "/usr",
                "-no-canonical-prefixes",
            ]),

            # The same inputs give the same bytes: no dates, and no path of this machine.
            _always("deterministic", _COMPILE, [
                "-ffile-compilation-dir=.",
                "-Wno-builtin-macro-redefined",
                "-D__DATE__=\"redacted\"",
                "-D__TIME__=\"redacted\"",
                "-D__TIMESTAMP__=\"redacted\"",
            ]),

            # A sanitizer's report then names lines.
            _always("debug_lines", _COMPILE, ["-gline-tables-only"]),

            # A test runs on machines without a C++ library.
            _always("linker", _LINK, [
                "--driver-mode=g++",
                "-fuse-ld=lld",
                "-static-libgcc",
                "-static-libstdc++",
            ]),

            # Objects go to the linker as they are: no archives in between, no second compilation for shared libraries.
            feature(name = "supports_dynamic_linker", enabled = False),
            feature(name = "supports_pic", enabled = False),
            feature(name = "supports_start_end_lib", enabled = True),
        ],
    )

host_clang_cc_toolchain_config = rule(
    doc = "Configuration of Debian's Clang for this machine.",
    implementation = _impl,
    provides = [CcToolchainConfigInfo],
)
