"""Replaces attributes of other packages; gaps.py lists them with the reasons."""

import contextlib
from collections.abc import Iterator
from typing import Any

from tools.pipeline.export.upstream.gaps import check_is_known


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Temporarily replaces an attribute of a module, class or object of another package."""
    check_is_known(owner, name)
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def replace(owner: Any, name: str, value: Any) -> None:
    """Replaces an attribute of a module or class of another package for the life of the process."""
    check_is_known(owner, name)
    setattr(owner, name, value)
