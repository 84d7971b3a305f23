"""The recording end of a home: one leased chain, the texts beside it, and the snapshots in it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack

from pointsman.kernel.content import Retain, Sealed
from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.snapshot import SNAPSHOT
from pointsman.storage.home import Home
from pointsman.storage.lease import first_free_lease
from pointsman.storage.sqlite.content import ContentStore
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.sqlite.ledger import LedgerWriter, Place, Receipt
from pointsman.storage.sqlite.reading import LedgerReader


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

    def keep(self, text: str) -> tuple[Sealed, Future[None] | None]:
        """Seal a text and keep of it what the home retains."""
        return self._content.keep(text)

    def ensure_snapshot(self, name: str, make: Callable[[], Draft]) -> None:
        """Record a snapshot ahead of the first entry that refers to it, once."""
        with self._lock:
            if name in self._snapshots:
                return
            if not any(each.entry.kind == SNAPSHOT for each in self._reader.with_id(name)):
                # INVARIANT: no decision is handed in before its policy is durable.
                self._ledger.append(make()).result()
            self._snapshots.add(name)

    def append(self, draft: Draft) -> Future[Receipt]:
        """Hand in an entry; it is durable when the future is done."""
        return self._ledger.append(draft)

    def close(self) -> None:
        """Write and sign what was handed in, and give the chain up."""
        self._opened.close()
