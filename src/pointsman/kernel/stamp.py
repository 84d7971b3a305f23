"""The stamp on a chain's end: a signature that is renewed with every commit, in the same commit.

Checkpoints lie outside the database but come only now and then. Between two of them, the stamp
keeps anybody without the key from adding, changing or removing entries: only putting back a whole
older database still goes unnoticed, and only until the next checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence

from pointsman.kernel.entry import Chain
from pointsman.kernel.signing import SigningKey, VerifyKey, signed_bytes


def stamp(chain: Chain, size: int, head: bytes, key: SigningKey) -> bytes:
    """Sign that a chain ends here."""
    return key.sign(_statement(chain, size, head))


def is_stamped(
    chain: Chain, size: int, head: bytes, found: bytes, keys: Sequence[VerifyKey]
) -> bool:
    """Tell whether a key of the ledger signed that the chain ends here."""
    if size == 0:
        return found == b""
    return any(key.verifies(_statement(chain, size, head), found) for key in keys)


def _statement(chain: Chain, size: int, head: bytes) -> bytes:
    return signed_bytes("head", chain.prefix + size.to_bytes(8, "big") + head)
