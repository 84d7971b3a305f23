"""Behaviour of the agents' room, told in YAML files."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.models.agents_jobs import FILE_KEYS, Plain, a_job, a_router, agents_text

from pointsman.agents.compiled import CompiledAgents, compile_policy
from pointsman.agents.decide import DECIDER, decide
from pointsman.agents.explain import ShownRoute, answer, to_screen
from pointsman.agents.facts import FACTS_FORM, with_seal
from pointsman.agents.modules.selfrep import SELFREP_FORM
from pointsman.agents.policy import POLICY_FORM
from pointsman.agents.trace import OUTCOME_FORM, TRACE_FORM, AgentOutcome, RouteTrace
from pointsman.errors import DocumentError
from pointsman.kernel.content import seal_text
from pointsman.kernel.number import Billionths, billionths_text
from pointsman.kernel.yaml_text import read_yaml
from pointsman.storage.policies.agents_file import read_agents

FOLDER = Path(__file__).parent / "agents"


def _cases(name: str) -> list[Any]:
    cases: Any = read_yaml((FOLDER / name).read_bytes(), name).value
    return [
        pytest.param(
            case, id=f"{name}: {case['note']}", marks=pytest.mark.req(*case.get("req", []))
        )
        for case in cases
    ]


def _numbers(rows: Any, name: str) -> dict[str, str]:
    return {row.node_id: billionths_text(Billionths(getattr(row, name))) for row in rows}


def _said(outcome: AgentOutcome, trace: RouteTrace) -> Plain:
    """Give what a choice says under the names a case asks for."""
    return {
        "selected_agent": outcome.selected_agent,
        "reason_tag": None if outcome.reason_tag is None else str(outcome.reason_tag),
        "depth": outcome.depth,
        "depth_reason": str(trace.depth.reason),
        "depth_multiplier": trace.depth.depth_multiplier,
        "token_budget": outcome.token_budget,
        "is_budget_below_floor": trace.tokens.is_budget_below_floor,
        "order": [each.node_id for each in outcome.ordered_candidates],
        "tags": {each.node_id: str(each.reason_tag) for each in outcome.ordered_candidates},
        "scores": _numbers(outcome.ordered_candidates, "final_score"),
        "raw": _numbers(trace.scored, "raw_score"),
        "availability": _numbers(outcome.ordered_candidates, "availability_score"),
        "priorities": _numbers(trace.scored, "goal_priority"),
        "goals": {each.node_id: each.goal_id for each in trace.scored},
        "flags": {each.node_id: each.bias_flag for each in trace.scored},
        "needs": {each.node_id: list(each.unhealthy_dependencies) for each in trace.scored},
        "ties": {each.node_id: each.tie_break for each in trace.scored},
        "median": billionths_text(trace.availability_median),
        "allow_explore": trace.allow_explore,
        "excluded": {each.node_id: str(each.reason) for each in trace.excluded},
        "details": {each.node_id: each.detail for each in trace.excluded},
        "checks": [f"{each.check} {each.passed}/{each.excluded}" for each in trace.checks],
        "error_code": outcome.error_code,
        "cause": str(outcome.cause),
        "intent": outcome.intent,
        "intent_source": trace.intent_source,
        "candidate_source": trace.candidate_source,
        "considered": trace.considered,
        "required_action": outcome.required_action,
        "requires_action_request": outcome.requires_action_request,
        "action_reasons": list(outcome.action_reasons),
        "attempt": trace.attempt,
        "attempts_left": trace.attempts_left,
        "excluded_nodes": list(trace.excluded_nodes),
        "privacy_reason": trace.privacy_reason,
        "fallbacks": list(trace.fallbacks),
    }


def _text(value: Any) -> Any:
    """Give numbers with a fraction as their text: cases write them as people do."""
    if isinstance(value, dict):
        return {key: _text(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_text(each) for each in value]
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value if value is None or isinstance(value, bool | str) else str(value)


@pytest.mark.parametrize("case", [*_cases("document_000.yaml"), *_cases("behaviour.yaml")])
def test_jobs_are_routed_as_told(case: Plain) -> None:
    for variant in case.get("variants", [{}]):
        told = {**case, **variant}
        router = a_router(told)
        facts = a_job(router, told.get("job"), told.get("mind"))
        outcome, trace = decide(router, facts)
        said = _said(outcome, trace)
        assert _text({name: said[name] for name in told["want"]}) == _text(told["want"])
        _check_replay(router, facts, outcome, trace)
        _check_shown(outcome, trace)


def _check_replay(
    router: CompiledAgents, facts: Any, outcome: AgentOutcome, trace: RouteTrace
) -> None:
    stored = FACTS_FORM.encode(with_seal(facts, seal_text(facts.query, b"k" * 32)))
    modules = SELFREP_FORM.form.encode(router.selfrep)
    policy = POLICY_FORM.form.encode(router.policy.policy)
    again = DECIDER.under(policy, lambda _name: modules)(stored, lambda _seal: facts.query)
    assert again == (OUTCOME_FORM.encode(outcome), TRACE_FORM.encode(trace))


def _check_shown(outcome: AgentOutcome, trace: RouteTrace) -> None:
    shown = ShownRoute("d", "j", "t", "r", "s", "b", "f", 1, 1, outcome, trace)
    lines = to_screen(shown).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    said = answer(outcome, trace)
    assert (outcome.selected_agent is None) == ("error_code" in said)


@pytest.mark.parametrize("case", _cases("files_refused.yaml"))
def test_files_are_refused_as_told(case: Plain) -> None:
    text = case["text"].encode() if "text" in case else agents_text(case)
    with pytest.raises(DocumentError) as caught:
        read_agents(text, "agents.yaml")
    lines = str(caught.value).splitlines()
    assert len(lines) == len(case["want"]), lines
    for line, want in zip(lines, case["want"], strict=True):
        assert line.startswith("agents.yaml:")
        assert want in line


def test_the_cases_use_only_names_that_mean_something() -> None:
    known = {*FILE_KEYS, "note", "req", "mind", "job", "want", "variants"}
    for name in ("document_000.yaml", "behaviour.yaml"):
        for case in _cases(name):
            assert set(case.values[0]) <= known


def test_a_router_is_made_of_a_policy_and_the_modules() -> None:
    router = a_router({"modules": {"a": {"apt": "0.5", "status": "healthy"}}})
    again = CompiledAgents(compile_policy(router.policy.policy), router.selfrep)
    assert again.selfrep_id == router.selfrep_id
