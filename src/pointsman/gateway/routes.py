"""The handler of every route, made for one gateway."""

from __future__ import annotations

from pointsman.access.roles import RouteKey
from pointsman.gateway.api.actions.upkeep import ActionUpkeep
from pointsman.gateway.api.models.routes import CALLS
from pointsman.gateway.api_handler import ApiHandler, HandlerObjects
from pointsman.gateway.http import Handler
from pointsman.gateway.parts import Parts
from pointsman.gateway.route import API
from pointsman.gateway.route_table import ROUTES
from pointsman.gateway.telemetry.told_routes import ToldRoute
from pointsman.gateway.turns.beside import Beside
from pointsman.gateway.turns.endpoints import ModelEndpoint
from pointsman.gateway.turns.lane import Lane
from pointsman.gateway.turns.passing import PassEndpoint

HOOKS = f"{API}.workflows.hooks.HookApi"


def make_handlers(parts: Parts) -> dict[RouteKey, Handler]:
    """Return what serves each route."""
    objects = HandlerObjects(parts)
    ActionUpkeep(parts)
    # Made now, not with the first hook: it goes on with what a crash left undone.
    objects.get(HOOKS)
    calls = _call_handlers(parts)
    handlers: dict[RouteKey, Handler] = {}
    for key, route in ROUTES.items():
        handler = calls[route.path] if route in CALLS else ApiHandler(parts, route, objects)
        # Model endpoints log for themselves, with what they decided.
        is_told = isinstance(handler, ModelEndpoint)
        handlers[key] = handler if is_told else ToldRoute(parts, key, handler)
    return handlers


def _call_handlers(parts: Parts) -> dict[str, Handler]:
    beside = Beside(parts)
    endpoints = {
        "/v1/chat/completions": ModelEndpoint(parts, "chat", beside=beside),
        "/v1/responses": ModelEndpoint(parts, "responses", beside=beside),
        "/v1/messages": ModelEndpoint(parts, "messages", beside=beside),
    }
    if parts.sharing is None:
        for endpoint in endpoints.values():
            endpoint.lane = Lane(endpoint)
    return {
        **endpoints,
        "/v1/embeddings": PassEndpoint(parts, "embeddings"),
        "/v1/completions": PassEndpoint(parts, "completions"),
    }
