"""A backtest as a picture: how many turns each model takes, before and after. Plain SVG."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from pointsman.audit.backtest.result import Backtest
from pointsman.kernel.document import printable

MOST_MODELS = 12

_WIDTH = 760
_LABELS = 250
_BARS = 420
_TOP = 64
_ROW = 46
_BAR = 16
_INK = "#1f2933"
_BEFORE = "#9aa5b1"
_AFTER = "#2f6f9f"


def picture(found: Backtest) -> str:
    """Draw a backtest; the same backtest gives the same bytes."""
    rows = _rows(found)
    height = _TOP + _ROW * max(1, len(rows)) + 12
    head = f"{found.turns} turns, {found.changed_count} change model"
    frame = f'viewBox="0 0 {_WIDTH} {height}" role="img" font-family="sans-serif" font-size="13"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame} fill="{_INK}">',
        f"<title>{head}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="26" font-size="16" font-weight="bold">{head}</text>',
        *_legend(),
        *(line for index, row in enumerate(rows) for line in _bars(index, row, rows)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


_Row = tuple[str, int, int]
"""A model, and how many turns it takes before and after."""


def _rows(found: Backtest) -> list[_Row]:
    names = dict.fromkeys([*found.models_before, *found.models_after])
    rows = [
        (name or "no model", found.models_before.get(name, 0), found.models_after.get(name, 0))
        for name in names
    ]
    rows.sort(key=lambda row: (-max(row[1:]), row[0]))
    shown, others = rows[:MOST_MODELS], rows[MOST_MODELS:]
    if not others:
        return shown
    label = f"{len(others)} other models"
    return [*shown, (label, sum(row[1] for row in others), sum(row[2] for row in others))]


def _legend() -> Iterator[str]:
    for index, (name, colour) in enumerate((("before", _BEFORE), ("after", _AFTER))):
        x = _LABELS + index * 90
        yield f'<rect x="{x}" y="38" width="12" height="12" fill="{colour}"/>'
        yield f'<text x="{x + 18}" y="49">{name}</text>'


def _bars(index: int, row: _Row, rows: list[_Row]) -> Iterator[str]:
    name, before, after = row
    most = max(1, *(count for each in rows for count in each[1:]))
    top = _TOP + index * _ROW
    yield (f'<text x="{_LABELS - 10}" y="{top + _BAR + 5}" text-anchor="end">{_label(name)}</text>')
    for step, (count, colour) in enumerate(((before, _BEFORE), (after, _AFTER))):
        y, width = top + step * (_BAR + 2), _BARS * count // most
        yield f'<rect x="{_LABELS}" y="{y}" width="{width}" height="{_BAR}" fill="{colour}"/>'
        yield f'<text x="{_LABELS + width + 6}" y="{y + 13}">{count}</text>'


def _label(name: str) -> str:
    return escape(printable(name if len(name) <= 34 else name[:33] + "…"))
