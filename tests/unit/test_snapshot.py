from dataclasses import dataclass

import pytest
from msgspec import Struct
from msgspec.structs import replace

from pointsman.errors import IntegrityFailure
from pointsman.kernel.canonical import content_id
from pointsman.kernel.entry import Chain, empty_head, next_entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.signing import SigningKey, signed_bytes
from pointsman.kernel.snapshot import SnapshotForm, read_snapshot, snapshot_draft, verify_snapshot

LEDGER = "0" * 32
KEY = SigningKey(bytes(32))
OTHER = SigningKey(bytes([1] * 32))


class Weights(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    level: int = 3


FORM = SnapshotForm("weights", 1, Weights)
MADE = FORM.make(Weights("first"), LEDGER, KEY)


def test_a_snapshot_is_read_back_as_it_was_made():
    assert FORM.load(MADE, LEDGER, [OTHER, KEY]) == Weights("first", 3)


def test_defaults_are_written_and_the_name_is_that_of_the_content():
    assert MADE.body == b'{"level":3,"name":"first"}'
    assert MADE.id == content_id(MADE.body) == FORM.id(Weights("first", 3))


def test_a_default_of_today_is_never_filled_in():
    body = b'{"name":"first"}'
    older = SnapshotForm("weights", 1, Weights)
    name = content_id(body)
    made = replace(MADE, body=body, id=name, signature=KEY.sign(statement(name)))
    verify_snapshot(made, LEDGER, [KEY])
    with pytest.raises(IntegrityFailure, match="a key is missing"):
        older.load(made, LEDGER, [KEY])


def statement(name, kind="weights", version=1, ledger=LEDGER):
    parts = [part.encode() for part in (ledger, kind, str(version), name)]
    return signed_bytes("snapshot", b"".join(len(p).to_bytes(2, "big") + p for p in parts))


@dataclass
class Forgery:
    why: str
    change: dict


def signed_as(**other):
    return {"signature": KEY.sign(statement(MADE.id, **other))}


FLIPPED = bytes([MADE.signature[0] ^ 1]) + MADE.signature[1:]
BY_OTHER = OTHER.sign(statement(MADE.id))
FOR_A_BUNDLE = KEY.sign(signed_bytes("bundle", statement(MADE.id)))
FORGERIES = [
    Forgery("no signature", {"signature": b""}),
    Forgery("zero signature", {"signature": bytes(64)}),
    Forgery("one bit of the signature", {"signature": FLIPPED}),
    Forgery("a longer signature", {"signature": MADE.signature + b"\0"}),
    Forgery("another key's signature under our name", {"signature": BY_OTHER}),
    Forgery("another key", {"signature": BY_OTHER, "key_id": OTHER.id}),
    Forgery("key id swapped", {"key_id": OTHER.id}),
    Forgery("key id gone", {"key_id": ""}),
    Forgery("another kind", {"kind": "prices"}),
    Forgery("another schema version", {"schema_version": 2}),
    Forgery("other bytes", {"body": b'{"level":4,"name":"first"}'}),
    Forgery("other bytes under their own name", {"body": b"{}", "id": content_id(b"{}")}),
    Forgery("another name", {"id": content_id(b"{}")}),
    Forgery("signed for another ledger", signed_as(ledger="1" * 32)),
    Forgery("signed as another kind", signed_as(kind="prices")),
    Forgery("signed as another version", signed_as(version=2)),
    Forgery("a bundle's signature", {"signature": FOR_A_BUNDLE}),
    Forgery("a checkpoint's signature", {"signature": KEY.sign(b"pointsman/x/cli\n1\n")}),
    Forgery("a bare signature", {"signature": KEY.sign(MADE.id.encode())}),
]


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda each: each.why)
def test_a_forged_snapshot_is_never_loaded(forgery):
    with pytest.raises(IntegrityFailure):
        FORM.load(replace(MADE, **forgery.change), LEDGER, [KEY])


def test_a_snapshot_of_another_ledger_is_never_loaded():
    with pytest.raises(IntegrityFailure, match="not signed by a key of this ledger"):
        FORM.load(MADE, "1" * 32, [KEY])


def test_a_snapshot_is_not_read_as_another_kind_or_version():
    for form in (SnapshotForm("prices", 1, Weights), SnapshotForm("weights", 2, Weights)):
        with pytest.raises(IntegrityFailure, match="is a weights of version 1"):
            form.load(MADE, LEDGER, [KEY])


def test_a_recorded_snapshot_is_read_back_from_its_entry():
    chain = Chain(LEDGER, "cli")
    entry = next_entry(chain, empty_head(chain), snapshot_draft(MADE, Instant(5)))
    assert read_snapshot(entry, MADE.body) == MADE
