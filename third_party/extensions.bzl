"""The repositories of what others made. Each is fetched when a build first needs something of it."""

load("//third_party/arm_gnu_toolchain:repository.bzl", "arm_gnu_toolchain")
load("//third_party/debian:debian.bzl", "debian_suite")
load("//third_party/executorch:repository.bzl", "executorch")
load("//third_party/host_compiler:repository.bzl", "host_compiler")
load("//third_party/python:repository.bzl", "pypi", "python3_11")
load("//third_party/qemu:repository.bzl", "qemu")
load("//toolchains/python:exec_tools.bzl", "python_exec_tools")

_SUITE = "@debian_bookworm//:mirror.txt"

def _third_party_impl(_mctx):
    debian_suite(name = "debian_bookworm", suite = "bookworm")
    arm_gnu_toolchain(name = "arm_gnu_toolchain", suite = _SUITE)
    python3_11(name = "python3_11", suite = _SUITE)
    pypi(
        name = "pypi",
        lock = "//third_party/python:requirements_lock.txt",
        python = "@python3_11//:BUILD.bazel",
        programs = ["ruff"],
    )
    executorch(
        name = "executorch",
        patches = [],
        pypi = "@pypi//:BUILD.bazel",
    )
    qemu(name = "qemu", suite = _SUITE)
    host_compiler(name = "host_compiler")
    python_exec_tools(name = "python_exec_tools")

third_party = module_extension(implementation = _third_party_impl)
