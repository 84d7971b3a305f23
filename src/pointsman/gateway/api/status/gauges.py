"""Gauges of /metrics: taken when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pointsman.gateway.api.budgets.handlers import budget_rows
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.telemetry.metrics import Labels, label_text

HEALTHY, PARTLY_OUT, OUT = 0, 1, 2

Value = tuple[Labels, str]

GAUGES: Final = {
    "pointsman_requests_in_flight": "requests being served now",
    "pointsman_provider_state": "0 healthy, 1 some of its models are out, 2 out",
    "pointsman_provider_requests_left": "requests that a provider's rpm limit leaves now",
    "pointsman_provider_tokens_left": "tokens that a provider's tpm limit leaves now",
    "pointsman_budget_remaining_usd": "what a budget has left, in dollars",
    "pointsman_feed_readers": "clients that follow the live feed",
    "pointsman_ledger_writable": "whether entries are taken",
}


def gauge_lines(parts: GatewayServices) -> Iterator[str]:
    """Write every gauge in the format that Prometheus reads."""
    found = _values(parts)
    for name, told in GAUGES.items():
        yield f"# HELP {name} {told}"
        yield f"# TYPE {name} gauge"
        for labels, value in found[name]:
            yield f"{name}{label_text(labels)} {value}"


def _values(parts: GatewayServices) -> dict[str, list[Value]]:
    rates = parts.health.rates.rows()
    is_writable = parts.pointsman.desk.recorder().health.is_writable
    return {
        "pointsman_requests_in_flight": [((), str(parts.metrics.in_flight))],
        "pointsman_provider_state": [
            (_provider(name), str(state)) for name, state in provider_states(parts).items()
        ],
        "pointsman_provider_requests_left": [
            (_provider(each.provider), str(each.requests_left))
            for each in rates
            if each.requests_left is not None
        ],
        "pointsman_provider_tokens_left": [
            (_provider(each.provider), str(each.tokens_left))
            for each in rates
            if each.tokens_left is not None
        ],
        "pointsman_budget_remaining_usd": [
            ((("budget", each.name), ("key", each.key_id or "")), each.left_usd)
            for each in budget_rows(parts)
            if each.left_usd is not None
        ],
        "pointsman_feed_readers": [((), str(parts.feed.readers))],
        "pointsman_ledger_writable": [((), str(int(is_writable)))],
    }


def _provider(name: str) -> Labels:
    return (("provider", name),)


def provider_states(parts: GatewayServices) -> dict[str, int]:
    """Return the state of each provider as LiteLLM counts it: 0, 1 or 2."""
    states: dict[str, int] = {}
    for report in parts.health.reports(parts.pointsman.in_force().ready.models):
        state = HEALTHY
        if report.clears_at is not None:
            state = OUT if report.model is None else PARTLY_OUT
        states[report.provider] = max(states.get(report.provider, HEALTHY), state)
    return states
