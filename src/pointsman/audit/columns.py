"""Rows of text as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pointsman.kernel.document import printable


def table(rows: Iterable[Sequence[str]]) -> str:
    """Give rows as columns of text; nothing in it can move a cursor."""
    lines = [[printable(cell) or "-" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
