"""Ed25519 keys, and the stamp on a chain's end.

Every signed text names its purpose: no signature serves for another one.
Keys are values here; where they are kept is the storage layer's business.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pointsman.kernel.entry import Chain

SECRET_BYTES = 32

Purpose = Literal["snapshot", "bundle", "head", "rotation", "receipt", "progress"]


def key_id(public: bytes) -> str:
    """Name a public key by the digest of its bytes."""
    return "ed25519:" + hashlib.sha256(public).hexdigest()[:32]


def signed_bytes(purpose: Purpose, message: bytes) -> bytes:
    """Prefix a message with its purpose; the NUL cannot occur in a checkpoint's text."""
    return b"pointsman/" + purpose.encode() + b"/1\0" + message


class VerifyKey:
    """A public key."""

    def __init__(self, public: bytes) -> None:
        self.public = public
        self.id = key_id(public)
        self._key = Ed25519PublicKey.from_public_bytes(public)

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Tell whether the signature was made over exactly this message."""
        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def covers(self, chain: str, size: int) -> bool:  # noqa: ARG002 - of a retired key, they decide
        """Tell whether the key may have signed that a chain had so many entries."""
        return True


class SigningKey(VerifyKey):
    """A private key, made from its 32 secret bytes."""

    def __init__(self, secret: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(secret)
        super().__init__(self._private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Sign a message; the same message always gives the same signature."""
        return self._private.sign(message)


def stamp(chain: Chain, size: int, head: bytes, key: SigningKey, signed: int = 0) -> bytes:
    """Sign that a chain ends here: a stamp that is renewed with every commit, in the same commit.

    `signed` is how many entries checkpoints cover: without it, their loss could not be told from
    a chain that was never signed.

    Checkpoints lie outside the database but come only now and then. Between two of them, the stamp
    keeps anybody without the key from adding, changing or removing entries: only putting back a
    whole older database still goes unnoticed, and only until the next checkpoint.
    """
    return signed.to_bytes(8, "big") + key.sign(_statement(chain, size, head, signed))


def signed_size(stamp: bytes) -> int:
    """Return how many entries checkpoints cover by a stamp; 0 without one."""
    return int.from_bytes(stamp[:8], "big")


def is_stamped(
    chain: Chain, size: int, head: bytes, found: bytes, keys: Sequence[VerifyKey]
) -> bool:
    """Tell whether a key of the ledger signed that the chain ends here."""
    if size == 0:
        return found == b""
    statement = _statement(chain, size, head, signed_size(found))
    current = (key for key in keys if key.covers(chain.name, size))
    return any(key.verifies(statement, found[8:]) for key in current)


def _statement(chain: Chain, size: int, head: bytes, signed: int) -> bytes:
    sizes = size.to_bytes(8, "big"), signed.to_bytes(8, "big")
    return signed_bytes("head", chain.prefix + sizes[0] + head + sizes[1])
