"""An error as an agent reads it: one line with its code and the next step, never a traceback."""

from __future__ import annotations

from typing import Final

from pointsman.errors import DocumentError, PointsmanError
from pointsman.kernel.document import printable

MOST_PROBLEMS: Final = 10
LONGEST: Final = 2_000
UNFORESEEN: Final = "error: something went wrong here; it is logged"


def line_of(error: PointsmanError) -> str:
    """Return an error as one line."""
    text = _problems(error) if isinstance(error, DocumentError) else str(error)
    if error.hint:
        text = f"{text} (next: {error.hint})"
    return printable(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")


def _problems(error: DocumentError) -> str:
    shown = "; ".join(str(each) for each in error.problems[:MOST_PROBLEMS])
    more = len(error.problems) - MOST_PROBLEMS
    return f"{error.code}: {shown}" + (f"; and {more} more" if more > 0 else "")
