"""Ed25519 of the offline verifier against RFC 8032 and the product's own."""

import random

import pytest

from pointsman import offline_verifier
from pointsman.kernel.signing import SigningKey
from pointsman.offline_verifier import (
    BASE,
    L,
    P,
    _add,
    _point,
    verifies,
    verifies_fast,
    verifies_slowly,
)

# RFC 8032 §7.1: public key, message, signature.
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
            "d25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
            "387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
            "4a7c15e9716ed28dc027beceea1ec40a"
        ),
    ),
]


@pytest.mark.parametrize(("public", "message", "signature"), VECTORS)
def test_both_implementations_accept_the_vectors_of_rfc_8032(public, message, signature):
    given = tuple(bytes.fromhex(text) for text in (public, message, signature))
    assert verifies_fast(*given)
    assert verifies_slowly(*given)


def test_both_implementations_agree_on_keys_messages_and_flipped_bits():
    random_ = random.Random(8032)
    for number in range(6):
        key = SigningKey(random_.randbytes(32))
        message = random_.randbytes(number * 7)
        parts = [key.public, message, key.sign(message)]
        assert verifies_fast(*parts)
        assert verifies_slowly(*parts)
        for index, part in enumerate(parts):
            for bit in random_.sample(range(len(part) * 8), min(12, len(part) * 8)):
                flipped = bytearray(part)
                flipped[bit // 8] ^= 1 << bit % 8
                given = [*parts[:index], bytes(flipped), *parts[index + 1 :]]
                assert not verifies_slowly(*given)
                assert not verifies_fast(*given)


def test_every_flipped_bit_of_one_signature_is_refused_by_both():
    public, message, signature = (bytes.fromhex(text) for text in VECTORS[1])
    for bit in range(512):
        flipped = bytearray(signature)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not verifies_slowly(public, message, bytes(flipped))
        assert not verifies_fast(public, message, bytes(flipped))


def test_a_signature_shifted_by_the_group_s_order_is_refused():
    public, message, signature = (bytes.fromhex(text) for text in VECTORS[0])
    shifted = int.from_bytes(signature[32:], "little") + L
    given = public, message, signature[:32] + shifted.to_bytes(32, "little")
    assert not verifies_slowly(*given)
    assert not verifies_fast(*given)


@pytest.mark.parametrize(
    "encoded",
    [
        P.to_bytes(32, "little"),
        (P + 1).to_bytes(32, "little"),
        (2**255 - 1).to_bytes(32, "little"),
        (1 | 1 << 255).to_bytes(32, "little"),
        (P - 1 | 1 << 255).to_bytes(32, "little"),
        (2).to_bytes(32, "little"),
    ],
)
def test_what_is_not_the_one_encoding_of_a_point_is_refused_by_both(encoded):
    assert _point(encoded) is None
    _, message, signature = (bytes.fromhex(text) for text in VECTORS[0])
    assert not verifies_slowly(encoded, message, signature)
    assert not verifies_fast(encoded, message, signature)
    public = bytes.fromhex(VECTORS[0][0])
    assert not verifies_slowly(public, message, encoded + signature[32:])
    assert not verifies_fast(public, message, encoded + signature[32:])


def test_the_base_point_has_the_group_s_order():
    encoded = (4 * pow(5, P - 2, P) % P).to_bytes(32, "little")
    assert _point(encoded) == BASE
    assert offline_verifier._times(L, BASE)[0] % P == 0
    assert _add(BASE, (0, 1, 1, 0))[0] != 0


def test_keys_and_signatures_of_another_length_are_refused():
    public, message, signature = (bytes.fromhex(text) for text in VECTORS[0])
    assert verifies(public, message, signature)
    assert not verifies(public[:-1], message, signature)
    assert not verifies(public, message, signature + b"\0")
