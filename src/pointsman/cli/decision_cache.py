"""`decision cache`: answers that may be given again, kept in the home for every process of it."""

from __future__ import annotations

from collections.abc import Callable

import click

from pointsman.app import SystemClock
from pointsman.cli.decision_terms import decisions_in_force, is_begun
from pointsman.cli.terms import Session, command, counted
from pointsman.kernel.columns import table
from pointsman.storage.stores.decision_cache import MOST_ANSWERS, DecisionCache, cache_counts
from pointsman.workflows.branch_view import duration
from pointsman.workflows.branching import CACHE_FILE


@click.group()
def cache() -> None:
    """Answers of decisions that are kept for a while."""


@cache.command()
@command
def status(session: Session) -> None:
    """Tell which decisions keep answers, for how long, and how many there are."""
    path = session.home / CACHE_FILE
    counts = {each.decision_id: each for each in cache_counts(path, SystemClock().now())}
    known = decisions_in_force(session).decisions
    names = [
        *(name for name, each in known.items() if each.cache.enabled or name in counts),
        *(name for name in counts if name not in known),
    ]
    found = []
    for name in names:
        kept, decision = counts.get(name), known.get(name)
        is_on = decision is not None and decision.cache.enabled
        ttl = None if decision is None else duration(decision.cache.ttl_ms)
        found.append(
            {
                "decision_id": name,
                "enabled": is_on,
                "ttl": ttl,
                "entries": 0 if kept is None else kept.entries,
                "expired": 0 if kept is None else kept.expired,
            }
        )
    rows = [
        [str(each[key]) for key in ("decision_id", "ttl", "entries", "expired")] for each in found
    ]
    entries = sum(each.entries for each in counts.values())
    summary = f"{counted(entries, 'answer')} of at most {MOST_ANSWERS}"
    text = "\n".join([table([("DECISION", "TTL", "ANSWERS", "EXPIRED"), *rows]), summary])
    expired = sum(each.expired for each in counts.values())
    value = {"entries": entries, "expired": expired, "most": MOST_ANSWERS, "decisions": found}
    session.show(text if rows else f"no decision keeps answers; {summary}", value)


@cache.command()
@click.argument("decision_id", metavar="ID")
@command
def invalidate(session: Session, decision_id: str) -> None:
    """Forget the answers of one decision, and tell how many there were."""
    removed = _removed(session, lambda kept: kept.invalidate(decision_id))
    value = {"decision_id": decision_id, "removed": removed}
    session.show(f"{counted(removed, 'answer')} of {decision_id} forgotten", value)


@cache.command()
@command
def clear(session: Session) -> None:
    """Forget all answers, and tell how many there were."""
    removed = _removed(session, lambda kept: kept.clear())
    session.show(f"{counted(removed, 'answer')} forgotten", {"removed": removed})


def _removed(session: Session, remove: Callable[[DecisionCache], int]) -> int:
    if not is_begun(session):
        return 0
    with session.open() as pointsman:
        return remove(pointsman.branching.cache)
