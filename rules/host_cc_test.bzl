"""C++ unit tests that run on the machine that builds."""

load("@host_compiler//:constraints.bzl", "HOST_CC_COMPILER", "HOST_SYMBOLIZER", "OWN_WORKSPACE")
load("@rules_cc//cc:cc_library.bzl", "cc_library")
load("@rules_cc//cc:cc_test.bzl", "cc_test")
load(":copts.bzl", "COPTS", "SANITIZERS", "THREAD_SANITIZER")

# The copts and linkopts of what such tests run, which is sanitized if it is built for this machine. A workspace that depends on this one
# links it with programs of its own, whose compiler may have no sanitizers.
SANITIZED_ON_HOST = select({
    Label("@platforms//os:none"): [],
    Label("//rules:threads_on_host"): THREAD_SANITIZER,
    "//conditions:default": SANITIZERS if OWN_WORKSPACE else [],
})

def sanitized_library(name, copts = COPTS, **kwargs):
    """A `cc_library` that `host_cc_test` and fuzzers run: sanitized if it is built for this machine.

    Args:
      name: Name of the library.
      copts: Its other compiler options.
      **kwargs: Passed on to `cc_library`.
    """
    cc_library(name = name, copts = copts + SANITIZED_ON_HOST, linkopts = SANITIZED_ON_HOST, **kwargs)

def host_cc_test(name, size = "small", copts = [], data = [], **kwargs):
    """A `cc_test` of `<name>.cpp` under the address and undefined-behaviour sanitizers. Its libraries are `sanitized_library`.

    Where there is no C++ compiler (third_party/host_compiler says which is taken) the test is incompatible, and is reported
    as skipped.

    Args:
      name: Name of the test.
      size: Bazel's test size.
      copts: More compiler options.
      data: Files that the test reads.
      **kwargs: Passed on to `cc_test`.
    """
    cc_test(
        name = name,
        size = size,
        srcs = [name + ".cpp"],
        copts = ["-std=c++17", "-g", "-O1"] + COPTS + SANITIZERS + copts,
        data = data + ([HOST_SYMBOLIZER] if HOST_SYMBOLIZER else []),
        env = {"ASAN_SYMBOLIZER_PATH": "$(rootpath {})".format(HOST_SYMBOLIZER)} if HOST_SYMBOLIZER else {},
        linkopts = SANITIZERS,
        linkstatic = True,
        target_compatible_with = HOST_CC_COMPILER,
        **kwargs
    )
