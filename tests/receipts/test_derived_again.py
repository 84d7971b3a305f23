"""Both programs for receipts derive what the product decided, byte for byte."""

import pytest
from tests.receipts.told import (
    NODE,
    derived,
    derived_by_page,
    differing,
    drawn_turns,
    opinion_steps,
    placements_of_cases,
    turns_of_cases,
)

DRAWN = range(7_000, 7_060)

SOURCES = {
    "turns of the case suite": turns_of_cases,
    "placements of the case suite": placements_of_cases,
    "steps of second opinions": opinion_steps,
    "drawn turns": lambda: drawn_turns(DRAWN),
}


@pytest.mark.parametrize("source", SOURCES)
def test_the_program_derives_every_decision(source):
    told = [*SOURCES[source]()]
    assert len(told) > 100
    assert differing(told, [derived(each) for each in told]) == []


@pytest.mark.skipif(NODE is None, reason="there is no node here")
@pytest.mark.parametrize("source", SOURCES)
def test_the_page_derives_every_decision(source):
    told = [*SOURCES[source]()]
    assert differing(told, derived_by_page(told)) == []
