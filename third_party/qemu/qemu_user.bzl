"""QEMU's emulator of x86-64 processors for programs of this machine, for tests that anything computes the same on each."""

load("//third_party:shared.bzl", "shared_restore", "shared_store")
load("//third_party/debian:debian.bzl", "DEBIAN_ENVIRON", "debian_available", "debian_held", "debian_unpack")

_BUILD = """\
exports_files(["taken.txt"], visibility = ["//visibility:public"])

filegroup(
    name = "qemu-x86_64",
    srcs = ["bin/qemu-x86_64"],
    visibility = ["//visibility:public"],
)
"""

# Everything of the package, which is linked statically, but the one program.
_EXCLUDE = [
    "./usr/bin/qemu-[!x]*",
    "./usr/bin/qemu-x[!8]*",
    "./usr/lib",
    "./usr/libexec",
    "./usr/sbin",
    "./usr/share",
]

def _fetch(rctx):
    """Makes `bin/qemu-x86_64` and taken.txt."""
    if shared_restore(rctx, "qemu-user", ["taken.txt"] + _EXCLUDE + debian_held(rctx)):
        return
    host = rctx.which("qemu-x86_64") or rctx.which("qemu-x86_64-static")
    if not debian_available(rctx, rctx.attr.suite):
        if not host:
            fail("qemu-x86_64 is needed to emulate processors: install qemu-user with this machine's package manager.")
        rctx.symlink(host, "bin/qemu-x86_64")
        rctx.file("taken.txt", "{} of this machine\n".format(host), executable = False)
        return
    taken = debian_unpack(rctx, suite = rctx.attr.suite, packages = ["qemu-user-static"], exclude = _EXCLUDE).taken
    result = rctx.execute(["sh", "-c", "mkdir bin && mv usr/bin/qemu-x86_64-static bin/qemu-x86_64 && rm -r usr"])
    if result.return_code:
        fail("{}: qemu-user-static has no qemu-x86_64-static.\n{}".format(rctx.name, result.stderr))
    rctx.file("taken.txt", "".join([line + "\n" for line in taken]), executable = False)
    shared_store(rctx, "qemu-user")

def _qemu_user_impl(rctx):
    _fetch(rctx)
    rctx.file("BUILD.bazel", _BUILD)

qemu_user = repository_rule(
    doc = "`qemu-x86_64`, a program of one file: Debian's, of any signed version, or away from Debian the machine's. `taken.txt` says which.",
    implementation = _qemu_user_impl,
    attrs = {
        "suite": attr.string(doc = "Label of `mirror.txt` of a `debian_suite`, which is fetched when it is needed.", mandatory = True),
    },
    environ = DEBIAN_ENVIRON,
)
