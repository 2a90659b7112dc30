"""CMake and Ninja, for firmware projects of users' own: Debian's, or away from Debian this machine's.

Not pinned: they start compilers, and which is the toolchain's business.
"""

load("//third_party:shared.bzl", "shared_restore", "shared_store")
load("//third_party/debian:debian.bzl", "DEBIAN_ENVIRON", "debian_available", "debian_held", "debian_multiarch", "debian_unpack")

# Libraries that every Linux has, or that only installing needs.
_STAND_INS = [
    "libc6",
    "libgcc-s1",
    "libstdc++6",
    "debconf",
    "procps",
    "perl-base",
]

_EXCLUDE = [
    "./etc",
    "./usr/bin/c[!m]*",
    "./usr/bin/cpack",
    "./usr/sbin",
    "./usr/share/[!c]*",
    "./usr/share/cmake-*/Help",
    "./var",
]

# CMake finds its modules beside its program. Nothing but sh is needed to start it.
_DEBIAN = """#!/bin/sh
root=${{0%/bin/*}}
LD_LIBRARY_PATH="$root/usr/lib/{multiarch}" exec "$root/usr/bin/{program}" "$@"
"""

_HOST = """#!/bin/sh
exec "{program}" "$@"
"""

_BUILD = """\
package(default_visibility = ["//visibility:public"])

exports_files(["taken.txt"])

filegroup(
    name = "files",
    srcs = ["bin/cmake", "bin/ninja"] + glob(["usr/**"], allow_empty = True),
)
"""

_PROGRAMS = ["cmake", "ninja"]

def _fetch(rctx):
    """Makes bin/ and taken.txt."""
    if shared_restore(rctx, "cmake", [_DEBIAN] + _STAND_INS + _EXCLUDE + debian_held(rctx)):
        return
    if not debian_available(rctx, rctx.attr.suite):
        for program in _PROGRAMS:
            host = rctx.which(program)
            if not host:
                fail("{} is needed to build a firmware project with CMake: install it with this machine's package manager.".format(program))
            rctx.file("bin/" + program, _HOST.format(program = host))
        rctx.file("taken.txt", "")
        return
    taken = debian_unpack(
        rctx,
        suite = rctx.attr.suite,
        packages = ["cmake", "ninja-build"],
        dependencies = True,
        exclude = _EXCLUDE,
        stand_ins = _STAND_INS,
    ).taken
    for program in _PROGRAMS:
        rctx.file("bin/" + program, _DEBIAN.format(multiarch = debian_multiarch(rctx), program = program))
    rctx.file("taken.txt", "".join([line + "\n" for line in taken]), executable = False)
    shared_store(rctx, "cmake")

def _cmake_impl(rctx):
    _fetch(rctx)
    rctx.file("BUILD.bazel", _BUILD)

cmake = repository_rule(
    doc = "`:files`: CMake and Ninja, as bin/cmake and bin/ninja. `taken.txt` says which they are.",
    implementation = _cmake_impl,
    attrs = {
        "suite": attr.string(doc = "Label of `mirror.txt` of a `debian_suite`, which is fetched when it is needed.", mandatory = True),
    },
    environ = DEBIAN_ENVIRON,
)
