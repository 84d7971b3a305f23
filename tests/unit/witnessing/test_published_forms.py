"""Tiles of trees of any size, keys that are none, and the kinds of keys that sign time stamps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from pointsman.errors import InputError
from pointsman.kernel.note import WITNESS, read_note_key
from pointsman.kernel.tiles import Tile, tiles_of
from pointsman.kernel.time_stamp import _verifies


def test_largest_tree_has_a_tile_of_the_highest_level() -> None:
    assert [*tiles_of(2**56, before=2**56)] == [Tile(7, 0, 1)]


def test_tree_that_grew_by_a_full_tile_gets_that_tile_and_the_new_end() -> None:
    assert [*tiles_of(600, before=256)] == [Tile(0, 1), Tile(0, 2, 88), Tile(1, 0, 2)]


@pytest.mark.parametrize("text", ["", "name", "name+12345678+not base64!", "a b+12345678+AAAA"])
def test_text_that_is_no_key_is_refused_with_its_form(text: str) -> None:
    with pytest.raises(InputError, match="is not the key of a witness") as caught:
        read_note_key(text, WITNESS)
    assert caught.value.hint == "NAME+ID+KEY, one line"


@pytest.mark.parametrize(
    ("kind", "is_known"), [(Ed25519PrivateKey, True), (Ed448PrivateKey, False)]
)
def test_time_stamps_are_signed_by_keys_of_known_kinds(kind: type, is_known: bool) -> None:
    key = kind.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, None)
    )
    assert _verifies(certificate, key.sign(b"signed"), b"signed", SHA256()) is is_known
    assert not _verifies(certificate, key.sign(b"signed"), b"other", SHA256())
