"""A placement as text, on one screen, and as the JSON of the contracts."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from pointsman.kernel.columns import WIDTH, cut_line, fold_line
from pointsman.kernel.document import printable
from pointsman.placement.trace import PlacementOutcome, PlacementTrace

_MOST_LINES: Final = 3


class ShownPlacement(Struct, frozen=True):
    """A placement with the names it goes by."""

    decision_id: str
    policy_id: str
    facts_id: str
    decision_version: int
    elapsed_us: int
    outcome: PlacementOutcome
    trace: PlacementTrace


def to_screen(shown: ShownPlacement) -> str:
    """Render a placement."""
    outcome, trace, inputs = shown.outcome, shown.trace, shown.trace.inputs
    where = f"{outcome.route}   {outcome.model}"
    if outcome.error_code:
        where = f"error {outcome.error_code}"
    version = f"version {shown.decision_version} · table {outcome.router_version}"
    reason = " ".join(outcome.reason.split())
    limit = f"{inputs.token_count} tokens of {inputs.token_limit}"
    lines = [
        f"Route: {where}   ({outcome.rule_id})",
        *fold_line(f"       {reason}", WIDTH, 0)[:_MOST_LINES],
        f"Asked: privacy {inputs.privacy_level}, network {inputs.network_state}, {limit}",
        "",
        "Steps:",
        *(f"  {each.step:<19} {each.outcome:<14} {each.detail}" for each in trace.steps),
        *(["", "Rules:"] if trace.evaluated_rules else []),
        *(
            f"  {'hit ' if each.has_matched else 'miss'} {each.rule_id}: {each.condition}"
            for each in trace.evaluated_rules
        ),
        *(f"warning: {each}" for each in trace.warnings),
        *(f"to confirm: {each}" for each in trace.prompts),
        *_flags(outcome),
        "",
        f"decision {shown.decision_id} · {version}",
        f"policy   {shown.policy_id}",
        f"facts    {shown.facts_id}",
    ]
    return "\n".join(cut_line(printable(line)) for line in lines)


def to_json(shown: ShownPlacement) -> dict[str, object]:
    """Return the decision as contracts.md shapes it: a route, or an error."""
    outcome = shown.outcome
    names: dict[str, object] = {
        "decision_id": shown.decision_id,
        "policy_id": shown.policy_id,
        "facts_id": shown.facts_id,
        "decision_version": shown.decision_version,
        "elapsed_ms": shown.elapsed_us / 1000,
    }
    said: dict[str, object] = {
        "rule_id": outcome.rule_id,
        "reason": outcome.reason,
        "router_version": outcome.router_version,
        "trace": msgspec.to_builtins(shown.trace),
    }
    if outcome.error_code:
        return {"error_code": outcome.error_code, **said, **names}
    return {
        "route": outcome.route,
        "model": outcome.model,
        "fallback_allowed": outcome.fallback_allowed,
        "confidence": 1.0,
        "requires_confirmation": outcome.requires_confirmation,
        "log_escalation": outcome.log_escalation,
        **said,
        **names,
    }


def _flags(outcome: PlacementOutcome) -> list[str]:
    told = {
        "a local failure may fall back to the cloud, once": outcome.fallback_allowed,
        "a human must confirm this": outcome.requires_confirmation,
        "this is an escalation, and logged as one": outcome.log_escalation,
    }
    found = [text for text, holds in told.items() if holds]
    return ["", *found] if found else []
