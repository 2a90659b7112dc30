"""The `board_support` macro: the library that a board's images link."""

load("@rules_cc//cc:cc_library.bzl", "cc_library")
load(":copts.bzl", "COPTS")

def board_support(name, srcs = ["board.c"], semihosting = False, deps = [], **kwargs):
    """Makes a library with a board's implementation of `firmware/board.h`, for the `deps` of its `board`.

    Args:
        name: the library's name.
        srcs: C and C++ sources.
        semihosting: whether a host, such as an emulator, answers semihosting calls. Otherwise the hardware provides an
          image's arguments and exit status.
        deps: libraries besides `firmware/board.h`, start-up code and console configuration.
        **kwargs: further attributes of `cc_library`.
    """
    cc_library(
        name = name,
        srcs = srcs,
        copts = COPTS,
        target_compatible_with = [Label("@platforms//os:none")],
        deps = [
            Label("//firmware:board_api"),
            Label("//firmware/cortex_m:semihosting") if semihosting else Label("//firmware/cortex_m:hardware"),
            Label("//firmware/cortex_m:startup"),
            Label("//runtime:config"),
        ] + deps,
        alwayslink = True,
        **kwargs
    )
