"""A home in SQLite files with something in every store, as its own programs leave it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from msgspec import Raw

from pointsman.access.book import SPENT_FORM, HomeBook, Spent
from pointsman.access.keyring import ACCESS, opened_admin_token
from pointsman.app import Pointsman
from pointsman.bulk.jobs import BulkJobs, part_in_process
from pointsman.bulk.reruns import ReplayGiven
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Instant, read_instant
from pointsman.kernel.number import ONE, MicroUsd
from pointsman.kernel.record import Names, OutcomeRecord, outcome_draft
from pointsman.storage.home import Home
from pointsman.storage.stores.access import AccessStore, StoredKey
from pointsman.storage.stores.conversations import (
    CONVERSATIONS,
    ConversationStore,
    MessageRow,
    StoredSession,
    StoredTurn,
)
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.storage.stores.patterns.writing import ImportRow
from pointsman.storage.stores.semantic import SEMANTIC, Provenance, write_version
from pointsman.storage.stores.sessions import SessionStore
from pointsman.testing import CountedIds, FrozenClock, a_turn
from pointsman.turns.learning.evidence_look import TOKENS
from pointsman.turns.learning.fingerprint import Fingerprint, hashed_vector

NOW = read_instant("2026-03-30T12:00:00Z")


def populate(path: Path, turns: int = 4) -> Home:
    """Make such a home; its ledger has two chains, with spending in both."""
    for writer in ("cli", "serve"):
        with Pointsman(path, store="sqlite:", writer=writer) as pointsman:
            recorder = pointsman.decision_recorder.recorder()
            book = HomeBook(pointsman.home, writer)
            for number in range(turns):
                shown = a_turn(pointsman, f"{writer} message {number}")
                spent = a_spent(f"s{number % 2}")
                draft = an_outcome(f"{writer}-outcome-{number}", spent, shown.decision_id)
                recorder.record(draft)
                book.add(spent)
            book.close()
            home = pointsman.home
    _keys(home)
    _patterns(home)
    _conversations(home)
    _bulk(home)
    return home


def a_spent(session: str) -> Spent:
    """Give what one call spent."""
    tokens = (10, 20, 3, 4)
    cost = MicroUsd(25)
    return Spent("p:m", "key", session, "/w", *tokens, cost, "v1", is_estimated=False, at=NOW)


def an_outcome(name: str, spent: Spent, ref: str = "decision") -> Draft:
    """Give the entry of a call's end."""
    detail = Raw(b'{"spent":' + SPENT_FORM.encode(spent) + b"}")
    return outcome_draft(Names(name, ref, NOW), OutcomeRecord("done", detail))


def _keys(home: Home) -> None:
    with closing(AccessStore(home.place(ACCESS))) as keys:
        for name in ("z", "a", "m"):
            keys.add(StoredKey(name, name.encode() * 32, b"{}"))
        keys.revoke("a", Instant(9))
        keys.note_uses({"z": Instant(5)})
    opened_admin_token(home.place(ACCESS), "", bytes(range(32)))
    with closing(SessionStore(home.sessions)) as sessions:
        sessions.pin("s1", "p:m", Instant(1)).result()
        sessions.lock("s2", "t", "d", "p:n", Instant(2)).result()


def _patterns(home: Home) -> None:
    with closing(PatternStore(home.patterns)) as patterns:
        for number in range(6):
            patterns.record(
                Fingerprint(intent_tags=(str(number % 4),)),
                hashed_vector(f"text {number % 3}") + bytes(TOKENS if number % 2 else 0),
                model="p:m",
                turn_id=f"t{number}",
                cost_microusd=MicroUsd(10),
                latency_ms=3,
                pricing_version="v1",
                at=Instant(NOW + number),
                origin="explored" if number == 2 else None,
            )
            patterns.update_score(f"t{number}", ONE, ONE, f"e{number}")
        row = ImportRow("i1", Fingerprint(), b"", "p:m", None, MicroUsd(1), 2)
        patterns.import_rows([row], NOW)
        patterns.evidence(Fingerprint(), b"")


def _bulk(home: Home) -> None:
    """One job that is done, and one that was cut short after its first range."""
    with closing(BulkJobs(home, FrozenClock(NOW), CountedIds("bulk"))) as jobs:
        jobs.run(jobs.begin("replay", ReplayGiven(length=5)).id)
        name = jobs.begin("replay", ReplayGiven(length=3)).id
        jobs.do(name, 0, lambda *work: part_in_process(lambda: home, *work))
        jobs.store.note(name, 1, "the machine went away")


def _conversations(home: Home) -> None:
    with closing(ConversationStore(home.place(CONVERSATIONS), "full")) as talks:
        talks.begin(
            StoredSession("s", "", "", None, "auto", None, Instant(1), Instant(1), None)
        ).result()
        talks.begin_turn(
            StoredTurn("t", "s", "d", "p:m", "open", Instant(1), vector=b"\0")
        ).result()
        for name in ("m2", "m1"):
            row = MessageRow(name, "s", "t", "user", b"{}", Instant(1), 1, "full", b"words\0")
            talks.append_message(row).result()
    by = Provenance("r1", "e1", "sha256:aa", "ann", ("c",), Instant(3))
    write_version(home.place(SEMANTIC), "n", "k", b"1", by)
    write_version(home.place(SEMANTIC), "n", "k", None, Provenance("r2", "e2", "h", "b", (), NOW))
