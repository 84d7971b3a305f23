"""What a turn's decision asks a surface to show: outages, rejected choices, budgets, patterns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pointsman.kernel.number import Billionths, MicroUsd, billionths_text, microusd_text
from pointsman.turns.chain.validation import at_limit, rejection
from pointsman.turns.compiled import CompiledTurnPolicy, exceeded_limit
from pointsman.turns.facts import TurnFacts
from pointsman.turns.policy import Disagreement
from pointsman.turns.registry.models import provider_of
from pointsman.turns.trace import Banner, Evaluation, Slot

_SLOTS: dict[Slot, str] = {
    "per_message_override": "@ override",
    "manual_sticky": "sticky model",
    "rule": "rule",
    "pattern": "pattern",
    "delegate_request": "delegation",
    "workspace_default": "workspace default",
    "global_default": "global default",
}


def banners(
    ready: CompiledTurnPolicy, facts: TurnFacts, chain: Sequence[Evaluation], winner: int
) -> tuple[Banner, ...]:
    """Return the banners of a decision, in the order they are shown."""
    if winner < 0:
        return (_no_model(ready, facts, chain),)
    chosen = chain[winner]
    return (
        *_rejected_choices(chain[:winner], chosen),
        *_outages(facts, chain[: winner + 1], chosen),
        *_budget_breaker(ready, facts, chosen),
        *_disagreement(ready.policy.pattern_disagreement, chain, chosen),
    )


def _rejected_choices(chain: Sequence[Evaluation], chosen: Evaluation) -> Iterator[Banner]:
    """A choice the user made by hand is never dropped silently."""
    for each in chain:
        if each.policy in {"per_message_override", "manual_sticky"} and each.verdict == "rejected":
            text = (
                f"{each.candidate_model} ({_SLOTS[each.policy]}) could not take this turn:"
                f" {each.reason}. Routing fell through to {_choice_text(chosen)}."
            )
            yield Banner("turns.choice_rejected", text)


def _outages(facts: TurnFacts, chain: Sequence[Evaluation], chosen: Evaluation) -> Iterator[Banner]:
    seen: set[str] = set()
    for model in _unavailable(chain):
        provider = provider_of(model)
        state = facts.availability.get(provider)
        is_wide = state in {"unavailable", "rate_limited"}
        name = provider if is_wide else model
        if name in seen or model in facts.excluded_models:
            continue
        seen.add(name)
        fell = "currently unavailable. Routing fell through to"
        if state == "rate_limited":
            text = f"{at_limit(provider)}. Routing fell through to {_choice_text(chosen)}."
            yield Banner("turns.provider_unavailable", text)
        elif is_wide:
            text = f"{provider} provider {fell} {_choice_text(chosen)}."
            yield Banner("turns.provider_unavailable", text)
        else:
            text = f"{model} {fell} {chosen.candidate_model}."
            yield Banner("turns.model_unavailable", text)


def _unavailable(chain: Sequence[Evaluation]) -> Iterator[str]:
    for each in chain:
        for attempt in each.rule_attempts:
            if attempt.validation_failure == "provider_unavailable":
                yield attempt.candidate_model
        if each.validation_failure == "provider_unavailable" and each.candidate_model:
            yield each.candidate_model


def _choice_text(chosen: Evaluation) -> str:
    return f"{chosen.candidate_model} ({_SLOTS[chosen.policy]})"


def _budget_breaker(
    ready: CompiledTurnPolicy, facts: TurnFacts, chosen: Evaluation
) -> Iterator[Banner]:
    rules = ready.scope(facts.workspace_path).rules if chosen.rule_name is not None else ()
    # Names are unique in a scope.
    chose = (each.rule.when for each in rules if each.rule.name == chosen.rule_name)
    asked = next(chose, None)
    limit = None if asked is None else exceeded_limit(asked, facts.cost_today_microusd)
    if limit is not None:
        text = (
            f"Daily budget ${_usd(limit)} exceeded (${_usd(facts.cost_today_microusd)}"
            f' today). Routing per "{chosen.rule_name}" rule.'
        )
        yield Banner("turns.budget_breaker", text)


def _usd(amount: MicroUsd) -> str:
    """Write an amount with at least two decimals."""
    whole, _, part = microusd_text(amount).partition(".")
    return f"{whole}.{part.ljust(2, '0')}"


def _disagreement(
    settings: Disagreement, chain: Sequence[Evaluation], chosen: Evaluation
) -> Iterator[Banner]:
    for each in chain:
        if each.policy != "pattern" or each.verdict != "deferred" or not settings.surface:
            continue
        samples = each.pattern_alternatives[0].sample_size if each.pattern_alternatives else 0
        confidence = each.confidence or 0
        if (
            each.validation_failure is None
            and each.candidate_model != chosen.candidate_model
            and confidence >= settings.min_confidence
            and samples >= settings.min_sample_size
        ):
            text = (
                f'Routing to {chosen.candidate_model} per rule "{chosen.rule_name}". Pattern store'
                f" suggests {each.candidate_model} (confidence"
                f" {billionths_text(Billionths(confidence))}, {samples}"
                " similar tasks). /route override to use it for this turn, /route ignore to"
                " dismiss."
            )
            yield Banner("turns.pattern_disagreement", text)


def _no_model(ready: CompiledTurnPolicy, facts: TurnFacts, chain: Sequence[Evaluation]) -> Banner:
    tried = _rejections(chain)
    if facts.delegate_tier is not None and chain[-1].policy == "delegate_request":
        text = f"No model available for tier {facts.delegate_tier}. {chain[-1].reason}."
        return Banner("turns.no_model_for_tier", text)
    listed = ", ".join(f"{model} ({why})" for model, why in tried) or "nothing"
    others = _other_providers(ready, facts, [model for model, _ in tried])
    hint = f" Other configured providers: {', '.join(others)}." if others else ""
    down = _down(facts, [model for model, _ in tried])
    text = f"No model available for this turn.{down} Tried: {listed}.{hint}"
    return Banner("turns.no_model", f"{text} Choose one with /model <id>, or see /rules check.")


def _down(facts: TurnFacts, tried: Sequence[str]) -> str:
    providers = dict.fromkeys(provider_of(model) for model in tried)
    told = {"unavailable": "{} provider currently unavailable", "rate_limited": at_limit("{}")}
    states = {name: facts.availability.get(name, "healthy") for name in providers}
    return "".join(
        f" {told[state].format(name)}." for name, state in states.items() if state in told
    )


def _rejections(chain: Sequence[Evaluation]) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for each in chain:
        rows += [(a.candidate_model, str(a.validation_failure)) for a in each.rule_attempts]
        if each.verdict == "rejected" and each.candidate_model and not each.rule_attempts:
            rows.append((each.candidate_model, str(each.validation_failure)))
    return list(dict.fromkeys(rows))


def _other_providers(
    ready: CompiledTurnPolicy, facts: TurnFacts, tried: Sequence[str]
) -> list[str]:
    """Name the providers of models that no slot proposed and that could take the turn."""
    used = {provider_of(model) for model in tried}
    able = (name for name in ready.models if rejection(name, ready.models, facts) is None)
    # DETERMINISM: by name, as a recorded registry keeps no other order.
    return sorted({provider_of(name) for name in able} - used)
