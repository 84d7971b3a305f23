"""How a call to a model ended, as the ledger keeps it: what it used, what it cost, what failed."""

from __future__ import annotations

from msgspec import Raw, Struct

from pointsman.access.spent import Spent
from pointsman.kernel.canonical import Form
from pointsman.kernel.record import Outcome


class CallEnd(Struct, frozen=True, forbid_unknown_fields=True):
    """The detail of a call's outcome entry; `spent` is None where nothing is charged."""

    model: str
    location: str
    number: int
    is_stream: bool
    status: int
    error_class: str
    attempts: int
    stop_reason: str
    elapsed_us: int
    first_byte_us: int
    spent: Spent | None


END_FORM = Form(CallEnd)


def outcome_of(end: CallEnd) -> Outcome:
    """Give an end as the ledger's outcome."""
    return Outcome("failed" if end.error_class else "done", Raw(END_FORM.encode(end)))
