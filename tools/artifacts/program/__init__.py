"""Reads programs (.pte files) without torch."""

from .program import ProgramError, ProgramFile, constant_bytes, load, operator_name, read, with_first_method

__all__ = ["ProgramError", "ProgramFile", "constant_bytes", "load", "operator_name", "read", "with_first_method"]
