"""Everything that is served: each path and who serves it."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from pointsman.errors import PointsmanError
from pointsman.gateway.api.actions.upkeep import ActionUpkeep
from pointsman.gateway.api.api import Api
from pointsman.gateway.api.budgets.handlers import BudgetApi
from pointsman.gateway.api.dashboard.handlers import Dashboard
from pointsman.gateway.api.description import Key
from pointsman.gateway.api.feed.handlers import Following
from pointsman.gateway.api.keys.handlers import Admin
from pointsman.gateway.api.ledger.bulk import BulkApi
from pointsman.gateway.api.ledger.chains import LedgerApi
from pointsman.gateway.api.policies.handlers import PolicyApi
from pointsman.gateway.api.sessions.handlers import SessionApi
from pointsman.gateway.api.turns.catalog import TurnCatalog
from pointsman.gateway.api.turns.feedback import Judging
from pointsman.gateway.api.turns.handlers import TurnApi
from pointsman.gateway.api.turns.overview import OverviewApi
from pointsman.gateway.api.workflows.hooks import Hooks
from pointsman.gateway.asgi import Handler
from pointsman.gateway.http import JSON, Asked, Receive, Send, answer
from pointsman.gateway.later import later_routes
from pointsman.gateway.parts import Parts
from pointsman.gateway.telemetry.logs import LogLine
from pointsman.gateway.turns.endpoints import ModelEndpoint
from pointsman.gateway.turns.pass_through import PassThroughEndpoint
from pointsman.gateway.turns.shadow_runs import ShadowRuns
from pointsman.gateway.turns.turn_batcher import TurnBatcher


def served(parts: Parts) -> dict[Key, Handler]:
    """Give what is served where."""
    catalog = TurnCatalog(parts.pointsman.home)
    parts.ending.append(catalog.close)
    ActionUpkeep(parts)
    shadow_runs = ShadowRuns(parts)
    found: dict[Key, Handler] = {
        ("POST", "/v1/chat/completions"): ModelEndpoint(parts, "chat", shadow_runs=shadow_runs),
        ("POST", "/v1/responses"): ModelEndpoint(parts, "responses", shadow_runs=shadow_runs),
        ("POST", "/v1/messages"): ModelEndpoint(parts, "messages", shadow_runs=shadow_runs),
        ("POST", "/v1/embeddings"): PassThroughEndpoint(parts, "embeddings"),
        ("POST", "/v1/completions"): PassThroughEndpoint(parts, "completions"),
        **Api(parts).routes(),
        **Admin(parts).routes(),
        **SessionApi(parts, catalog).routes(),
        **Judging(parts).routes(),
        **BudgetApi(parts).routes(),
        **Following(parts).routes(),
        **Hooks(parts).routes(),
        **Dashboard(parts).routes(),
        **TurnApi(parts, catalog).routes(),
        **OverviewApi(parts, catalog).routes(),
        **PolicyApi(parts, catalog).routes(),
        **LedgerApi(parts).routes(),
        **BulkApi(parts).routes(),
        **later_routes(parts),
    }
    schema = ("GET", "/openapi.json")
    found[schema] = _Schema([*found, schema])
    if parts.sharing is None:
        for each in found.values():
            if type(each) is ModelEndpoint:
                each.batcher = TurnBatcher(each)
    return {
        # Model endpoints tell of themselves, with what they decided.
        key: each if isinstance(each, ModelEndpoint) else LoggedRoute(parts, key, each)
        for key, each in found.items()
    }


class _Schema:
    """Serves the description of all routes, made when it is first asked for."""

    def __init__(self, routes: list[Key]) -> None:
        self._routes = routes
        self._body = b""

    async def __call__(self, _asked: Asked, _receive: Receive, send: Send) -> None:
        """Describe every route."""
        if not self._body:
            # Imported here: it knows every shape there is, and few ask for it.
            from pointsman.gateway.api.described import DESCRIBED  # noqa: PLC0415
            from pointsman.gateway.api.openapi import openapi  # noqa: PLC0415

            self._body = msgspec.json.encode(openapi(self._routes, DESCRIBED))
        await answer(send, 200, self._body, [JSON, (b"cache-control", b"no-cache")])


_QUIET: Final = frozenset({"/health", "/health/readiness", "/metrics"})
"""Asked every few seconds by machines: told only when something is wrong."""


class LoggedRoute:
    """One route that is told to the log when its answer is out."""

    def __init__(self, parts: Parts, key: tuple[str, str], handler: Handler) -> None:
        self._parts = parts
        self._name = " ".join(key)
        self._is_quiet = key[1] in _QUIET
        self._handler = handler

    async def __call__(self, asked: Asked, receive: Receive, send: Send) -> None:
        """Serve one request."""
        log = self._parts.log
        if not log.is_on:
            await self._handler(asked, receive, send)
            return
        started, status, code = time.perf_counter_ns(), 500, ""
        try:
            await self._handler(asked, receive, send)
            status = send.status
        except PointsmanError as error:
            status, code = error.http_status, error.code
            raise
        finally:
            elapsed_us = (time.perf_counter_ns() - started) // 1000
            if status >= 400 or not self._is_quiet:
                log.request(
                    LogLine(
                        log.now(), self._name, status, elapsed_us, error_class=code, event="api"
                    )
                )
