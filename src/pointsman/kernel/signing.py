"""Ed25519 keys. Every signed text names its purpose: no signature serves for another one.

Keys are values here; where they are kept is the storage layer's business.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Purpose = Literal["snapshot", "bundle", "head"]


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


class SigningKey(VerifyKey):
    """A private key, made from its 32 secret bytes."""

    def __init__(self, secret: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(secret)
        super().__init__(self._private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Sign a message; the same message always gives the same signature."""
        return self._private.sign(message)
