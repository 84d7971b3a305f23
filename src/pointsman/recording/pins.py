"""Pins of sessions, as entries of the ledger: who bound which session to which model."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Draft
from pointsman.kernel.record import Names

PINNED: Final = "event.session.pinned"
UNPINNED: Final = "event.session.unpinned"


class Pinning(Struct, frozen=True, forbid_unknown_fields=True):
    """A session and its model, none where it was let go; `key_id` is whose hand it was.

    The session stands here and not in `ref`: its name may be longer than a name in the ledger.
    """

    session_id: str
    model: str | None
    key_id: str


PINNING_FORM = Form(Pinning)


def pinning_draft(names: Names, pinning: Pinning) -> Draft:
    """Make the entry of a pin."""
    kind = UNPINNED if pinning.model is None else PINNED
    return Draft(kind, names.id, names.ref, names.at, PINNING_FORM.encode(pinning))
