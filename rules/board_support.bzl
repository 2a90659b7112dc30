"""The `board_support` macro: what a board's images link."""

load("@rules_cc//cc:cc_library.bzl", "cc_library")
load(":copts.bzl", "COPTS")

def board_support(name, srcs = ["board.c"], semihosting = False, deps = [], **kwargs):
    """A library with a board's implementation of `firmware/board.h`, for the `deps` of its `board`.

    Args:
        name: its name.
        srcs: C and C++ sources.
        semihosting: whether a host answers semihosting calls, as an emulator does; without one, arguments and exit status
            of an image are the hardware's own.
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
