"""Harm done to a fleet under load, and the account it must give of itself afterwards."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.gateway.house import eventually
from tests.replicas.fleet import Crowd, Fleet, Ship
from tests.replicas.harbour import cost_of, entries, is_settled, is_well

LOAD_S = 2


def under_load(fleet: Fleet, session: str, harm: Callable[[], None]) -> list[dict[str, Any]]:
    """Have clients ask for a while, do harm in the midst of it, and give what was answered."""
    with Crowd(6) as crowd:
        crowd.ask(fleet.ports, 10_000, session, key=fleet.key, seconds=LOAD_S, max_tokens=2)
        time.sleep(LOAD_S / 4)
        harm()
        return crowd.answers()


def check(fleet: Fleet, session: str, answers: list[dict[str, Any]]) -> None:
    """Hold a fleet to what it answered, then spend what is left of the budget to the cent."""
    eventually(lambda: is_well(fleet), seconds=60)
    answered = {each["decision"] for each in answers if each["status"] == 200}
    recorded = Counter(each.id for each in entries(fleet, "decision.turn"))
    assert answered <= recorded.keys()
    assert max(recorded.values()) == 1
    ends = Counter(each.id for each in entries(fleet, "outcome"))
    assert max(ends.values()) == 1
    assert {each["status"] for each in answers} <= {200, 402, 503, 0}
    # What a dead replica held is free after its lease: then all of $5.00 can be spent, and no more.
    eventually(lambda: is_settled(fleet), seconds=60)
    for number, tokens in enumerate((1000, 200, 50, 10, 2)):
        ship = fleet.ships[number % len(fleet.ships)]
        eventually(lambda ship=ship, tokens=tokens: _is_spent(ship, session, tokens), seconds=60)
    assert cost_of(fleet, session) == 5_000_000
    eventually(lambda: is_settled(fleet))
    ends = Counter(each.id for each in entries(fleet, "outcome"))
    assert max(ends.values()) == 1


def _is_spent(ship: Ship, session: str, tokens: int) -> bool:
    """Ask once more; a replica that is not ready yet says so, and nothing is spent by that."""
    told = ship.chat("what is left", session, max_tokens=tokens)
    assert told.status_code in {200, 402, 503}, told.text
    return told.status_code == 402
