"""Routes and callers: no caller does more than its key says, or sees another tenant's."""

from __future__ import annotations

from tests.gateway.attack import Tally, attack, callers, victim
from tests.gateway.house import Running

from pointsman.gateway.route_table import ROUTES

FEW = ("without a key", "models+read+act of globex", "council of globex", "viewer of acme")


def test_no_caller_does_more_than_its_key_says_or_sees_another_tenants(live: Running) -> None:
    """Four callers of the campaign's 25 (`make campaign-attack`)."""
    hurt, tally = victim(live), Tally()
    who = [each for each in callers(live) if each.name in FEW]
    assert len(who) == len(FEW)
    attack(live, who, hurt, tally)
    assert tally.faults == []
    assert tally.of_others > 2 * len(ROUTES) - 50
