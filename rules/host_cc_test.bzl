"""C++ unit tests that run on the machine that builds."""

load("@host_compiler//:constraints.bzl", "HOST_CC_COMPILER", "HOST_SYMBOLIZER")
load("@rules_cc//cc:cc_test.bzl", "cc_test")
load(":copts.bzl", "COPTS", "SANITIZERS", "THREAD_SANITIZER")

# The copts and linkopts of libraries under such tests, which are sanitized if they are built for this machine.
SANITIZED_ON_HOST = select({
    Label("@platforms//os:none"): [],
    Label("//rules:threads_on_host"): THREAD_SANITIZER,
    "//conditions:default": SANITIZERS,
})

def host_cc_test(name, copts = [], data = [], linkopts = [], target_compatible_with = [], **kwargs):
    """A `cc_test` under the address and undefined-behaviour sanitizers.

    The libraries it tests have `copts = COPTS + SANITIZED_ON_HOST` and `linkopts = SANITIZED_ON_HOST`.
    Where there is no C++ compiler (third_party/host_compiler says which is taken) the test is incompatible, and is reported
    as skipped.

    Args:
      name: Name of the test.
      copts: More compiler options.
      data: Files that the test reads.
      linkopts: More linker options.
      target_compatible_with: More constraints.
      **kwargs: Passed on to `cc_test`.
    """
    cc_test(
        name = name,
        copts = ["-std=c++17", "-g", "-O1"] + COPTS + SANITIZERS + copts,
        data = data + ([HOST_SYMBOLIZER] if HOST_SYMBOLIZER else []),
        env = {"ASAN_SYMBOLIZER_PATH": "$(rootpath {})".format(HOST_SYMBOLIZER)} if HOST_SYMBOLIZER else {},
        linkopts = SANITIZERS + linkopts,
        linkstatic = True,
        target_compatible_with = HOST_CC_COMPILER + target_compatible_with,
        **kwargs
    )
