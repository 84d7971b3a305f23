"""The ledger over HTTP: its chains, how far they are signed, and by which key."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Final

from msgspec import Struct

from pointsman.errors import PointsmanError
from pointsman.gateway.access import check_reader
from pointsman.gateway.http import Asked, Handler, Receive, Send, answer_value, in_thread
from pointsman.gateway.parts import Parts
from pointsman.gateway.shapes import InstantText, LedgerState
from pointsman.kernel.checkpoint import read_checkpoint
from pointsman.kernel.entry import Chain
from pointsman.kernel.instant import instant_text
from pointsman.storage.checkpoints import CheckpointFolder
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.sqlite.reading import LedgerReader

MOST_CHECKPOINTS: Final = 20
MOST_ENTRIES: Final = 25


class CheckpointRow(Struct, frozen=True):
    """A signed checkpoint: the chain had so many entries with this root."""

    size: int
    root: str
    at: InstantText
    note: str


class EntryRow(Struct, frozen=True):
    """An entry of a chain by its names; what it says is told where it belongs."""

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

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Give what is served where."""
        return {("GET", "/api/ledger"): self.ledger}

    async def ledger(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Tell how the ledger stands."""
        check_reader(self._parts, asked)
        pointsman = self._parts.pointsman
        health = pointsman.desk.recorder().health
        state = LedgerState(writable=health.is_writable, cause=health.cause)
        await answer_value(send, await in_thread(lambda: _ledger(pointsman.home, state)))


def _ledger(home: Home, state: LedgerState) -> LedgerAnswer:
    keys = tuple(each.id for each in home.keys)
    if not home.database.exists():
        return LedgerAnswer(home.identity.ledger, keys, 0, state, ())
    with told_errors(home.database), closing(LedgerReader(home.database)) as ledger:
        chains = [_chain(home, ledger, name, n) for name, n in ledger.chains().items()]
    size = home.database.stat().st_size
    return LedgerAnswer(home.identity.ledger, keys, size, state, tuple(chains))


def _chain(home: Home, ledger: LedgerReader, name: str, number: int) -> ChainRow:
    size = ledger.size(number)
    latest = [*ledger.chain_entries(number, max(0, size - MOST_ENTRIES))]
    folder = CheckpointFolder(home.checkpoints, Chain(home.identity.ledger, name))
    try:
        texts = folder.texts()[0]
        found, told = _checkpoints(home, folder.chain, texts[-MOST_CHECKPOINTS:]), ""
    except PointsmanError as error:
        texts, found, told = [], (), error.message
    return ChainRow(
        name=name,
        entries=size,
        signed=found[0].size if found else 0,
        last_at=instant_text(latest[-1].at) if latest else None,
        head=latest[-1].hash.hex() if latest else "",
        checkpoint_count=len(texts),
        checkpoints=found,
        checkpoints_told=told,
        latest=tuple(
            EntryRow(e.seq, instant_text(e.at), e.kind, e.id, e.ref, e.hash.hex())
            for e in reversed(latest)
        ),
    )


def _checkpoints(home: Home, chain: Chain, texts: Sequence[str]) -> tuple[CheckpointRow, ...]:
    """Give checkpoints, each verified, the newest first."""
    found = [read_checkpoint(chain, each, home.keys) for each in texts]
    return tuple(
        CheckpointRow(each.size, each.root.hex(), instant_text(each.at), each.text)
        for each in reversed(found)
    )
