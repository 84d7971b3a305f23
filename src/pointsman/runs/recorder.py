"""The recording end of a home: one leased chain, the texts beside it, and the snapshots in it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack

from msgspec import Raw, Struct

from pointsman.kernel.canonical import ContentId, content_id
from pointsman.kernel.content import Retain, Sealed
from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.record import Aside, DecisionRecord, Names, Room, decision_draft
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.snapshot import SNAPSHOT, Snapshot, snapshot_draft
from pointsman.runs.waiting import Waits
from pointsman.storage.home import Home
from pointsman.storage.lease import first_free_lease
from pointsman.storage.sqlite.content import ContentStore
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.sqlite.group import Settled
from pointsman.storage.sqlite.ledger import Health, LedgerWriter, Listener, Place, Receipt
from pointsman.storage.sqlite.reading import LedgerReader


class Made(Struct, frozen=True):
    """A decision of some room, as canonical bytes, with the policy it was made under."""

    room: Room
    version: int
    policy_id: ContentId
    policy: Callable[[SigningKey], Snapshot]
    facts: bytes
    outcome: bytes
    trace: bytes

    @property
    def record(self) -> DecisionRecord:
        """What a replay must reproduce."""
        facts_id = content_id(self.facts)
        outcome, trace = Raw(self.outcome), Raw(self.trace)
        return DecisionRecord(self.room, self.version, self.policy_id, facts_id, {}, outcome, trace)


class Recorder:
    """Records for one process. Closing it signs what it wrote."""

    def __init__(
        self,
        home: Home,
        writer: str,
        opening: Draft,
        retain: Retain = "full",
        redact: Callable[[str], str] = str,
    ) -> None:
        self.key = home.signing_key()
        self._snapshots: set[str] = set()
        self._lock = threading.Lock()
        with ExitStack() as opened:
            self._lease = first_free_lease(home.leases, writer)
            opened.callback(self._lease.release)
            chain = Chain(home.identity.ledger, self._lease.chain)
            place = Place(home.database, home.checkpoints)
            self._ledger = LedgerWriter(place, chain, self.key, opening, older_keys=home.keys[:-1])
            opened.callback(self._ledger.close)
            self._reader = LedgerReader(home.database)
            opened.callback(self._reader.close)
            with told_errors(home.content):
                self._content = ContentStore(home.content, home.content_key(), retain, redact)
            opened.callback(self._content.close)
            # Only a recorder that is whole keeps what it opened; `close` undoes it in this order.
            self._opened = opened.pop_all()

    @property
    def chain(self) -> str:
        """The chain this process writes."""
        return self._lease.chain

    @property
    def health(self) -> Health:
        """Whether the ledger takes entries now, and if not, why."""
        return self._ledger.health

    def ensure_snapshot(self, name: str, make: Callable[[], Draft]) -> None:
        """Record a snapshot ahead of the first entry that refers to it, once."""
        with self._lock:
            if name in self._snapshots:
                return
            if not any(each.entry.kind == SNAPSHOT for each in self._reader.with_id(name)):
                # INVARIANT: no decision is handed in before its policy is durable.
                self._ledger.append(make()).result()
            self._snapshots.add(name)

    def decide(
        self, names: Names, made: Made, aside: Aside, settled: Settled, linked: str = ""
    ) -> None:
        """Hand in a decision, and before it the policy it was made under if that is new."""
        if made.policy_id not in self._snapshots:
            self.ensure_snapshot(
                made.policy_id, lambda: snapshot_draft(made.policy(self.key), names.at)
            )
        draft = decision_draft(names, made.record, aside, made.facts, linked)
        self._ledger.hand_in(draft, settled)

    def hand_in(self, draft: Draft, settled: Settled) -> None:
        """Hand in an entry, and tell somebody once it is durable."""
        self._ledger.hand_in(draft, settled)

    def hand_in_text(self, text: str, waits: Waits) -> Sealed:
        """Seal a text and hand in what the home retains of it."""
        return self._content.hand_in(text, waits.expect)

    def after_groups(self, told: Callable[[], None]) -> None:
        """Have somebody told whenever a group of entries or texts is durable."""
        self._ledger.after_group(told)
        self._content.after_group(told)

    def listen(self, listener: Listener) -> None:
        """Have somebody told what was made durable; from the commit thread."""
        self._ledger.listener = listener

    def append(self, draft: Draft) -> Future[Receipt]:
        """Hand in an entry; it is durable when the future is done."""
        return self._ledger.append(draft)

    def close(self) -> None:
        """Write and sign what was handed in, and give the chain up."""
        self._opened.close()
