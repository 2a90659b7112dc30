"""The Arm GNU toolchain (GCC 12.2, binutils, newlib) as a repository.

Two sources, one layout:
- `debian`: Debian's packages, each pinned by version and sha256, because compiler and C library decide the bytes of an image.
- `release`: Arm's own archive. It is used away from Debian. Not tested: the machines this was developed on cannot fetch it. Both are GCC 12.2.1, but not the same build: their images differ by some bytes.

The environment variable TORCH_FUSION_ARM_GNU_TOOLCHAIN=debian|release forces one
(`--repo_env=TORCH_FUSION_ARM_GNU_TOOLCHAIN=release`). Otherwise Arm's archive also stands in for packages that neither the
mirror nor a snapshot (third_party/debian/debian.bzl) has any more.
"""

load("//platforms:cores.bzl", "CORES", "softfp_multilibs")
load("//third_party:shared.bzl", "shared_restore", "shared_store")
load("//third_party/debian:debian.bzl", "DEBIAN_ENVIRON", "debian_available", "debian_unpack")

_GCC_VERSION = "12.2.1"

# Debian 12's packages that every machine has, and those of each architecture, as name=version: sha256. The compiler itself is
# linked with the libraries.
_COMMON_PACKAGES = {
    "libnewlib-arm-none-eabi=3.3.0-1.3+deb12u1": "c80278e8332940eaf9738910258bb85b21c30aacf246a5e363fee230d3605e84",
    "libnewlib-dev=3.3.0-1.3+deb12u1": "ab5e6e80d66a6f2f8b9b22b9297154a676a5434ac82e48b88e8164548bc72115",
    "libstdc++-arm-none-eabi-dev=15:12.2.rel1-1+23": "5f643e7507bd84150e820602cc086393c441e28f158b745370b2105333d9e2ec",
}
_DEBIAN_PACKAGES = {
    "aarch64": _COMMON_PACKAGES | {
        "binutils-arm-none-eabi=2.40-2+18+b1": "c3157fce6caf304b4bb32492026002334eb534d047fcadf536d84db5ff8ba568",
        "gcc-arm-none-eabi=15:12.2.rel1-1": "14fbf38cfb8bd22c562c731b40e01a5a592b67beb678563e9696c886c5290e79",
        "libgmp10=2:6.2.1+dfsg1-1.1": "9906387c1dd806518c915bd8616d072c741061d7fa26b222e52763456060b31a",
        "libisl23=0.25-1.1": "e7232e299714254a9473d7eacdf6879eedf02b950c87da145f5d605800710c6c",
        "libmpc3=1.3.1-1": "19fd1712d02a9ee3eeff5b6678a8766a12f2858c3384258c7abc15edd891739f",
        "libmpfr6=4.2.0-1": "d818fbfb555561bff56694cc628dc9939f393a07026aefd237e9c818b9f2cb77",
        "libzstd1=1.5.4+dfsg2-5": "95e173c9538f96ede4fc275ec7863f395a97dd0ea62454be9bc914efa1b9be93",
        "zlib1g=1:1.2.13.dfsg-1": "52b8b8a145bbe1956bba82034f77022cbef0c3d0885c9e32d9817a7932fe1913",
    },
    "x86_64": _COMMON_PACKAGES | {
        "binutils-arm-none-eabi=2.40-2+18+b1": "c8f9da2a434366bfe5a66a8267cb3b1df028f1d95278715050c222b43e1c221c",
        "gcc-arm-none-eabi=15:12.2.rel1-1": "2bbd4f4145e9a3669f58ddab6a3190b768949f07cc444d23e98743d905f83e16",
        "libgmp10=2:6.2.1+dfsg1-1.1": "187aedef2ed763f425c1e523753b9719677633c7eede660401739e9c893482bd",
        "libisl23=0.25-1.1": "ebff0b2f8b220c74224197523019366e97ee4770d464bebc48e4865114e4da0e",
        "libmpc3=1.3.1-1": "d7f79544790e44f9b0c8cb9034a18c58d37f8702a15f32539050718679e52f80",
        "libmpfr6=4.2.0-1": "37b7a2b4e78890b6a074777f27b96c84f58e81558ba08410c2b6c0ca4a4ad77b",
        "libzstd1=1.5.4+dfsg2-5": "6315b5ac38b724a710fb96bf1042019398cb656718b1522279a5185ed39318fa",
        "zlib1g=1:1.2.13.dfsg-1": "d7dd1d1411fedf27f5e27650a6eff20ef294077b568f4c8c5e51466dc7c08ce4",
    },
}

# C++'s library, three quarters of the toolchain's download: an image needs it only if its application allocates.
_LIBSTDCXX_PACKAGES = {
    "libstdc++-arm-none-eabi-newlib=15:12.2.rel1-1+23": "9d5b31c174f71733b933e3b6b152f172ae2b0dbc2cabc5ea949212568ce4dbce",
}

# The sha256 of Arm's archive, by the machine in its name.
_RELEASES = {
    "aarch64": "7ee332f7558a984e239e768a13aed86c6c3ac85c90b91d27f4ed38d7ec6b3e8c",
    "x86_64": "84be93d0f9e96a15addd490b6e237f588c641c8afdf90e7610a628007fc96867",
}

_RELEASE_URL = "https://developer.arm.com/-/media/Files/downloads/gnu/12.2.rel1/binrel/arm-gnu-toolchain-12.2.rel1-{}-arm-none-eabi.tar.xz"

# The variants of the C and C++ libraries that cores use. The others are two thirds of the toolchain's size.
_MULTILIBS = sorted({core.multilib: None for core in CORES.values()})

# Firmware projects of users' own that link by `softfp`, as Mbed OS does, use these variants. No image has them.
_SOFTFP_MULTILIBS = softfp_multilibs()

# These are Bazel's names of the tools. GCC's own read the objects of link-time optimization, which hold no machine
# code.
_TOOLS = {tool: tool for tool in ["addr2line", "cpp", "gcc", "gcov", "ld", "objcopy", "objdump", "readelf", "size", "strip"]} | {
    "ar": "gcc-ar",
    "nm": "gcc-nm",
}

# A firmware project of a user's own starts these by the names that they have everywhere.
_PROGRAMS = "bin"

# Actions start the tools by paths relative to the execution root, so the root of this repository is in $0. The variable
# reaches only what the tool itself starts. GCC writes $PWD into debug information: Bazel sets it for compilers, but a sandbox
# of a remote worker may set it to another name.
_WRAPPER = """#!/bin/sh
root=${{0%/{folder}/*}}
export PWD=/proc/self/cwd
export LD_LIBRARY_PATH="$root/{libraries}"
exec "$root/{bin}/arm-none-eabi-{program}" "$@"
"""

_BUILD = """\
load("@torch_fusion//toolchains/arm_gnu:cc_toolchains.bzl", "arm_gnu_cc_toolchains")

package(default_visibility = ["//visibility:public"])

exports_files(["taken.txt"])

# Programs that archive and inspect object files. Those of link-time optimization need the compiler's plugin, and programs where gcc-ar
# and gcc-nm look for them.
filegroup(
    name = "archiver_files",
    srcs = glob(
        ["tools/*", "{bin}/*", "{libraries}/*.so*", "**/arm-none-eabi/bin/ar", "**/arm-none-eabi/bin/nm", "**/liblto_plugin.so"],
        allow_empty = True,
    ),
)

# For actions of any core, and tools that look into images: without the libraries, and with them.
filegroup(
    name = "compiler_files",
    srcs = glob(["tools/*", "{root}**"], exclude = ["**/*.a", "**/*.o"]),
)

filegroup(
    name = "all_files",
    srcs = glob(["{programs}/*", "tools/*", "{root}**"]),
)

arm_gnu_cc_toolchains(
    archiver_files = ":archiver_files",
    builtin_include_directories = {builtin_include_directories},
    nano_include_directory = "{nano_include_directory}",
    root = "{root}",
)
"""

def _delete_other_multilibs(rctx, gcc, libraries, cpp_headers, multilibs = _MULTILIBS):
    """Deletes the library variants that are not among `multilibs`, the ones for Arm mode, which a Cortex-M doesn't have, and
    what of the others newlib-nano's take the place of."""
    rctx.file("delete_multilibs.sh", """\
set -eu
for directory in "$@"; do
  for candidate in "$directory"/arm "$directory"/thumb/* "$directory"/thumb/*/*; do
    [ -d "$candidate" ] || continue
    variant=${candidate#"$directory/"}
    case " $KEEP " in *" $variant "* | *" $variant/"*) ;; *) rm -rf "$candidate" ;; esac
  done
  rm -f "$directory"/*.a "$directory"/*.o
  find "$directory" "(" -name libc.a -o -name libg.a ")" -exec rm {} +
done
""", executable = False)
    _execute(rctx, ["sh", "delete_multilibs.sh", gcc, libraries, cpp_headers], environment = {"KEEP": " ".join(multilibs)})
    rctx.delete("delete_multilibs.sh")

def _execute(rctx, arguments, environment = {}):
    result = rctx.execute(arguments, environment = environment)
    if result.return_code:
        fail("{}: {} failed.\n{}{}".format(rctx.name, arguments[0], result.stdout, result.stderr))

# Nothing needs these of Debian's packages to build.
_EXCLUDE = ["./etc", "./usr/share", "*/plugin", "*-gdb.py", "*/bfd-plugins", "*-lto-dump"]

def _machine(rctx):
    """Returns the machine's architecture as GNU and Linux name it; fails if there is no toolchain for it."""
    machine = rctx.os.arch.replace("amd64", "x86_64")
    if machine not in _RELEASES or rctx.os.name != "linux":
        fail("There is no Arm GNU toolchain 12.2 for {} on {} here; Linux on x86_64 or aarch64 is needed.".format(rctx.os.name, rctx.os.arch))
    return machine

def _debian_packages(rctx, names = None):
    """Returns the pinned packages for this machine as a dict of name=version: sha256; only those with the `names`, if given."""
    packages = _DEBIAN_PACKAGES[_machine(rctx)]
    return {package: packages[package] for package in sorted(packages) if not names or package.split("=")[0] in names}

def _fetch_debian(rctx):
    """Makes the directory `usr` of Debian's packages. Returns what went wrong, or None."""
    packages = _debian_packages(rctx)
    result = debian_unpack(
        rctx,
        allow_fail = True,
        suite = rctx.attr.suite,
        packages = packages.keys(),
        sha256 = {package.split("=")[0]: digest for package, digest in packages.items()},
        exclude = _EXCLUDE,
    )
    if result.error:
        return result.error
    gcc = _debian_layout(rctx).gcc
    headers = "usr/lib/arm-none-eabi/include"
    libraries = "usr/lib/arm-none-eabi/lib"

    # GCC looks for newlib there; on a machine where the packages are installed Debian's alternatives make links there.
    _execute(rctx, ["mv", "usr/include/newlib", headers])
    _execute(rctx, ["mv", "usr/lib/arm-none-eabi/newlib", libraries])
    _delete_other_multilibs(rctx, gcc, libraries, "{}/c++/{}/arm-none-eabi".format(headers, _GCC_VERSION))

    # nano.specs adds newlib-nano's headers by their path on such a machine; the toolchain's flags add them instead.
    _execute(rctx, ["find", "usr", "-name", "nano.specs", "-type", "f", "-exec", "sed", "-i", "s,-isystem [^ ]*,,", "{}", "+"])
    rctx.file("taken.txt", "".join([line + "\n" for line in result.taken]), executable = False)
    return None

def _layout(root, libraries, headers, nano):
    gcc = "{}lib/gcc/arm-none-eabi/{}".format(root, _GCC_VERSION)
    return struct(
        root = root,
        bin = root + "bin",
        gcc = gcc,
        headers = headers,
        libraries = libraries,
        nano_include_directory = "{}/{}".format(headers, nano),
        builtin_include_directories = [gcc + "/include", gcc + "/include-fixed", headers],
    )

def _debian_layout(rctx):
    return _layout("usr/", "usr/lib/{}-linux-gnu".format(_machine(rctx)), "usr/lib/arm-none-eabi/include", "nano")

_RELEASE_LAYOUT = _layout("release/", "release/lib", "release/arm-none-eabi/include", "newlib-nano")

def _fetch_release(rctx, reason):
    """Makes the directory `release` of Arm's archive; `reason` is why Debian's packages aren't taken, for the error."""
    name = _machine(rctx)
    sha256 = _RELEASES[name]
    download = rctx.download_and_extract(
        _RELEASE_URL.format(name),
        allow_fail = True,
        sha256 = sha256,
        stripPrefix = "arm-gnu-toolchain-12.2.rel1-{}-arm-none-eabi".format(name),
        output = "release",
    )
    if not download.success:
        fail("""{}Arm's archive could not be downloaded from
  {}
One that was fetched by other means is taken from the directory that --distdir=DIRECTORY names.{}""".format(
            reason + "\n" if reason else "",
            _RELEASE_URL.format(name),
            "" if reason else " On Debian 12, TORCH_FUSION_ARM_GNU_TOOLCHAIN=debian takes Debian's packages.",
        ))
    headers = _RELEASE_LAYOUT.headers
    _delete_other_multilibs(rctx, _RELEASE_LAYOUT.gcc, "release/arm-none-eabi/lib", "{}/c++/{}/arm-none-eabi".format(headers, _GCC_VERSION), _MULTILIBS + _SOFTFP_MULTILIBS)
    rctx.file("taken.txt", "{} {}\n".format(_RELEASE_URL.format(name), sha256), executable = False)

def _fetch(rctx, source):
    """Makes the toolchain's directory; returns its layout. `source` is one of "", "debian", "release"."""
    reason = None
    if source != "release":
        decisive = ["{} {}".format(package, digest) for package, digest in _debian_packages(rctx).items()]
        if shared_restore(rctx, "arm-gnu-toolchain", decisive + _EXCLUDE + _MULTILIBS):
            return _debian_layout(rctx)
        if debian_available(rctx, rctx.attr.suite):
            reason = _fetch_debian(rctx)
            if not reason:
                shared_store(rctx, "arm-gnu-toolchain")
                return _debian_layout(rctx)
        elif source:
            reason = "TORCH_FUSION_ARM_GNU_TOOLCHAIN is \"debian\", but apt has no mirror of Debian here."
        if source:
            fail(reason)
        if reason:
            # buildifier: disable=print
            print(reason + "\nTrying Arm's release archive.")
    if not shared_restore(rctx, "arm-gnu-toolchain-release", [json.encode(_RELEASES)] + _MULTILIBS + _SOFTFP_MULTILIBS):
        _fetch_release(rctx, reason)
        shared_store(rctx, "arm-gnu-toolchain-release")
    return _RELEASE_LAYOUT

def _arm_gnu_toolchain_impl(rctx):
    source = rctx.os.environ.get("TORCH_FUSION_ARM_GNU_TOOLCHAIN", "")
    if source not in ["", "debian", "release"]:
        fail("TORCH_FUSION_ARM_GNU_TOOLCHAIN is \"{}\"; it can be \"debian\" or \"release\".".format(source))
    layout = _fetch(rctx, source)

    for tool, program in _TOOLS.items():
        rctx.file("tools/" + tool, _WRAPPER.format(bin = layout.bin, folder = "tools", libraries = layout.libraries, program = program))
    for program in rctx.path(layout.bin).readdir():
        if program.basename.startswith("arm-none-eabi-"):
            rctx.file("%s/%s" % (_PROGRAMS, program.basename), _WRAPPER.format(
                bin = layout.bin,
                folder = _PROGRAMS,
                libraries = layout.libraries,
                program = program.basename.removeprefix("arm-none-eabi-"),
            ))
    rctx.file("BUILD.bazel", _BUILD.format(
        bin = layout.bin,
        builtin_include_directories = layout.builtin_include_directories,
        libraries = layout.libraries,
        nano_include_directory = layout.nano_include_directory,
        programs = _PROGRAMS,
        root = layout.root,
    ))

arm_gnu_toolchain = repository_rule(
    doc = "The Arm GNU toolchain; //toolchains/arm_gnu makes it known to Bazel.",
    implementation = _arm_gnu_toolchain_impl,
    attrs = {
        "suite": attr.string(doc = "Label of `mirror.txt` of a `debian_suite`, which is fetched when it is needed.", mandatory = True),
    },
    environ = DEBIAN_ENVIRON + ["TORCH_FUSION_ARM_GNU_TOOLCHAIN"],
)

_LIBSTDCXX_BUILD = """\
load("@rules_cc//cc:cc_library.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

exports_files(["taken.txt"])

cc_library(
    name = "libstdcxx",
    srcs = select({srcs}),
    linkopts = {linkopts},
    target_compatible_with = ["@platforms//os:none"],
)

# This is for GCC's option -B, which looks for the variant itself.
filegroup(
    name = "files",
    srcs = glob(["thumb/**"], allow_empty = True),
)
"""

_LIBSTDCXX = "usr/lib/arm-none-eabi/newlib/{}"

def _arm_gnu_libstdcxx_impl(rctx):
    # Arm's archive has the library in the toolchain.
    if rctx.path(rctx.attr.toolchain).dirname.get_child("release").exists:
        rctx.file("taken.txt", "")
        rctx.file("BUILD.bazel", _LIBSTDCXX_BUILD.format(srcs = {"//conditions:default": []}, linkopts = ["-lstdc++"]))
        return
    decisive = ["{} {}".format(package, digest) for package, digest in _LIBSTDCXX_PACKAGES.items()]
    if not shared_restore(rctx, "arm-gnu-libstdcxx", decisive + _MULTILIBS + _SOFTFP_MULTILIBS):
        taken = debian_unpack(
            rctx,
            suite = rctx.attr.suite,
            packages = _LIBSTDCXX_PACKAGES.keys(),
            sha256 = {package.split("=")[0]: digest for package, digest in _LIBSTDCXX_PACKAGES.items()},
            exclude = ["./usr/share", "*/arm/*", "*/libstdc++.a", "*/libsupc++.a", "*.py"],
        ).taken
        for multilib in _MULTILIBS + _SOFTFP_MULTILIBS:
            _execute(rctx, ["sh", "-c", "mkdir -p $1 && mv $2/lib*_nano.a $1", "mv", multilib, _LIBSTDCXX.format(multilib)])
        rctx.delete("usr")
        rctx.file("taken.txt", "".join([line + "\n" for line in taken]), executable = False)
        shared_store(rctx, "arm-gnu-libstdcxx")
    rctx.file("BUILD.bazel", _LIBSTDCXX_BUILD.format(
        srcs = {
            "@torch_fusion//platforms:core_" + name: [core.multilib + "/libstdc++_nano.a"]
            for name, core in CORES.items()
        } | {"//conditions:default": []},
        linkopts = [],
    ))

arm_gnu_libstdcxx = repository_rule(
    doc = "`:libstdcxx`, the C++ library built for size, for images whose application allocates.",
    implementation = _arm_gnu_libstdcxx_impl,
    attrs = {
        "suite": attr.string(doc = "Label of `mirror.txt` of a `debian_suite`, which is fetched when it is needed.", mandatory = True),
        "toolchain": attr.label(doc = "BUILD.bazel of an `arm_gnu_toolchain` repository.", mandatory = True),
    },
    environ = DEBIAN_ENVIRON,
)

_SOFTFP_BUILD = """\
package(default_visibility = ["//visibility:public"])

exports_files(["taken.txt"])

# This is for GCC's option -B, which looks for the variant itself.
filegroup(
    name = "files",
    srcs = glob(["thumb/**"], allow_empty = True),
)
"""

def _arm_gnu_softfp_impl(rctx):
    rctx.file("BUILD.bazel", _SOFTFP_BUILD)

    # Arm's archive has the libraries in the toolchain.
    if rctx.path(rctx.attr.toolchain).dirname.get_child("release").exists:
        rctx.file("taken.txt", "")
        return
    packages = _debian_packages(rctx, ["gcc-arm-none-eabi", "libnewlib-arm-none-eabi"])
    decisive = ["{} {}".format(package, digest) for package, digest in packages.items()]
    if shared_restore(rctx, "arm-gnu-softfp", decisive + _SOFTFP_MULTILIBS):
        return
    taken = debian_unpack(
        rctx,
        suite = rctx.attr.suite,
        packages = packages.keys(),
        sha256 = {package.split("=")[0]: digest for package, digest in packages.items()},
        exclude = _EXCLUDE + ["./usr/bin", "./usr/include", "*/arm/*", "*/hard/*", "*/nofp/*", "*/libc.a", "*/libg.a"],
    ).taken
    for multilib in _SOFTFP_MULTILIBS:
        for libraries in [_debian_layout(rctx).gcc, "usr/lib/arm-none-eabi/newlib"]:
            _execute(rctx, ["sh", "-c", "mkdir -p $1 && mv $2/* $1", "mv", multilib, "{}/{}".format(libraries, multilib)])
    _execute(rctx, ["sed", "-i", "s,-isystem [^ ]*,,"] + [multilib + "/nano.specs" for multilib in _SOFTFP_MULTILIBS])
    rctx.delete("usr")
    rctx.file("taken.txt", "".join([line + "\n" for line in taken]), executable = False)
    shared_store(rctx, "arm-gnu-softfp")

arm_gnu_softfp = repository_rule(
    doc = "`:files`: GCC's and the C library's variants for the float ABI `softfp`, for firmware projects that link by it.",
    implementation = _arm_gnu_softfp_impl,
    attrs = {
        "suite": attr.string(doc = "Label of `mirror.txt` of a `debian_suite`, which is fetched when it is needed.", mandatory = True),
        "toolchain": attr.label(doc = "BUILD.bazel of an `arm_gnu_toolchain` repository.", mandatory = True),
    },
    environ = DEBIAN_ENVIRON,
)
