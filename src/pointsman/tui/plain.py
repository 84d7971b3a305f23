"""Text made safe to show: nothing in it can move the cursor or reverse the line."""

from __future__ import annotations

import re
from typing import Final

from pointsman.errors import DocumentError, PointsmanError
from pointsman.kernel.document import printable
from pointsman.kernel.number import MicroUsd, microusd
from pointsman.sessions.rollup import dollars_text

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: str) -> str:
    """Escape the characters that a terminal would obey; lines and tabs stay."""
    return _UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return "" if found[0] == "\r" else f"\\u{ord(found[0]):04x}"


def problem_line(error: Exception) -> str:
    """Return an error in one line: the fault, and the next step."""
    if isinstance(error, DocumentError) and error.problems:
        more = len(error.problems) - 1
        return printable(f"{error.problems[0]}{f', and {more} more' if more else ''}")
    if isinstance(error, PointsmanError):
        said = ": ".join(part for part in (error.where, error.message) if part)
        return printable(f"{said} ({error.hint})" if error.hint else said)
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return printable(f"{name}{error.strerror or error}")
    return printable(f"something went wrong here: {type(error).__name__}: {error}")


def usd_text(amount: str | MicroUsd) -> str:
    """Write dollars with at least two decimals."""
    exact = microusd(amount) if isinstance(amount, str) else amount
    return f"${dollars_text(exact)}"


def span_text(microseconds: int) -> str:
    """Write how long something took: tenths of a second, then minutes."""
    seconds = microseconds / 1_000_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"
