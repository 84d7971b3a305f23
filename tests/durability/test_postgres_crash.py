"""PostgreSQL and its writers killed in mid-work: what was acknowledged is there, once."""

import pytest
from tests.durability.postgres_crash_worker import PostgresKiller

ROUNDS = 10
"""The campaign `campaigns.postgres_crash` has two hundred."""


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_whoever_dies(tmp_path):
    with PostgresKiller(tmp_path, seed=11) as killer:
        for _ in range(ROUNDS):
            killer.round()
        killer.check_all()
    tally = killer.tally
    assert (tally.lost, tally.twice, tally.broken, tally.failed) == (0, 0, [], [])
    assert tally.server_kills > 0
    assert tally.writer_kills > 0
    assert tally.acknowledged > ROUNDS
