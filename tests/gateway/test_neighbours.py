"""What one gateway of a home does or learns holds at the next request to another one.

Each fact is shown of two gateways of one home, and of two workers of one gateway.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle
from typing import Any

import pytest
from tests.gateway.conftest import Town
from tests.gateway.crew import Crew
from tests.gateway.house import Running, eventually, keeps, running, write_home
from tests.gateway.test_api_events import Follower
from tests.gateway.test_keys_over_http import bearer, made
from tests.gateway.test_turn_lock import ASK, CALLED, LOOP, RESULT, asked
from tests.gateway.town import ADMIN

from pointsman.testing import calls, fails, says

SECRET = "AKIAIOSFODNN7EXAMPLQ"
S_1 = {"x-session-id": "s-1"}


class Pair:
    """Opens two gateways that serve one home."""

    def __init__(self, kind: str, town: Town, stack: ExitStack) -> None:
        self._kind = kind
        self._town = town
        self._stack = stack

    def open(self, **files: object) -> tuple[Running, Running]:
        home = write_home(self._town.home, **files)
        if self._kind == "gateways":
            return self._enter(home), self._enter(home)
        crew = Crew(home, self._stack, "--port", "0", "--workers", "2")
        return crew.at(1), crew.at(2)

    def _enter(self, home: Any) -> Running:
        return self._stack.enter_context(running(home))


@pytest.fixture(params=["gateways", "workers"])
def pair(request: pytest.FixtureRequest, town: Town) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(request.param, town, stack)


def model_of(live: Running, text: str = "hello", **more: Any) -> str:
    return live.chat(text, **more).headers["x-pointsman-model"]


@pytest.mark.req(101, 112)
def test_a_tool_loop_goes_on_at_another_gateway(town: Town, pair: Pair) -> None:
    one, two = pair.open()
    town.openai.then(*[calls(("weather", {}))] * 3, says("cold"))
    first = asked(one, [ASK], headers=S_1)
    write_home(town.home, routing={"schema_version": 1, "global_default": "claude:opus"})
    for live, messages in zip(
        cycle((two, one)), (LOOP, [*LOOP, CALLED, RESULT], [*LOOP, *[CALLED, RESULT] * 2]),
        strict=False,
    ):  # fmt: skip
        told = asked(live, messages, headers=S_1)
        assert told.headers["x-pointsman-policy"] == "turn_lock"
        assert told.headers["x-pointsman-model"] == "open:big"
        assert told.headers["x-pointsman-turn"] == first.headers["x-pointsman-turn"]
    ends = sorted(each["number"] for each in one.outcomes(4))
    assert ends == [1, 2, 3, 4]
    assert not town.anthropic.requests


@pytest.mark.req(101, 112)
@pytest.mark.parametrize("ending", ["tool_use", "stop"])
def test_a_later_turn_at_another_gateway_ends_the_lock_of_the_first(
    town: Town, pair: Pair, ending: str
) -> None:
    one, two = pair.open()
    town.openai.then(calls(("weather", {})))
    asked(one, [ASK], headers=S_1)
    town.anthropic.then(
        calls(("weather", {})) if ending == "tool_use" else says("so"), says("cold")
    )
    later = asked(two, [ASK], model="claude:opus", headers=S_1)
    told = asked(one, LOOP, model="claude:opus", headers=S_1)
    assert told.headers["x-pointsman-model"] == "claude:opus"
    assert told.headers["x-pointsman-turn"] == later.headers["x-pointsman-turn"]
    assert len(town.openai.requests) == 1


@pytest.mark.req(114)
def test_a_pin_holds_at_the_next_turn_of_another_gateway(pair: Pair) -> None:
    one, two = pair.open()
    assert model_of(two, headers=S_1) == "open:big"
    for live, other, model in ((one, two, "claude:opus"), (two, one, "open:small")):
        told = live.post("/api/sessions/s-1/pin", {"model": model}, **ADMIN)
        assert told.status_code == 200, told.text
        assert model_of(other, headers=S_1) == model
    assert one.client.delete("/api/sessions/s-1/pin", headers=ADMIN).status_code == 200
    assert model_of(two, headers=S_1) == "open:big"


def test_what_one_gateway_keeps_here_no_other_lets_out(town: Town, pair: Pair) -> None:
    one, two = pair.open(placement=keeps("secret"))
    for session, live, other in (("a", one, two), ("b", two, one)):
        own = {"x-session-id": session}
        assert model_of(other, headers=own) == "open:big"
        assert model_of(live, f"the key is {SECRET}", headers=own) == "house:llama"
        assert model_of(other, headers=own) == "house:llama"
        cleared = other.post(f"/api/sessions/{session}/clear-taint", {"reason": "seen"}, **ADMIN)
        assert cleared.status_code == 200, cleared.text
        assert model_of(live, headers=own) == "open:big"
    assert SECRET not in town.openai.texts()


def test_a_key_counts_at_once_and_is_refused_at_once(pair: Pair) -> None:
    one, two = pair.open()
    made(one)
    for live, other in ((one, two), (two, one)):
        told = live.post("/api/keys", {"name": "short"}, **ADMIN).json()
        assert other.chat("hello", headers=bearer(told["key"])).status_code == 200
        live.client.delete(f"/api/keys/{told['id']}", headers=ADMIN)
        assert other.chat("hello", headers=bearer(told["key"])).status_code == 401


@pytest.mark.parametrize("limits", [{"rpm": 5}, {"tpm": 77}])
def test_the_limits_of_a_provider_hold_for_all_gateways_together(
    town: Town, pair: Pair, limits: dict[str, int]
) -> None:
    models = {**town.models, "providers": {**town.models["providers"]}}
    models["providers"]["open"] = {**models["providers"]["open"], **limits}
    rule = {"when": {"message_matches": "."}, "use": "open:big", "name": "big"}
    routing = {"schema_version": 1, "global_default": "house:llama", "rules": [rule]}
    turns = zip(cycle(pair.open(models=models, routing=routing)), range(7), strict=False)
    assert [model_of(live) for live, _ in turns] == ["open:big"] * 5 + ["house:llama"] * 2


def test_limits_and_budgets_of_a_key_hold_for_all_gateways_together(pair: Pair) -> None:
    one, two = pair.open()
    few = made(one, limits={"rpm": 3})
    statuses = [live.chat("hello", headers=few).status_code for live in (one, two) * 3]
    assert statuses == [200] * 3 + [429] * 3
    poor = made(two, budgets=[{"limit_usd": "0.00004", "per": "day"}])
    told = [live.chat("hello", headers=poor, max_tokens=8) for live in (one, two) * 3]
    paid = [each.status_code for each in told]
    assert paid == sorted(paid)
    assert set(paid) == {200, 402}


def test_an_outage_that_one_gateway_sees_holds_for_the_other(town: Town, pair: Pair) -> None:
    routing = {"schema_version": 1, "global_default": ["open:big", "house:llama"]}
    one, two = pair.open(routing=routing)
    town.openai.then(fails(401, "authentication_error"))
    assert [model_of(live) for live in (one, two, one)] == ["house:llama"] * 3
    assert len(town.openai.requests) == 1


def test_the_feed_of_one_gateway_tells_of_the_others(pair: Pair) -> None:
    one, two = pair.open()
    follower = Follower(one)
    turns = [live.chat("hello").headers["x-pointsman-turn"] for live in (two, one)]
    eventually(lambda: len([1 for name, _ in follower.events() if name == "call.ended"]) == 2)
    told = [event["turn_id"] for name, event in follower.events() if name == "route.decided"]
    assert sorted(told) == sorted(turns)


def test_a_policy_that_is_put_at_one_gateway_holds_at_the_other(pair: Pair) -> None:
    one, two = pair.open()
    assert model_of(two) == "open:big"
    text = '{"schema_version": 1, "global_default": "claude:opus"}'
    told = one.client.put("/api/policies/routing.yaml", content=text, headers=ADMIN)
    assert told.status_code == 200, told.text
    assert model_of(two) == model_of(one) == "claude:opus"
