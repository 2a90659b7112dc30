"""Byte-by-byte comparison of two builds' files."""

from collections.abc import Iterable
from pathlib import Path


def differences(pairs: Iterable[tuple[Path, Path]]) -> list[str]:
    """Compares the files of each pair.

    Returns:
        A line per pair that differs, with the offset of the first difference; empty if all are identical.
    """
    lines = []
    for first, second in pairs:
        a, b = first.read_bytes(), second.read_bytes()
        if a == b:
            continue
        offset = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        lines.append(
            f"{first.name}: two clean builds differ from byte {offset} on ({len(a)} and {len(b)} bytes); "
            "an action reads something that changes, such as a time, a path or an unordered set"
        )
    return lines
