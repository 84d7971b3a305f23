"""Requests about agents that cannot be used, and the most that can be asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from tests.gateway.agents_asked import A, agent, decide, kept, minded
from tests.gateway.house import Running, running

from pointsman.storage.stores.entries import LedgerReader


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway of a home without any file and without any key."""
    with running(tmp_path_factory.mktemp("agents") / "home") as found:
        yield found


GOOD = {"job_id": "j", "job_seed": "s", "query_text": "q", "selfrep_snapshot_id": "a"}
HOSTILE = [
    b"",
    b"[]",
    b"nonsense",
    b"[" * 100_000,
    b"{" * 100,
    json.dumps({**GOOD, "query_text": " \t", "brainstate_snapshot_id": "b"}).encode(),
    json.dumps({**GOOD, "brainstate_snapshot_id": "b", "surprise": 1}).encode(),
    json.dumps({**GOOD, "brainstate_snapshot_id": 1e300}).encode(),
    json.dumps({**GOOD, "brainstate_snapshot_id": "b", "candidate_list": "a"}).encode(),
    json.dumps({**GOOD, "brainstate_snapshot_id": "b", "candidate_list": [{}]}).encode(),
    json.dumps({**GOOD, "brainstate_snapshot_id": "b", "trace_id": ["x"]}).encode(),
    json.dumps({**GOOD, "brainstate_snapshot_id": "b"}).encode()[:-1] + b', "job_id": "k"}',
]


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_a_request_that_cannot_be_used_is_told_in_one_clear_error(
    live: Running, body: bytes
) -> None:
    told = live.post("/router/decide", body)
    value = told.json()
    assert (told.status_code, value["error_code"]) == (400, "input.document"), told.text
    assert value["user_message"].startswith("the body:")
    assert value["meta"]["trace_id"]


MODULES = [
    {"modules": {A: agent(1.5)}},
    {"modules": {A: {**agent(0.5), "apt": "NaN"}}},
    {"modules": {A: {**agent(0.5), "trust_me": True}}},
    {"modules": {"no spaces": agent(0.5)}},
    {"modules": {A: agent(0.5, "asleep")}},
    {"modules": {A: agent(0.5)}, "edges": [{"from": A, "to": "nobody", "required": True}]},
    {"edges": []},
    {"modules": []},
]


@pytest.mark.parametrize("body", MODULES, ids=range(len(MODULES)))
def test_modules_that_cannot_be_are_refused(live: Running, body: dict[str, Any]) -> None:
    told = live.post("/selfrep/create_snapshot", body)
    assert (told.status_code, told.json()["error_code"]) == (400, "input.document"), told.text


def test_a_number_past_all_floats_is_refused_and_not_rounded(live: Running) -> None:
    body = b'{"modules": {"agent:a": {"type": "agent", "status": "healthy", "apt": 1e400}}}'
    assert live.post("/selfrep/create_snapshot", body).status_code == 400


@pytest.mark.req(66)
def test_numbers_are_taken_as_they_are_written(live: Running) -> None:
    body = b'{"modules": {"agent:a": {"status": "healthy", "apt": 0.3000000000000000444}}}'
    told = live.post("/selfrep/create_snapshot", body)
    same = kept(live, {A: {"status": "healthy", "apt": 0.3}})
    assert told.json()["selfrep_snapshot_id"] == same


def test_two_thousand_modules_are_kept_and_chosen_from(live: Running) -> None:
    modules = {f"agent:n{n:05}": agent(round(0.3 + n / 10_000, 4)) for n in range(2000)}
    told = decide(live, kept(live, modules), minded(live, 0.8)).json()
    assert told["selected_agent"] == "agent:n01999"
    assert len(told["ordered_candidates"]) == 10


def test_thousands_of_modules_are_kept_and_decided_on_and_the_record_does_not_grow_with_them(
    live: Running,
) -> None:
    many = {f"agent:{n:05}": agent(0.3 + n % 500 / 1000) for n in range(3_000)}
    selfrep, mind = kept(live, {**many, A: agent(0.95)}), minded(live, 0.8)
    told = [decide(live, selfrep, mind, job_id=f"many-{n}") for n in range(3)]
    for each in told:
        assert each.status_code == 200, each.text[:500]
        assert each.json()["selected_agent"] == A
        assert len(each.content) < 40_000, "what is long is named, not sent"
    trace = told[0].json()["route_trace"]
    assert (trace["considered"], trace["excluded_total"]) == (3_001, 3_001 - len(trace["scored"]))
    name = trace["excluded_artifact"].removeprefix("artifact:")
    with closing(LedgerReader(live.parts.pointsman.home.database)) as ledger:
        (whole,) = ledger.with_id(name)
        assert len(json.loads(ledger.attachment(whole, name))) == trace["excluded_total"]
        for each in told:
            (entry,) = ledger.with_id(each.json()["decision_id"])
            size = len(entry.entry.payload) + sum(map(len, ledger.attachments(entry)))
            assert size < 60_000, "a decision among thousands is as small as one among ten"


def test_more_candidates_than_a_request_may_name_are_refused(live: Running) -> None:
    selfrep, mind = kept(live, {A: agent(0.95)}), minded(live, 0.8)
    told = decide(live, selfrep, mind, candidate_list=[f"a{n}" for n in range(100_001)])
    assert told.status_code == 400
    assert "candidate_list" in told.json()["developer_message"]
