"""Compiler options of this project's own C++."""

load("@host_compiler//:constraints.bzl", "OWN_WORKSPACE")

# A workspace that depends on this one compiles for its machine with any compiler and standard, and has applications of its own:
# there warnings stay warnings. Double promotion would pull software floating point into the images of
# single-precision cores. GCC's notes on an ABI that changed with version 7.1 don't apply to this build.
COPTS = ["-Wall", "-Wextra", "-Wdouble-promotion", "-Wno-psabi"] + (["-Werror"] if OWN_WORKSPACE else [])

# This project's toolchains have it as their standard; Bazel's own for a machine takes C++14.
STANDARD = [] if OWN_WORKSPACE else ["-std=c++17"]

# Kernels and the runtime have these; torch_package gives their sources to builds with warnings of their own.
PACKAGED_COPTS = STANDARD + COPTS + ["-Wconversion", "-Wshadow", "-Wold-style-cast", "-Wundef"]

# An error that a sanitizer finds ends the program: it must not continue after undefined behaviour.
SANITIZERS = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
]

# Instead of SANITIZERS, where --@torch_fusion//rules:sanitizer=thread.
THREAD_SANITIZER = ["-fsanitize=thread"]
