"""Consolidated memory: recomputed when an item is promoted or a goal created (004 §4.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from pointsman.brainstate.journal import Journal
from pointsman.brainstate.state import Cwm, CwmItem
from pointsman.brainstate.trace import Why
from pointsman.kernel.canonical import untag
from pointsman.kernel.text import ascii_lower

TOPIC_WORDS = 4
LONGEST_TOPIC = 60

# DETERMINISM: only ASCII separates words; the other letters change with the Python version.
_BETWEEN = r"\x00-/:-@\[-`{-\x7f"
_WORD = f"[^{_BETWEEN}]+"
_FIRST_WORDS = re.compile(
    f"[{_BETWEEN}]*({_WORD})?" + f"(?:[{_BETWEEN}]+({_WORD}))?" * (TOPIC_WORDS - 1)
)


def drop_expired(items: Sequence[CwmItem], tick: int, journal: Journal) -> list[CwmItem]:
    """Return the items whose time to live has not run out; note and drop the others."""
    kept: list[CwmItem] = []
    for item in items:
        if tick - item.promoted_at_tick < item.ttl_ticks:
            kept.append(item)
        else:
            journal.note("cwm_expired", item.wm_id, Why.TTL_RAN_OUT)
    return kept


def recompute_cwm(items: Iterable[CwmItem], most_tokens: int, why: Why, journal: Journal) -> Cwm:
    """Return the memory made of these items, most referenced first, within its tokens.

    An item that could never fit goes first: it would push out all the others and then go itself.
    """
    fitting = []
    for item in items:
        if item.token_estimate <= most_tokens:
            fitting.append(item)
        else:
            detail = f"tokens {item.token_estimate}"
            journal.note("cwm_dropped", item.wm_id, Why.TOO_LARGE, detail)
    if len(fitting) > 1:
        fitting.sort(key=_rank)
    tokens = sum([item.token_estimate for item in fitting])
    dropped = 0
    while tokens > most_tokens:
        item = fitting[dropped]
        tokens -= item.token_estimate
        dropped += 1
        journal.note("cwm_dropped", item.wm_id, Why.OVER_BUDGET, f"tokens {item.token_estimate}")
    kept = tuple(fitting[: dropped - 1 : -1] if dropped else fitting[::-1])
    journal.note("cwm_recomputed", "", why, f"items {len(kept)}, tokens {tokens}")
    return Cwm(topic_of(kept), tokens, kept)


def with_items(cwm: Cwm, items: Sequence[CwmItem]) -> Cwm:
    """Return the memory with changed or fewer items; its topic and order stay (004 §4.2)."""
    kept = tuple(items)
    if kept == cwm.items:
        return cwm
    tokens = sum([item.token_estimate for item in kept])
    return Cwm(cwm.topic if kept else "", tokens, kept)


def topic_of(items: Sequence[CwmItem]) -> str:
    """Return the topic of memory: the first words of its most referenced item, else its type."""
    if not items:
        return ""
    first = items[0]
    if not first.value.startswith('"'):
        return first.type
    value = untag(msgspec.json.decode(first.value))
    if not isinstance(value, str):
        return first.type
    found = _FIRST_WORDS.match(value)
    words = [] if found is None else [word for word in found.groups() if word]
    return ascii_lower("_".join(words))[:LONGEST_TOPIC]


def _rank(item: CwmItem) -> tuple[int, int, str]:
    """Order items for dropping: least referenced, longest unused, then by id."""
    return (item.references, item.last_reference_tick, item.wm_id)
