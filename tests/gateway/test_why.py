"""What happened in a turn, told by every surface alike: its calls, fallbacks, refusals, shadows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import Raw
from tests.gateway.conftest import Town
from tests.gateway.house import ABLE, Running, eventually, keeps, write_home
from tests.gateway.shadows import SHADOW, counted, settled
from tests.gateway.shadows import routing as shadowing
from tests.mcp_surface.depot import done, over_http

from pointsman.audit.turn_story import recent_stories
from pointsman.calls.call_end import END_FORM, CallEnd
from pointsman.cli.main import main
from pointsman.kernel.record import Names, OutcomeRecord, outcome_draft
from pointsman.storage.home import open_home
from pointsman.testing import calls, fails, says
from pointsman.testing.upstream_replies import Received, Step

DOWN = [fails(500)] * 3
RULES = [
    {"name": "code", "when": {"message_matches": "code"}, "use": "claude:opus"},
    {"name": "deep", "when": {"message_matches": "write"}, "use": "open:big"},
]


def routing(**more: Any) -> dict[str, Any]:
    return {"schema_version": 1, "global_default": "open:small", "rules": RULES, **more}


@pytest.fixture
def ruled(town: Town) -> Town:
    write_home(town.home, routing=routing())
    return town


@pytest.fixture
def live(ruled: Town, serve: Any) -> Running:
    return serve(ruled.home)


def read(live: Running, name: str) -> dict[str, Any]:
    told = live.get(f"/api/turns/{name}")
    assert told.status_code == 200, told.text
    found: dict[str, Any] = told.json()
    return found


def printed(live: Running, *words: str) -> str:
    done = CliRunner().invoke(main, ["why", *words, "--home", str(live.home)])
    assert done.exit_code == 0, done.output
    return done.output


def explained(live: Running, name: str) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        headers = {"authorization": f"Bearer {live.admin}"}
        async with over_http(live.url, **headers) as client:
            return await done(client, "route_explain", turn=name)

    return asyncio.run(ask())


@pytest.mark.req(102)
def test_every_surface_tells_the_same_of_a_turn_that_fell_back(ruled: Town, live: Running) -> None:
    ruled.anthropic.then(*DOWN)
    ruled.openai.then(says("from the other"))
    told = live.chat("write code", headers={"x-session-id": "s-1"})
    live.outcomes(2)
    turn, decision = told.headers["x-pointsman-turn"], told.headers["x-pointsman-decision"]
    value = read(live, turn)
    assert value["decision_id"] != decision
    assert (value["chosen_model"], value["served_model"]) == ("claude:opus", "open:big")
    assert value["state"] == "fallback"
    assert [(each["model"], each["outcome"], each["error_class"], each["status"], each["attempts"])
            for each in value["calls"]] == [
        ("claude:opus", "failed", "server_error", 500, 3), ("open:big", "done", "", 200, 1),
    ]  # fmt: skip
    (later,) = value["fallbacks"]
    assert (later["decision_id"], later["failed_model"]) == (decision, "claude:opus")
    assert (later["chosen_model"], later["rule_name"]) == ("open:big", "deep")
    assert value["not_asked"] == [
        {"policy": "rule", "rule_name": "deep", "model": "open:big"},
        {"policy": "global_default", "rule_name": "", "model": "open:small"},
    ]
    assert value["cost_usd"] == "0.000019"
    ended = live.entries("outcome")
    names = [turn, decision, value["decision_id"], "last", *(each.id for each in ended)]
    assert [read(live, name) for name in names] == [value] * len(names)
    assert [explained(live, name) for name in (turn, decision)] == [value, value]
    screen = value.pop("why")
    assert json.loads(printed(live, decision, "--json")) == value
    assert printed(live, decision) == printed(live, turn) == screen + "\n"
    assert "Chose: claude:opus   (rule)\nServed: open:big   (fallback, $0.000019)\n" in screen
    assert "call 1: claude:opus failed (server_error, status 500)" in screen
    assert 'chose open:big (rule "deep")' in " ".join(screen.split())


def test_the_list_and_the_page_of_a_turn_agree(ruled: Town, live: Running) -> None:
    ruled.anthropic.then(*DOWN, *DOWN, says("plain"))
    ruled.openai.then(says("taken over"), *DOWN, *DOWN)
    live.chat("write code")
    live.chat("code again")
    live.chat("code, please")
    live.chat("hello", model="open:small")
    live.post("/api/route/preview", {"message": "only a preview"})
    live.post("/api/route/preview", {"message": "nobody", "configured": []})
    live.outcomes(6)
    rows = live.get("/api/turns").json()["turns"]
    pages = [read(live, row["turn_id"]) for row in rows]
    same = ("chosen_model", "served_model", "state", "is_preview", "session_id", "at")
    assert [[row[name] for name in same] for row in rows] == [
        [page[name] for name in same] for page in pages
    ]
    assert [(row["state"], row["served_model"]) for row in reversed(rows)] == [
        ("fallback", "open:big"), ("failed", ""), ("done", "claude:opus"), ("failed", ""),
        ("preview", ""), ("preview", ""),
    ]  # fmt: skip
    for row, page in zip(rows, pages, strict=True):
        assert row["calls"] == len(page["calls"])
        assert row["fallbacks"] == len(page["fallbacks"])


def test_a_list_that_is_behind_says_the_same_of_each_turn(ruled: Town, live: Running) -> None:
    ruled.anthropic.then(*DOWN)
    live.chat("write code")
    live.chat("hello")
    live.outcomes(3)
    listed = live.get("/api/turns").json()["turns"]
    found = recent_stories(open_home(live.home), 10)
    assert [(each.first.turn_id, each.state, each.served_model) for each in found] == [
        (row["turn_id"], row["state"], row["served_model"]) for row in listed
    ]


def test_a_turn_whose_call_has_not_ended_is_open(live: Running) -> None:
    pointsman = live.parts.pointsman
    shown = pointsman.route(pointsman.facts("hello"))
    page = read(live, shown.turn_id)
    assert (page["state"], page["served_model"], page["calls"]) == ("open", "", [])
    (row,) = live.get("/api/turns?state=open").json()["turns"]
    assert (row["turn_id"], row["served_model"]) == (shown.turn_id, "")
    assert live.get("/api/turns?state=done").json()["turns"] == []


def test_every_rule_that_lost_is_told_over_http(town: Town, serve: Any) -> None:
    rules = [
        {"name": "first", "when": {"message_matches": "."}, "use": "house:blind"},
        {"name": "second", "when": {"message_matches": "."}, "use": "house:tiny"},
    ]
    blind = {**ABLE, "supports_tools": False}
    tiny = {**ABLE, "max_context_tokens": 3}
    models = {
        "house:blind": {"location": "local", "capabilities": blind},
        "house:tiny": {"location": "local", "capabilities": tiny},
    }
    given = {**town.models, "models": {**town.models["models"], **models}}
    write_home(town.home, models=given, routing=routing(rules=rules))
    live = serve(town.home)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    told = live.chat("write five words of code", tools=[tool])
    assert told.headers["x-pointsman-model"] == "open:small"
    live.outcomes(1)
    screen = " ".join(read(live, "last")["why"].split())
    assert 'rule "first" -> house:blind [no_tool_support] house:blind cannot call tools' in screen
    assert 'rule "second" -> house:tiny [exceeds_context_window]' in screen
    assert "tokens are past the 3 of house:tiny" in screen


def test_a_refusal_of_a_call_that_would_go_on_is_told(town: Town, serve: Any) -> None:
    write_home(town.home, placement=keeps("secret"))
    town.openai.then(calls(("look", {})))
    live = serve(town.home)
    asked = {"role": "user", "content": "look it up"}
    first = live.chat("look it up")
    message = first.json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": "call_1", "content": "key AKIAIOSFODNN7EXAMPLQ"}
    history = [asked, message, result]
    told = live.post("/v1/chat/completions", {"model": "auto", "messages": history})
    assert told.status_code == 403
    live.outcomes(1)
    page = read(live, first.headers["x-pointsman-turn"])
    (refusal,) = page["refusals"]
    assert (refusal["model"], refusal["rule_id"]) == ("open:big", "SENSITIVE_LOCAL")
    assert (page["state"], page["served_model"]) == ("refused", "open:big")
    assert f"refused: no call may go on to open:big (SENSITIVE_LOCAL: {refusal['reason']})" in (
        " ".join(page["why"].split())
    )
    assert read(live, refusal["decision_id"]) == page
    (row,) = live.get("/api/turns?state=refused").json()["turns"]
    assert (row["turn_id"], row["served_model"]) == (page["turn_id"], "open:big")
    assert live.get("/api/turns?state=done").json()["turns"] == []


def test_a_turn_that_goes_on_after_a_refusal_is_done_in_the_list_and_on_the_page(
    town: Town, serve: Any
) -> None:
    write_home(town.home, placement=keeps("secret"))
    town.openai.then(calls(("look", {})), says("done"))
    live = serve(town.home)
    message = live.chat("look it up").json()["choices"][0]["message"]
    asked = {"role": "user", "content": "look it up"}
    for content, status in (("key AKIAIOSFODNN7EXAMPLQ", 403), ("nothing special", 200)):
        result = {"role": "tool", "tool_call_id": "call_1", "content": content}
        history = [asked, message, result]
        told = live.post("/v1/chat/completions", {"model": "auto", "messages": history})
        assert told.status_code == status
        live.get("/api/turns")
    live.outcomes(2)
    (row,) = live.get("/api/turns").json()["turns"]
    page = read(live, row["turn_id"])
    assert (row["state"], page["state"], len(page["refusals"])) == ("done", "done", 1)


def test_a_local_model_that_may_see_all_is_refused_nothing_in_the_list(
    town: Town, serve: Any
) -> None:
    write_home(
        town.home,
        placement=keeps("secret"),
        routing={"schema_version": 1, "global_default": "house:llama"},
    )
    live = serve(town.home)
    states: list[str] = []

    def look_and_answer(request: Received) -> Sequence[Step]:
        eventually(lambda: live.entries("decision.placement"))
        states.extend(row["state"] for row in live.get("/api/turns").json()["turns"])
        return says("done")(request)

    town.local.then(calls(("look", {})), look_and_answer)
    message = live.chat("look it up").json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": "call_1", "content": "key AKIAIOSFODNN7EXAMPLQ"}
    history = [{"role": "user", "content": "look it up"}, message, result]
    live.post("/v1/chat/completions", {"model": "auto", "messages": history})
    live.outcomes(2)
    (row,) = live.get("/api/turns").json()["turns"]
    assert (row["state"], read(live, "last")["state"]) == ("done", "done")
    assert states == ["done"]


def test_a_call_that_lacks_its_confirmation_is_refused_on_every_surface(
    town: Town, serve: Any
) -> None:
    rule = {"id": "ask", "action": "requireConfirmation", "message": "is this wise?"}
    write_home(town.home, placement={**keeps(), "policy_rules": [rule]})
    live = serve(town.home)
    assert live.chat("hello").status_code == 403
    (end,) = live.outcomes(1)
    assert (end["error_class"], end["status"], end["attempts"], end["spent"]) == (
        "confirmation_needed", 403, 0, None,
    )  # fmt: skip
    page = read(live, "last")
    assert (page["state"], page["served_model"]) == ("refused", "")
    assert [each["outcome"] for each in page["calls"]] == ["refused"]
    assert "refused: confirmation_needed, status 403" in printed(live, "last")
    (row,) = live.get("/api/turns?state=refused").json()["turns"]
    assert (row["turn_id"], row["served_model"]) == (page["turn_id"], "")
    assert live.get("/api/audit/egress").json()["departures"] == 0
    embed = {"model": "open:big", "input": "hello"}
    assert live.post("/v1/embeddings", embed).status_code == 403
    live.outcomes(2)
    assert {each["state"] for each in live.get("/api/turns").json()["turns"]} == {"refused"}


def test_a_tool_loop_is_told_call_by_call_and_refuses_nothing(town: Town, serve: Any) -> None:
    write_home(town.home, placement=keeps("secret"))
    town.openai.then(calls(("look", {})), says("done"))
    live = serve(town.home)
    message = live.chat("look it up").json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": "call_1", "content": "nothing special"}
    history = [{"role": "user", "content": "look it up"}, message, result]
    live.post("/v1/chat/completions", {"model": "auto", "messages": history})
    live.outcomes(2)
    page = read(live, "last")
    assert [each["number"] for each in page["calls"]] == [1, 2]
    assert (page["state"], page["refusals"]) == ("done", [])
    left = live.get("/api/audit/egress").json()
    assert (left["turns"], left["left"], left["departures"]) == (1, 1, 2)


def test_a_turn_let_go_by_an_escalation_is_refused_nothing_by_the_table(
    town: Town, serve: Any
) -> None:
    local = {"name": "here", "when": {"message_matches": "."}, "use": "house:llama"}
    write_home(
        town.home,
        placement={**keeps("secret"), "auto": "binding"},
        routing={"schema_version": 1, "global_default": "open:big", "rules": [local]},
    )
    town.local.then(*DOWN)
    town.openai.then(calls(("look", {})), says("done"))
    live = serve(town.home)
    first = live.chat("look it up")
    message = first.json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": "call_1", "content": "nothing special"}
    history = [{"role": "user", "content": "look it up"}, message, result]
    live.post("/v1/chat/completions", {"model": "auto", "messages": history})
    live.outcomes(3)
    kinds = [each for each in live.kinds() if each != "outcome"]
    assert kinds == [
        "decision.placement", "decision.turn", "decision.placement", "decision.turn.fallback",
        "decision.placement",
    ]  # fmt: skip
    page = read(live, first.headers["x-pointsman-turn"])
    assert [each["outcome"] for each in page["calls"]] == ["failed", "done", "done"]
    assert (page["state"], page["served_model"], page["refusals"]) == ("fallback", "open:big", [])


def test_a_turn_without_a_model_is_refused_by_its_decision_alone(town: Town, serve: Any) -> None:
    rules = [{"id": "never", "action": "block", "message": "closed today"}]
    write_home(town.home, placement={**keeps(), "policy_rules": rules})
    live = serve(town.home)
    assert live.chat("hello").status_code == 403
    page = read(live, "last")
    assert (page["state"], page["refusals"], page["calls"]) == ("refused", [], [])
    assert "Chose: no model" in page["why"]


def test_a_call_that_a_budget_refused_after_the_decision_is_told(live: Running) -> None:
    pointsman = live.parts.pointsman
    shown = pointsman.route(pointsman.facts("write code"))
    end = CallEnd("claude:opus", "cloud", 1, False, 402, "over_budget", 0, "", 0, 0, None)
    names = Names("o-1", shown.decision_id, pointsman.clock.now())
    outcome = OutcomeRecord("failed", Raw(END_FORM.encode(end)))
    pointsman.decision_recorder.recorder().record(outcome_draft(names, outcome))
    page = read(live, shown.turn_id)
    assert (page["state"], page["served_model"]) == ("refused", "")
    assert page["calls"][0]["outcome"] == "refused"
    assert "Served: no model   (refused: over_budget, status 402)" in page["why"]
    (row,) = live.get("/api/turns").json()["turns"]
    assert (row["state"], row["served_model"]) == ("refused", "")
    left = live.get("/api/audit/egress").json()
    assert (left["left"], left["departures"], left["rows"]) == (0, 0, [])


def test_shadow_runs_and_judges_are_told_apart_and_belong_to_the_turn(
    town: Town, serve: Any
) -> None:
    write_home(town.home, routing=shadowing(), pointsman={"judge": {"model": "house:llama"}})
    town.openai.then(says("the answer"))
    town.anthropic.then(says("the other answer"))
    town.local.then(says("3"), says("4"))
    live = serve(town.home)
    told = live.chat("add two numbers")
    settled(live, judge_done=2)
    counted(live, 2).close()
    live.outcomes(4)
    page = read(live, told.headers["x-pointsman-turn"])
    assert [each["model"] for each in page["calls"]] == ["open:big"]
    assert (page["served_model"], page["state"]) == ("open:big", "done")
    assert page["cost_usd"] == page["calls"][0]["cost_usd"] == "0.000019"
    assert page["beside"][0]["cost_usd"] != "0"
    assert [(each["role"], each["model"]) for each in page["beside"]] == [
        ("shadow", "claude:opus"), ("judge", "house:llama"), ("judge", "house:llama"),
    ]  # fmt: skip
    (again,) = live.entries(SHADOW)
    assert read(live, again.id) == page
    assert "\nBeside the turn:\n  shadow run: claude:opus done" in page["why"]
    left = live.get("/api/audit/egress").json()
    assert (left["turns"], left["left"], left["departures"]) == (1, 1, 2)


def test_who_was_not_asked_is_told_as_far_as_the_text_is_kept(ruled: Town, serve: Any) -> None:
    write_home(ruled.home, pointsman={"retain": "digest"})
    live = serve(ruled.home)
    live.chat("write code")
    live.outcomes(1)
    page = read(live, "last")
    assert page["not_asked"] == [
        {"policy": "global_default", "rule_name": "", "model": "open:small"}
    ]
    assert page["not_asked_unknown"] == "1 rule reads the message: the message text was not kept"
    assert "not asked: cannot be told for all: 1 rule reads the message" in page["why"]


def test_departures_and_turns_that_left_are_counted_apart(ruled: Town, live: Running) -> None:
    ruled.anthropic.then(*DOWN)
    live.chat("write code")
    live.chat("hello")
    live.chat("hello", model="house:llama")
    live.outcomes(4)
    told = live.get("/api/audit/egress").json()
    assert (told["turns"], told["left"], told["departures"]) == (3, 2, 3)
    assert [each["is_advice"] for each in told["rows"]] == [True] * 3
    done = CliRunner().invoke(main, ["audit", "egress", "--home", str(live.home)])
    first, *rows = done.output.splitlines()
    assert first == "2 of 3 turns left this machine, in 3 departures"
    assert all(", advice: AUTO_LOCAL, " in row for row in rows[:3])


def test_an_id_that_names_no_turn_is_not_found(live: Running) -> None:
    live.chat("hello")
    (placed,) = live.get("/api/decisions").json()["decisions"]
    assert live.get(f"/api/turns/{placed['facts_id']}").status_code == 404
    assert live.get("/api/turns/nothing").status_code == 404


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
def test_a_provider_s_request_id_leads_to_its_turn(
    ruled: Town, live: Running, path: str, is_stream: bool
) -> None:
    said = {"role": "user", "content": "hello"}
    words = {"input": [said]} if path == "/v1/responses" else {"messages": [said]}
    body = {"model": "auto", "stream": is_stream, "max_tokens": 50, **words}
    if path == "/v1/responses":
        body["max_output_tokens"] = body.pop("max_tokens")
    ruled.openai.then(says("one"), says("two"))
    live.chat("an earlier turn")
    told = live.post(path, body)
    live.outcomes(2)
    turn = told.headers["x-pointsman-turn"]
    assert "req_1" in {told.headers.get("x-request-id"), told.headers.get("request-id")}
    assert read(live, "req_1")["turn_id"] == turn
    assert turn in printed(live, "req_1")
    assert explained(live, "req_1")["turn_id"] == turn


def test_the_request_id_of_a_failed_call_leads_to_its_turn(ruled: Town, live: Running) -> None:
    ruled.openai.then(fails(400, headers={"x-request-id": "req_refused"}))
    told = live.chat("hello", model="open:small")
    live.outcomes(1)
    assert told.headers["x-request-id"] == "req_refused"
    assert live.entries("outcome")[0].payload.count(b'"request_id":"req_refused"') == 1
    assert "open:small" in printed(live, "req_refused")


def test_a_caller_s_trace_leads_to_its_turn(ruled: Town, live: Running) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    parent = f"00-{trace}-b7ad6b7169203331-01"
    ruled.openai.then(says("one"), says("two"))
    told = live.chat("hello", headers={"traceparent": parent})
    live.chat("a later turn")
    live.outcomes(2)
    turn = told.headers["x-pointsman-turn"]
    assert [read(live, name)["turn_id"] for name in (trace, parent)] == [turn, turn]
    assert turn in printed(live, trace)


def test_an_id_that_no_turn_has_is_not_found(ruled: Town, live: Running) -> None:
    ruled.openai.then(says("one"))
    live.chat("hello")
    for name in ("req_unknown", 'req_1","x', "%"):
        done = CliRunner().invoke(main, ["why", name, "--home", str(live.home)])
        assert done.exit_code == 2
        assert f"no turn is recorded as `{name}`" in done.output
