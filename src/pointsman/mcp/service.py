"""What the MCP server stands on: one opened home, and what calls models in it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from pointsman.access.keys import Principal
from pointsman.app import Pointsman
from pointsman.conversations.conversation_house import House, Patron


class Service(Struct, frozen=True):
    """The home that is served.

    `house` is opened at its first use. `keeps_session` where all delegations come from one agent:
    they are then one session, with one past and one cost.
    """

    pointsman: Pointsman
    house: Callable[[], House]
    keeps_session: bool = False

    def house_for(self, caller: Principal) -> House:
        """Give what calls models for a caller: within its key's models and budgets."""
        patron = Patron(caller.key_id, caller.allowed_models, caller.caps)
        return replace(self.house(), patron=patron)
