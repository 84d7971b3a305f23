"""Everything that is served: each path and who serves it."""

from __future__ import annotations

import msgspec

from pointsman.gateway.admin import Admin
from pointsman.gateway.api import Api
from pointsman.gateway.asgi import Handler
from pointsman.gateway.branch_api import BranchApi
from pointsman.gateway.budget_api import BudgetApi
from pointsman.gateway.described import DESCRIBED
from pointsman.gateway.description import Key
from pointsman.gateway.endpoints import ModelEndpoint
from pointsman.gateway.following import Following
from pointsman.gateway.hooks import Hooks
from pointsman.gateway.http import JSON, Asked, Receive, Send, answer
from pointsman.gateway.judging import Judging
from pointsman.gateway.openapi import openapi
from pointsman.gateway.parts import Parts
from pointsman.gateway.passing import PassEndpoint
from pointsman.gateway.records import Records
from pointsman.gateway.session_api import SessionApi


def served(parts: Parts) -> dict[Key, Handler]:
    """Give what is served where."""
    found: dict[Key, Handler] = {
        ("POST", "/v1/chat/completions"): ModelEndpoint(parts, "chat"),
        ("POST", "/v1/responses"): ModelEndpoint(parts, "responses"),
        ("POST", "/v1/messages"): ModelEndpoint(parts, "messages"),
        ("POST", "/v1/embeddings"): PassEndpoint(parts, "embeddings"),
        ("POST", "/v1/completions"): PassEndpoint(parts, "completions"),
        **Api(parts).routes(),
        **Admin(parts).routes(),
        **Records(parts).routes(),
        **SessionApi(parts).routes(),
        **Judging(parts).routes(),
        **BranchApi(parts).routes(),
        **BudgetApi(parts).routes(),
        **Following(parts).routes(),
        **Hooks(parts).routes(),
    }
    schema = ("GET", "/openapi.json")
    found[schema] = _Schema([*found, schema])
    return found


class _Schema:
    """Serves the description of all routes, made when it is first asked for."""

    def __init__(self, routes: list[Key]) -> None:
        self._routes = routes
        self._body = b""

    async def __call__(self, _asked: Asked, _receive: Receive, send: Send) -> None:
        """Describe every route."""
        if not self._body:
            self._body = msgspec.json.encode(openapi(self._routes, DESCRIBED))
        await answer(send, 200, self._body, [JSON, (b"cache-control", b"no-cache")])
