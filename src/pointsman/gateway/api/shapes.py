"""What several folders of the API answer with: errors, the ledger's state, and common fields."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from pointsman.audit.turn_shapes import InstantText

Text = Annotated[str, Meta(min_length=1, max_length=200)]
Behind = Annotated[int, Meta(description="entries of the ledger that the list does not know yet")]


class ErrorMeta(Struct, frozen=True):
    """Where to look further."""

    trace_id: str
    timestamp: InstantText


class ErrorAnswer(Struct, frozen=True):
    """An error outside the vendors' routes."""

    error_code: str
    status: int
    severity: Literal["info", "warning", "error"]
    user_message: str
    developer_message: str
    meta: ErrorMeta


class LedgerState(Struct, frozen=True):
    """Whether entries are taken."""

    writable: bool
    cause: str
