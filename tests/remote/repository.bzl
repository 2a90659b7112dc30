"""Fetches what only //tests/remote:prove needs: the servers' packages, and the program that makes sandboxes."""

load("//third_party/debian:debian.bzl", "debian_available", "debian_multiarch", "debian_unpack")
load("//third_party/python:repository.bzl", "pypi_set")

_BUILD = """\
filegroup(
    name = "bwrap",
    srcs = ["usr/bin/bwrap"],
    data = glob(["usr/lib/**"], allow_empty = True),
    visibility = ["//visibility:public"],
)
"""

def _bubblewrap_impl(rctx):
    rctx.file("BUILD.bazel", _BUILD)
    host = rctx.which("bwrap")
    if host:
        rctx.symlink(host, "usr/bin/bwrap")
        return
    if not debian_available(rctx, rctx.attr.suite):
        fail("bubblewrap is needed for the workers' sandboxes: install it with this machine's package manager.")
    debian_unpack(
        rctx,
        suite = rctx.attr.suite,
        packages = ["bubblewrap", "libcap2", "libpcre2-8-0", "libselinux1", "patchelf"],
        exclude = ["./etc", "./usr/share"],
    )

    # Beside the program, and not by LD_LIBRARY_PATH: what it starts must not see them.
    libraries = "$ORIGIN/../lib/" + debian_multiarch(rctx)
    for file in ["usr/bin/bwrap", "usr/lib/{}/libselinux.so.1".format(debian_multiarch(rctx))]:
        path = rctx.path(file).realpath
        rpath = libraries if file.startswith("usr/bin") else "$ORIGIN"
        result = rctx.execute(["usr/bin/patchelf", "--force-rpath", "--set-rpath", rpath, str(path)])
        if result.return_code:
            fail("{}: patchelf failed.\n{}".format(rctx.name, result.stderr))
    rctx.delete("usr/bin/patchelf")

bubblewrap = repository_rule(
    doc = "`//:bwrap`: the machine's, or Debian's.",
    implementation = _bubblewrap_impl,
    attrs = {
        "suite": attr.label(doc = "`mirror.txt` of a `debian_suite`.", mandatory = True),
    },
)

def _farm_impl(_mctx):
    bubblewrap(name = "bubblewrap", suite = "@debian_bookworm//:mirror.txt")
    pypi_set(
        name = "pypi_farm",
        content = "python-farm",
        lock = "//tests/remote:requirements/farm.txt",
        python = "@python3//:BUILD.bazel",
    )

farm = module_extension(implementation = _farm_impl)
