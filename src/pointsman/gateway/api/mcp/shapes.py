"""JSON-RPC as `/mcp` takes and gives it; its content is MCP's own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from pointsman.gateway.api.shapes import ErrorMeta

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
