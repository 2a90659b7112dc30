"""The library of a folder of kernels."""

load("@rules_cc//cc:cc_library.bzl", "cc_library")
load("//rules:copts.bzl", "PACKAGED_COPTS")
load("//rules:host_cc_test.bzl", "SANITIZED_ON_HOST", "sanitized_library")

# No runtime source in packages casts to a type with stricter alignment.
_COPTS = PACKAGED_COPTS + ["-Wcast-align"]

def kernel_library(name, deps, hot = [], hot_copts = [], called_by_hot = []):
    """Declares all sources and headers of a folder as one library, and as the filegroups `sources` and `operator_headers`, the headers that declare operators.

    Args:
      name: the library.
      deps: dependencies of its kernels.
      hot: sources that are worth some flash to be fast: inner functions only.
      hot_copts: their compiler options, after the others.
      called_by_hot: further sources whose functions these call; the linker looks for them after these.
    """
    if called_by_hot:
        sanitized_library(
            name = "called_by_hot",
            srcs = called_by_hot,
            hdrs = native.glob(["*.h"]),
            copts = _COPTS,
            visibility = ["//visibility:private"],
            deps = deps,
        )
        deps = deps + [":called_by_hot"]
    cc_library(
        name = name,
        srcs = native.glob(
            ["*.cpp"],
            exclude = hot + called_by_hot,
        ),
        hdrs = native.glob(["*.h"]),
        copts = _COPTS + SANITIZED_ON_HOST,
        linkopts = SANITIZED_ON_HOST,
        deps = deps + ([":hot"] if hot else []),
    )
    native.filegroup(
        name = "sources",
        srcs = native.glob(["*.cpp", "*.h"]),
    )
    native.filegroup(
        name = "operator_headers",
        srcs = native.glob(
            ["op_*.h"],
            allow_empty = True,
        ),
    )
    if hot:
        cc_library(
            name = "hot",
            srcs = hot,
            hdrs = native.glob(["*.h"]),
            copts = _COPTS + SANITIZED_ON_HOST + hot_copts,
            linkopts = SANITIZED_ON_HOST,
            visibility = ["//visibility:private"],
            deps = deps,
        )
