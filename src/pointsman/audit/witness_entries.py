"""The entries about witnesses: cosignatures, time stamps, losses and refusals.

An entry's `ref` is the origin it is about, or the name of the witness. A cosignature proves itself:
it verifies under the witness's key, not under that of the ledger.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pointsman.kernel.canonical import Form
from pointsman.storage.stores.entries import LedgerReader

WITNESSING: Final = "event.witness."
COSIGNED: Final = "event.witness.cosigned"
REFUSED: Final = "event.witness.refused"
LOST: Final = "event.witness.lost"
BACK: Final = "event.witness.back"
STAMPED: Final = "event.witness.stamped"


class CosignedEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A checkpoint and the witnesses that cosigned it; `note` holds all the signatures."""

    size: int
    witnesses: tuple[str, ...]
    note: str


class WitnessTrouble(Struct, frozen=True, forbid_unknown_fields=True):
    """A witness that did not answer, was heard of again, or refused a checkpoint."""

    witness: str
    code: str
    message: str
    since_us: int


class StampedEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A time stamp of an authority over a checkpoint; the two attachments are note and token."""

    size: int
    stamped_us: int
    authority: str


COSIGNED_FORM = Form(CosignedEntry)
TROUBLE_FORM = Form(WitnessTrouble)
STAMPED_FORM = Form(StampedEntry)


def lost_witnesses(reader: LedgerReader) -> dict[str, WitnessTrouble]:
    """Return the witnesses that were lost, or refused, and are not back, as far as recorded."""
    found: dict[str, WitnessTrouble] = {}
    for stored in reader.of_kind(WITNESSING):
        kind = stored.entry.kind
        if kind not in {LOST, REFUSED, BACK}:
            continue
        trouble = TROUBLE_FORM.decode(stored.entry.payload)
        if kind == BACK:
            found.pop(trouble.witness, None)
        else:
            found[trouble.witness] = trouble
    return found
