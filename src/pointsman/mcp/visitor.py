"""The caller over MCP, admitted by the scopes and roles that hold over HTTP."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from pointsman.access.actors import OWNER
from pointsman.access.keys import ADMIN, Principal
from pointsman.access.roles import RouteKey
from pointsman.governance.action import Actor
from pointsman.turns.facts import Privacy


class Admitted(Struct, frozen=True):
    """A caller that was admitted; `privacy` holds for all that is sent to models."""

    caller: Principal
    actor: Actor
    workspace: str | None = None
    privacy: Privacy = "auto"


class Visitor(Protocol):
    """The caller of one request."""

    def admit(self, route: RouteKey) -> Admitted:
        """Return the caller, or raise why they may not use what the route does over HTTP."""
        ...


class HomeOwner:
    """The user who started the server on the home itself: its files are theirs."""

    def __init__(self, workspace: str | None = None) -> None:
        self._workspace = workspace

    def admit(self, route: RouteKey) -> Admitted:  # noqa: ARG002 - they may do everything
        """Return the owner."""
        return Admitted(ADMIN, OWNER, self._workspace)
