# Starlark for repository rules only.
"""The C++ compiler of the tests that run on the machine that builds; nothing else may use it.

Two sources:
- `debian`: Clang 19 of Debian 12 with its sanitizers and libFuzzer, libstdc++ and the C library, each package pinned by
  version and sha256, so that results don't depend on the machine. What it builds runs on every Linux whose C library is
  the one of Debian 12 or newer.
- `machine`: the machine's own compiler, as Bazel finds it ($CC, else gcc). Used where Debian's packages can't be had, and in
  workspaces that depend on this module, whose toolchains are theirs.

The environment variable TORCH_FUSION_HOST_COMPILER=debian|machine forces one
(`--repo_env=TORCH_FUSION_HOST_COMPILER=machine`).

`host_compiler` is cheap: it decides, and declares the toolchain. `host_clang` has the compiler, and is fetched only by a
build that compiles C++ for this machine.
"""

load("//third_party:shared.bzl", "shared_restore", "shared_store")
load("//third_party/debian:debian.bzl", "DEBIAN_ENVIRON", "debian_available", "debian_unpack")

# The C library that Debian 12's programs need.
_GLIBC = [2, 36]

# name=version: sha256, of amd64 in Debian 12: the compiler, the libraries that it is itself linked with, and what programs are
# compiled and linked against.
_PACKAGES = {
    "binutils-x86-64-linux-gnu=2.40-2": "2d7ea8a570d768224d7f2424abbe6f373d2154865a1fa7f56c80d43ecf492521",
    "clang-19=1:19.1.7-3~deb12u1": "89ab931a9bbfd567a76df3141af5d5ec67b01d800150e614f2c9bf4671da9b08",
    "libbinutils=2.40-2": "fcf55b99e5f8a78f3c8ce9b6957f1024f394cf20c196b100d308a57e43547710",
    "libbsd0=0.11.7-2": "bb31cc8b40f962a85b2cec970f7f79cc704a1ae4bad24257a822055404b2c60b",
    "libc6-dev=2.36-9+deb12u14": "0218fc2befcd784c1b0c6292c0a137ce89fad054efaa579ad083bee0f2c01aae",
    "libc6=2.36-9+deb12u14": "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf",
    "libclang-common-19-dev=1:19.1.7-3~deb12u1": "811c2d398ad772204ec05ffde485cbbc4c210abc5dcf0068ff9ca3e647591ce7",
    "libclang-cpp19=1:19.1.7-3~deb12u1": "5daa784e1d747db320c16604729ffa805e6bfd72d3ac0b7cb0ee5f1a7ebc8aae",
    "libclang-rt-19-dev=1:19.1.7-3~deb12u1": "872464dcd1aa3538e417e177f74a4c549b19313acaa1fe9465d32b936e9ef8eb",
    "libedit2=3.1-20221030-2": "1cf14abf2716d3279db12d0657a5737cf70074a1e71d3bdf73206625e3c89ce6",
    "libffi8=3.4.4-1": "6d9f6c25c30efccce6d4bceaa48ea86c329a3432abb360a141f76ac223a4c34a",
    "libgcc-12-dev=12.2.0-14+deb12u1": "d720259380a84f2ffc6fe516eff5cbe9c8a005138e8d6a5748747ba4b3404a82",
    "libicu72=72.1-3+deb12u1": "f7f6f99c6d7b025914df2447fc93e11d22c44c0c8bdd8b6f36691c9e7ddcef88",
    "libllvm19=1:19.1.7-3~deb12u1": "6edf3a8b28495cdba883d9760e0dca1a81983fc497a5f989dc64d0d96d23b4aa",
    "liblzma5=5.4.1-1+deb12u1": "f96d8876b53ec89d76a992bc199679b818cf518225a768954d9451fb556a4eb7",
    "libmd0=1.0.4-2": "03539fd30c509e27101d13a56e52eda9062bdf1aefe337c07ab56def25a13eab",
    "libstdc++-12-dev=12.2.0-14+deb12u1": "d28def6c23630432b57cb38a4c2fd67a79d4e0484027386ca6e8d6005c3d7a73",
    "libtinfo6=6.4-4": "072d908f38f51090ca28ca5afa3b46b2957dc61fe35094c0b851426859a49a51",
    "libxml2=2.9.14+dfsg-1.3~deb12u6": "4460e39dda10a815881374217cde08474747cfa018358cd8612c14b390eff53b",
    "libz3-4=4.8.12-3.1": "6221ca25ad5abcfbe1965801029d85a88b4775320384b4b716de8fab7a4d2f7a",
    "libzstd1=1.5.4+dfsg2-5": "6315b5ac38b724a710fb96bf1042019398cb656718b1522279a5185ed39318fa",
    "linux-libc-dev=6.1.176-1": "8bb258735b9dffbb111da778ebdd024750878e435ffd9dfcadcb6762ede6b4cf",
    "lld-19=1:19.1.7-3~deb12u1": "416e084363a16a7060eaa6343ed641dfe864b8208c39170ee00a5679e4b486a2",
    "zlib1g=1:1.2.13.dfsg-1": "d7dd1d1411fedf27f5e27650a6eff20ef294077b568f4c8c5e51466dc7c08ce4",
}

# These are, of the compiler's runtime libraries, only the static ones of the sanitizers in use, of libFuzzer, and of
# the compiler itself; headers for this processor and Cortex-M, which packages are compiled for. Few files, as the
# sandbox of an action makes a link for each.
_EXCLUDE = [
    "./etc",
    "./lib64",
    "./sbin",
    "./usr/bin/[!x]*",
    "./usr/bin/x86_64-linux-gnu-[!a]*",
    "./usr/bin/x86_64-linux-gnu-as",
    "./usr/include/c++/12/experimental",
    "./usr/include/c++/12/ext/pb_ds",
    "./usr/include/c++/12/parallel",
    "./usr/include/c++/12/tr2",
    "./usr/include/drm",
    "./usr/include/misc",
    "./usr/include/mtd",
    "./usr/include/rdma",
    "./usr/include/regulator",
    "./usr/include/scsi",
    "./usr/include/sound",
    "./usr/include/video",
    "./usr/include/xen",
    "./usr/lib/clang",
    "./usr/lib/cmake",
    "./usr/lib/compat-ld",
    "./usr/lib/gcc/x86_64-linux-gnu/12/*.so",
    "./usr/lib/gcc/x86_64-linux-gnu/12/include",
    "./usr/lib/gcc/x86_64-linux-gnu/12/lib?san*",
    "./usr/lib/gold-ld",
    "./usr/lib/llvm-19/bin/[!cl]*",
    "./usr/lib/llvm-19/bin/c-*",
    "./usr/lib/llvm-19/bin/clang?*",
    "./usr/lib/llvm-19/build",
    "./usr/lib/llvm-19/lib/clang/19/include/*_wrappers",
    "./usr/lib/llvm-19/lib/clang/19/include/__clang*",
    "./usr/lib/llvm-19/lib/clang/19/include/altivec*",
    "./usr/lib/llvm-19/lib/clang/19/include/arm[!_]*",
    "./usr/lib/llvm-19/lib/clang/19/include/arm_[!am]*",
    "./usr/lib/llvm-19/lib/clang/19/include/cuda*",
    "./usr/lib/llvm-19/lib/clang/19/include/hexagon*",
    "./usr/lib/llvm-19/lib/clang/19/include/hlsl*",
    "./usr/lib/llvm-19/lib/clang/19/include/htm*",
    "./usr/lib/llvm-19/lib/clang/19/include/hvx*",
    "./usr/lib/llvm-19/lib/clang/19/include/la*",
    "./usr/lib/llvm-19/lib/clang/19/include/lsx*",
    "./usr/lib/llvm-19/lib/clang/19/include/msa*",
    "./usr/lib/llvm-19/lib/clang/19/include/opencl*",
    "./usr/lib/llvm-19/lib/clang/19/include/openmp*",
    "./usr/lib/llvm-19/lib/clang/19/include/ppc*",
    "./usr/lib/llvm-19/lib/clang/19/include/riscv*",
    "./usr/lib/llvm-19/lib/clang/19/include/s390*",
    "./usr/lib/llvm-19/lib/clang/19/include/sifive*",
    "./usr/lib/llvm-19/lib/clang/19/include/vec*",
    "./usr/lib/llvm-19/lib/clang/19/include/vel*",
    "./usr/lib/llvm-19/lib/clang/19/include/wasm*",
    "./usr/lib/llvm-19/lib/clang/19/lib/linux/*-i386*",
    "./usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.*.so",
    "./usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.[!abftu]*",
    "./usr/lib/llvm-19/lib/clang/19/lib/linux/liborc*",
    "./usr/lib/llvm-19/lib/cmake",
    "./usr/lib/llvm-19/share",
    "./usr/lib/x86_64-linux-gnu/audit",
    "./usr/lib/x86_64-linux-gnu/bfd-plugins",
    "./usr/lib/x86_64-linux-gnu/gconv",
    "./usr/lib/x86_64-linux-gnu/ldscripts",
    "./usr/share",
]

# Libraries that the compiler itself is linked with. They are apart from those that it links programs with, as it runs
# with the machine's own C library.
_COMPILER_LIBRARIES = [
    "LLVM",
    "bfd",
    "bsd",
    "clang-cpp",
    "edit",
    "ffi",
    "icu",
    "lzma",
    "md.",
    "opcodes",
    "sframe",
    "tic",
    "tinfo",
    "xml2",
    "z.",
    "z3",
    "zstd",
]

# The C library's headers include these of the kernel's, and these include the rest.
_KERNEL_HEADERS = [
    "atalk.h",
    "close_range.h",
    "const.h",
    "errno.h",
    "falloc.h",
    "fanotify.h",
    "if_ether.h",
    "if_fddi.h",
    "if_slip.h",
    "ioctl.h",
    "kd.h",
    "kernel.h",
    "limits.h",
    "little_endian.h",
    "mount.h",
    "nfs.h",
    "param.h",
    "patchkey.h",
    "pci.h",
    "pci_regs.h",
    "posix_types.h",
    "ppp-comp.h",
    "ppp_defs.h",
    "prctl.h",
    "quota.h",
    "rseq.h",
    "socket.h",
    "soundcard.h",
    "stat.h",
    "stddef.h",
    "swab.h",
    "sysinfo.h",
    "types.h",
    "version.h",
    "vt.h",
]

# Actions start the tools by paths relative to the execution root, so the root of this repository is in $0.
_WRAPPER = """#!/bin/sh
root=${{0%/tools/*}}
export LD_LIBRARY_PATH="$root/compiler/lib/x86_64-linux-gnu:$root/compiler/lib/llvm-19/lib"
exec "$root/compiler/{program}" "$@"
"""

_TOOLS = {
    "addr2line": "bin/x86_64-linux-gnu-addr2line",
    "ar": "bin/x86_64-linux-gnu-ar",
    "clang": "lib/llvm-19/bin/clang",
}

_CLANG_BUILD = """\
load("@torch_fusion//toolchains/host_clang:cc_toolchain.bzl", "host_clang_cc_toolchain")

package(default_visibility = ["//visibility:public"])

exports_files(["taken.txt"])

# The compiler without libraries and linker, so that an action has few inputs. Clang looks for crtbegin.o to find GCC's
# headers.
filegroup(
    name = "compiler_files",
    srcs = glob(
        ["compiler/**", "sysroot/usr/include/**", "sysroot/**/crtbegin.o", "tools/*"],
        exclude = ["**/*.a", "compiler/**/*.o", "**/lld"],
    ),
)

filegroup(
    name = "all_files",
    srcs = glob(["compiler/**", "sysroot/**", "tools/*"]),
)

# Names the source lines of what a sanitizer reports.
filegroup(
    name = "addr2line",
    srcs = ["tools/addr2line"],
    data = glob(["compiler/bin/*addr2line"] + ["compiler/lib/x86_64-linux-gnu/%s.*" % library for library in ["libbfd*", "libz", "libzstd", "libsframe"]]),
)

host_clang_cc_toolchain(
    name = "cc",
    all_files = ":all_files",
    compiler_files = ":compiler_files",
)
"""

def _execute(rctx, arguments):
    result = rctx.execute(arguments)
    if result.return_code:
        fail("{}: {} failed.\n{}{}".format(rctx.name, arguments[0], result.stdout, result.stderr))

def _arrange(rctx):
    """Makes the directories `compiler` and `sysroot` of what the packages have."""
    _execute(rctx, ["mkdir", "-p", "compiler/lib/x86_64-linux-gnu", "sysroot"])
    _execute(rctx, ["mv", "usr/bin", "compiler/"])
    _execute(rctx, ["mv", "usr/lib/llvm-19", "compiler/lib/"])
    prefixes = ["lib" + library for library in _COMPILER_LIBRARIES]
    libraries = [
        "usr/lib/x86_64-linux-gnu/" + entry.basename
        for entry in rctx.path("usr/lib/x86_64-linux-gnu").readdir()
        if any([entry.basename.startswith(prefix) for prefix in prefixes])
    ]
    _execute(rctx, ["mv"] + libraries + ["compiler/lib/x86_64-linux-gnu/"])
    _execute(rctx, ["mv", "usr", "sysroot/"])

    unused = ["find", "sysroot/usr/include/linux", "-type", "f"]
    for header in _KERNEL_HEADERS:
        unused += ["!", "-name", header]
    _execute(rctx, unused + ["-delete"])

    # These are linker scripts that name libraries by their paths on a machine on which the packages are installed.
    for script in ["libc.so", "libm.so"]:
        _execute(rctx, ["sed", "-i", "/^GROUP/s,/[^ ]*/,,g", "sysroot/usr/lib/x86_64-linux-gnu/" + script])

def _host_clang_impl(rctx):
    decisive = ["{} {}".format(package, digest) for package, digest in _PACKAGES.items()]
    if not shared_restore(rctx, "host-clang", decisive + _EXCLUDE + _COMPILER_LIBRARIES + _KERNEL_HEADERS):
        result = debian_unpack(
            rctx,
            allow_fail = True,
            suite = rctx.attr.suite,
            packages = _PACKAGES.keys(),
            sha256 = {package.split("=")[0]: digest for package, digest in _PACKAGES.items()},
            exclude = _EXCLUDE,
        )
        if result.error:
            fail(result.error + "\n--repo_env=TORCH_FUSION_HOST_COMPILER=machine takes this machine's own compiler instead.")
        _arrange(rctx)
        rctx.file("taken.txt", "".join([line + "\n" for line in result.taken]), executable = False)
        shared_store(rctx, "host-clang")
    for tool, program in _TOOLS.items():
        rctx.file("tools/" + tool, _WRAPPER.format(program = program))
    rctx.file("BUILD.bazel", _CLANG_BUILD)

host_clang = repository_rule(
    doc = "Debian's Clang for this machine; `host_compiler` declares its toolchain where it can be had.",
    implementation = _host_clang_impl,
    attrs = {
        "suite": attr.string(doc = "Label of `mirror.txt` of the `debian_suite` that the pinned packages are from.", mandatory = True),
    },
    environ = DEBIAN_ENVIRON,
)

_CONSTRAINTS = """\
\"\"\"What targets that need a C++ compiler for this machine put into target_compatible_with. Empty where there is one.\"\"\"

HOST_CC_COMPILER = {cc}

# One with libFuzzer.
HOST_LIBFUZZER = {libfuzzer}

# Whether it is Debian's Clang.
HOST_CLANG = {clang}

# Label of a program that names the source lines of what a sanitizer reports, or None.
HOST_SYMBOLIZER = {symbolizer}

# Whether the workspace is this project's own, and not one that depends on it.
OWN_WORKSPACE = {own_workspace}
"""

# Arm's compiler takes part on other platforms than this machine's.
_TOOLCHAIN = """\
toolchain(
    name = "clang",
    exec_compatible_with = ["@platforms//os:linux", "@platforms//cpu:x86_64"],
    target_compatible_with = ["@platforms//os:linux", "@platforms//cpu:x86_64"],
    toolchain = "{clang}//:cc",
    toolchain_type = "@bazel_tools//tools/cpp:toolchain_type",
)
"""

def _builds(rctx, compiler, source, flags):
    """Returns whether the compiler builds a program with the flags (its libraries may be missing)."""
    rctx.file("probe.cc", source)
    built = rctx.execute([compiler, "-x", "c++", "-std=c++17", "probe.cc", "-o", "probe"] + flags + ["-lstdc++"]).return_code == 0
    rctx.delete("probe.cc")
    rctx.delete("probe")
    return built

def _why_not_debian(rctx):
    """Returns why Debian's Clang can't be had on this machine; None if it can."""
    if rctx.os.name != "linux" or rctx.os.arch not in ["amd64", "x86_64"]:
        return "Debian's Clang is pinned for Linux on x86-64"

    # Debian itself needs no look at the package index, which a build may never need.
    release = rctx.execute(["sh", "-c", ". /etc/os-release && echo $ID"]).stdout.strip()
    if not (release == "debian" and rctx.which("apt-get")) and not debian_available(rctx, rctx.attr.suite):
        return "Debian's packages can't be had here"
    version = rctx.execute(["getconf", "GNU_LIBC_VERSION"]).stdout.strip().removeprefix("glibc ")
    numbers = [int(number) for number in version.split(".") if number.isdigit()]
    if numbers < _GLIBC:
        return "Debian's Clang needs glibc {}, and this machine has {}".format(".".join([str(n) for n in _GLIBC]), version or "another C library")
    return None

def _machine(rctx):
    """Returns whether the machine's own compiler has sanitizers, and libFuzzer."""
    compiler = rctx.os.environ.get("CC") or "gcc"
    compiler = rctx.path(compiler) if compiler.startswith("/") else rctx.which(compiler)
    if compiler == None:
        return False, False
    cc = _builds(
        rctx,
        compiler,
        "#include <vector>\nint main() { return static_cast<int>(std::vector<int>().size()); }\n",
        ["-fsanitize=address,undefined"],
    )
    libfuzzer = _builds(
        rctx,
        compiler,
        "#include <cstddef>\n#include <cstdint>\nextern \"C\" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }\n",
        ["-fsanitize=fuzzer,address,undefined"],
    )
    return cc, libfuzzer

def _host_compiler_impl(rctx):
    source = rctx.os.environ.get("TORCH_FUSION_HOST_COMPILER", "")
    if source not in ["", "debian", "machine"]:
        fail("TORCH_FUSION_HOST_COMPILER is \"{}\"; it can be \"debian\" or \"machine\".".format(source))
    reason = None
    if source == "machine" or not rctx.attr.toolchain:
        reason = "the machine's own compiler is asked for"
    else:
        reason = _why_not_debian(rctx)
        if reason and source == "debian":
            fail("TORCH_FUSION_HOST_COMPILER is \"debian\", but {}.".format(reason))
    cc, libfuzzer = _machine(rctx) if reason else (True, True)
    if not cc:
        # buildifier: disable=print
        print("Tests of C++ code will be skipped: {}, and there is no {} with the address and undefined-behaviour sanitizers (Debian: g++; others: gcc-c++, libasan, libubsan).".format(
            reason,
            rctx.os.environ.get("CC") or "gcc",
        ))
    rctx.file("constraints.bzl", _CONSTRAINTS.format(
        cc = [] if cc else '[Label("@torch_fusion//platforms:host_cc_compiler")]',
        libfuzzer = [] if libfuzzer else '[Label("@torch_fusion//platforms:host_libfuzzer")]',
        clang = not reason,
        own_workspace = rctx.attr.toolchain,
        symbolizer = None if reason else repr(str(rctx.attr.clang.same_package_label("addr2line"))),
    ))
    rctx.file("BUILD.bazel", 'exports_files(["constraints.bzl"])\n' + ("" if reason else _TOOLCHAIN.format(clang = str(rctx.attr.clang).split("//")[0])))

host_compiler = repository_rule(
    doc = """Where the C++ compiler of tests on this machine is from. constraints.bzl says what it can do; the root package
declares the toolchain, if it is Debian's Clang.""",
    implementation = _host_compiler_impl,
    attrs = {
        "clang": attr.label(doc = "Any label of the `host_clang`.", mandatory = True),
        "suite": attr.string(doc = "Label of `mirror.txt` of a `debian_suite`.", mandatory = True),
        "toolchain": attr.bool(doc = "Whether this workspace's toolchains are ours to choose.", mandatory = True),
    },
    environ = ["CC", "TORCH_FUSION_HOST_COMPILER"],
    configure = True,
)
