"""Reads programs (.pte files) without torch."""

from .program import ProgramError, ProgramFile, constant_bytes, load, operator_name, read

__all__ = ["ProgramError", "ProgramFile", "constant_bytes", "load", "operator_name", "read"]
