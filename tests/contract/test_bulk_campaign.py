"""The campaign of a million decisions, with a thousand: `campaigns.bulk_replay` has the rest."""

from pathlib import Path

import pytest
from campaigns.bulk_replay import growth, run_campaign


@pytest.mark.slow
def test_a_thousand_decisions_on_postgresql_are_replayed_byte_for_byte(
    tmp_path: Path, postgres_url: str
) -> None:
    found = run_campaign(tmp_path / "home", postgres_url, [400, 1_000], None)
    first, last = found["steps"]  # type: ignore[misc]
    assert (first["is_identical"], last["is_identical"]) == (True, True)  # type: ignore[has-type]
    assert last["replaying"]["told"] == "1000 of 1000 decisions identical"  # type: ignore[has-type]
    assert found["verify"]["is_intact"]  # type: ignore[index]
    assert 0 < first["ledger_bytes"] < last["ledger_bytes"]  # type: ignore[has-type]


def test_growth_compares_what_further_decisions_cost() -> None:
    def step(decisions: int, cpu: float) -> dict[str, object]:
        costs = {"cpu_us_a_decision": cpu, "server_cpu_us_a_decision": 0.0}
        return {"decisions": decisions, "replaying": costs, "recording": costs}

    # A start of 2 s, then 100 µs a decision: the same whatever came before.
    flat = [step(n, 100 + 2e6 / n) for n in (10**4, 10**5, 10**6)]
    assert growth(flat, "replaying") == 1.0
    steep = [*flat[:2], step(10**6, 300)]
    assert growth(steep, "replaying") > 2
