"""Tables of text for people, and their places in documents."""

from collections.abc import Collection, Sequence

from .console import UserError, printable


def text_table(rows: Sequence[Sequence[str]], left: Collection[int]) -> list[str]:
    """A line per row, the cells of a column one below the other.

    Args:
      rows: cells, of each row as many; the first row is the headings.
      left: columns whose cells are flush left; those of all others are flush right.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for Markdown, whose cells are Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])


def replace_table(text: str, begin: str, end: str, table: str) -> str:
    """A document with what stands between two of its lines replaced.

    Args:
      text: the document.
      begin, end: the lines, each with its newline; the first one stands there once.
      table: whole lines.

    Raises:
      UserError: the document has no such place, or several.
    """
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended or begin in rest:
        raise UserError(f"the document lacks the lines between which the table stands, each once:\n{begin}{end}")
    return before + begin + table + end + after
