"""The recording end of a home: one leased chain, the texts beside it, and the snapshots in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue

from msgspec import Raw, Struct
from msgspec.structs import replace

from pointsman.kernel.canonical import ContentId, content_id
from pointsman.kernel.content import Retain, Sealed
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Instant
from pointsman.kernel.record import Aside, DecisionRecord, Names, Room, decision_draft
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.snapshot import SNAPSHOT, Snapshot, snapshot_draft
from pointsman.recording.chain_writer import chain_writer, check_newest_key, signing_key_held
from pointsman.recording.waiting import DurabilityWaiter
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.content import ContentStore
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.chain_rows import HeldLease, KeptText
from pointsman.storage.writer.group import CommitPolicy, Defer, Waiter
from pointsman.storage.writer.ledger import Health, Listener, Making, Receipt

BEGINS_S = 0.005
"""How long is waited for a commit to begin."""

ARTIFACT = "artifact"
"""An entry whose attachment traces refer to by its content id."""

SHARED_ARTIFACT = 16 * 1024
"""From so many bytes on, an artifact is an entry of its own; smaller ones go with the decision."""


class PinnedSnapshot(Struct, frozen=True):
    """A snapshot that facts name; without `make` it is recorded already."""

    id: ContentId
    make: Callable[[SigningKey], Snapshot] | None = None


class MadeDecision(Struct, frozen=True):
    """A decision of some room, as canonical bytes, with the policy it was made under.

    `snapshots` are what its facts name beside the policy; `artifacts` what its trace only names.
    """

    room: Room
    version: int
    policy_id: ContentId
    policy: Callable[[SigningKey], Snapshot]
    facts: bytes
    outcome: bytes
    trace: bytes
    snapshots: dict[str, PinnedSnapshot] = {}
    artifacts: tuple[bytes, ...] = ()

    @property
    def record(self) -> DecisionRecord:
        """What a replay must reproduce."""
        facts_id = content_id(self.facts)
        pinned = {name: each.id for name, each in self.snapshots.items()}
        outcome, trace = Raw(self.outcome), Raw(self.trace)
        return DecisionRecord(
            self.room, self.version, self.policy_id, facts_id, pinned, outcome, trace
        )


class Recorder:
    """Records for one process. Closing it signs its entries.

    One verb each for handing an entry to the ledger, here and in `storage/writer`:

    - `append` returns a future that is done when the entry is durable;
    - `hand_in…` takes a waiter, which learns when the entry is durable or refused;
    - `try_hand_in` does so too, but returns False where it must not be handed in yet;
    - `note` has no waiter: the entry shares the next commit, and `health` reports its loss;
    - `record…` blocks until the entry is durable; not for an event loop;
    - `ensure…` records once what later entries name, and blocks while it is new.
    """

    def __init__(
        self,
        home: Home,
        writer: str,
        opening: Draft,
        retain: Retain = "full",
        redact: Callable[[str], str] = str,
    ) -> None:
        self._policy = CommitPolicy()
        self._snapshots: set[str] = set()
        self._lock = threading.Lock()
        with ExitStack() as opened:
            with signing_key_held(home) as self.key:
                self._lease = home.ledger(writer)
                opened.callback(self._lease.release)
                self._ledger = chain_writer(home, self._lease, self.key, opening, self._policy)
            opened.callback(self._ledger.close)
            self._reader = LedgerReader(home.database)
            opened.callback(self._reader.close)
            check_newest_key(home, self._reader)
            with told_errors(home.content):
                self._content = ContentStore(
                    home.content, home.content_key(), retain, redact, self._policy
                )
            opened.callback(self._content.close)
            # A recorder that fails to open closes its parts; `close` does so in this order, too.
            self._opened = opened.pop_all()

    @property
    def chain(self) -> str:
        """The chain this process writes."""
        return self._ledger.chain.name

    @property
    def health(self) -> Health:
        """Whether the ledger takes entries now, and if not, why."""
        return self._ledger.health

    @property
    def received_count(self) -> int:
        """How many entries the ledger has received so far."""
        return self._ledger.received_count

    @property
    def settled_count(self) -> int:
        """How many of them, in the order they came, are durable or were refused."""
        return self._ledger.settled_count

    def ensure_snapshot(self, name: str, make: Callable[[], Draft]) -> None:
        """Record a snapshot ahead of the first entry that refers to it, once."""
        self._ensure(name, SNAPSHOT, make)

    def _ensure(self, name: str, kind: str, make: Callable[[], Draft]) -> None:
        with self._lock:
            if name in self._snapshots:
                return
            if not any(each.entry.kind == kind for each in self._reader.with_id(name)):
                # INVARIANT: no decision is handed in before its policy is durable.
                self.record(make())
            self._snapshots.add(name)

    def hand_in_decision(
        self,
        names: Names,
        made: MadeDecision,
        aside: Aside,
        waiter: Waiter,
        linked: str = "",
        text: KeptText | None = None,
    ) -> None:
        """Hand in a decision, and before it the policy it was made under if that is new."""
        if made.policy_id not in self._snapshots:
            self.ensure_snapshot(
                made.policy_id, lambda: snapshot_draft(made.policy(self.key), names.at)
            )
        for each in made.snapshots.values():
            self._ensure_pinned(each, names.at)
        draft = decision_draft(names, made.record, aside, made.facts, linked)
        if made.artifacts:
            own = [each for each in made.artifacts if not self._is_shared(each, names.at)]
            draft = replace(draft, attachments=(*draft.attachments, *own))
        self._ledger.hand_in(draft, waiter, text)

    def _is_shared(self, artifact: bytes, at: Instant) -> bool:
        """Record a large artifact by itself, once: thousands of decisions may name the same one."""
        if len(artifact) < SHARED_ARTIFACT:
            return False
        name = content_id(artifact)
        if name not in self._snapshots:
            self._ensure(name, ARTIFACT, lambda: Draft(ARTIFACT, name, "", at, b"{}", (artifact,)))
        return True

    def _ensure_pinned(self, pinned: PinnedSnapshot, at: Instant) -> None:
        make = pinned.make
        if make is not None and pinned.id not in self._snapshots:
            self.ensure_snapshot(pinned.id, lambda: snapshot_draft(make(self.key), at))

    def hand_in(self, draft: Draft, waiter: Waiter) -> None:
        """Hand in an entry; `waiter` learns once it is durable."""
        self._ledger.hand_in(draft, waiter)

    def try_hand_in(
        self,
        policy_id: str,
        make: Callable[[], Draft],
        waiter: Waiter,
        text: KeptText | None = None,
    ) -> bool:
        """Hand in a decision that is made with its group; False where its policy is new."""
        if policy_id not in self._snapshots:
            return False
        self._ledger.hand_in(make, waiter, text)
        return True

    def note(self, draft: Draft | Making) -> None:
        """Note an entry: it has no waiter, and is durable a moment later."""
        self._ledger.note(draft)

    def hand_in_text(self, text: str, waits: DurabilityWaiter) -> Sealed:
        """Seal a text and hand in what the home retains of it."""
        return self._content.hand_in(text, waits.expect)

    def seal_text(self, text: str, waits: DurabilityWaiter) -> tuple[Sealed, KeptText | None]:
        """Seal the text of an entry that is handed in next.

        Where one commit can keep both, what the home retains of it is to be handed in with the
        entry; else it is handed in here.
        """
        if self._ledger.keeps_texts:
            return self._content.seal(text)
        return self.hand_in_text(text, waits), None

    def erase_texts(self, digests: Iterable[str]) -> int:
        """Forget texts by their digests; return how many were kept until now."""
        return self._content.erase(digests)

    def serve_loop(self, told: Callable[[], None], soon: Defer, alone: Callable[[], bool]) -> None:
        """Serve an event loop: tell it of durable groups, and let it say when one may begin.

        While it is `alone` with one request, it writes text and ledger itself, one after the other:
        that takes less time than to wake threads and win the interpreter's lock back from them.
        """
        self._policy.serve_loop(told, soon, alone)

    def begin(self) -> None:
        """Start committing the pending group; return when the writer has released the lock."""
        writing: SimpleQueue[None] = SimpleQueue()
        if self._ledger.begin_commit(writing):
            with suppress(Empty):
                writing.get(timeout=BEGINS_S)
        # The text takes less time: its thread is woken now, and begins when there is a pause.
        self._content.begin_commit(writing)

    def listen(self, listener: Listener) -> None:
        """Tell a listener of durable entries; it is called by the commit thread."""
        self._ledger.listener = listener

    def append(self, draft: Draft) -> Future[Receipt]:
        """Append an entry; it is durable when the future is done."""
        return self._ledger.append(draft)

    def record(self, draft: Draft) -> Receipt:
        """Record an entry: append it, and block until it is durable."""
        return self.append(draft).result()

    def record_under(self, lease: HeldLease, draft: Draft) -> Receipt:
        """Record an entry that rests on a lease; durable when this returns.

        Raises `LeaseLost`, and has written nothing, where another has taken the lease meanwhile.
        """
        fence = lease.fence()
        if fence is None:
            return self.record(draft)
        return self._ledger.record_under(draft, fence)

    def close(self) -> None:
        """Write and sign all pending entries, and release the chain."""
        self._opened.close()
