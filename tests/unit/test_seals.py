"""A seal may stand where a text would: written, read back, and refused where a text stands."""

import hashlib
import hmac

import pytest

from pointsman.errors import IntegrityFailure
from pointsman.kernel.content import Sealed, read_seal_text, seal_as_text, seal_text

KEY = bytes(range(32))


def test_seal_written_as_text_is_read_back_whole():
    seal = seal_text("call me at noon", KEY)
    assert read_seal_text(seal_as_text(seal)) == seal


def test_length_of_the_text_stands_behind_the_digest():
    assert seal_as_text(Sealed("hmac-sha256:" + "0" * 64, 15)).endswith("0/15")


@pytest.mark.parametrize(
    "text",
    [
        "call me at noon",
        "hmac-sha256:" + "0" * 64,
        "hmac-sha256:" + "0" * 64 + "/",
        "hmac-sha256:" + "0" * 64 + "/-1",
        "hmac-sha256:" + "0" * 64 + "/٣",
        "hmac-sha256:" + "0" * 63 + "/15",
        "sha256:" + "0" * 64 + "/15",
        " hmac-sha256:" + "0" * 64 + "/15",
    ],
)
def test_text_in_place_of_a_seal_is_refused(text):
    with pytest.raises(IntegrityFailure, match="only its seal may"):
        read_seal_text(text)


def test_key_longer_than_a_block_is_the_key_of_its_digest():

    key = bytes(range(256))
    expected = hmac.new(key, b"noon", hashlib.sha256).hexdigest()
    assert seal_text("noon", key).digest == f"hmac-sha256:{expected}"
