"""May this model take this turn? The vetoes every candidate must pass, in one fixed order.

The first that fails is the one reported. Nothing here prefers one model to another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import UNSET, Struct

from pointsman.kernel.number import microusd_text
from pointsman.placement.rules.zones import zone_text
from pointsman.turns.facts import ActiveStop, TurnFacts
from pointsman.turns.registry.models import Model, call_estimate, lies_within, provider_of
from pointsman.turns.trace import ValidationFailure


class Rejection(Struct, frozen=True):
    """Why a model may not take a turn."""

    code: ValidationFailure
    reason: str


Veto = Callable[[str, Model, TurnFacts], Rejection | None]


def rejection(candidate: str, models: Mapping[str, Model], facts: TurnFacts) -> Rejection | None:
    """Return the first veto against a candidate, or None."""
    model = models.get(candidate)
    if model is None:
        if facts.allowed_models is not None and candidate not in facts.allowed_models:
            return _not_permitted(candidate)
        return Rejection("not_configured", f"{candidate} is not in the registry")
    if is_plain(candidate, model, facts):
        return None
    for veto in _VETOES:
        found = veto(candidate, model, facts)
        if found is not None:
            return found
    return None


def is_plain(candidate: str, model: Model, facts: TurnFacts) -> bool:
    """Tell that no veto has anything to look at: most turns, for a third of asking all ten."""
    placed, most = facts.placement, model.capabilities.max_context_tokens
    return (
        (placed is None or placed.gate == "open")
        and facts.stops is UNSET
        and facts.privacy_level != "local"
        and (facts.allowed_models is None or candidate in facts.allowed_models)
        and (facts.configured is None or candidate in facts.configured)
        and facts.network_state != "offline"
        and not (facts.availability or facts.excluded_models or facts.budgets)
        and not (facts.has_images or facts.has_tool_definitions)
        and not (facts.has_system_prompt or facts.requires_structured_output)
        and (most is None or facts.tokens_for(candidate) <= most)
    )


def unknown_needs(model: Model, facts: TurnFacts) -> tuple[str, ...]:
    """Name the capabilities that a turn needs and of which nothing is known; they veto nothing."""
    needs = (
        ("supports_images", facts.has_images),
        ("supports_tools", facts.has_tool_definitions),
        ("supports_system_prompt", facts.has_system_prompt),
        ("supports_structured_output", facts.requires_structured_output),
    )
    known = model.capabilities
    return tuple(name for name, is_needed in needs if is_needed and getattr(known, name) is None)


def _stop(candidate: str, _model: Model, facts: TurnFacts) -> Rejection | None:
    for stop in () if facts.stops is UNSET else facts.stops:
        if stop.scope != "provider" or stop.name == provider_of(candidate):
            return Rejection("stopped", stop_text(stop))
    return None


def stop_text(stop: ActiveStop) -> str:
    """Say in one line which calls an order stopped, who gave it and why."""
    what = "every call" if stop.scope == "all" else " ".join(("calls of", stop.scope, stop.name))
    return f"{what} stopped by {stop.by}: {stop.reason} (stop {stop.id})"


def _privacy(candidate: str, model: Model, facts: TurnFacts) -> Rejection | None:
    placed = facts.placement
    if placed is not None and placed.gate == "closed":
        return Rejection("privacy_blocked", f"{placed.rule_id}: {placed.reason}")
    if model.location == "local":
        return None
    if placed is not None and placed.gate == "local":
        reason = f"{candidate} is in the cloud, this turn stays local: {placed.rule_id}"
        return Rejection("privacy_blocked", reason)
    if facts.privacy_level == "local":
        return Rejection("privacy_blocked", f"{candidate} is in the cloud, this turn stays local")
    if placed is not None and placed.zones is not UNSET and not lies_within(model, placed.zones):
        within = zone_text(placed.zones)
        reason = f"{candidate} is in {model.zone}, this turn stays within {within}"
        return Rejection("privacy_blocked", f"{reason}: {placed.rule_id}")
    return None


def _permission(candidate: str, _model: Model, facts: TurnFacts) -> Rejection | None:
    if facts.allowed_models is not None and candidate not in facts.allowed_models:
        return _not_permitted(candidate)
    return None


def _not_permitted(candidate: str) -> Rejection:
    return Rejection("not_permitted", f"{candidate} is not among the allowed models")


def _configuration(candidate: str, _model: Model, facts: TurnFacts) -> Rejection | None:
    if facts.configured is not None and candidate not in facts.configured:
        return Rejection("not_configured", f"{candidate} lacks a key or an address")
    return None


def _availability(candidate: str, model: Model, facts: TurnFacts) -> Rejection | None:
    provider = provider_of(candidate)
    if facts.network_state == "offline" and model.location != "local":
        return Rejection("provider_unavailable", f"network: offline, {candidate} is in the cloud")
    if facts.availability.get(provider) == "unavailable":
        return Rejection("provider_unavailable", f"all {provider} models temporarily unavailable")
    if "rate_limited" in (facts.availability.get(provider), facts.availability.get(candidate)):
        return Rejection("provider_unavailable", at_limit(provider))
    if facts.availability.get(candidate) == "unavailable":
        return Rejection("provider_unavailable", f"{candidate} model-specific outage")
    if candidate in facts.excluded_models:
        return Rejection("provider_unavailable", f"{candidate} failed earlier in this turn")
    return None


def at_limit(provider: str) -> str:
    """Say that a provider's own limit is used up for now."""
    return f"{provider} is at its limit of requests or tokens a minute"


def _images(candidate: str, model: Model, facts: TurnFacts) -> Rejection | None:
    if facts.has_images and model.capabilities.supports_images is False:
        return Rejection("no_vision_support", f"{candidate} cannot see images")
    return None


def _context(candidate: str, model: Model, facts: TurnFacts) -> Rejection | None:
    most, tokens = model.capabilities.max_context_tokens, facts.tokens_for(candidate)
    if most is not None and tokens > most:
        reason = f"{tokens} tokens are past the {most} of {candidate}"
        return Rejection("exceeds_context_window", reason)
    return None


def _tools(candidate: str, model: Model, facts: TurnFacts) -> Rejection | None:
    if facts.has_tool_definitions and model.capabilities.supports_tools is False:
        return Rejection("no_tool_support", f"{candidate} cannot call tools")
    return None


def _system_prompt(candidate: str, model: Model, facts: TurnFacts) -> Rejection | None:
    if facts.has_system_prompt and model.capabilities.supports_system_prompt is False:
        return Rejection("no_system_prompt_support", f"{candidate} takes no system prompt")
    return None


def _structured_output(candidate: str, model: Model, facts: TurnFacts) -> Rejection | None:
    promises = model.capabilities.supports_structured_output
    if facts.requires_structured_output and promises is False:
        reason = f"{candidate} cannot promise structured output"
        return Rejection("no_structured_output_support", reason)
    return None


def _budget(candidate: str, model: Model, facts: TurnFacts) -> Rejection | None:
    if not facts.budgets:
        return None
    cost = call_estimate(model, facts.tokens_for(candidate), facts.asked_output)
    if cost is None:
        reason = f"the price of {candidate} is unknown, and a budget is in force"
        return Rejection("over_budget", reason)
    if cost == 0:
        # What costs nothing can overdraw nothing; a reservation goes by the same estimate.
        return None
    for budget in facts.budgets:
        if cost > budget.left_microusd:
            left, needed = microusd_text(budget.left_microusd), microusd_text(cost)
            reason = f"budget {budget.name} has ${left} left, {candidate} may need ${needed}"
            return Rejection("over_budget", reason)
    return None


_VETOES: tuple[Veto, ...] = (
    _stop,
    _privacy,
    _permission,
    _configuration,
    _availability,
    _images,
    _context,
    _tools,
    _system_prompt,
    _structured_output,
    _budget,
)
