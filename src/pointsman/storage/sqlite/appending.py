"""A group of entries as the rows of one statement: `appending` in queries.sql takes them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pointsman.kernel.entry import Draft, Entry

Row = tuple[int | str | bytes | None, ...]

ROWS_STEP: Final = 8
FEWEST_ROWS: Final = 4
"""Those of a turn that is alone: its decision, its facts, the end of the one before, the stamp."""
_NOTHING: Final[Row] = ("", *[None] * 10)


def appended_rows(
    number: int, entries: Sequence[Entry], drafts: Sequence[Draft], stamp: bytes
) -> list[Row]:
    """Return entries, what is attached to them, and the signature over where they end."""
    rows: list[Row] = [
        ("entry", number, e.seq, e.at, e.kind, e.id, e.ref, e.payload, e.attached, e.prev, e.hash)
        for e in entries
    ]
    rows += [
        ("body", number, entry.seq, place, None, None, None, body, None, None, None)
        for entry, draft in zip(entries, drafts, strict=True)
        for place, body in enumerate(draft.attachments)
    ]
    rows.append(("stamp", number, *[None] * 5, stamp, *[None] * 3))
    # Rows that say nothing: few sizes of the statement are ever compiled.
    lacking = -len(rows) % ROWS_STEP if len(rows) > FEWEST_ROWS else FEWEST_ROWS - len(rows)
    return rows + [_NOTHING] * lacking
