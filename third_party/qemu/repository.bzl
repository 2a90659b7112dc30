"""QEMU's emulator of Arm machines, for tests and for `//firmware:emulate`.

Not pinned: the architecture defines its results, so any version from 7.2 on does. The host's own is used if it is new
enough, else Debian's package. Away from Debian the host's is needed.
"""

load("//third_party:shared.bzl", "shared_restore", "shared_store")
load("//third_party/debian:debian.bzl", "DEBIAN_ENVIRON", "debian_available", "debian_held", "debian_multiarch", "debian_unpack")

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
exports_files(["taken.txt"], visibility = ["//visibility:public"])

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

# Debian's packages have these besides QEMU for Arm.
_EXCLUDE = [
    "./etc",
    "./usr/bin/qemu-storage-daemon",
    "./usr/bin/qemu-system-aarch64",
    "./usr/sbin",
    "./usr/share/[!q]*",
    "./var",
]

def _fetch(rctx):
    """Makes `bin/qemu-system-arm` and taken.txt."""
    host = rctx.which("qemu-system-arm")
    version = _version(rctx, host) if host and not debian_held(rctx) else []
    if version >= _MINIMUM:
        rctx.file("bin/qemu-system-arm", _HOST.format(qemu = host))
        rctx.file("taken.txt", "{} of this machine, {}\n".format(host, ".".join([str(number) for number in version])), executable = False)
        return
    if shared_restore(rctx, "qemu-system-arm", [_DEBIAN] + _STAND_INS + _EXCLUDE + debian_held(rctx)):
        return
    if not debian_available(rctx, rctx.attr.suite):
        fail("QEMU 7.2 or newer is needed to emulate a board: install qemu-system-arm with this machine's package manager.")
    taken = debian_unpack(
        rctx,
        suite = rctx.attr.suite,
        packages = ["qemu-system-arm"],
        dependencies = True,
        exclude = _EXCLUDE,
        stand_ins = _STAND_INS,
    ).taken
    rctx.file("bin/qemu-system-arm", _DEBIAN.format(multiarch = debian_multiarch(rctx)))
    rctx.file("taken.txt", "".join([line + "\n" for line in taken]), executable = False)
    shared_store(rctx, "qemu-system-arm")

def _qemu_impl(rctx):
    _fetch(rctx)
    rctx.file("BUILD.bazel", _BUILD)

qemu = repository_rule(
    doc = "`qemu-system-arm`, a program of one file. `taken.txt` says which it is.",
    implementation = _qemu_impl,
    attrs = {
        "suite": attr.string(doc = "Label of `mirror.txt` of a `debian_suite`, which is fetched when it is needed.", mandatory = True),
    },
    configure = True,
    environ = DEBIAN_ENVIRON,
)
