"""A provider whose limit of requests or tokens a minute is used up is out until some come back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, running, write_home


def limited(town: Town, **limits: int) -> dict[str, Any]:
    models = {**town.models}
    models["providers"] = {**models["providers"]}
    models["providers"]["open"] = {**models["providers"]["open"], **limits}
    return models


@pytest.mark.parametrize("limits", [{"rpm": 2}, {"tpm": 30}])
def test_when_a_limit_is_used_up_another_provider_takes_the_turn(
    town: Town, limits: dict[str, int]
) -> None:
    routing = {
        "schema_version": 1,
        "global_default": "house:llama",
        "rules": [{"when": {"message_matches": "."}, "use": "open:big", "name": "big"}],
    }
    write_home(town.home, models=limited(town, **limits), routing=routing)
    with running(town.home) as live:
        models = [live.chat("hello").headers["x-pointsman-model"] for _ in range(3)]
        assert models == ["open:big", "open:big", "house:llama"]
        (row,) = live.get("/api/providers").json()["limits"]
        assert row["provider"] == "open"
        assert row["free_in_s"] > 0
        refused = live.chat("hello", "small")
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        assert refused.json()["error"]["code"] == "routing.rate_limited"
        assert len(town.openai.requests) == 2
        assert 'pointsman_provider_state{provider="open"} 2' in live.get("/metrics").text


def test_a_limit_that_is_written_later_holds_from_then_on(town: Town, live: Running) -> None:
    live.chat("hello")
    assert live.get("/api/providers").json()["limits"] == []
    write_home(town.home, models=limited(town, rpm=50))
    live.chat("hello")
    (row,) = live.get("/api/providers").json()["limits"]
    assert (row["rpm"], row["tpm"], row["tokens_left"]) == (50, None, None)
    assert row["requests_left"] in {49, 50}
