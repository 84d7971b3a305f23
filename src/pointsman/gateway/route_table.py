"""Every route of the gateway, found by its key or by a request's path."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from pointsman.access.roles import RouteKey
from pointsman.errors import MethodNotAllowed, NotFound
from pointsman.gateway.api.actions import routes as actions
from pointsman.gateway.api.agents import routes as agents
from pointsman.gateway.api.budgets import routes as budgets
from pointsman.gateway.api.dashboard import routes as dashboard
from pointsman.gateway.api.feed import routes as feed
from pointsman.gateway.api.jobs import routes as jobs
from pointsman.gateway.api.keys import routes as keys
from pointsman.gateway.api.ledger import routes as ledger
from pointsman.gateway.api.mcp import routes as mcp
from pointsman.gateway.api.models import routes as models
from pointsman.gateway.api.policies import routes as policies
from pointsman.gateway.api.providers import routes as providers
from pointsman.gateway.api.sessions import routes as sessions
from pointsman.gateway.api.status import routes as status
from pointsman.gateway.api.turns import routes as turns
from pointsman.gateway.api.workflows import routes as workflows
from pointsman.gateway.route import Route

T = TypeVar("T")

_FOLDERS: Final = (
    models, status, turns, sessions, providers, feed, ledger, policies, keys, budgets, dashboard,
    workflows, mcp, agents, actions, jobs,
)  # fmt: skip


class RouteTable(Generic[T]):
    """Values by method and path; a `{name}` matches one part of a path."""

    def __init__(self, values: Mapping[RouteKey, T]) -> None:
        self._exact = {key: value for key, value in values.items() if "{" not in key[1]}
        self._with_names = [
            (method, tuple(path.split("/")), value)
            for (method, path), value in values.items()
            if "{" in path
        ]

    def match(self, method: str, path: str) -> T | None:
        """Return the value of a request's route, if there is one."""
        value = self._exact.get((method, path))
        if value is not None:
            return value
        parts = tuple(path.split("/"))
        return next(
            (
                value
                for known, pattern, value in self._with_names
                if known == method and _fits(pattern, parts)
            ),
            None,
        )

    def find(self, method: str, path: str) -> T:
        """Return the value of a request's route, or raise that there is none."""
        value = self._exact.get((method, path))
        if value is None:
            value = self.match(method, path)
        if value is not None:
            return value
        parts = tuple(path.split("/"))
        methods = {known for known, exact in self._exact if exact == path}
        methods |= {known for known, pattern, _ in self._with_names if _fits(pattern, parts)}
        if methods:
            raise MethodNotAllowed(f"`{path}` takes {', '.join(sorted(methods))}")
        raise NotFound(f"there is nothing at `{path[:200]}`", hint="GET /openapi.json lists all")


def _fits(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    return len(pattern) == len(parts) and all(
        (want.startswith("{") and part) or want == part
        for want, part in zip(pattern, parts, strict=True)
    )


ROUTES: Final[Mapping[RouteKey, Route]] = MappingProxyType(
    {route.key: route for folder in _FOLDERS for route in folder.ROUTES}
)
_TABLE: Final = RouteTable(ROUTES)


def find_route(method: str, path: str) -> Route | None:
    """Return the route a request belongs to: one without names first."""
    return _TABLE.match(method, path)
