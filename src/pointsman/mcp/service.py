"""What the MCP server stands on: one opened home, and what calls models in it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from pointsman.access.keys import Principal
from pointsman.app import Pointsman
from pointsman.conversations.services import ConversationServices, KeyLimits


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
        key_limits = KeyLimits(caller.key_id, caller.allowed_models, caller.caps)
        return replace(self.house(), key_limits=key_limits)
