"""What several folders of the API answer with: errors, the ledger's state, and common fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

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


RpcId = Annotated[str, Meta(min_length=1, max_length=100)] | int


class RpcBody(Struct, frozen=True):
    """One request; a notification has no `id`, and is answered with 202 and nothing."""

    jsonrpc: Literal["2.0"]
    id: RpcId
    method: str
    params: dict[str, Any] = {}


class RpcError(Struct, frozen=True):
    """The error of a request."""

    code: int
    message: str
    data: Any = None


class RpcAnswer(Struct, frozen=True, omit_defaults=True):
    """The result of one request; a tool that fails says so inside of it."""

    jsonrpc: Literal["2.0"]
    id: str | int | None
    result: dict[str, Any] = {}
    error: RpcError | None = None


class RpcRefusal(Struct, frozen=True, omit_defaults=True):
    """JSON-RPC's own error, or where the request was not let in, the product's."""

    jsonrpc: str = ""
    id: str | int | None = None
    error: RpcError | None = None
    error_code: str = ""
    status: int = 0
    severity: str = ""
    user_message: str = ""
    developer_message: str = ""
    meta: ErrorMeta | None = None
