"""The output of commands as text: sessions, costs, providers; as the command line prints it."""

from __future__ import annotations

from collections.abc import Iterable

from pointsman.conversations.conversations import Conversations, SessionSummary
from pointsman.kernel.columns import table
from pointsman.kernel.document import escape
from pointsman.kernel.instant import instant_text
from pointsman.kernel.number import MicroUsd
from pointsman.operations.providers import (
    ALL_MODELS,
    ProviderRow,
    clears_text,
    provider_rows,
)
from pointsman.sessions.rollup import Rollup, rollup_text
from pointsman.tui.plain import usd_text

_HEADINGS = ("SESSION", "STARTED", "TURNS", "COST", "OPENING")


def sessions_text(sessions: Iterable[SessionSummary]) -> str:
    """List sessions, their workers nested below them."""
    rows = [row for each in sessions for row in (_row(each), *_workers(each))]
    return table([_HEADINGS, *rows]) if rows else "no sessions yet"


def _workers(session: SessionSummary) -> list[tuple[str, ...]]:
    return [_row(each, "└ ") for each in session.workers]


def _row(session: SessionSummary, mark: str = "") -> tuple[str, ...]:
    return (
        f"{mark}{session.id}",
        instant_text(session.started_at)[:16].replace("T", " "),
        str(session.turns),
        usd_text(session.cost_usd),
        escape(" ".join(session.opening.split()), 40),
    )


def cost_text(found: Rollup) -> str:
    """Draw the cost of a session as a tree, then by model and role."""
    rows = [(each.model, "planner", each.cost_microusd, each.turns) for each in found.planner]
    for model in dict.fromkeys(each.model for each in found.workers):
        shares = [each for each in found.workers if each.model == model]
        cost = MicroUsd(sum(each.cost_microusd for each in shares))
        rows.append((model or "no model", "worker", cost, sum(each.turns for each in shares)))
    lines = [rollup_text(found)]
    if rows:
        heads = ("MODEL", "ROLE", "COST", "TURNS")
        cells = [(model, role, usd_text(cost), str(turns)) for model, role, cost, turns in rows]
        lines += ["", table([heads, *cells])]
    return "\n".join(lines)


def providers_text(conversations: Conversations) -> str:
    """List providers and models with their state, its cause, and when it clears."""
    services = conversations.services
    models = services.opened.files.in_force().ready.models
    rows = provider_rows(services.health.reports(models), services.opened.clock.now())
    cells = [(_scope(row), row.state, row.why, clears_text(row)) for row in rows]
    return table([("PROVIDER OR MODEL", "STATE", "CAUSE", "CLEARS"), *cells])


def _scope(row: ProviderRow) -> str:
    return row.provider if row.model == ALL_MODELS else row.model
