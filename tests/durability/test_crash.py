"""Writers are killed with SIGKILL: what they acknowledged is there, and the next one goes on."""

import pytest
from tests.durability.crash_worker import Killer

KILLS = 100
RESTART_S = 2.0


@pytest.mark.slow
def test_killed_writers_lose_nothing_acknowledged_and_restart_quickly(tmp_path):
    with Killer(tmp_path / "home", seed=20) as killer:
        for _ in range(KILLS):
            killer.kill_one()
        tally = killer.tally
        assert tally.lost == 0
        assert tally.broken == []
        assert tally.failed_starts == []
        assert tally.slowest_start_s < RESTART_S
        assert tally.kills == KILLS
        assert KILLS // 5 < tally.starts < KILLS, "some die while starting, some while writing"
        assert tally.acknowledged > 10 * KILLS
        killer.check_all()
        assert (tally.lost, tally.broken) == (0, [])
