"""The product's chain and the naive model of it agree on random policies and facts."""

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.models import chain_model
from tests.models.chain_model import Plain
from tests.property.turns_drawn import HOME, SLOTS, ZONES, Case, exact_facts

from pointsman.errors import InputError
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.decide import decide
from pointsman.turns.trace import Evaluation

TURNS_A_POLICY = 8
FAILURES = {
    "privacy_blocked", "not_permitted", "not_configured", "provider_unavailable",
    "no_vision_support", "exceeds_context_window", "no_tool_support", "no_system_prompt_support",
    "no_structured_output_support", "over_budget",
}  # fmt: skip


def product(ready: CompiledTurnPolicy, facts: Plain) -> Plain | None:
    """What the product says, in the words of the model; None where the message is refused."""
    try:
        outcome, trace = decide(ready, exact_facts(facts, ready))
    except InputError:
        return None
    winner = trace.chain[outcome.winner_index] if outcome.winner_index >= 0 else None
    return {
        "chosen_model": outcome.chosen_model,
        "policy": winner and winner.policy,
        "rule_name": winner and winner.rule_name,
        "chain": [_plain(each) for each in trace.chain],
    }


def _plain(said: Evaluation) -> Plain:
    return {
        "policy": said.policy,
        "verdict": said.verdict,
        "candidate": said.candidate_model,
        "validation_failure": said.validation_failure,
        "rule_name": said.rule_name,
        "rule_attempts": [each.rule_name for each in said.rule_attempts],
        "unknown": [*(said.unknown_capabilities or ())],
        "passed_over": [each.rule_name for each in said.passed_over or ()],
    }


def expected(models: Plain, routing: Plain, facts: Plain) -> Plain | None:
    """What the naive model says; None where the message is refused."""
    try:
        return chain_model.run(models, routing, facts, HOME, ZONES)
    except chain_model.Refused:
        return None


def compared(seed: int) -> tuple[Counter[str], list[str]]:
    """Compare the turns of one policy: what occurred, and what differed."""
    case = Case(seed)
    seen: Counter[str] = Counter()
    different = []
    for _ in range(TURNS_A_POLICY):
        facts = case.draw.facts(case.known)
        want = expected(case.models, case.routing, facts)
        found = product(case.ready, facts)
        seen["turns"] += 1
        seen.update(_occurred(case, facts, want))
        if found != want:
            shown = {"models": case.models, "routing": case.routing, "facts": facts}
            different.append(f"seed {seed}\n{json.dumps(shown)}\nwant {want}\ngot  {found}")
    return seen, different


def _occurred(case: Case, facts: Plain, want: Plain | None) -> set[str]:
    if want is None:
        return {"refused message"}
    chain = want["chain"]
    seen = {f"{each['policy']} {each['verdict']}" for each in chain}
    seen |= {str(each["validation_failure"]) for each in chain}
    seen.add(f"won by {want['policy']}" if want["policy"] else "hard failure")
    if want["policy"] == "rule" and chain[2]["rule_attempts"]:
        seen.add("a later rule after a rejected one")
    if facts.get("pattern_rows") and chain[3:] and chain[3]["verdict"] == "not_applicable":
        seen.add("pattern gated")
    if want["policy"] == "delegate_request" and _is_upgraded(case, facts, want):
        seen.add("tier upgraded")
    if any(each["passed_over"] for each in chain):
        seen.add("a rule without an answer")
    if _nested(case, facts) > 1:
        seen.add("nested workspaces")
    return seen


def _is_upgraded(case: Case, facts: Plain, want: Plain) -> bool:
    first = case.ready.scope(facts["session"].get("workspace_path"))
    return first.tiers.get(facts["delegate_tier"]) != want["chosen_model"]


def _nested(case: Case, facts: Plain) -> int:
    own = chain_model.components(facts["session"].get("workspace_path") or "")
    if not own:
        return 0
    paths = (chain_model.components(path, HOME) for path in case.routing["workspaces"])
    return sum(own[: len(path)] == path for path in paths)


SOMETIMES = {
    *(f"won by {slot}" for slot in SLOTS),
    *FAILURES,
    "rule rejected",
    "pattern rejected",
    "pattern deferred",
    "pattern gated",
    "delegate_request rejected",
    "a later rule after a rejected one",
    "tier upgraded",
    "a rule without an answer",
    "nested workspaces",
    "hard failure",
    "refused message",
}


@pytest.mark.slow
@pytest.mark.req(100, 109, 119, 120, 121, 136, 154, 161, 163, 164, 237, 238, 239, 242, 247, 248)
def test_the_chain_and_its_naive_model_agree_on_5000_random_turns() -> None:
    seen: Counter[str] = Counter()
    for seed in range(5000 // TURNS_A_POLICY):
        occurred, different = compared(seed)
        assert not different, different[0]
        seen += occurred
    assert seen["turns"] == 5000
    assert {name: seen[name] for name in SOMETIMES if seen[name] < 5} == {}


def test_the_naive_model_imports_nothing_of_the_product() -> None:
    assert "pointsman" not in Path(chain_model.__file__).read_text(encoding="utf-8")
