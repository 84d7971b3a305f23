"""A replica that was thought dead and lives: it holds what it held, and nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.replicas.counts import NOW, Counts, counting, held

from pointsman.access.budgets import Reservation
from pointsman.access.holding_again import hold_again
from pointsman.app import Pointsman
from pointsman.errors import BudgetUnavailable
from pointsman.kernel.entry import Draft
from pointsman.providers.messages import Usage
from pointsman.replicas.replica import Replica, _lost_outcome_draft
from pointsman.replicas.shared_health import SharedHealth
from pointsman.replicas.shared_stores import SharedStores

COST = 40


@pytest.fixture(params=["postgres", "redis"])
def urls(request: pytest.FixtureRequest, postgres_url: str) -> tuple[str, str]:
    is_redis = request.param == "redis"
    return postgres_url, str(request.getfixturevalue("redis_url")) if is_redis else ""


def again(counts: Counts) -> None:
    durable = counts.durable
    hold_again(counts.budgets, counts.folding, durable, counts.quick or durable)


def ended(counts: Counts, reservation: Reservation) -> Draft:
    """End a call; gives the entry that tells it."""
    spent = counts.budgets.settle(reservation, Usage(1, 1))
    assert spent is not None
    return _lost_outcome_draft(reservation.id, spent, NOW)


@pytest.mark.parametrize("is_counted", [True, False])
def test_what_has_ended_is_counted_and_not_held_again(
    urls: tuple[str, str], tmp_path: Path, *, is_counted: bool
) -> None:
    with (
        Pointsman(tmp_path, store=urls[0], writer="serve") as pointsman,
        counting(*urls, "one") as one,
        counting(*urls, "two") as two,
    ):
        done, under_way = held(one, COST), held(one, 100)
        pointsman.decision_recorder.recorder().record(ended(one, done))
        if is_counted:
            two.folding.catch_up_all()
        (two.quick or two.durable).lapse(one.process)
        assert two.left() == 1000
        again(one)
        assert two.left() == 900
        assert [each.id for each in one.budgets.holding] == [under_way.id]
        again(one)
        assert two.left() == 900


def test_a_replica_that_cannot_hold_it_again_tries_with_its_next_sign_of_life(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Pointsman(tmp_path, store=postgres_url, writer="serve") as pointsman,
        counting(postgres_url, "", "one") as one,
        counting(postgres_url, "", "two") as two,
    ):
        clock, ids = pointsman.clock, pointsman.ids
        replica = Replica(
            SharedStores("one", one.durable._pool, one.durable, one.state),
            one.budgets,
            SharedHealth(clock, "one", lambda: None),
            pointsman.decision_recorder.recorder(),
            (clock, ids),
            lambda: ("", ""),
        )
        replica._beat()
        held(one, 100)
        two.durable.lapse("one")
        two.state.leave("one")
        with monkeypatch.context() as broken:
            broken.setattr(one.durable, "reserve", _unavailable)
            with pytest.raises(BudgetUnavailable):
                replica._beat()
        assert two.left() == 1000
        replica._beat()
        assert two.left() == 900


def _unavailable(*_asked: object) -> None:
    raise BudgetUnavailable
