"""The handler of every route, made for one gateway."""

from __future__ import annotations

from pointsman.access.roles import RouteKey
from pointsman.gateway.api.actions.upkeep import ActionUpkeep
from pointsman.gateway.api.models import CALLS
from pointsman.gateway.api_handler import ApiHandler, HandlerObjects
from pointsman.gateway.route_table import ROUTES
from pointsman.gateway.serving.http import RouteHandler
from pointsman.gateway.serving.route import API
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.turns.endpoints import ModelEndpoint
from pointsman.gateway.turns.pass_through import PassThroughEndpoint
from pointsman.gateway.turns.shadow_runs import ShadowRuns
from pointsman.gateway.turns.turn_batcher import TurnBatcher
from pointsman.providers.port import OPERATIONS

HOOKS = f"{API}.workflows.hooks.HookApi"


def make_handlers(parts: GatewayServices) -> dict[RouteKey, RouteHandler]:
    """Return the handler of each route."""
    objects = HandlerObjects(parts)
    ActionUpkeep(parts)
    # Made now, not with the first hook: it goes on with what a crash left undone.
    objects.get(HOOKS)
    calls = _call_handlers(parts)
    handlers: dict[RouteKey, RouteHandler] = {}
    for key, route in ROUTES.items():
        is_call = route in CALLS
        handlers[key] = calls[route.path] if is_call else ApiHandler(parts, route, objects)
    return handlers


def _call_handlers(parts: GatewayServices) -> dict[str, RouteHandler]:
    shadow_runs = ShadowRuns(parts)
    endpoints = {
        "/v1/chat/completions": ModelEndpoint(parts, "chat", shadow_runs=shadow_runs),
        "/v1/responses": ModelEndpoint(parts, "responses", shadow_runs=shadow_runs),
        "/v1/messages": ModelEndpoint(parts, "messages", shadow_runs=shadow_runs),
    }
    for endpoint in endpoints.values():
        endpoint.batcher = TurnBatcher(endpoint)
    return {
        **endpoints,
        **{f"/v1/{each}": PassThroughEndpoint(parts, each) for each in OPERATIONS},
    }
