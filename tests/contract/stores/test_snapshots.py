"""Snapshots: stored under what they hold, signed, and recorded once by each writer."""

from __future__ import annotations

from contextlib import closing

import pytest
from msgspec import Struct
from msgspec.structs import replace

from pointsman.errors import IntegrityFailure, MissingSnapshot
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Instant
from pointsman.kernel.snapshot import SnapshotForm, snapshot_draft
from pointsman.recording.recorder import Recorder
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import LedgerReader

OPENING = Draft("ledger.opened", "opening", "", Instant(1), b"{}")


class Thing(Struct, frozen=True, forbid_unknown_fields=True):
    """Something to freeze."""

    name: str
    size: int = 3


FORM = SnapshotForm("thing", 1, Thing)


def kept(home: Home, value: Thing, writer: str = "cli") -> str:
    with closing(Recorder(home, writer, OPENING)) as recorder:
        made = FORM.make(value, home.identity.ledger, home.signing_key())
        for _ in range(2):
            recorder.ensure_snapshot(made.id, lambda: snapshot_draft(made, Instant(2)))
        return made.id


def test_a_snapshot_is_read_back_by_its_name(home: Home) -> None:
    name = kept(home, Thing("a"))
    with closing(LedgerReader(home.database)) as ledger:
        snapshot = ledger.snapshot(name)
        assert FORM.load(snapshot, home.identity.ledger, home.keys) == Thing("a")
        assert len(ledger.with_id(name)) == 1


def test_a_snapshot_is_recorded_once_whoever_records_it(home: Home) -> None:
    name = kept(home, Thing("a"))
    assert kept(home, Thing("a"), "other") == name
    with closing(LedgerReader(home.database)) as ledger:
        assert len(ledger.with_id(name)) == 1


def test_a_snapshot_for_another_ledger_is_refused(home: Home) -> None:
    name = kept(home, Thing("a"))
    with closing(LedgerReader(home.database)) as ledger:
        snapshot = ledger.snapshot(name)
    with pytest.raises(IntegrityFailure):
        FORM.load(snapshot, "0" * 32, home.keys)
    with pytest.raises(IntegrityFailure):
        FORM.load(replace(snapshot, body=b"{}"), home.identity.ledger, home.keys)


def test_bytes_that_were_changed_are_not_taken_for_the_snapshot(home: Home) -> None:
    name = kept(home, Thing("a"))
    connection = home.database.writing("schema.sql")
    connection.execute("UPDATE attachments SET body = x'7b7d'")
    connection.close()
    with closing(LedgerReader(home.database)) as ledger:
        with pytest.raises(IntegrityFailure):
            ledger.snapshot(name)
        with pytest.raises(MissingSnapshot):
            ledger.snapshot("sha256:" + "0" * 64)
