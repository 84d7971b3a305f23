"""A group as the rows of one statement: few sizes, so that few statements are ever compiled."""

import pytest

from pointsman.kernel.entry import Chain, Draft, empty_head, head_after, next_entry
from pointsman.kernel.instant import Instant
from pointsman.storage.sqlite.ledger import FEWEST_ROWS, ROWS_STEP, appended_rows

CHAIN = Chain("0" * 32, "test")


def rows_of(turns: int) -> list[tuple[object, ...]]:
    """Give the rows of so many turns: each a decision with its facts, and the end of one before."""
    drafts = [
        draft
        for number in range(turns)
        for draft in (
            Draft("decision.turn", f"d{number}", "", Instant(1), b"{}", (b"facts",)),
            Draft("outcome", f"o{number}", "", Instant(1), b"{}"),
        )
    ]
    head, entries = empty_head(CHAIN), []
    for draft in drafts:
        entries.append(next_entry(CHAIN, head, draft))
        head = head_after(entries[-1])
    return list(appended_rows(7, entries, drafts, b"signed"))


@pytest.mark.parametrize("turns", range(1, 20))
def test_every_part_is_there_once_and_the_rest_says_nothing(turns: int) -> None:
    rows = rows_of(turns)
    parts = [row[0] for row in rows if row[0]]
    assert parts == ["entry"] * 2 * turns + ["body"] * turns + ["stamp"]
    assert all(row == ("", *[None] * 10) for row in rows[len(parts) :])


def test_a_turn_that_is_alone_fills_its_statement_others_are_filled_up() -> None:
    assert len(rows_of(1)) == FEWEST_ROWS == len([row for row in rows_of(1) if row[0]])
    assert {len(rows_of(turns)) % ROWS_STEP for turns in range(2, 20)} == {0}
