"""Every route of the gateway, found by its key or by a request's path."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from pointsman.access.roles import RouteKey
from pointsman.errors import MethodNotAllowed, NotFound
from pointsman.gateway.api import (
    actions,
    agents,
    budgets,
    dashboard,
    feed,
    jobs,
    keys,
    ledger,
    mcp,
    models,
    policies,
    providers,
    sessions,
    status,
    stops,
    turns,
    workflows,
)
from pointsman.gateway.serving.route import Route

T = TypeVar("T")

_FOLDERS: Final = (
    models, status, turns, sessions, providers, feed, ledger, policies, keys, budgets, stops,
    dashboard,
    workflows, mcp, agents, actions, jobs,
)  # fmt: skip


class RouteTable(Generic[T]):
    """Values by method and path; a `{name}` matches one part of a path."""

    def __init__(self, values: Mapping[RouteKey, T]) -> None:
        self.exact = {key: value for key, value in values.items() if "{" not in key[1]}
        """Those of whole paths: most requests need no look at the others."""
        self._with_names = [
            (method, tuple(path.split("/")), value)
            for (method, path), value in values.items()
            if "{" in path
        ]

    def match(self, method: str, path: str) -> T | None:
        """Return the value of a request's route, if there is one."""
        value = self.exact.get((method, path))
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
        value = self.match(method, path)
        if value is not None:
            return value
        parts = tuple(path.split("/"))
        methods = {known for known, exact in self.exact if exact == path}
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
