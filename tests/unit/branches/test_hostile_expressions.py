"""An attacker's expression is refused, unknown, or a plain value."""

import pytest
from tests.unit.branches.hostile_expressions import PAYLOADS, READERS, attempt, is_plain


def test_there_are_as_many_as_promised() -> None:
    assert len(PAYLOADS) >= 120


@pytest.mark.parametrize("text", PAYLOADS, ids=range(len(PAYLOADS)))
def test_a_hostile_expression_reaches_nothing_of_the_program(text: str) -> None:
    for read in READERS:
        held = attempt(text, read)
        assert held.how in {"refused", "unknown", "value"}
        assert is_plain(held.value)
