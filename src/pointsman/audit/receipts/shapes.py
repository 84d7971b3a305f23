"""A receipt as it is written; `docs/receipt-format.md` says what each part means."""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace

from pointsman.kernel.canonical import Form
from pointsman.kernel.rotation import KeyRotation
from pointsman.kernel.signing import SigningKey, signed_bytes

Disclosure = Literal["full", "redacted", "minimal"]
"""How much a receipt tells: everything, what decided beside commitments, or the outcome alone."""

View = Annotated[Raw, Meta(extra_json_schema={"type": "object"})]


class InclusionProof(Struct, frozen=True, forbid_unknown_fields=True):
    """The place of a checkpoint, and the RFC 6962 path from an entry to its root."""

    checkpoint: int
    path: tuple[str, ...]


class ReceiptEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of the ledger. `proof` is null while no checkpoint covers it.

    `payload` and `salt`, from which the commitments of a redacted receipt are salted, stand in a
    full receipt; the others have a `view` of the payload.
    """

    chain: str
    seq: int
    at: int
    kind: str
    id: str
    ref: str
    prev: str
    attached: tuple[str, ...]
    hash: str
    proof: InclusionProof | None
    payload: str | UnsetType = UNSET
    salt: str | UnsetType = UNSET
    view: View | UnsetType = UNSET


class ReceiptText(Struct, frozen=True, forbid_unknown_fields=True):
    """A text that facts hold the seal of: a commitment to it, or why there is none."""

    seal: str
    chars: int
    salt: str | UnsetType = UNSET
    commitment: str | UnsetType = UNSET
    missing: str | UnsetType = UNSET


class ReceiptSignature(Struct, frozen=True, forbid_unknown_fields=True):
    """Which key signed the receipt as a whole."""

    key: str
    signature: str


class TurnReceipt(Struct, frozen=True, forbid_unknown_fields=True):
    """A receipt. `bodies` are facts and policies by their content ids.

    `rotations` are the statements by which each of the keys names the next.
    """

    format: Literal["pointsman/receipt/1"]
    disclosure: Disclosure
    ledger: str
    turn: str
    keys: tuple[str, ...]
    rotations: tuple[KeyRotation, ...]
    checkpoints: tuple[str, ...]
    entries: tuple[ReceiptEntry, ...]
    bodies: dict[str, str]
    texts: tuple[ReceiptText, ...]
    signature: ReceiptSignature | UnsetType = UNSET


RECEIPT_FORM: Final = Form(TurnReceipt)


def signed_receipt(receipt: TurnReceipt, key: SigningKey) -> bytes:
    """Sign a receipt that has no signature yet, and return its canonical bytes."""
    digest = hashlib.sha256(RECEIPT_FORM.encode(receipt)).digest()
    signature = ReceiptSignature(key.id, key.sign(signed_bytes("receipt", digest)).hex())
    return RECEIPT_FORM.encode(replace(receipt, signature=signature))
