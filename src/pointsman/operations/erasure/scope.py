"""Which entries an erasure reaches, and which texts they seal. Reads the ledger only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from msgspec import Struct

from pointsman.errors import InputError
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import EPOCH, Instant, read_instant
from pointsman.kernel.record import ATTEMPT, DECISION, OUTCOME
from pointsman.kernel.snapshot import SNAPSHOT
from pointsman.storage.stores.entries import LedgerReader, Stored

What = Literal["turn", "session", "key", "tenant", "before"]
ContentKind = Literal["messages", "agents", "workflows", "feedback"]

_SEAL: Final = re.compile(rb'"hmac-sha256:([0-9a-f]{64})["/]')
_TURN: Final = re.compile(rb'"turn_id":"([^"\\]+)"')
_SESSION: Final = re.compile(rb'"session_id":"([^"\\]+)"')
_WORKER: Final = re.compile(rb'"worker_session_id":"([^"\\]+)"')
_CONTENT: Final = re.compile(rb'"(sha256:[0-9a-f]{64})"')
_UPWARDS: Final = (DECISION, OUTCOME, ATTEMPT, "event.feedback.", "event.turn.")
"""Entries that belong to the thing their `ref` names, and nothing else."""
_JOBS: Final = ("event.job.", "event.council.", "event.brainstate.", "event.trust.")
_KINDS: Final[tuple[tuple[str, ContentKind], ...]] = (
    ("event.feedback.", "feedback"),
    ("event.turn.shadowed", "feedback"),
    ("event.turn.judged", "feedback"),
    ("decision.branch", "workflows"),
    ("workflow.", "workflows"),
    ("event.sensor.", "workflows"),
    ("event.asset.", "workflows"),
    ("decision.agent", "agents"),
    ("event.agents.", "agents"),
    ("event.action.", "agents"),
    (SNAPSHOT, "agents"),
    *((each, "agents") for each in _JOBS),
)


class ErasureScope(Struct, frozen=True):
    """Whose text goes: one turn's or job's, a session's, a key's, a tenant's, or all before."""

    what: What
    value: str


class Reach(Struct, frozen=True):
    """Entries, and by digest the texts they seal; digests are 32 bytes."""

    entries: list[Stored]
    digests: set[bytes]
    turns: set[str]
    sessions: set[str]
    decisions: int


def content_kind(kind: str) -> ContentKind:
    """Return the kind of content that an entry of this kind seals."""
    return next((found for begins, found in _KINDS if kind.startswith(begins)), "messages")


def check_scope(scope: ErasureScope) -> ErasureScope:
    """Return a scope that can be looked for, or raise the reason why it cannot."""
    if not scope.value.strip():
        raise InputError(f"`{scope.what}` is empty", hint="name whose text goes")
    if scope.what == "before":
        read_instant(scope.value)
    return scope


def find_reach(ledger: LedgerReader, scope: ErasureScope, keys: Iterable[str] = ()) -> Reach:
    """Return the entries that a scope reaches; `keys` are those of the tenant."""
    if scope.what == "before":
        return reach_of(ledger, _entries_before(ledger, read_instant(scope.value)))
    return reach_of(ledger, _follow(ledger, scope, _seeds(ledger, scope, keys)))


def reach_of(ledger: LedgerReader, entries: Iterable[Stored]) -> Reach:
    """Return entries with the texts they seal."""
    found = Reach([], set(), set(), set(), 0)
    decisions = 0
    for stored in entries:
        entry = stored.entry
        found.entries.append(stored)
        found.digests.update(sealed_digests(ledger, stored))
        found.sessions.update(_names_in(_SESSION, entry.payload))
        found.turns.update(_names_in(_TURN, entry.payload))
        if entry.kind.startswith(DECISION):
            found.turns.add(entry.ref)
            decisions += 1
    return Reach(found.entries, found.digests, found.turns, found.sessions, decisions)


def sealed_digests(ledger: LedgerReader, stored: Stored) -> Iterator[bytes]:
    """Return the digests that an entry and its attachments name."""
    bodies = [stored.entry.payload]
    if stored.entry.attached and not _is_policy(stored.entry):
        bodies += ledger.attachments(stored)
    for body in bodies:
        yield from map(bytes.fromhex, (each.decode() for each in _SEAL.findall(body)))


def _entries_before(ledger: LedgerReader, end: Instant) -> Iterator[Stored]:
    return (each for each in ledger.of_kind("", EPOCH) if each.entry.at < end)


def _seeds(ledger: LedgerReader, scope: ErasureScope, keys: Iterable[str]) -> Iterator[Stored]:
    """Return the entries that speak of the turn, session, key or tenant itself."""
    value, quoted = scope.value, _json_bytes(scope.value)
    if scope.what in {"turn", "session"}:
        yield from ledger.with_id(value)
        yield from ledger.with_ref(value)
    if scope.what == "turn":
        yield from ledger.mentioning_all(quoted)
    elif scope.what == "session":
        # As its canonical member only: a session may be called as anything else is.
        yield from ledger.mentioning_all(b'session_id":' + quoted)
    elif scope.what == "key":
        yield from ledger.mentioning_all(value.encode())
    elif scope.what == "tenant":
        yield from ledger.mentioning_all(b'"tenant":' + quoted)
        for key in keys:
            yield from ledger.mentioning_all(key.encode())


def _follow(ledger: LedgerReader, scope: ErasureScope, seeds: Iterable[Stored]) -> Iterator[Stored]:
    """Return the seeds, and all that belongs to the same turns and jobs."""
    seen: set[tuple[int, int]] = set()
    asked: set[str] = set()
    queue = [*seeds]
    while queue:
        stored = queue.pop()
        place = (stored.chain, stored.entry.seq)
        if place in seen or _is_policy(stored.entry):
            continue
        seen.add(place)
        yield stored
        for name in _linked_names(stored.entry, scope):
            if name and name not in asked:
                asked.add(name)
                queue += ledger.with_id(name)
                queue += ledger.with_ref(name)


def _is_policy(entry: Entry) -> bool:
    """Tell whether an entry is a snapshot that seals no text."""
    return entry.kind == SNAPSHOT and entry.ref != "brainstate"


def _linked_names(entry: Entry, scope: ErasureScope) -> Iterator[str]:
    """Name what leads on from an entry: down to what acts on it, up to its turn or job."""
    yield entry.id
    if entry.kind.startswith((*_UPWARDS, *_JOBS)):
        yield entry.ref
    if entry.kind.startswith("event."):
        yield from _names_in(_TURN, entry.payload)
    if scope.what in {"session", "key", "tenant"}:
        yield from _names_in(_SESSION, entry.payload)
    yield from _names_in(_WORKER, entry.payload)
    if entry.kind.startswith((*_JOBS, "decision.agent")):
        yield from _names_in(_CONTENT, entry.payload)


def _names_in(pattern: re.Pattern[bytes], payload: bytes) -> set[str]:
    return {each.decode() for each in pattern.findall(payload)}


def _json_bytes(value: str) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
