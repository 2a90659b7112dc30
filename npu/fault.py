"""Defines the error of a modelled NPU."""


class NpuFault(Exception):
    """The NPU can't execute a command stream; the message names the command, the bad value and what is allowed."""
