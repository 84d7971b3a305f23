"""Whether a query may be routed at all: the detector's word, before anything else is looked at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pointsman.agents.facts import OPEN, PrivacyVerdict, normalised
from pointsman.signals.detectors import detect
from pointsman.signals.hit import Hit
from pointsman.signals.kinds import KINDS
from pointsman.signals.redaction import redacted

Find = Callable[[str], Sequence[Hit]]

FAILED = "detector_failed"
LET_THROUGH: tuple[str, ...] = ("pii", "secret", *(each.name for each in KINDS))
"""What `agents.yaml` may let through: a group, or a kind."""


def privacy_verdict(
    query: str, let_through: Collection[str] = (), find: Find = detect
) -> PrivacyVerdict:
    """Say whether a query is blocked; the reason names kinds and never quotes."""
    found = [
        each
        for each in found_kinds(query, find)
        if not _is_let_through(each, frozenset(let_through))
    ]
    if not found:
        return OPEN
    return PrivacyVerdict(is_blocked=True, reason=f"the query holds {', '.join(found)}")


def found_kinds(text: str, find: Find = detect) -> tuple[str, ...]:
    """Give the kinds in a text, as it is and as it is matched; a failing detector is one."""
    try:
        hits = [*find(text), *find(normalised(text))]
    except Exception:  # noqa: BLE001 - whatever the detector dies of, nothing may pass then
        return (FAILED,)
    return tuple(sorted({f"{hit.group}.{hit.kind}" for hit in hits}))


def lasting(text: str) -> str:
    """Give a text of another's as it may last: redacted where anything is found in it."""
    return redacted(text) if found_kinds(text) else text


def _is_let_through(found: str, let_through: frozenset[str]) -> bool:
    group, _, kind = found.partition(".")
    return bool(kind) and (group in let_through or kind in let_through)
