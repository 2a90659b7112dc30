"""Compiler options of this project's own C++."""

# Warnings are errors in our own sources; double promotion would pull software
# floating point into the images of single-precision cores.
COPTS = ["-Wall", "-Wextra", "-Wdouble-promotion", "-Werror"]
