"""Working and consolidated memory: insertion, references, promotion and expiry, in ticks (004 §4).

Consolidated memory is recomputed when an item is promoted or a goal created (004 §4.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from pointsman.brainstate.constants import Constants
from pointsman.brainstate.events import Insertion
from pointsman.brainstate.journal import Journal, seeded_instant, wm_id
from pointsman.brainstate.state import BrainState, Cwm, CwmItem, Goal, WmItem
from pointsman.brainstate.trace import Why
from pointsman.kernel.canonical import untag
from pointsman.kernel.columns import ascii_lower
from pointsman.kernel.instant import Instant

BYTES_A_TOKEN = 4


class Promotion(NamedTuple):
    """The items that stay in working memory, and those promoted to the consolidated one."""

    kept: list[WmItem]
    promoted: list[CwmItem]


class TickMemory:
    """Both memories of one state while a tick works on them; newest first."""

    __slots__ = ("_goals", "_journal", "_limits", "_tick", "cwm", "wm")

    def __init__(self, state: BrainState, journal: Journal) -> None:
        self.wm = list(state.wm)
        self.cwm = list(state.cwm.items)
        self._journal = journal
        self._limits = state.constants
        self._tick = state.tick
        # Only goals of the state itself may set a time to live: one created in this very tick
        # comes after its items (004 §4.1: "present in snapshot").
        self._goals = state.goals

    def insert(self, given: Insertion) -> None:
        """Put an item in front, or count a reference where an equal one is in memory."""
        if self._is_known(given):
            return
        if given.wm_id is not None and self._has(given.wm_id):
            self._journal.ignore("insertion", given.wm_id, Why.ID_TAKEN)
            return
        ttl_ticks = ttl_of(given, self._goals, self._limits)
        self.wm.insert(0, new_item(given, ttl_ticks, self._tick, self._journal))

    def reference(self, name: str) -> None:
        """Count a reference to the item of this id."""
        for index, item in enumerate(self.wm):
            if item.wm_id == name:
                self._refer(index, Why.USED)
                return
        for index, promoted in enumerate(self.cwm):
            if promoted.wm_id == name:
                self._refer_consolidated(index, Why.USED)
                return
        self._journal.ignore("reference", name, Why.UNKNOWN_ITEM)

    def _has(self, name: str) -> bool:
        return name in [item.wm_id for item in self.wm] + [item.wm_id for item in self.cwm]

    def _is_known(self, given: Insertion) -> bool:
        for index, item in enumerate(self.wm):
            if item.value == given.value and item.type == given.type:
                self._refer(index, Why.EQUAL_ITEM)
                return True
        for index, promoted in enumerate(self.cwm):
            if promoted.value == given.value and promoted.type == given.type:
                self._refer_consolidated(index, Why.EQUAL_ITEM)
                return True
        return False

    def _refer(self, index: int, why: Why) -> None:
        item = self.wm[index]
        tick, count = self._tick, item.references + 1
        first = tick - self._limits.promotion_window
        ticks = [each for each in item.reference_ticks if each > first]
        # The time to live is not refreshed: a reference keeps nothing alive by itself.
        self.wm[index] = _rebuild_item(item, item.ttl_ticks, count, (*ticks, tick))
        self._journal.note("wm_referenced", item.wm_id, why, f"references {count}")

    def _refer_consolidated(self, index: int, why: Why) -> None:
        item = self.cwm[index]
        self.cwm[index] = CwmItem(
            item.wm_id,
            item.type,
            item.value,
            item.references + 1,
            self._tick,
            item.promoted_at_tick,
            item.ttl_ticks,
            item.token_estimate,
        )
        self._journal.note("cwm_referenced", item.wm_id, why, f"references {item.references + 1}")


def new_item(given: Insertion, ttl_ticks: int, tick: int, journal: Journal) -> WmItem:
    """Make an item of working memory; its insertion is its first reference."""
    counter = journal.next_counter()
    name = given.wm_id or wm_id(journal.job_seed, counter)
    tokens = given.token_estimate
    if tokens is None:
        tokens = estimate_tokens(given.value)
    journal.note("wm_inserted", name, Why.NEW_ITEM, f"ttl_ticks {ttl_ticks}")
    created = seeded_instant(counter)
    return WmItem(name, given.type, given.value, ttl_ticks, created, tick, 1, (tick,), tokens)


def ttl_of(given: Insertion, goals: Sequence[Goal], limits: Constants) -> int:
    """Return an item's time to live: its own, else its goal's, else the default."""
    if given.ttl_ticks is not None:
        return given.ttl_ticks
    if given.goal_id is not None:
        for goal in goals:
            if goal.goal_id == given.goal_id and goal.wm_ttl_ticks is not None:
                return goal.wm_ttl_ticks
    return limits.default_wm_ttl


def estimate_tokens(value: str) -> int:
    """Estimate the tokens of a canonical text: a token every four bytes, at least one."""
    return max(1, -(-len(value.encode("utf-8", "surrogatepass")) // BYTES_A_TOKEN))


def split_promoted(
    wm: Sequence[WmItem], tick: int, limits: Constants, journal: Journal
) -> Promotion:
    """Take out the items referenced often enough within the window, newest first.

    INVARIANT: an item leaves working memory with its promotion, and no two items in memory share
    an id, so nothing is promoted twice.
    """
    kept: list[WmItem] = []
    leaving: list[CwmItem] = []
    needed = limits.promotion_references
    for item in wm:
        # Most items were referenced too rarely altogether; only the others are looked at closely.
        recent = 0 if item.references < needed else _recent(item.reference_ticks, tick, limits)
        if recent < needed:
            kept.append(item)
            continue
        journal.note("promotion", item.wm_id, Why.OFTEN_REFERENCED, f"references {recent}")
        leaving.append(_to_cwm_item(item, tick, limits))
    return Promotion(kept, leaving)


def age_items(wm: Sequence[WmItem], began: Instant, journal: Journal) -> tuple[WmItem, ...]:
    """Take a tick off every item older than this tick, and drop those that have none left.

    An item inserted between two ticks carries the number of the next one, and ages in it: so age
    is measured by the instant.
    """
    kept: list[WmItem] = []
    for item in wm:
        if item.created_at >= began:
            kept.append(item)
        elif item.ttl_ticks > 1:
            kept.append(
                _rebuild_item(item, item.ttl_ticks - 1, item.references, item.reference_ticks)
            )
        else:
            journal.note("wm_expired", item.wm_id, Why.TTL_RAN_OUT)
    return tuple(kept)


def _to_cwm_item(item: WmItem, tick: int, limits: Constants) -> CwmItem:
    return CwmItem(
        item.wm_id,
        item.type,
        item.value,
        item.references,
        item.reference_ticks[-1],
        tick,
        limits.cwm_ttl,
        item.token_estimate,
    )


def _rebuild_item(item: WmItem, ttl_ticks: int, references: int, ticks: tuple[int, ...]) -> WmItem:
    # Spelled out: `structs.replace` takes four times as long, and every tick touches every item.
    return WmItem(
        item.wm_id,
        item.type,
        item.value,
        ttl_ticks,
        item.created_at,
        item.created_at_tick,
        references,
        ticks,
        item.token_estimate,
    )


def _recent(ticks: Sequence[int], tick: int, limits: Constants) -> int:
    first = tick - limits.promotion_window
    return len([each for each in ticks if each > first])


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
