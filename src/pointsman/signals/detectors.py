"""Personal data and secrets in a text: pure, deterministic, in time that grows with the text alone.

Each hit is explained. A text without hits is not proved to hold nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pointsman.signals import (
    assignments,
    cards,
    contact,
    issued,
    named,
    network,
    numbers,
    postal,
    words,
)
from pointsman.signals.hit import Found, Hit, KindInfo
from pointsman.signals.kinds import KINDS, RANKS
from pointsman.signals.scanned import Scanned

__all__ = ["DETECTOR", "KINDS", "Hit", "KindInfo", "detect"]

DETECTOR = "pointsman/2"
# Recorded in facts. Raise it whenever some text would be judged differently, also when an upgrade
# of google-re2 is the cause: no other dependency takes part.


class _Search(NamedTuple):
    """Finders, and one pattern without whose match none of them finds anything."""

    pattern: str
    finders: tuple[Callable[[Scanned], Iterator[Found]], ...]


def _either(*patterns: str) -> str:
    return "|".join(f"(?:{pattern})" for pattern in patterns)


_SEARCHES = (
    _Search(
        _either(*issued.PATTERNS, *assignments.PATTERNS, *named.PATTERNS),
        (
            issued.issued_secrets,
            assignments.credential_urls,
            assignments.assigned_secrets,
            named.machine_lines,
        ),
    ),
    _Search(
        _either(*numbers.PATTERNS, *cards.PATTERNS, *contact.PATTERNS, *network.PATTERNS),
        (
            numbers.numbers,
            numbers.codici_fiscali,
            cards.ibans,
            contact.phones,
            network.ip_addresses,
        ),
    ),
    _Search(
        _either(*postal.PATTERNS, *words.PATTERNS), (postal.postal_addresses, words.find_by_words)
    ),
)
_ANYTHING = _either(*(search.pattern for search in _SEARCHES))
# In plain text one pass takes the place of twenty.
_RANK = {kind.name: rank for rank, kinds in enumerate(RANKS) for kind in kinds}
_GROUP = {kind.name: kind.group for kind in KINDS}


def detect(text: str) -> tuple[Hit, ...]:
    """Find every hit of a text, by place.

    Hits never overlap. Of two that would, the one of the stronger rank stays (a form its issuer
    chose, then a check digit, then a name beside it, then a shape); within a rank the one that
    starts first, then the longer, then the one whose name stands near it, then by kind.
    """
    scanned = Scanned(text)
    found = _apart(each for finder in _finders(scanned) for each in finder(scanned))
    places = scanned.characters([(each.start, each.end) for each in found])
    return tuple(
        Hit(each.kind, _GROUP[each.kind], start, end, each.reason)
        for each, (start, end) in zip(found, places, strict=True)
    )


def _finders(text: Scanned) -> Iterator[Callable[[Scanned], Iterator[Found]]]:
    """Return the finders that can find something in a text."""
    yield contact.emails
    if text.first(_ANYTHING, 0):
        for search in _SEARCHES:
            if text.first(search.pattern, 0):
                yield from search.finders


def _apart(found: Iterable[Found]) -> list[Found]:
    """Keep hits that do not overlap; linear in the hits but for sorting them."""
    ranked: list[list[Found]] = [[] for _ in RANKS]
    for each in found:
        ranked[_RANK[each.kind]].append(each)
    kept: list[Found] = []
    for hits in ranked:
        if hits:
            kept = _merge(kept, _first_of_each(hits))
    return kept


def _first_of_each(hits: list[Found]) -> list[Found]:
    hits.sort(key=lambda each: (each.start, -each.end, not each.is_labelled, each.kind))
    kept: list[Found] = []
    for each in hits:
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
    return kept


def _merge(stronger: list[Found], weaker: list[Found]) -> list[Found]:
    """Put the weaker ones between the stronger ones, where there is room; both are sorted."""
    kept: list[Found] = []
    place = 0
    for each in weaker:
        while place < len(stronger) and stronger[place].end <= each.start:
            kept.append(stronger[place])
            place += 1
        if place == len(stronger) or stronger[place].start >= each.end:
            kept.append(each)
    return kept + stronger[place:]
