import hashlib

import pytest

from pointsman.kernel.signing import SigningKey, VerifyKey, key_id, signed_bytes

KEY = SigningKey(bytes(range(32)))


def test_a_signature_verifies_over_exactly_its_message():
    signature = KEY.sign(b"message")
    assert VerifyKey(KEY.public).verifies(b"message", signature)
    assert not VerifyKey(KEY.public).verifies(b"messagf", signature)
    assert not VerifyKey(SigningKey(bytes(32)).public).verifies(b"message", signature)


@pytest.mark.parametrize("signature", [b"", bytes(63), bytes(64), bytes(65)])
def test_what_is_no_signature_does_not_verify(signature):
    assert not KEY.verifies(b"message", signature)


def test_the_same_message_always_gets_the_same_signature():
    assert KEY.sign(b"m") == SigningKey(bytes(range(32))).sign(b"m")


def test_a_key_is_named_by_the_digest_of_its_public_half():
    assert KEY.id == "ed25519:" + hashlib.sha256(KEY.public).hexdigest()[:32] == key_id(KEY.public)


def test_a_signature_for_one_purpose_serves_for_no_other():
    signature = KEY.sign(signed_bytes("snapshot", b"m"))
    assert not KEY.verifies(signed_bytes("bundle", b"m"), signature)
    assert not KEY.verifies(b"m", signature)
