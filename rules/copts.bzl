"""Compiler options of this project's own C++."""

# Warnings are errors in our own sources; double promotion would pull software
# floating point into the images of single-precision cores. GCC's remarks on an
# ABI that changed with version 7.1 concern nothing built here.
COPTS = ["-Wall", "-Wextra", "-Wdouble-promotion", "-Wno-psabi", "-Werror"]

# Of kernels and the runtime, whose sources torch_package hands to builds with warnings of their own.
PACKAGED_COPTS = COPTS + ["-Wconversion", "-Wshadow", "-Wold-style-cast", "-Wundef"]

# An error that a sanitizer finds ends what runs on this machine: nothing may go on after undefined behaviour.
SANITIZERS = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
]
