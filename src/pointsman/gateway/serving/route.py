"""A route as one value: how it is called, who may call it, its body and its answer.

Each folder of `gateway/api` declares its routes in `routes.py`, beside the handlers. Dispatch, the
access matrix, OpenAPI, the reference pages and the log are derived from these values. Handlers and
types are named, not imported: a gateway loads a handler with its first request.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from pointsman.access.roles import SCOPES, RoleAccess, RouteKey, Scope
from pointsman.kernel.schema_tree import Schema

RouteScope = Literal["none", "any"] | Scope
"""`none` takes no key, `any` a key of whatever scope; the handler checks both itself."""
ErrorShape = Literal["own", "openai", "anthropic", "rpc"]

API: Final = "pointsman.gateway.api"

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
TEXT: Final = "text/plain"
YAML: Final = "application/yaml"
LINES: Final = "application/x-ndjson"
HTML: Final = "text/html"
BYTES: Final = "application/octet-stream"
PNG: Final = "image/png"
FORM: Final = "multipart/form-data"


class Parameter(Struct, frozen=True):
    """A part of the query, or a header."""

    name: str
    told: str
    schema: Schema
    place: Literal["query", "header"] = "query"


class Route(Struct, frozen=True):
    """One route.

    `handler` names a method of the handlers' class. `body` and `answer` name types, whose schemas
    are published; without one, there is no JSON. `also` names a second media type that the answer
    may come in, `bare` a status with which the route ends where nothing is to be answered.

    A route with a `call_name` is one of the agents' routes: each call leaves an entry of that name
    in the ledger, and the role decides also where a key was given none. One that `is_long` runs in
    threads of its handlers' own.
    """

    method: str
    path: str
    scope: RouteScope
    roles: RoleAccess
    summary: str
    handler: str = ""
    answer: str = ""
    body: str = ""
    status: int = 200
    media: str = JSON
    body_media: str = JSON
    also: str = ""
    bare: int = 0
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()
    shape: ErrorShape = "own"
    call_name: str = ""
    is_long: bool = False

    @property
    def key(self) -> RouteKey:
        """The method and the path."""
        return self.method, self.path

    @property
    def key_scope(self) -> Scope:
        """The scope that a key must have; not for routes that admit callers themselves."""
        if self.scope not in SCOPES:
            raise ValueError(f"{self.method} {self.path} takes a key of no scope")
        return self.scope

    @property
    def is_keyless(self) -> bool:
        """Whether this machine is served as an operator while there is no key.

        Semantic memory and votes are governed: they need a name.
        """
        is_governed = self.roles.operator == "denied" or self.path.startswith("/sem/")
        return bool(self.call_name) and not is_governed


def declare(folder: str, handlers: str, *routes: Route, types: str = "shapes") -> tuple[Route, ...]:
    """Return the routes that a class of handlers in a folder serves, all names written out.

    Types are looked up in the folder's module `types`; a name with dots in it is a whole one.
    """
    package = f"{API}.{folder}"
    return tuple(
        replace(
            route,
            handler=f"{package}.{handlers}.{route.handler}",
            answer=_whole_name(f"{package}.{types}", route.answer),
            body=_whole_name(f"{package}.{types}", route.body),
        )
        for route in routes
    )


def _whole_name(module: str, name: str) -> str:
    return f"{module}.{name}" if name and "." not in name and name != "str" else name


def load_name(name: str) -> Any:
    """Import a class or a type by its whole name."""
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


LIMIT: Final = Parameter(
    "limit",
    "how many rows at most",
    {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
)


def instant(name: str, told: str) -> Parameter:
    """Return a parameter that is an instant."""
    return Parameter(name, told, {"type": "string", "format": "date-time"})


SINCE: Final = instant("since", "only from this instant on (RFC 3339)")
BEFORE: Final = instant("before", "only before this instant (RFC 3339)")
TRACE: Final = Parameter(
    "traceparent", "a W3C trace that this call belongs to", {"type": "string"}, "header"
)
"""Taken by every route with a `call_name`."""
