"""An owner with all keys rewrites history: every witness notices, and nothing else would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rewriting import House, hundred_ways, try_way, witnessed_house

from pointsman.audit.verify import verify_ledger
from pointsman.audit.witnessed import terms_of

WAYS = hundred_ways()
ONE_OF_A_KIND = [*{name: number for number, (name, _) in enumerate(WAYS)}.values()]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with witnessed_house(tmp_path_factory.mktemp("witnessed")) as found:
        yield found


def test_there_are_a_hundred_ways_of_a_dozen_kinds() -> None:
    assert len(WAYS) == 100
    assert len(ONE_OF_A_KIND) == 12


@pytest.mark.parametrize("number", ONE_OF_A_KIND, ids=lambda number: WAYS[number][0])
def test_a_rewritten_history_is_found_by_witnesses_and_by_nothing_else(
    house: House, tmp_path: Path, number: int
) -> None:
    keeps = number % 2 == 0
    verdict = try_way(house, tmp_path / "forged", WAYS[number], keeps_cosignatures=keeps)
    assert {*verdict.found} & {"ledger.witness_differs", "ledger.witness_ahead"}
    assert verdict.is_refused
    assert verdict.is_silent_without


def test_the_honest_home_is_intact_and_proven_against_its_owner(house: House) -> None:
    report = verify_ledger(house.home, terms=terms_of(house.settings))
    assert report.is_intact
    proven = {
        each.chain: [(part.first, part.end, part.against) for part in each.ranges]
        for each in report.proofs
    }
    assert proven["cli"] == [(0, 291, "operator_with_key")]
    assert proven["ops"][-1][2] == "operator_without_key"


def test_one_witness_of_two_is_no_quorum(house: House) -> None:
    one = terms_of(house.settings.__class__(of=house.settings.of[:1], quorum=2))
    report = verify_ledger(house.home, terms=one)
    assert report.is_intact
    against = {part.against for each in report.proofs for part in each.ranges}
    assert against == {"operator_without_key"}
