"""Vulkan on the machine's processor, for tests and `//tools:run_pte` of VGF programs: Khronos' loader and Mesa's driver lavapipe.

Not pinned: Vulkan defines the results of a shader, so any version does. Debian's packages; away from Debian the
machine's own.
"""

load("//third_party:shared.bzl", "shared_restore", "shared_store")
load("//third_party/debian:debian.bzl", "DEBIAN_ENVIRON", "debian_available", "debian_held", "debian_multiarch", "debian_unpack")
load("//third_party/python:repository.bzl", "write_site_library")

# The loader, the driver, and the libraries that it needs and not every Linux has.
_PACKAGES = [
    "libbsd0",
    "libdrm2",
    "libedit2",
    "libexpat1",
    "libffi8",
    "libicu72",
    "libllvm15",
    "liblzma5",
    "libmd0",
    "libtinfo6",
    "libvulkan1",
    "libwayland-client0",
    "libx11-xcb1",
    "libxau6",
    "libxcb-dri3-0",
    "libxcb-present0",
    "libxcb-randr0",
    "libxcb-shm0",
    "libxcb-sync1",
    "libxcb-xfixes0",
    "libxcb1",
    "libxdmcp6",
    "libxml2",
    "libxshmfence1",
    "libz3-4",
    "libzstd1",
    "mesa-vulkan-drivers",
    "zlib1g",
]

# The packages have these besides lavapipe, or only X11's own libraries would read them.
_EXCLUDE = [
    "./etc",
    "./usr/bin",
    "./usr/lib/*/libVkLayer_*",
    "./usr/lib/*/libvulkan_[!l]*",
    "./usr/sbin",
    "./usr/share",
    "./var",
]

# A Python package without code, so that tools find it: `lib` has the loader and what the driver needs, `driver.json` names the driver.
_PACKAGE = "site-packages/lavapipe"

_DRIVER = """{
  "file_format_version": "1.0.0",
  "ICD": {"library_path": "lib/libvulkan_lvp.so", "api_version": "1.3.0"}
}
"""

# Machines have the driver's description there.
_HOST_DRIVERS = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"]

def _fetch_host(rctx):
    """Names the machine's own driver, and leaves the loader to be found by the dynamic linker. Not tested."""
    for folder in _HOST_DRIVERS:
        path = rctx.path(folder)
        for entry in path.readdir() if path.exists else []:
            if entry.basename.startswith("lvp_icd"):
                rctx.file(_PACKAGE + "/lib/.keep", "")
                rctx.file(_PACKAGE + "/driver.json", rctx.read(entry), executable = False)
                rctx.file("taken.txt", "{} of this machine\n".format(entry), executable = False)
                return
    fail("{}: Mesa's Vulkan driver lavapipe is needed to run VGF programs: install mesa-vulkan-drivers and libvulkan1, whatever this machine's package manager calls them.".format(rctx.name))

def _fetch(rctx):
    if shared_restore(rctx, "lavapipe", [_PACKAGE, _DRIVER] + _PACKAGES + _EXCLUDE + debian_held(rctx)):
        return
    if not debian_available(rctx, rctx.attr.suite):
        _fetch_host(rctx)
        return
    taken = debian_unpack(rctx, suite = rctx.attr.suite, packages = _PACKAGES, exclude = _EXCLUDE).taken
    result = rctx.execute(["sh", "-c", "mkdir -p {0} && mv usr/lib/{1} {0}/lib && rm -r usr".format(_PACKAGE, debian_multiarch(rctx))])
    if result.return_code:
        fail("{}: Debian's packages have no libraries.\n{}".format(rctx.name, result.stderr))

    rctx.file(_PACKAGE + "/driver.json", _DRIVER, executable = False)
    rctx.file("taken.txt", "".join([line + "\n" for line in taken]), executable = False)
    shared_store(rctx, "lavapipe")

def _lavapipe_impl(rctx):
    _fetch(rctx)
    rctx.file(_PACKAGE + "/__init__.py", "", executable = False)
    write_site_library(rctx, rctx.read("taken.txt"))
    rctx.file("BUILD.bazel", rctx.read("BUILD.bazel") + "\nexports_files([\"taken.txt\"])\n")

lavapipe = repository_rule(
    doc = "`:site`, the Python package `lavapipe` with Vulkan's loader and a driver that computes on the machine's processor.",
    implementation = _lavapipe_impl,
    attrs = {
        "suite": attr.string(doc = "Label of `mirror.txt` of a `debian_suite`, which is fetched when it is needed.", mandatory = True),
    },
    environ = DEBIAN_ENVIRON,
)
