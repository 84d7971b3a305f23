"""Both programs for receipts derive what the product decided, byte for byte."""

from collections.abc import Iterator
from random import Random

import pytest
from tests.receipts.told import (
    NODE,
    Told,
    derived,
    derived_by_page,
    differing,
    drawn_turns,
    opinion_steps,
    placements_of_cases,
    told_turn,
    turns_of_cases,
)
from tests.unit.test_rule_tables import drawn, random_facts, ready

DRAWN = range(7_000, 7_060)


def turns_of_tables() -> Iterator[Told]:
    """Random turns under rules with random tables."""
    random = Random(5)
    for _ in range(40):
        policy = ready(drawn(random))
        yield from (told_turn(policy, random_facts(random)) for _ in range(3))


SOURCES = {
    "turns of the case suite": turns_of_cases,
    "placements of the case suite": placements_of_cases,
    "steps of second opinions": opinion_steps,
    "drawn turns": lambda: drawn_turns(DRAWN),
    "turns of tables": turns_of_tables,
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
