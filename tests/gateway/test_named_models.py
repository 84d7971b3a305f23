"""A model that a request names serves, or the call is refused with its reason."""

from __future__ import annotations

from typing import Any

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, eventually, facts_of, running, write_home

from pointsman.testing import fails, says

DOWN = [fails(503)] * 40
PATHS = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]
TOOL = {"name": "look", "description": "look", "parameters": {"type": "object"}}


def body(path: str, model: str, text: str = "hello", **more: Any) -> dict[str, Any]:
    if path == "/v1/responses":
        return {"model": model, "input": text, **more}
    limit = {"max_tokens": 9} if path == "/v1/messages" else {}
    return {"model": model, "messages": [{"role": "user", "content": text}], **limit, **more}


@pytest.mark.parametrize("path", PATHS)
def test_a_named_model_that_is_out_is_refused_and_never_swapped(town: Town, path: str) -> None:
    town.openai.then(*DOWN)
    write_home(town.home, routing={"schema_version": 1, "global_default": "house:llama"})
    with running(town.home) as live:
        statuses = [live.post(path, body(path, "open:big")).status_code for _ in range(8)]
        assert set(statuses) == {502, 503}
        refused = live.post(path, body(path, "open:big"))
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 1
        assert "5 failures in a row" in refused.text
        assert "other configured providers: claude, embedded, house" in refused.text
        assert "house, open" not in refused.text, "it was tried"
    assert not town.local.requests


def test_a_named_local_model_that_cannot_use_tools_is_a_400(live: Running) -> None:
    tools = [{"type": "function", "function": TOOL}]
    told = live.post("/v1/chat/completions", body(PATHS[0], "local", tools=tools))
    assert told.status_code == 400
    assert told.json()["error"]["code"] == "routing.incapable"
    assert told.headers["x-should-retry"] == "false"


def test_a_key_that_may_not_use_the_named_model_gets_no_other(live: Running) -> None:
    wanted = {"name": "one", "allowed_models": ["open:big"]}
    made = live.post("/api/keys", wanted, authorization=f"Bearer {live.admin}").json()
    told = live.post(PATHS[0], body(PATHS[0], "claude:opus"), authorization=f"Bearer {made['key']}")
    assert told.status_code == 403
    assert told.json()["error"]["code"] == "routing.not_permitted"


def test_a_named_model_without_a_price_under_a_budget_is_a_402(town: Town) -> None:
    models = {**town.models["models"], "open:odd": {"location": "cloud"}}
    budgets = [{"name": "day", "limit_usd": 9}]
    write_home(
        town.home,
        models={**town.models, "models": models},
        routing={"schema_version": 1, "global_default": "house:llama", "budgets": budgets},
    )
    with running(town.home) as live:
        told = live.post(PATHS[0], body(PATHS[0], "open:odd"))
        assert told.status_code == 402
        assert "unknown" in told.text
    assert not town.local.requests


def test_a_candidate_too_dear_for_the_budget_falls_through_to_the_next(town: Town) -> None:
    rules = [{"when": {"message_matches": "arch"}, "use": "claude:opus", "name": "deep"}]
    budgets = [{"name": "day", "limit_usd": 0.01}]
    routing = {"schema_version": 1, "global_default": "house:llama", "rules": rules}
    write_home(town.home, routing={**routing, "budgets": budgets})
    with running(town.home) as live:
        told = live.post(PATHS[0], body(PATHS[0], "auto", "arch", max_tokens=32_000))
        assert told.headers["x-pointsman-model"] == "house:llama"
        assert not town.anthropic.requests
        small = live.post(PATHS[0], body(PATHS[0], "auto", "arch", max_tokens=1))
        assert small.headers["x-pointsman-model"] == "claude:opus"


def test_a_bare_name_of_one_model_is_that_model(town: Town, live: Running) -> None:
    town.openai.then(says("hi"))
    told = live.post(PATHS[0], body(PATHS[0], "small"))
    assert told.headers["x-pointsman-model"] == "open:small"


def test_a_bare_name_of_several_models_is_refused_with_their_names(town: Town) -> None:
    models = {**town.models["models"], "house:big": {"location": "local"}}
    given = {name: {**each, "aliases": []} for name, each in models.items()}
    write_home(town.home, models={**town.models, "models": given})
    with running(town.home) as live:
        told = live.post(PATHS[0], body(PATHS[0], "big"))
        assert told.status_code == 400
        assert "open:big" in told.text
        assert "house:big" in told.text


def test_a_pinned_model_that_is_rejected_falls_through_and_the_caller_is_told(
    town: Town, live: Running
) -> None:
    town.openai.then(*DOWN)
    headers = {"x-session-id": "s"}
    for _ in range(3):
        live.post(PATHS[0], body(PATHS[0], "open:small"))
        live.post(PATHS[0], body(PATHS[0], "open:big"))
    assert live.post("/api/sessions/s/pin", {"model": "claude:opus"}).status_code == 200
    town.anthropic.then(*DOWN[:3])
    town.local.then(says("here"))
    told = live.post(PATHS[0], body(PATHS[0], "auto"), **headers)
    assert told.headers["x-pointsman-notice"] == "turns.choice_rejected"
    assert told.headers["x-pointsman-fallback-from"].startswith("claude:opus")


@pytest.mark.parametrize("is_wish", [False, True])
def test_a_named_model_beats_the_pin_of_its_session(town: Town, *, is_wish: bool) -> None:
    write_home(town.home, pointsman={"fallback": {"for_named_models": is_wish}})
    with running(town.home) as live:
        assert live.post("/api/sessions/s/pin", {"model": "claude:opus"}).status_code == 200
        pinned = live.post(PATHS[0], body(PATHS[0], "auto"), x_session_id="s")
        named = live.post(PATHS[0], body(PATHS[0], "open:small"), x_session_id="s")
    assert pinned.headers["x-pointsman-model"] == "claude:opus"
    assert named.headers["x-pointsman-model"] == "open:small"


def test_the_cost_of_the_day_reaches_the_rules(town: Town) -> None:
    rule = {"name": "cap", "when": {"cost_today_exceeds_usd": "0.000001"}, "use": "open:small"}
    write_home(
        town.home,
        routing={"schema_version": 1, "global_default": "open:big", "rules": [rule]},
    )
    with running(town.home) as live:
        first = live.post(PATHS[0], body(PATHS[0], "auto", "one"))
        (end,) = live.outcomes(1)
        second = live.post(PATHS[0], body(PATHS[0], "auto", "two"))
        facts = facts_of(live.home, second.headers["x-pointsman-decision"])
    assert first.headers["x-pointsman-model"] == "open:big"
    assert second.headers["x-pointsman-model"] == "open:small"
    assert facts.cost_today_microusd == end["spent"]["cost_microusd"] > 0


SCHEMA = {"name": "answer", "schema": {"type": "object"}}
USED = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
EARLIER = [
    {"role": "user", "content": "look"},
    {"role": "assistant", "content": None, "tool_calls": [USED]},
    {"role": "tool", "tool_call_id": "c1", "content": "seen"},
    {"role": "assistant", "content": "I saw it."},
    {"role": "user", "content": "and now?"},
]


@pytest.mark.parametrize(
    ("more", "name", "lacks"),
    [
        (
            {"tools": [{"type": "function", "function": TOOL}]},
            "has_tool_definitions",
            "supports_tools",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": SCHEMA}},
            "requires_structured_output",
            "supports_structured_output",
        ),
    ],
)
def test_what_a_request_needs_is_gathered_and_gates_the_models(
    town: Town, more: dict[str, Any], name: str, lacks: str
) -> None:
    models = {**town.models["models"]}
    models["open:small"] = {**models["open:small"], "capabilities": {lacks: False}}
    rule = {"name": "first", "when": {"message_matches": "."}, "use": "open:small"}
    write_home(
        town.home,
        models={**town.models, "models": models},
        routing={"schema_version": 1, "global_default": "open:big", "rules": [rule]},
    )
    with running(town.home) as live:
        plain = live.post(PATHS[0], body(PATHS[0], "auto"))
        asked = live.post(PATHS[0], {**body(PATHS[0], "auto"), **more})
        facts = [
            facts_of(live.home, each.headers["x-pointsman-decision"]) for each in (plain, asked)
        ]
    assert [getattr(each, name) for each in facts] == [False, True]
    assert plain.headers["x-pointsman-model"] == "open:small"
    assert asked.headers["x-pointsman-model"] == "open:big"


def test_tool_calls_of_the_history_reach_the_rules(town: Town) -> None:
    rule = {"name": "tools", "when": {"has_tool_calls_in_history": True}, "use": "open:big"}
    write_home(
        town.home,
        routing={"schema_version": 1, "global_default": "open:small", "rules": [rule]},
    )
    with running(town.home) as live:
        plain = live.post(PATHS[0], body(PATHS[0], "auto"))
        asked = live.post(PATHS[0], {"model": "auto", "messages": EARLIER})
    assert plain.headers["x-pointsman-model"] == "open:small"
    assert asked.headers["x-pointsman-model"] == "open:big"


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_a_request_id(town: Town, live: Running, path: str) -> None:
    name = "request-id" if path == "/v1/messages" else "x-request-id"
    good = live.post(path, body(path, "auto"))
    assert good.headers[name]
    unknown = live.post(path, body(path, "nobody"))
    assert unknown.status_code == 404
    assert unknown.headers[name]
    assert unknown.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    ("status", "told"), [(400, 400), (404, 404), (413, 413), (422, 422), (429, 429), (500, 502)]
)
@pytest.mark.parametrize("model", ["open:big", "auto"])
def test_a_providers_own_error_keeps_its_status_and_its_words(
    town: Town, live: Running, status: int, told: int, model: str
) -> None:
    town.openai.then(*[fails(status, message="bad thing happened")] * 5)
    write_home(town.home, routing={"schema_version": 1, "global_default": "open:big"})
    found = live.post(PATHS[0], body(PATHS[0], model))
    assert found.status_code == told
    assert "bad thing happened" in found.json()["error"]["message"]
    assert (found.headers.get("x-should-retry") == "false") is (told not in {429, 502})


def test_a_refused_key_of_ours_is_a_502_that_is_not_worth_a_retry(
    town: Town, live: Running
) -> None:
    town.openai.then(*[fails(401)] * 5)
    found = live.post(PATHS[0], body(PATHS[0], "open:big"))
    assert found.status_code == 502
    assert found.headers["x-should-retry"] == "false"


def test_a_preview_sees_what_was_spent_and_what_is_left(town: Town) -> None:
    budgets = [{"name": "day", "limit_usd": 1}, {"name": "each", "limit_usd": 2, "each": "key"}]
    write_home(
        town.home, routing={"schema_version": 1, "global_default": "open:big", "budgets": budgets}
    )
    with running(town.home) as live:
        live.post(PATHS[0], body(PATHS[0], "auto"))
        (end,) = live.outcomes(1)
        spent = end["spent"]["cost_microusd"]
        gathered = live.parts.pointsman.facts
        facts = eventually(lambda: (found := gathered("hi")).cost_today_microusd and found)
    assert facts.cost_today_microusd == spent > 0
    assert [(each.name, each.left_microusd) for each in facts.budgets] == [
        ("day", 1_000_000 - spent)
    ]


def test_the_list_of_models_tells_their_limits_where_they_are_known(town: Town) -> None:
    able = {"max_context_tokens": 9000, "max_output_tokens": 70}
    models = {**town.models["models"]}
    models["open:big"] = {**models["open:big"], "capabilities": able}
    write_home(town.home, models={**town.models, "models": models})
    with running(town.home) as live:
        listed = {each["id"]: each for each in live.get("/v1/models").json()["data"]}
    assert (listed["open:big"]["context_length"], listed["open:big"]["max_output_tokens"]) == (
        9000, 70,
    )  # fmt: skip
    assert "context_length" not in listed["auto"]
