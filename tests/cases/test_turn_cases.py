"""Behaviour of the turns room, told in YAML files."""

from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pointsman.errors import DocumentError, InputError
from pointsman.kernel.document import Document
from pointsman.kernel.number import Billionths, billionths_text
from pointsman.kernel.yaml_text import read_yaml
from pointsman.turns.chain.override import split_override
from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.decide import decide
from pointsman.turns.facts import TurnFacts, read_facts, turn_facts
from pointsman.turns.policy import NO_ROUTING, read_policy, turn_policy
from pointsman.turns.registry.models import NO_MODELS, read_models, registry
from pointsman.turns.trace import Evaluation, TurnOutcome, TurnTrace

FOLDER = Path(__file__).parent / "turns"
HOME = "/home/me"
SLOTS = [
    "per_message_override",
    "manual_sticky",
    "rule",
    "pattern",
    "delegate_request",
    "workspace_default",
    "global_default",
]


def _cases(*names: str) -> list[Any]:
    """Read cases; a file may share `models` and `routing` among its cases."""
    found = []
    for name in names:
        value: Any = read_yaml((FOLDER / name).read_bytes(), name).value
        shared = {} if isinstance(value, list) else value
        for each in value if isinstance(value, list) else value["cases"]:
            case = {key: shared[key] for key in ("models", "routing") if key in shared} | each
            marks = pytest.mark.req(*case.get("req", []))
            found.append(pytest.param(case, id=f"{name}: {case['note']}", marks=marks))
    return found


def _text(case: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_text" in case:
        return str(case[f"{name}_text"]).encode()
    return msgspec.json.encode(case[name]) if name in case else None


def _policy(case: dict[str, Any]) -> CompiledTurnPolicy:
    models_text, routing_text = _text(case, "models"), _text(case, "routing")
    models = NO_MODELS if models_text is None else read_models(models_text, "models.yaml")
    known = registry(models, lambda _name: None)
    if routing_text is None:
        return compile_policy(turn_policy(NO_ROUTING, known, HOME))
    routing = read_policy(routing_text, "routing.yaml", known, HOME)
    return compile_policy(turn_policy(routing, known, HOME))


def _facts(case: dict[str, Any], policy: CompiledTurnPolicy) -> TurnFacts:
    given = read_facts(Document("facts", case["facts"], {}, {}))
    return policy.complete(turn_facts(given, *split_override(given.message, policy.aliases)))


def _said(outcome: TurnOutcome, trace: TurnTrace, want: dict[str, Any]) -> dict[str, Any]:
    """Give what a decision says under the names a case asks for."""
    slots = {each.policy: each for each in trace.chain}
    main = trace.chain[outcome.winner_index]
    text = " ".join(banner.text for banner in outcome.banners)
    rule = slots.get("rule", main)
    said: dict[str, Any] = {
        "chosen_model": outcome.chosen_model,
        "policy": main.policy,
        "rule_name": main.rule_name,
        "reason": main.reason,
        "validation_failure": main.validation_failure,
        "verdicts": [each.verdict for each in trace.chain],
        "attempts": [each.rule_name for each in rule.rule_attempts],
        "lost": [each.candidate_model for each in main.rule_attempts],
        "lost_reasons": [each.reason for each in main.rule_attempts],
        "unknown": [*(main.unknown_capabilities or ())],
        "banners": [banner.code for banner in outcome.banners],
        "banner_texts": [banner.text for banner in outcome.banners],
        "banner_parts": [part for part in want.get("banner_parts", []) if part in text],
        "banner_without": [part for part in want.get("banner_without", []) if part not in text],
        "failures": {name: slots[name].validation_failure for name in want.get("failures", {})},
        "reasons": {name: slots[name].reason for name in want.get("reasons", {})},
        "candidates": {name: slots[name].candidate_model for name in want.get("candidates", {})},
        **_pattern(main),
    }
    return {name: said[name] for name in want}


def _pattern(said: Evaluation) -> dict[str, Any]:
    return {
        "confidence": billionths_text(Billionths(said.confidence or 0)),
        "alternatives": [
            {"model": o.model, "score": billionths_text(o.score), "sample_size": o.sample_size}
            for o in said.pattern_alternatives or ()
        ],
    }


TOLD = _cases(
    "global_default.yaml",
    "choices.yaml",
    "worked_examples.yaml",
    "validation.yaml",
    "splits.yaml",
    "workspaces.yaml",
    "delegation.yaml",
    "overrides.yaml",
)


@pytest.mark.parametrize("case", [each for each in TOLD if "error" not in each.values[0]["want"]])
def test_turns_are_decided_as_told(case: dict[str, Any]) -> None:
    policy = _policy(case)
    facts = _facts(case, policy)
    outcome, trace = decide(policy, facts)
    want = dict(case["want"])
    assert facts.message == want.pop("message", facts.message)
    assert _said(outcome, trace, want) == want
    assert [each.policy for each in trace.chain] == SLOTS[: len(trace.chain)]
    assert (outcome.winner_index == -1) == (outcome.chosen_model == "")


@pytest.mark.parametrize("case", [each for each in TOLD if "error" in each.values[0]["want"]])
def test_messages_are_refused_as_told(case: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        _facts(case, _policy(case))
    assert caught.value.message == case["want"]["error"]
    assert case["want"].get("hint", "") in caught.value.hint


def _asked(case: dict[str, Any]) -> tuple[CompiledTurnPolicy, TurnFacts]:
    """Give a turn in which one rule asks what the case says."""
    models = {
        name: {"location": "cloud", "capabilities": {"supports_images": True}}
        for name in ("acme:it", "acme:other")
    }
    policy = _policy(
        {
            "models": {
                "schema_version": 1,
                "providers": {"acme": {"kind": "openai"}},
                "models": models,
            },
            "routing": {
                "schema_version": 1,
                "global_default": "acme:other",
                "rules": [{"name": "it", "when": case["when"], "use": "acme:it"}],
            },
        }
    )
    return policy, _facts(case, policy)


@pytest.mark.parametrize("case", _cases("predicates.yaml"))
def test_predicates_hold_as_told(case: dict[str, Any]) -> None:
    outcome, _ = decide(*_asked(case))
    assert outcome.chosen_model == ("acme:it" if case["holds"] else "acme:other")


@pytest.mark.parametrize("case", _cases("files_refused.yaml"))
def test_files_are_refused_as_told(case: dict[str, Any]) -> None:
    with pytest.raises(DocumentError) as caught:
        _policy(case)
    problems = caught.value.problems
    assert [problem.code for problem in problems] == case["want_codes"]
    assert case.get("want_text", "") in str(caught.value)
    if "want_places" in case:
        assert [str(problem.place) for problem in problems] == case["want_places"]


def _able(*slots: str) -> tuple[CompiledTurnPolicy, TurnFacts]:
    """Give a turn in which these slots can take it, each with a model of its own."""
    names = {slot: f"acme:{slot}" for slot in SLOTS}
    models = {name: {"location": "cloud", "aliases": [slot]} for slot, name in names.items()}
    rules = [{"name": "it", "when": {"has_images": False}, "use": names["rule"]}]
    routing = {
        "schema_version": 1,
        "global_default": names["global_default"],
        "tiers": {"deep": names["delegate_request"]},
        "rules": rules if "rule" in slots else [],
        "workspaces": {"/w": {"default": names["workspace_default"]}},
    }
    row = {"fingerprint_id": "f", "model": names["pattern"], "success": "1", "cost_usd": "1"}
    case = {
        "models": {
            "schema_version": 1,
            "providers": {"acme": {"kind": "openai"}},
            "models": models,
        },
        "routing": routing,
        "facts": {
            "message": "@per_message_override hi" if "per_message_override" in slots else "hi",
            "session": {
                "sticky_model": names["manual_sticky"] if "manual_sticky" in slots else None,
                "workspace_path": "/w" if "workspace_default" in slots else "/v",
            },
            "pattern_rows": [row | {"sample_size": 9, "similarity": "1"}]
            if "pattern" in slots
            else [],
            "delegate_tier": "deep" if "delegate_request" in slots else None,
        },
    }
    policy = _policy(case)
    return policy, _facts(case, policy)


PAIRS = [pair for pair in combinations(SLOTS, 2) if pair != ("pattern", "delegate_request")]


@pytest.mark.req(119, 120, 276)
@pytest.mark.parametrize(("higher", "lower"), PAIRS)
def test_of_two_slots_that_can_take_a_turn_the_higher_one_does(higher: str, lower: str) -> None:
    outcome, trace = decide(*_able(higher, lower))
    assert outcome.chosen_model == f"acme:{higher}"
    assert trace.chain[outcome.winner_index].policy == higher


@pytest.mark.req(276)
@pytest.mark.parametrize("slot", SLOTS)
def test_each_slot_can_take_a_turn(slot: str) -> None:
    outcome, _ = decide(*_able(slot))
    assert outcome.chosen_model == f"acme:{slot}"


@pytest.mark.req(241, 276)
def test_the_pattern_store_stands_back_in_a_delegation() -> None:
    outcome, trace = decide(*_able("pattern", "delegate_request"))
    assert outcome.chosen_model == "acme:delegate_request"
    assert trace.chain[3].reason == "delegate_request_in_flight"
