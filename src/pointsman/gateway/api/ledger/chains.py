"""The ledger over HTTP: its chains, how far they are signed, and by which key."""

from __future__ import annotations

from contextlib import closing
from functools import lru_cache, partial
from typing import Final

from msgspec import Struct

from pointsman.audit.turn_shapes import InstantText
from pointsman.errors import PointsmanError
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.api.shapes import LedgerState
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.checkpoint import read_checkpoint
from pointsman.kernel.entry import Chain
from pointsman.kernel.instant import instant_text
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.checkpoints import NO_NOTES, NewestNotes

MOST_CHECKPOINTS: Final = 20
MOST_ENTRIES: Final = 25
KEPT_CHECKPOINTS: Final = 512


class CheckpointRow(Struct, frozen=True):
    """A signed checkpoint: the chain had so many entries with this root."""

    size: int
    root: str
    at: InstantText
    note: str


class EntryRow(Struct, frozen=True):
    """An entry of a chain by its names; other routes tell its content."""

    seq: int
    at: InstantText
    kind: str
    id: str
    ref: str
    hash: str


class ChainRow(Struct, frozen=True):
    """One chain: how long it is, how far it is signed, where it ends."""

    name: str
    entries: int
    signed: int
    last_at: InstantText | None
    head: str
    checkpoint_count: int
    checkpoints: tuple[CheckpointRow, ...]
    checkpoints_told: str
    latest: tuple[EntryRow, ...]


class LedgerAnswer(Struct, frozen=True):
    """The ledger as it stands, unverified: `POST /api/verify` checks it."""

    ledger: str
    keys: tuple[str, ...]
    bytes: int
    state: LedgerState
    chains: tuple[ChainRow, ...]


class LedgerApi:
    """Serves the ledger's own facts."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        # A note never changes: a verified one is not verified again.
        self._notes: dict[str, NewestNotes] = {}
        """The newest notes of each chain: there are thousands of older ones in a year."""
        self._checkpoint = lru_cache(KEPT_CHECKPOINTS)(partial(_checkpoint, parts.pointsman.home))

    async def show_ledger(self, request: ApiRequest) -> object:
        """Tell how the ledger stands."""
        pointsman = self._parts.pointsman
        health = pointsman.decision_recorder.recorder().health
        state = LedgerState(writable=health.is_writable, cause=health.cause)
        # The latest entries name sessions and turns of all tenants.
        most = MOST_ENTRIES if request.caller.reach is None else 0
        return await in_thread(lambda: self._ledger(pointsman.home, state, most))

    def _ledger(self, home: Home, state: LedgerState, most: int) -> LedgerAnswer:
        keys = tuple(each.id for each in home.keys)
        if not home.database.exists():
            return LedgerAnswer(home.identity.ledger, keys, 0, state, ())
        with told_errors(home.database), closing(LedgerReader(home.database)) as ledger:
            chains = [
                self._chain(home, ledger, name, n, most) for name, n in ledger.chains().items()
            ]
        size = home.database.size()
        return LedgerAnswer(home.identity.ledger, keys, size, state, tuple(chains))

    def _chain(
        self, home: Home, ledger: LedgerReader, name: str, number: int, most: int
    ) -> ChainRow:
        size = ledger.size(number)
        latest = [*ledger.chain_entries(number, max(0, size - MOST_ENTRIES))]
        folder = home.notes.of(Chain(home.identity.ledger, name))
        count, told = 0, ""
        found: tuple[CheckpointRow, ...] = ()
        try:
            known = folder.newest(MOST_CHECKPOINTS, self._notes.get(name, NO_NOTES))
            self._notes[name], count = known, known.total
            found = tuple(self._checkpoint(folder.chain, each) for each in reversed(known.texts))
        except PointsmanError as error:
            count, told = 0, error.message
        return ChainRow(
            name=name,
            entries=size,
            signed=found[0].size if found else 0,
            last_at=instant_text(latest[-1].at) if latest else None,
            head=latest[-1].hash.hex() if latest else "",
            checkpoint_count=count,
            checkpoints=found,
            checkpoints_told=told,
            latest=tuple(
                EntryRow(e.seq, instant_text(e.at), e.kind, e.id, e.ref, e.hash.hex())
                for e in [*reversed(latest)][:most]
            ),
        )


def _checkpoint(home: Home, chain: Chain, text: str) -> CheckpointRow:
    """Return a verified checkpoint, or raise its fault."""
    found = read_checkpoint(chain, text, home.keys)
    return CheckpointRow(found.size, found.root.hex(), instant_text(found.at), found.text)
