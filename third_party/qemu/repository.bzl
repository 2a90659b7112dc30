"""QEMU's emulator of Arm machines, for tests and for `//firmware:emulate`.

Not pinned: what it computes is the architecture's, so any version from 7.2 on does. The host's own is used if it is new
enough, else Debian's package. Away from Debian the host's is needed.
"""

load("//third_party/debian:debian.bzl", "debian_available", "debian_multiarch", "debian_unpack")

_MINIMUM = [7, 2]

# Libraries that every Linux has, or that only QEMU's windows, sound and network services would need.
_STAND_INS = [
    "libc6",
    "libgcc-s1",
    "libstdc++6",
    "adduser",
    "debconf",
    "perl",
    "perl-base",
]

_HOST = """#!/bin/sh
exec "{qemu}" "$@"
"""

_DEBIAN = """#!/bin/sh
root=$(dirname "$(dirname "$(readlink -f "$0")")")
LD_LIBRARY_PATH="$root/usr/lib/{multiarch}" exec "$root/usr/bin/qemu-system-arm" -L "$root/usr/share/qemu" "$@"
"""

_BUILD = """\
filegroup(
    name = "qemu-system-arm",
    srcs = ["bin/qemu-system-arm"],
    data = glob(["usr/**"], allow_empty = True),
    visibility = ["//visibility:public"],
)
"""

def _version(rctx, qemu):
    """The emulator's version as a list of numbers; empty if it doesn't say."""
    for word in rctx.execute([qemu, "--version"]).stdout.split(" "):
        numbers = word.strip().split("(")[0].split(".")
        if len(numbers) > 1 and numbers[0].isdigit() and numbers[1].isdigit():
            return [int(numbers[0]), int(numbers[1])]
    return []

def _qemu_impl(rctx):
    rctx.file("BUILD.bazel", _BUILD)
    host = rctx.which("qemu-system-arm")
    if host and _version(rctx, host) >= _MINIMUM:
        rctx.file("bin/qemu-system-arm", _HOST.format(qemu = host))
        return
    if not debian_available(rctx, rctx.attr.suite):
        fail("QEMU 7.2 or newer is needed to emulate a board: install qemu-system-arm with this machine's package manager.")
    debian_unpack(
        rctx,
        suite = rctx.attr.suite,
        packages = ["qemu-system-arm"],
        dependencies = True,
        exclude = [
            "./etc",
            "./usr/bin/qemu-storage-daemon",
            "./usr/bin/qemu-system-aarch64",
            "./usr/sbin",
            "./usr/share/[!q]*",
            "./var",
        ],
        stand_ins = _STAND_INS,
    )
    rctx.file("bin/qemu-system-arm", _DEBIAN.format(multiarch = debian_multiarch(rctx)))

qemu = repository_rule(
    doc = "`qemu-system-arm`, a program of one file.",
    implementation = _qemu_impl,
    attrs = {
        "suite": attr.label(doc = "`mirror.txt` of a `debian_suite`.", mandatory = True),
    },
    configure = True,
)
