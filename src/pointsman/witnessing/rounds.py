"""Rounds of witnessing: now and then, every chain's newest checkpoint goes to every witness.

No turn waits for it. The result of a round is recorded: cosignatures, and when a witness was lost,
came back or refused. One process of a home does it at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Final

import apsw
from msgspec import Struct

from pointsman.audit.chain_notes import can_name, claimed_size
from pointsman.audit.witness_entries import (
    BACK,
    COSIGNED,
    COSIGNED_FORM,
    LOST,
    REFUSED,
    TROUBLE_FORM,
    WITNESSING,
    CosignedEntry,
    WitnessTrouble,
    lost_witnesses,
)
from pointsman.errors import ChainHeld, LedgerError, PointsmanError
from pointsman.kernel.checkpoint import Checkpoint, origin, read_checkpoint
from pointsman.kernel.cosignature import read_cosigned
from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.instant import LATEST, SECOND, Clock, IdSource, Instant
from pointsman.storage.home import Home
from pointsman.storage.policies.witness_settings import WitnessSettings
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.chain_rows import HeldLease
from pointsman.storage.writer.checkpoints import NO_NOTES, CheckpointFolder, NewestNotes
from pointsman.witnessing.stamping import Stamping
from pointsman.witnessing.submission import REFUSED_CODE, LogSource, WitnessClient, WitnessFailed

LEASE: Final = "witness"
NEWEST: Final = 64
Record = Callable[[Draft], object]
"""Records an entry, durable when it returns."""


class WitnessState(Struct):
    """How one witness does; times are instants, 0 where there is none."""

    name: str
    failing_since: Instant = Instant(0)
    answered_at: Instant = Instant(0)
    code: str = ""
    message: str = ""
    is_told: bool = False
    """Whether its loss or refusal is on record."""


class ChainState(Struct):
    """How far a chain is witnessed by each witness, as far as this process knows."""

    sizes: dict[str, int] = {}
    notes: NewestNotes = NO_NOTES


class RoundReport(Struct, frozen=True):
    """What one round did: cosignatures by chain, and the witnesses that failed."""

    cosigned: dict[str, tuple[str, ...]]
    failures: dict[str, str]


class Witnessing:
    """Submits the checkpoints of one home; for one thread at a time."""

    def __init__(
        self,
        home: Home,
        settings: WitnessSettings,
        record: Record,
        sources: tuple[Clock, IdSource],
    ) -> None:
        self._home = home
        self._settings = settings
        self._record = record
        self._clock, self._ids = sources
        self._clients = [WitnessClient(each, settings.timeout_s) for each in settings.of]
        self.witnesses = {each.name: WitnessState(each.name) for each in self._clients}
        self.chains: dict[str, ChainState] = {}
        self._stamping = Stamping(home, settings, record, sources)
        self._is_informed = False

    def run_round(self) -> RoundReport:
        """Submit the news of every chain, and record the result."""
        if not self._is_informed:
            self._recall()
        cosigned: dict[str, tuple[str, ...]] = {}
        failures: dict[str, str] = {}
        for name in self._home.notes.chains():
            if not can_name(self._home, name):
                continue
            chain = Chain(self._home.identity.ledger, name)
            newest = self._newest(chain)
            if newest is None:
                continue
            if due := self._due(name, newest):
                made = self._submit(chain, newest, due, failures)
                cosigned |= {name: made} if made else {}
            self._stamping.stamp(chain, newest)
        self._settle(failures)
        return RoundReport(cosigned, failures)

    @property
    def is_used(self) -> bool:
        """Whether this home has anyone to submit to."""
        return self._settings.is_used

    def run_alone(self) -> RoundReport:
        """Run one round while no other process of the home does, or raise `ChainHeld`."""
        lease = self._home.lease(LEASE)
        try:
            return self.run_round()
        finally:
            lease.release()

    def witnessed_size(self, chain: str) -> int:
        """Return how many entries of a chain a quorum has cosigned."""
        sizes = sorted(self.chains.get(chain, ChainState()).sizes.values(), reverse=True)
        place = self._settings.quorum - 1
        return sizes[place] if len(sizes) > place else 0

    def _newest(self, chain: Chain) -> Checkpoint | None:
        state = self.chains.setdefault(chain.name, ChainState())
        state.notes = self._home.notes.of(chain).newest(NEWEST, state.notes)
        if not state.notes.texts:
            return None
        return read_checkpoint(chain, state.notes.texts[-1], self._home.keys)

    def _due(self, name: str, newest: Checkpoint) -> list[WitnessClient]:
        """Return the witnesses that have not seen all that is new, entries of witnesses aside.

        Else each cosignature, being an entry, would ask for the next one, for ever.
        """
        sizes = self.chains[name].sizes
        behind = [each for each in self._clients if sizes.get(each.name, 0) < newest.size]
        if not behind:
            return []
        known = {sizes.get(each.name, 0) for each in behind}
        is_new = {first: first == 0 or self._has_news(name, first, newest.size) for first in known}
        return [each for each in behind if is_new[sizes.get(each.name, 0)]]

    def _has_news(self, name: str, first: int, end: int) -> bool:
        with closing(LedgerReader(self._home.database)) as reader:
            number = reader.chains().get(name)
            new = () if number is None else reader.entries_in(number, first, end)
            return any(not entry.kind.startswith(WITNESSING) for entry in new)

    def _submit(
        self,
        chain: Chain,
        newest: Checkpoint,
        due: Sequence[WitnessClient],
        failures: dict[str, str],
    ) -> tuple[str, ...]:
        """Submit to the witnesses that are due, and record their cosignatures in one entry."""
        source = LogSource(
            lambda size: self._find(chain, size), self._home.notes.of(chain).leaf_range
        )
        lines: dict[str, str] = {}
        for client in due:
            # One that did not answer is not asked for each chain in turn.
            if client.name in failures and self.witnesses[client.name].code == "unreachable":
                continue
            try:
                lines[client.name] = client.submit(origin(chain), newest, source)
                self.witnesses[client.name].answered_at = self._clock.now()
            except WitnessFailed as failed:
                failures[client.name] = failed.message
                self._note_failure(client.name, failed, origin(chain))
        if lines:
            note = newest.text + "".join(lines.values())
            payload = COSIGNED_FORM.encode(CosignedEntry(newest.size, tuple(lines), note))
            self._append(COSIGNED, origin(chain), payload)
            self.chains[chain.name].sizes |= dict.fromkeys(lines, newest.size)
        return tuple(lines)

    def _find(self, chain: Chain, size: int) -> Checkpoint | None:
        """Return the checkpoint of a size, the newest ones first: most are among them."""
        folder: CheckpointFolder = self._home.notes.of(chain)
        for texts in (self.chains[chain.name].notes.texts, folder.texts()[0]):
            for text in reversed(texts):
                if claimed_size(text) == size:
                    return read_checkpoint(chain, text, self._home.keys)
        return None

    def _note_failure(self, name: str, failed: WitnessFailed, about: str) -> None:
        state = self.witnesses[name]
        if not state.failing_since:
            state.failing_since = self._clock.now()
        is_refusal = failed.code == REFUSED_CODE
        # A refusal is evidence, whatever the witness says afterwards: it is recorded at once.
        if is_refusal and state.code != failed.code:
            state.is_told = True
            self._record_trouble(REFUSED, state, about, failed)
        state.code, state.message = failed.code, failed.message

    def _settle(self, failures: dict[str, str]) -> None:
        """Record the witnesses that are lost for too long now, and those that are back."""
        now = self._clock.now()
        for state in self.witnesses.values():
            if state.name in failures:
                lost_for = now - state.failing_since
                if not state.is_told and lost_for >= self._settings.gap_s * SECOND:
                    state.is_told = True
                    self._record_trouble(LOST, state, state.name)
            elif state.failing_since:
                if state.is_told:
                    self._record_trouble(BACK, state, state.name)
                answered_at = state.answered_at
                self.witnesses[state.name] = WitnessState(state.name, answered_at=answered_at)

    def _record_trouble(
        self, kind: str, state: WitnessState, about: str, failed: WitnessFailed | None = None
    ) -> None:
        code = state.code if failed is None else failed.code
        message = state.message if failed is None else failed.message
        trouble = WitnessTrouble(state.name, code, message[:300], state.failing_since)
        self._append(kind, about, TROUBLE_FORM.encode(trouble))

    def _append(self, kind: str, about: str, payload: bytes) -> None:
        ref = about if len(about) <= 128 and about.isascii() else ""
        self._record(Draft(kind, self._ids.new_id(), ref, self._clock.now(), payload))

    def _recall(self) -> None:
        """Take up what earlier processes recorded: who cosigned what, and who is lost."""
        self._is_informed = True
        if not self._home.database.exists():
            return
        keys = [each.key for each in self._clients]
        with closing(LedgerReader(self._home.database)) as reader:
            for stored in reader.recent(COSIGNED, LATEST, NEWEST):
                note = COSIGNED_FORM.decode(stored.entry.payload).note
                head, found = read_cosigned(note, keys)
                state = self.chains.setdefault(head.origin.rpartition("/")[2], ChainState())
                for each in found:
                    state.sizes[each.witness] = max(head.size, state.sizes.get(each.witness, 0))
            lost = lost_witnesses(reader)
        for name, trouble in lost.items():
            if name in self.witnesses:
                since = Instant(trouble.since_us)
                self.witnesses[name] = WitnessState(
                    name, since, Instant(0), trouble.code, trouble.message, is_told=True
                )


class WitnessThread:
    """Runs rounds while a gateway serves. `report` takes the failure of a round."""

    def __init__(self, witnessing: Witnessing, home: Home, every_s: int) -> None:
        self.witnessing = witnessing
        self._home = home
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="witnessing", daemon=True)
        self.trouble = ""

    def start(self) -> None:
        """Begin; the first round comes after the first pause."""
        self._thread.start()

    def close(self) -> None:
        """Stop, once the round that may be running is over."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        lease: HeldLease | None = None
        try:
            while not self._stop.wait(self._every_s):
                with suppress(ChainHeld):  # another process of the home does it
                    lease = lease or self._home.lease(LEASE)
                    self._run_once()
        finally:
            if lease is not None:
                lease.release()

    def _run_once(self) -> None:
        """Run a round; what fails is told by the metrics, and tried again with the next."""
        try:
            self.witnessing.run_round()
            self.trouble = ""
        except (PointsmanError, LedgerError, apsw.Error, OSError, ValueError) as error:
            self.trouble = str(error)
