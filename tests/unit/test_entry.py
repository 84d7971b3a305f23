import hashlib

import pytest

from pointsman.errors import InputError
from pointsman.kernel.entry import (
    MAX_ATTACHMENT,
    MAX_ATTACHMENTS,
    MAX_NAME,
    MAX_PAYLOAD,
    Chain,
    Draft,
    Entry,
    Head,
    check_draft,
    empty_head,
    entry_bytes,
    head_after,
    next_entry,
)
from pointsman.kernel.instant import LATEST, Instant
from pointsman.kernel.merkle import leaf_hash

LEDGER = "00112233445566778899aabbccddeeff"
CHAIN = Chain(LEDGER, "cli")
DRAFT = Draft("decision.turn", "d-1", "t-1", Instant(7), b"{}", (b"facts", b"more"))


def test_an_entry_s_bytes_are_those_of_the_documented_layout():
    entry = next_entry(CHAIN, empty_head(CHAIN), DRAFT)
    attached = hashlib.sha256(b"facts").digest() + hashlib.sha256(b"more").digest()
    expected = (
        b"pointsman/entry/1\0" + bytes.fromhex(LEDGER) + b"\0\3cli"
        + bytes(8) + CHAIN.genesis + (7).to_bytes(8, "big")
        + b"\0\x0d\0\3\0\3\0\x40\0\0\0\2" + b"decision.turn" + b"d-1" + b"t-1" + attached + b"{}"
    )  # fmt: skip
    assert entry_bytes(CHAIN.prefix, entry) == expected
    assert entry.hash == hashlib.sha256(b"\0" + expected).digest()
    assert entry.attached == attached


def test_genesis_is_the_hash_of_the_chain_s_prefix():
    assert CHAIN.genesis == hashlib.sha256(b"pointsman/genesis/1\0" + CHAIN.prefix).digest()


def test_an_entry_follows_the_one_before_it():
    first = next_entry(CHAIN, empty_head(CHAIN), DRAFT)
    second = next_entry(CHAIN, head_after(first), DRAFT)
    assert (second.seq, second.prev) == (1, first.hash)
    assert head_after(second) == Head(2, second.hash, Instant(7))


def test_a_chain_s_time_never_goes_back():
    entry = next_entry(CHAIN, Head(3, bytes(32), Instant(100)), DRAFT)
    assert entry.at == 100


@pytest.mark.parametrize("other", [Chain(LEDGER, "cl"), Chain("f" * 32, "cli")])
def test_no_entry_fits_into_another_chain(other):
    assert (
        next_entry(other, empty_head(CHAIN), DRAFT).hash
        != next_entry(CHAIN, empty_head(CHAIN), DRAFT).hash
    )


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 1}, {"at": 8}, {"kind": "decision.tur"}, {"id": "d-2"}, {"ref": ""},
        {"payload": b"{ }"}, {"attached": bytes(64)}, {"prev": bytes(32)},
    ],
)  # fmt: skip
def test_every_field_is_in_the_hash(change):
    entry = next_entry(CHAIN, empty_head(CHAIN), DRAFT)
    fields = {name: getattr(entry, name) for name in Entry.__struct_fields__}
    changed = Entry(**{**fields, **change})
    assert leaf_hash(entry_bytes(CHAIN.prefix, changed)) != entry.hash


@pytest.mark.parametrize("name", ["", "CLI", "-x", "a/b", "..", "a" * 64, "é", "a\n"])
def test_a_chain_s_name_is_short_and_plain(name):
    with pytest.raises(InputError, match="cannot name a chain"):
        Chain(LEDGER, name)


@pytest.mark.parametrize("ledger", ["", "0" * 31, "G" * 32, "A" * 32, "0" * 33])
def test_a_ledger_s_id_is_32_hex_digits(ledger):
    with pytest.raises(InputError, match="cannot name a chain"):
        Chain(ledger, "cli")


def test_a_draft_within_the_limits_is_taken():
    check_draft(Draft("k" * MAX_NAME, "", "", Instant(0), bytes(MAX_PAYLOAD)))


@pytest.mark.parametrize("name", ["k" * (MAX_NAME + 1), "é", "a\nb", "\x7f"])
def test_a_name_that_is_long_or_not_printable_ascii_is_refused(name):
    for names in ((name, "", ""), ("", name, ""), ("", "", name)):
        with pytest.raises(InputError, match="cannot name a ledger entry"):
            check_draft(Draft(*names, Instant(0), b""))


@pytest.mark.parametrize(
    ("draft", "part"),
    [
        (Draft("k", "", "", Instant(0), bytes(MAX_PAYLOAD + 1)), "an entry holds at most"),
        (Draft("k", "", "", Instant(0), b"", (bytes(MAX_ATTACHMENT + 1),)), "an attachment holds"),
        (Draft("k", "", "", Instant(0), b"", (b"",) * (MAX_ATTACHMENTS + 1)), "attachments"),
        (Draft("k", "", "", Instant(-1), b""), "not an instant"),
        (Draft("k", "", "", Instant(LATEST + 1), b""), "not an instant"),
    ],
    ids=["payload", "attachment", "attachments", "before 1970", "past 9999"],
)
def test_what_could_spoil_a_whole_group_is_refused_before_it_is_queued(draft, part):
    with pytest.raises(InputError, match=part):
        check_draft(draft)


def test_a_draft_at_every_limit_is_taken():
    names = "n" * MAX_NAME
    bodies = (bytes(MAX_ATTACHMENT),) + (b"",) * (MAX_ATTACHMENTS - 1)
    check_draft(Draft(names, names, names, Instant(LATEST), bytes(MAX_PAYLOAD), bodies))
