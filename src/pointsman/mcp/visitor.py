"""Who asks over MCP, and what they may do: the scopes and roles that hold over HTTP."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from pointsman.access.actors import OWNER
from pointsman.access.keys import ADMIN, Principal
from pointsman.access.matrix import Route
from pointsman.access.roles import Scope
from pointsman.governance.action import Actor
from pointsman.turns.facts import Privacy


class Need(Struct, frozen=True):
    """What it takes to use something: a scope, and a role that may use the same over HTTP."""

    scope: Scope
    route: Route


class Admitted(Struct, frozen=True):
    """Somebody who may do what they asked for; `privacy` holds for all that is said to models."""

    caller: Principal
    actor: Actor
    workspace: str | None = None
    privacy: Privacy = "auto"


class Visitor(Protocol):
    """Somebody who asks."""

    def admitted(self, need: Need) -> Admitted:
        """Give who it is, or raise why they may not."""
        ...


class HomeOwner:
    """Whoever started the server on the home itself: its files are theirs."""

    def __init__(self, workspace: str | None = None) -> None:
        self._workspace = workspace

    def admitted(self, need: Need) -> Admitted:  # noqa: ARG002 - they may do everything
        """Give the owner."""
        return Admitted(ADMIN, OWNER, self._workspace)
