"""What a choice leaves behind: the trace, what is too long for it, the screen and the JSON."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.models.agents_jobs import a_job, a_router, decided

from pointsman.agents.codes import USER_MESSAGES, Cause, DepthReason, Excluded, ReasonTag
from pointsman.agents.decide import artifacts, decide
from pointsman.agents.explain import ShownRoute, answer, to_json, to_screen
from pointsman.agents.facts import FACTS_FORM, after_failure, normalise_query, with_seal
from pointsman.agents.trace import OUTCOME_FORM, TRACE_FORM, AgentOutcome, RouteTrace
from pointsman.errors import IntegrityFailure, MissingSnapshot
from pointsman.kernel.canonical import ContentId, content_id
from pointsman.kernel.content import seal_text

TWO = {
    "modules": {
        "agent:a": {"apt": "0.9", "status": "healthy"},
        "agent:b": {"apt": "0.7", "status": "healthy"},
        "agent:c": {"apt": "0.7", "status": "offline"},
    }
}


def shown(outcome: AgentOutcome, trace: RouteTrace) -> ShownRoute:
    return ShownRoute(
        "01D", "job-1", "trace-1", "sha256:r", "sha256:s", "sha256:b", "sha256:f", 1, 42,
        outcome, trace,
    )  # fmt: skip


def many(count: int, **given: Any) -> dict[str, Any]:
    modules = {
        f"agent:{n:05d}": {"apt": f"0.{50_000 + n}", "status": "healthy"} for n in range(count)
    }
    return {"modules": modules, **given}


@pytest.mark.req(11, 49, 50, 69)
def test_the_answer_has_the_documents_shape_with_ordinary_numbers() -> None:
    value = json.loads(msgspec.json.encode(to_json(shown(*decided(TWO)))))
    assert value["ordered_candidates"] == [
        {
            "node_id": node_id,
            "availability_score": availability,
            "final_score": score,
            "reason_tag": "availability",
            "reason": "availability",
        }
        for node_id, availability, score in (("agent:a", 0.9, 0.63), ("agent:b", 0.7, 0.49))
    ]
    assert value["selected_agent"] == "agent:a"
    assert (value["depth"], value["token_budget"]) == (2, 900)
    assert (value["requires_action_request"], value["action_reasons"]) == (False, [])
    assert (value["router_snapshot_id"], value["trace_id"]) == ("sha256:r", "trace-1")
    trace = value["route_trace"]
    assert trace["scored"][0]["raw_score"] == 0.63
    assert trace["scored"][0]["apt"] == 0.9
    assert trace["availability_median"] == 0.8
    assert trace["depth"]["attention_gain"] == 0.8
    assert trace["tokens"]["share"] == 0.9
    assert trace["tokens"]["allocated"] == 900
    assert trace["excluded"] == [{"node_id": "agent:c", "reason": "agents.offline", "detail": ""}]
    assert "error_code" not in value


@pytest.mark.req(40, 47)
@pytest.mark.parametrize(
    ("job", "code", "cause"),
    [
        ({"candidate_list": ["agent:c"]}, "ROUTER_NO_MATCH", "agents.none_allowed"),
        ({"blocked": "holds pii.email"}, "PRIVACY_BLOCKED", "agents.privacy"),
    ],
)
def test_an_answer_without_an_agent_has_its_code_cause_and_fixed_sentence(
    job: dict[str, Any], code: str, cause: str
) -> None:
    value = answer(*decided({**TWO, "job": job}))
    assert value["selected_agent"] is None
    assert (value["error_code"], value["cause"]) == (code, cause)
    assert value["user_message"] == USER_MESSAGES[code]


def test_the_screen_tells_who_takes_it_and_why_the_others_do_not() -> None:
    screen = to_screen(shown(*decided(TWO)))
    assert screen.splitlines()[:3] == [
        "Job job-1",
        "Chose: agent:a   (availability)",
        "Gets:  depth 2 of 3 (attention), 900 of 1000 tokens",
    ]
    assert "> agent:a                       0.63         0.9         0.9  availability" in screen
    assert "  agent:b                       0.49         0.7         0.7  availability" in screen
    assert "x agent:c                it is offline" in screen


def test_the_screen_of_a_blocked_job_says_why_and_quotes_nothing() -> None:
    job = {"query": "mail me at ada@example.org", "blocked": "holds pii.email"}
    screen = to_screen(shown(*decided({**TWO, "job": job})))
    assert "Chose: nobody   (PRIVACY_BLOCKED: the query holds what must not be routed)" in screen
    assert "holds pii.email" in screen
    assert "ada@example.org" not in screen


@pytest.mark.parametrize("count", [1, 12, 13, 14, 300])
def test_the_screen_stays_one_screen(count: int) -> None:
    lines = to_screen(shown(*decided(many(count)))).splitlines()
    assert len(lines) <= 24
    assert all(len(line) <= 80 for line in lines)
    if count > 14:
        told = sum(line.startswith(("> ", "  agent", "x ")) for line in lines)
        assert f"… {count - told} more in --json" in lines[-6]


@pytest.mark.req(65)
def test_a_long_list_is_cut_and_the_whole_of_it_is_an_artifact() -> None:
    router = a_router(many(2_000, router_config={"trace_rows": 50}))
    facts = a_job(router)
    _, trace = decide(router, facts)
    assert len(trace.excluded) == 50
    assert trace.excluded_total == 1_990
    (artifact,) = artifacts(router, facts, trace)
    assert trace.excluded_artifact == f"artifact:{artifact.id}"
    assert artifact.id == content_id(artifact.body)
    rows = json.loads(artifact.body)
    assert len(rows) == 1_990
    assert rows[:50] == [[e.node_id, e.reason, e.detail] for e in trace.excluded]


def test_a_list_that_just_fits_is_whole() -> None:
    router = a_router(many(60, router_config={"trace_rows": 50}))
    facts = a_job(router)
    _, trace = decide(router, facts)
    assert len(trace.excluded) == trace.excluded_total == 50
    assert (trace.excluded_artifact, artifacts(router, facts, trace)) == ("", ())


@pytest.mark.req(65)
def test_a_long_text_is_cut_and_the_whole_of_it_is_an_artifact() -> None:
    router = a_router({**TWO, "router_config": {"trace_chars": 100}})
    short = a_job(router, {"intent": "x" * 100})
    _, trace = decide(router, short)
    assert (trace.intent, artifacts(router, short, trace)) == ("x" * 100, ())
    facts = a_job(router, {"intent": "ü" * 101})
    outcome, trace = decide(router, facts)
    (artifact,) = artifacts(router, facts, trace)
    assert artifact.body.decode() == "ü" * 101
    assert len(trace.intent) == 100
    assert trace.intent.endswith(f"… artifact:{artifact.id}")
    assert outcome.intent == trace.intent


def test_a_long_reason_of_privacy_is_cut_as_well() -> None:
    router = a_router({**TWO, "router_config": {"trace_chars": 100}})
    facts = a_job(router, {"blocked": "y" * 500})
    _, trace = decide(router, facts)
    assert len(trace.privacy_reason) == 100
    assert artifacts(router, facts, trace)[0].body == b"y" * 500


@pytest.mark.req(2)
def test_facts_that_name_other_modules_are_refused() -> None:
    router = a_router(TWO)
    facts = replace(a_job(router), selfrep_id=ContentId("sha256:" + "0" * 64))
    with pytest.raises(IntegrityFailure, match="the facts name the modules"):
        decide(router, facts)


def test_a_sealed_query_is_refused_where_a_pattern_reads_it_and_only_there() -> None:
    seal = seal_text("hello", b"k" * 32)
    router = a_router({**TWO, "intents": [{"intent": "any", "patterns": ["."]}]})
    facts = with_seal(a_job(router), seal)
    with pytest.raises(MissingSnapshot, match="is sealed"):
        decide(router, facts)
    assert decide(router, replace(facts, intent="any"))[0].selected_agent == "agent:a"
    plain = a_router(TWO)
    assert decide(plain, with_seal(a_job(plain), seal))[0].selected_agent == "agent:a"


@pytest.mark.req(43, 44)
def test_a_reroute_adds_to_what_was_excluded_and_edits_nothing() -> None:
    router = a_router({"modules": {name: {"apt": "0.5", "status": "healthy"} for name in "abc"}})
    first = a_job(router)
    chosen, rounds = [], [first]
    while (selected := decide(router, rounds[-1])[0].selected_agent) is not None:
        chosen.append(selected)
        rounds.append(after_failure(rounds[-1], selected))
    assert chosen == ["a", "b", "c"]
    assert [each.excluded for each in rounds] == [(), ("a",), ("a", "b"), ("a", "b", "c")]
    assert [each.attempt for each in rounds] == [1, 2, 3, 4]
    assert decide(router, rounds[-1])[0].cause is Cause.ATTEMPTS_EXHAUSTED
    again = [decide(router, each)[0].selected_agent for each in rounds]
    assert again == ["a", "b", "c", None]


@pytest.mark.req(8)
def test_a_query_is_normalised_when_it_is_frozen() -> None:
    assert normalise_query("  gro\u0308ße \n\t 2 ") == "größe 2"
    assert a_job(a_router(TWO), {"query": " a  b "}).query == "a b"


@pytest.mark.req(2, 16)
def test_forms_read_back_what_they_wrote() -> None:
    router = a_router(TWO)
    facts = a_job(router, {"permitted": ["agent:a"], "candidate_list": ["agent:b", "agent:a"]})
    outcome, trace = decide(router, facts)
    assert FACTS_FORM.decode(FACTS_FORM.encode(facts)) == facts
    assert OUTCOME_FORM.decode(OUTCOME_FORM.encode(outcome)) == outcome
    assert TRACE_FORM.decode(TRACE_FORM.encode(trace)) == trace


@pytest.mark.parametrize("kind", [Excluded, ReasonTag, DepthReason, Cause])
def test_every_code_has_a_meaning(kind: Any) -> None:
    assert all(each.meaning[0].islower() or each.meaning[0] == "`" for each in kind)
    assert len({each.meaning for each in kind}) == len(kind)
