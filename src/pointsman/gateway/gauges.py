"""Gauges of /metrics: taken when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

from pointsman.gateway.budget_api import budget_rows
from pointsman.gateway.metrics import Labels, written
from pointsman.gateway.parts import Parts

HEALTHY, PARTLY_OUT, OUT = 0, 1, 2


def gauge_lines(parts: Parts) -> Iterator[str]:
    """Write every gauge in the format that Prometheus reads."""
    yield from _lines(
        "pointsman_provider_state",
        "0 healthy, 1 some of its models are out, 2 out",
        [((("provider", name),), str(state)) for name, state in provider_states(parts).items()],
    )
    yield from _lines(
        "pointsman_provider_requests_left",
        "requests that a provider's rpm limit leaves now",
        [
            ((("provider", each.provider),), str(each.requests_left))
            for each in parts.health.rates.rows()
            if each.requests_left is not None
        ],
    )
    yield from _lines(
        "pointsman_provider_tokens_left",
        "tokens that a provider's tpm limit leaves now",
        [
            ((("provider", each.provider),), str(each.tokens_left))
            for each in parts.health.rates.rows()
            if each.tokens_left is not None
        ],
    )
    yield from _lines(
        "pointsman_budget_remaining_usd",
        "what a budget has left, in dollars",
        [
            ((("budget", each.name), ("key", each.key_id or "")), each.left_usd)
            for each in budget_rows(parts)
            if each.left_usd is not None
        ],
    )
    yield from _lines(
        "pointsman_feed_readers", "clients that follow the feed", [((), str(parts.feed.readers))]
    )
    is_writable = parts.pointsman.desk.recorder().health.is_writable
    yield from _lines(
        "pointsman_ledger_writable", "whether entries are taken", [((), str(int(is_writable)))]
    )


def provider_states(parts: Parts) -> dict[str, int]:
    """Give each provider as LiteLLM counts them: 0, 1 or 2."""
    states: dict[str, int] = {}
    limited = parts.health.rates.out()
    for report in parts.health.reports(parts.pointsman.in_force().ready.models):
        is_out = report.state == "unavailable"
        state = HEALTHY
        if is_out:
            state = OUT if report.model is None else PARTLY_OUT
        if report.provider in limited:
            state = OUT
        states[report.provider] = max(states.get(report.provider, HEALTHY), state)
    return states


def _lines(name: str, told: str, values: list[tuple[Labels, str]]) -> Iterator[str]:
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} gauge"
    for labels, value in values:
        yield f"{name}{written(labels)} {value}"
