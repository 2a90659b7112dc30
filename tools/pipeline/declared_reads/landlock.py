"""Confines this process with Landlock, the kernel's access control that a program puts on itself (landlock(7))."""

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

# Numbers of system calls, which are the same on all processors.
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_PR_SET_NO_NEW_PRIVS = 38

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_CONNECT_TCP = 1 << 1

# The first version of the interface that covers the network.
_VERSION_WITH_NETWORK = 4


def confine_reads(paths: Iterable[Path], listed: Iterable[Path] = ()) -> bool:
    """Restricts this process and its children to reading `paths` and everything below them, and to no network
    connections.

    Args:
      paths: files and directories, whose links are followed; missing ones are ignored.
      listed: directories that may be listed, including those below, without permission to read their files.

    Returns:
      Whether the kernel supports it; False on a kernel without Landlock, where nothing changes.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_RULESET_VERSION)
    if version < 1:
        return False
    handled = [_READ_FILE | _READ_DIR] + ([_CONNECT_TCP] if version >= _VERSION_WITH_NETWORK else [])
    attributes = struct.pack(f"={len(handled)}Q", *handled)
    rules = _check(libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    try:
        rights = [(path, _READ_FILE | _READ_DIR if path.is_dir() else _READ_FILE) for path in paths if path.exists()]
        for path, access in [*rights, *((path, _READ_DIR) for path in listed if path.is_dir())]:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                _check(libc.syscall(_ADD_RULE, rules, _RULE_PATH_BENEATH, struct.pack("=Qi", access, descriptor), 0))
            finally:
                os.close(descriptor)
        _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _check(libc.syscall(_RESTRICT_SELF, rules, 0))
    finally:
        os.close(rules)
    return True


def _check(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"Landlock: {os.strerror(error)}")
    return result
