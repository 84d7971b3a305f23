"""Orders to stop over HTTP; lifting one is an action, asked for at `/actions`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from pointsman.audit.turn_shapes import InstantText
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.instant import instant_text
from pointsman.recording.stops import StopOrder
from pointsman.turns.facts import StopScope


class GivenStop(Struct, frozen=True, forbid_unknown_fields=True):
    """A stop to order; `name` is the tenant or the provider, empty for all."""

    scope: StopScope
    reason: Annotated[str, Meta(min_length=1, max_length=1000)]
    name: Annotated[str, Meta(max_length=100)] = ""
    cut: bool = False


class StopRow(Struct, frozen=True):
    """A stop in force."""

    id: str
    scope: StopScope
    name: str
    reason: str
    by: str
    cuts_calls: bool
    at: InstantText


class StopsAnswer(Struct, frozen=True):
    """The stops in force that concern the caller, the oldest first."""

    stops: tuple[StopRow, ...]


def stop_row(order: StopOrder) -> StopRow:
    """Return a stop as it is told."""
    told = (order.id, order.scope, order.name, order.reason, order.by, order.cuts_calls)
    return StopRow(*told, instant_text(order.at))


class StopApi:
    """Serves the stops of the home."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    async def list_stops(self, request: ApiRequest) -> StopsAnswer:
        """List the stops in force; a tenant sees its own and those of all."""
        found = self._parts.pointsman.stops.seen_by(request.caller.reach)
        return StopsAnswer(tuple(map(stop_row, found)))

    async def order_stop(self, request: ApiRequest) -> StopRow:
        """Order a stop."""
        given = request.body_as(GivenStop)
        made = await in_thread(
            lambda: self._parts.pointsman.order_stop(
                given.scope, given.name, given.reason, request.caller.name, cuts_calls=given.cut
            )
        )
        return stop_row(made)
