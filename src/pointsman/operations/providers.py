"""The rows of `pointsman providers`: one for each provider and model, as values and as text."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from pointsman.kernel.columns import table
from pointsman.kernel.instant import SECOND, Instant, instant_text
from pointsman.turns.registry.availability import Report, Transition
from pointsman.turns.registry.provider_state import Cause, Health, ProviderRecovered

ALL_MODELS = "*"

_HEADINGS = ("PROVIDER", "MODEL", "STATE", "CAUSE", "SINCE", "CLEARS")


class ProviderRow(Struct, frozen=True):
    """One scope as shown; `model` is `*` for the provider as a whole, instants are RFC 3339.

    `cause` is the recorded word, `why` the one to show.
    """

    provider: str
    model: str
    state: Health
    cause: Cause | None
    why: str
    since: str | None
    clears_at: str | None
    clears_in_s: int | None
    models_affected: tuple[str, ...]


def provider_rows(reports: Iterable[Report], now: Instant) -> list[ProviderRow]:
    """Return a row for each report, in the order of the reports."""
    return [_row(report, now) for report in reports]


def provider_table(rows: Iterable[ProviderRow]) -> str:
    """Set the rows as a table."""
    lines = [_cells(row) for row in rows]
    return table([_HEADINGS, *lines]) if lines else "no providers configured"


def recoveries(changes: Iterable[Transition]) -> list[ProviderRecovered]:
    """Return the recoveries among transitions."""
    payloads = (each.payload for each in changes)
    return [each for each in payloads if isinstance(each, ProviderRecovered)]


def _row(report: Report, now: Instant) -> ProviderRow:
    clears = report.clears_at
    return ProviderRow(
        provider=report.provider,
        model=ALL_MODELS if report.model is None else report.model,
        state=report.state,
        cause=report.cause,
        why=report.why,
        since=None if report.since is None else instant_text(report.since),
        clears_at=None if clears is None else instant_text(clears),
        # Whole seconds, rounded up: what says 0 has cleared.
        clears_in_s=None if clears is None else max(0, -((now - clears) // SECOND)),
        models_affected=report.models_affected,
    )


def _cells(row: ProviderRow) -> tuple[str, ...]:
    since = (row.since or "")[:19]
    return (row.provider, _name(row), row.state, row.why, since, clears_text(row))


def clears_text(row: ProviderRow) -> str:
    """Say when a scope is let in again."""
    return "" if row.clears_in_s is None else f"in {_span(row.clears_in_s)}"


def _name(row: ProviderRow) -> str:
    return row.model.removeprefix(f"{row.provider}:")


def _span(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
