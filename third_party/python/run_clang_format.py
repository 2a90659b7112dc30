"""Starts clang-format, which its package brings as a program and not as a module to run."""

from clang_format import clang_format

clang_format()
