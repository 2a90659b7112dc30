"""buildifier, which formats BUILD and .bzl files, out of its npm package."""

load("//third_party/npm:registry.bzl", "npm_url")

BUILDIFIER = {
    "package": "@bazel/buildifier",
    "sha256": "b96ea9b13003036c801f52bee6f9b0314738f8432e5cb9d814c89f59292604ee",
    "version": "8.2.1",
}

_BUILD = """\
load("@bazel_skylib//rules:native_binary.bzl", "native_binary")

native_binary(
    name = "buildifier",
    src = "{program}",
    out = "buildifier",
    visibility = ["//visibility:public"],
)
"""

def _buildifier_impl(rctx):
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(rctx.os.arch, rctx.os.arch)
    program = "buildifier-linux_" + machine
    rctx.download_and_extract(
        url = npm_url(rctx, BUILDIFIER["package"], BUILDIFIER["version"]),
        sha256 = BUILDIFIER["sha256"],
        stripPrefix = "package",
    )
    if not rctx.path(program).exists:
        fail("{}: buildifier {} has no program for Linux on {}.".format(rctx.name, BUILDIFIER["version"], rctx.os.arch))

    # The programs for other machines.
    for file in rctx.path(".").readdir():
        if file.basename not in [program, "LICENSE"]:
            rctx.delete(file)
    rctx.file("BUILD.bazel", _BUILD.format(program = program))

buildifier = repository_rule(
    doc = "`//:buildifier`, a program.",
    implementation = _buildifier_impl,
)

def _extension_impl(_mctx):
    buildifier(name = "buildifier")

buildifier_extension = module_extension(implementation = _extension_impl)
