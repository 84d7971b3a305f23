"""Sessions that must stay on this machine because of their content, until a human clears them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import UNSET, Struct

from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import EPOCH, SECOND, Instant
from pointsman.kernel.record import Names
from pointsman.placement.facts import Taint, staying
from pointsman.placement.policy import PlacementPolicy
from pointsman.placement.rules.zones import innermost
from pointsman.recording.ruling import PlacementRuling
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import LedgerReader, Stored

EVENTS: Final = "event.placement."
"""What the kinds of entries about taints begin with."""

LOOK_S: Final = 0.25
OVERLAP: Final = 60 * SECOND
"""Clocks of two processes may differ a little, and entries become visible when they are synced."""

ITEM: Final = "#"
"""Stands between a session that is known by its opening and the item that taints it."""

TAINTED: Final = "event.placement.tainted"
CLEARED: Final = "event.placement.cleared"


class _Cleared(Struct, frozen=True, forbid_unknown_fields=True):
    turn_id: str
    reason: str


TAINT_FORM = Form(Taint)
_CLEARED_FORM = Form(_Cleared)


class TaintedSession(Struct, frozen=True):
    """A session that stays, since when and why."""

    session_id: str
    since: Instant
    taint: Taint


def taint_rule(
    policy: PlacementPolicy, placing: PlacementRuling, *, is_worker: bool = False
) -> str:
    """Name the rule by which a placement's text must stay; empty where it merely fits here.

    A text that a human wanted to send out all the same stays, and the session still held it.
    """
    if policy.taint == "off":
        return ""
    facts, found = placing.facts, placing.facts.sensitivity
    if facts.privacy_level == "local":
        return "PRIVACY_LOCAL"
    if is_worker and placing.outcome.rule_id == "LABEL_LOCAL":
        return "LABEL_LOCAL"
    if policy.asks_detector:
        if found is None or found.has_failed:
            return "SENSITIVE_UNKNOWN"
        if staying(found, policy.stays_local, policy.masked_kinds, facts.masking):
            return "SENSITIVE_LOCAL"
    return "POLICY_FORCE_LOCAL" if placing.trace.inputs.policy_action == "force_local" else ""


STAY_WITHIN: Final = "STAY_WITHIN"
"""The rule of a taint that keeps a session within zones."""


def taint_zones(
    policy: PlacementPolicy, placing: PlacementRuling, *, is_worker: bool = False
) -> tuple[str, ...]:
    """Return the zones that a session must stay within for what a placement's text held.

    The table's rows bind each turn by themselves, and labels go with their items: neither taints,
    but for what a worker saw: its planner's session holds the result, and not the items.
    """
    bounds, known = placing.trace.bounds, placing.facts.taint
    if policy.taint == "off" or bounds is UNSET:
        return ()
    held = () if known is None or known.zones is UNSET else known.zones
    loose = {"row"} if is_worker else {"row", "label"}
    said = [each.zone for each in bounds if each.source not in loose]
    found = innermost((*held, *said), policy.all_zones)
    return () if frozenset(found) == frozenset(held) else found


def merge_taints(held: Taint | None, new: Taint) -> Taint:
    """Return the taint of a session that had one and gets another: the narrower of the two."""
    if held is None or new.zones is UNSET:
        return new
    if held.zones is UNSET:
        return held
    return Taint(new.turn_id, new.rule_id, tuple(sorted({*held.zones, *new.zones})))


def taint_draft(names: Names, taint: Taint) -> Draft:
    """Make the entry that taints a session; `ref` is the session."""
    return Draft(TAINTED, names.id, names.ref, names.at, TAINT_FORM.encode(taint))


def cleared_draft(names: Names, taint: Taint, reason: str) -> Draft:
    """Make the entry that clears a session; `ref` is the session."""
    cleared = _CLEARED_FORM.encode(_Cleared(taint.turn_id, reason))
    return Draft(CLEARED, names.id, names.ref, names.at, cleared)


class TaintsSeen(Struct, frozen=True):
    """How many entries about taints a look saw, and since when. They are never taken back."""

    since: Instant
    count: int


class Taints:
    """Which sessions stay, kept up with the ledger; may be shared by threads.

    What this process records counts at once, what another one does within `LOOK_S`.
    """

    def __init__(self, database: Where) -> None:
        self._database = database
        self._held: dict[str, Taint] = {}
        self._by_item: set[str] = set()
        self._reader: LedgerReader | None = None
        self._looked_at = float("-inf")
        self._seen_until = EPOCH
        self._seen = TaintsSeen(EPOCH, -1)
        self._lock = threading.Lock()
        self.listener: Callable[[str, Taint | None], None] = lambda _session_id, _taint: None
        """Told of each taint of this process, before an answer is."""

    def of(self, session_id: str, items: Callable[[], Iterable[str]] | None = None) -> Taint | None:
        """Return the taint of a session, if it has one now.

        `items` names the messages of a session that is known by its opening alone: conversations
        may open alike, so a taint holds for their common messages, not for the name.
        """
        if not session_id:
            return None
        if time.monotonic() - self._looked_at > LOOK_S:
            self.look()
        if items is None:
            return self._held.get(session_id)
        if session_id not in self._by_item:
            return None
        found: Taint | None = None
        for name in items():
            if name in self._held and (found is None or found.zones is not UNSET):
                found = merge_taints(found, self._held[name])
        return found

    def look(self) -> None:
        """Read the entries of other processes at once. Blocks."""
        now = time.monotonic()
        with self._lock, told_errors(self._database):
            self._look()
            self._looked_at = now

    @property
    def last_look(self) -> TaintsSeen:
        """Return what the last look saw."""
        return self._seen

    def look_if_changed(self, seen: TaintsSeen, count: int) -> None:
        """Read the entries of other processes if there are not `count` as when `seen` was seen.

        The count is of now, by a caller that asked the ledger for more than this. Blocks.
        """
        if count != seen.count:
            self.look()
        else:
            self._looked_at = time.monotonic()

    def note(self, session_id: str, taint: Taint | None) -> None:
        """Apply a taint that this process just recorded."""
        self.take(session_id, taint)
        self.listener(session_id, taint)

    def take(self, session_id: str, taint: Taint | None) -> None:
        """Apply a taint that another process tells of before it stands in the ledger."""
        with self._lock:
            self._set(session_id, taint)

    def _set(self, name: str, taint: Taint | None) -> None:
        if taint is None:
            self._held.pop(name, None)
            return
        self._held[name] = merge_taints(self._held.get(name), taint)
        session_id, mark, _ = name.rpartition(ITEM)
        if mark:
            self._by_item.add(session_id)

    def close(self) -> None:
        """Let go of the ledger."""
        with self._lock:
            if self._reader is not None:
                self._reader.close()
            self._reader = None

    def _look(self) -> None:
        """Read the entries since the last look, with a little overlap."""
        if self._reader is None:
            if not self._database.exists():
                return
            self._reader = LedgerReader(self._database)
        since = Instant(max(EPOCH, self._seen_until - OVERLAP))
        found = _in_order(self._reader.of_kind(EVENTS, since))
        self._seen = TaintsSeen(since, len(found))
        for stored in found:
            entry = stored.entry
            self._seen_until = max(self._seen_until, entry.at)
            if entry.kind == TAINTED:
                self._set(entry.ref, TAINT_FORM.decode(entry.payload))
            elif entry.kind == CLEARED:
                self._set(entry.ref, None)


def tainted_sessions(ledger: LedgerReader) -> list[TaintedSession]:
    """Return all tainted sessions, oldest first."""
    newest: dict[str, Stored] = {}
    for stored in _in_order(ledger.of_kind(EVENTS)):
        newest[stored.entry.ref] = stored
    return [
        TaintedSession(ref, each.entry.at, TAINT_FORM.decode(each.entry.payload))
        for ref, each in newest.items()
        if each.entry.kind == TAINTED
    ]


def _in_order(found: Iterable[Stored]) -> list[Stored]:
    # DETERMINISM: several processes may write at one instant; then the chain and place decide.
    return sorted(found, key=lambda each: (each.entry.at, each.chain, each.entry.seq))
