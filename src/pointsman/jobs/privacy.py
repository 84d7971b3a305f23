"""Whether a query may be routed at all: the detectors' verdict, taken before any other fact."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pointsman.agents.facts import OPEN, PrivacyVerdict, normalise_query
from pointsman.signals.detectors import detect
from pointsman.signals.hit import Hit
from pointsman.signals.redaction import redact

Find = Callable[[str], Sequence[Hit]]

FAILED = "detector_failed"


def privacy_verdict(
    query: str, let_through: Collection[str] = (), find: Find = detect
) -> PrivacyVerdict:
    """Say whether a query is blocked; the reason names kinds and never quotes.

    Words of medicine block nothing: they name a subject, not a person.
    """
    open_to = frozenset((*let_through, "medical"))
    found = [each for each in find_kinds(query, find) if not _is_let_through(each, open_to)]
    if not found:
        return OPEN
    return PrivacyVerdict(is_blocked=True, reason=f"the query holds {', '.join(found)}")


def find_kinds(text: str, find: Find = detect) -> tuple[str, ...]:
    """List the kinds found in a text, as written and normalised; a failing detector is one."""
    try:
        hits = [*find(text), *find(normalise_query(text))]
    except Exception:  # noqa: BLE001 - when a detector fails for any reason, nothing may pass
        return (FAILED,)
    return tuple(sorted({f"{hit.group}.{hit.kind}" for hit in hits}))


def redact_findings(text: str) -> str:
    """Return foreign text fit for the ledger: redacted where a detector finds something in it."""
    return redact(text) if find_kinds(text) else text


def _is_let_through(found: str, let_through: frozenset[str]) -> bool:
    group, _, kind = found.partition(".")
    return bool(kind) and (group in let_through or kind in let_through)
