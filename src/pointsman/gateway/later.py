"""Routes that are loaded when they are first asked for.

Most gateways serve models alone: they should neither wait for agents and workflows nor hold them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from importlib import import_module
from typing import Final

from pointsman.gateway.asgi import Handler
from pointsman.gateway.http import Asked, Receive, Send, in_thread
from pointsman.gateway.parts import Parts

Key = tuple[str, str]

LATER: Final[Mapping[str, tuple[Key, ...]]] = {
    "ledger.records.Records": (
        ("GET", "/api/decisions"),
        ("GET", "/api/audit/egress"),
        ("POST", "/api/backtest"),
        ("POST", "/api/export"),
    ),
    "mcp.endpoint.McpEndpoint": (("POST", "/mcp"),),
    "workflows.evaluation.BranchApi": (("POST", "/api/decisions/{id}/evaluate"),),
    "workflows.handlers.WorkflowApi": (
        ("GET", "/api/workflow-decisions"),
        ("GET", "/api/workflow-decisions/{id}"),
        ("GET", "/api/workflow-decisions/{id}/lineage"),
        ("POST", "/api/workflow-decisions/{id}/dry-run"),
        ("DELETE", "/api/workflow-decisions/{id}/cache"),
    ),
    "actions.handlers.ActionApi": (
        ("POST", "/actions"),
        ("GET", "/actions"),
        ("GET", "/actions/{id}"),
        ("POST", "/actions/{id}/votes"),
        ("POST", "/actions/{id}/cancel"),
        ("POST", "/actions/{id}/execute"),
        ("POST", "/actions/{id}/settle"),
        ("GET", "/sem/{namespace}"),
        ("GET", "/sem/{namespace}/{key}"),
    ),
    "agents.handlers.AgentApi": (
        ("POST", "/router/decide"),
        ("POST", "/selfrep/create_snapshot"),
        ("GET", "/selfrep"),
        ("GET", "/selfrep/{id}"),
    ),
    "agents.history.AgentHistoryApi": (("GET", "/api/agents/history"),),
    "agents.brainstate.BrainStateApi": (
        ("POST", "/brainstate/create_snapshot"),
        ("GET", "/brainstate/{id}"),
        ("POST", "/brainstate/tick"),
        ("POST", "/brainstate/query"),
    ),
    "jobs.handlers.JobApi": (
        ("POST", "/jobs"),
        ("GET", "/jobs"),
        ("GET", "/jobs/{id}"),
        ("POST", "/jobs/{id}/replay"),
    ),
}
"""Who serves what; a test holds it to what each of them says itself."""


def later_routes(parts: Parts) -> dict[Key, Handler]:
    """Give all of them."""
    return {
        key: each.handler(key)
        for name, keys in LATER.items()
        for each in (_Later(parts, name),)
        for key in keys
    }


class _Later:
    """One class of the API, made when the first of its routes is asked for."""

    def __init__(self, parts: Parts, name: str) -> None:
        self._parts = parts
        self._name = name
        self._lock = threading.Lock()
        self._routes: Mapping[Key, Handler] = {}

    def handler(self, key: Key) -> Handler:
        """Give what serves a route."""

        async def serve(asked: Asked, receive: Receive, send: Send) -> None:
            routes = self._routes or await in_thread(self._loaded)
            await routes[key](asked, receive, send)

        return serve

    def _loaded(self) -> Mapping[Key, Handler]:
        with self._lock:
            if not self._routes:
                module, _, name = self._name.rpartition(".")
                made = getattr(import_module(f"pointsman.gateway.api.{module}"), name)(self._parts)
                self._routes = made.routes()
            return self._routes
