"""Tables of text for people."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def text_table(rows: Sequence[Sequence[str]], left: Collection[int]) -> list[str]:
    """A line per row, the cells of a column one below the other.

    Args:
      rows: cells, of each row as many; the first row is the headings.
      left: columns whose cells are flush left; those of all others are flush right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
