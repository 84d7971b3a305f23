"""The home that MCP serves, and its caller: admitted by the scopes that hold over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from pointsman.access.actors import OWNER
from pointsman.access.keys import ADMIN, Principal
from pointsman.access.roles import RouteKey
from pointsman.app import Pointsman
from pointsman.conversations.services import ConversationServices, KeyLimits
from pointsman.governance.action import Actor
from pointsman.recording.gathering import HOME_CALLER
from pointsman.turns.facts import CallerFacts, Privacy


class Service(Struct, frozen=True):
    """The home that is served.

    `house` is opened at its first use. `keeps_session` where all delegations come from one agent:
    they are then one session, with one past and one cost.
    """

    pointsman: Pointsman
    house: Callable[[], ConversationServices]
    keeps_session: bool = False

    def house_for(self, caller: Principal) -> ConversationServices:
        """Return the conversations of a caller, within its key's models and budgets."""
        key_limits = KeyLimits(
            caller.key_id, caller.allowed_models, caller.caps, caller.tenant, caller.name
        )
        return replace(self.house(), key_limits=key_limits)


class Admitted(Struct, frozen=True):
    """A caller that was admitted; `privacy` holds for all that is sent to models."""

    caller: Principal
    actor: Actor
    workspace: str | None = None
    privacy: Privacy = "auto"
    facts: CallerFacts = HOME_CALLER
    """The caller as rules see it."""


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
