"""The MCP server over HTTP."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ALL
from pointsman.gateway.serving.route import EVENTS, Route, declare

ROUTES: Final = declare(
    "mcp",
    "endpoint.McpEndpoint",
    Route(
        "POST",
        "/mcp",
        "any",
        ALL,
        "speak MCP: tools, resources and prompts for agents",
        handler="serve",
        answer="pointsman.gateway.api.shapes.RpcAnswer",
        body="pointsman.gateway.api.shapes.RpcBody",
        also=EVENTS,
        bare=202,
        errors=(404, 406, 501),
        shape="rpc",
    ),
)
