"""Ledger, metrics, cost, budgets and rate counters agree, whatever becomes of the calls."""

from __future__ import annotations

import random

import pytest
from tests.gateway.agreement import call, compared, quiet, script, settle_home, stop_refill
from tests.gateway.conftest import Town
from tests.gateway.house import running


@pytest.mark.slow
def test_all_who_count_money_and_tokens_come_to_the_same_sums(town: Town) -> None:
    settle_home(town)
    script(town, 7)
    chance = random.Random(7)
    with running(town.home) as live:
        stop_refill(live)
        ways = {call(live, chance, number) for number in range(200)}
        quiet(live)
        sums, wrong = compared(live)
        kinds = {each.kind for each in live.entries("decision.turn")}
    assert wrong == []
    assert sums["cost_microusd"] > 0
    assert len(ways) == 7
    assert {"decision.turn.shadow", "decision.turn.judge", "decision.turn.fallback"} <= kinds
