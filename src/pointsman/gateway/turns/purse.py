"""The money of one turn: set aside before each call, settled after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pointsman.access.budgets import Refused, Reservation
from pointsman.access.caps import Owners, caps_of
from pointsman.access.charges import Quote, quoted
from pointsman.access.spent import Spent
from pointsman.errors import OverBudget
from pointsman.gateway.parts import Parts
from pointsman.gateway.turns.incoming import Incoming
from pointsman.providers.messages import Usage
from pointsman.storage.policies import InForce
from pointsman.turns.estimate import output_bound

if TYPE_CHECKING:
    from pointsman.gateway.sharing import Sharing
    from pointsman.gateway.turns.turn import End


class Purse:
    """Who pays for a turn, within which limits, and what is set aside for the call at work."""

    __slots__ = ("_in_force", "_most_asked", "_parts", "caps", "owners", "reservation")

    def __init__(self, parts: Parts, request: Incoming, in_force: InForce) -> None:
        self._parts = parts
        self._in_force = in_force
        self._most_asked = request.look.max_output_tokens
        self.owners = Owners(
            request.caller.key_id, request.conversation.id, request.workspace or ""
        )
        budgets = in_force.ready.policy.budgets
        self.caps = (*caps_of(budgets), *request.caller.caps) if budgets else request.caller.caps
        self.reservation: Reservation | None = None

    def reserve(self, model: str, input_tokens: int) -> Awaitable[None] | None:
        """Set aside what a call may cost, or raise that no budget has so much left.

        Where budgets are shared with other replicas, that is to be awaited.
        """
        parts, known = self._parts, self._in_force.ready.models.get(model)
        most = None if known is None else known.capabilities.max_output_tokens
        quote = quoted(
            model,
            None if known is None else known.price,
            parts.pointsman.files.prices.id,
            input_tokens,
            output_bound(self._most_asked, most),
        )
        if parts.sharing is not None:
            return self._reserve(parts.sharing, quote)
        found = parts.budgets.reserve(self.owners, quote, self.caps, parts.pointsman.clock.now())
        if isinstance(found, Refused):
            raise OverBudget(found.message)
        self.reservation = found
        return None

    async def _reserve(self, sharing: Sharing, quote: Quote) -> None:
        found = await self.set_aside(sharing, quote)
        if isinstance(found, Refused):
            raise OverBudget(found.message)
        self.reservation = found

    async def set_aside(self, sharing: Sharing, quote: Quote) -> Reservation | Refused:
        """Set money aside that is counted together with other replicas."""
        asked = (self.owners, quote, self.caps, self._parts.pointsman.clock.now())
        # A caller who hangs up now must not leave behind what nobody settles.
        asking = asyncio.ensure_future(sharing.run(lambda: sharing.budgets.reserve(*asked)))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(lambda done: _give_back(sharing, done))
            raise

    def settled(self, end: End, input_tokens: int, stream_events: int) -> Spent | None:
        """Charge a call; one that failed before its first byte costs nothing."""
        reservation, self.reservation = self.reservation, None
        if reservation is None:
            return None
        usage = end.usage
        if usage is not None and usage.output_tokens is not None:
            return self._parts.budgets.settle(reservation, usage)
        if end.result != "success" and not end.answer_bytes:
            self._parts.budgets.release(reservation)
            return None
        # Not told: an event of a stream is about a token, and so are four bytes of a whole answer.
        used = Usage(input_tokens, stream_events or end.answer_bytes // 4 + 1)
        return self._parts.budgets.settle(reservation, used, is_estimated=True)


def _give_back(sharing: Sharing, done: asyncio.Future[Reservation | Refused]) -> None:
    """Give back what was set aside for a caller who had left by then."""
    if not done.cancelled() and done.exception() is None:
        found = done.result()
        if isinstance(found, Reservation):
            sharing.budgets.forget(found)
