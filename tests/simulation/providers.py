"""The providers of simulated lives: each answer says which request it is for, and who gave it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from tests.simulation.network import SimSocket

from pointsman.providers.messages import Text, Usage
from pointsman.testing import ScriptedUpstream, upstream
from pointsman.testing.upstream_replies import (
    Close,
    Pause,
    Received,
    Reset,
    SendBytes,
    Step,
    a_response,
    answer_events,
    calls,
    chunk,
    fails,
    head,
    says,
    stream_head,
)

MARKER = re.compile(rb"marker-(\d+)-end")
ITEMS = {"email": "carol.jones@example.org", "phone": "+49 30 901820"}
PORTS = {"open": 7001, "claude": 7002, "house": 7003}


class Seen(Struct, frozen=True):
    """A request that reached a provider."""

    provider: str
    model: str
    marker: int
    items: tuple[str, ...]
    is_judge: bool
    at_ns: int
    text: bytes


class Provider:
    """A provider that answers by its marker; the turn's own list says how each attempt fails."""

    def __init__(self, name: str, world: Any) -> None:
        self.name = name
        self._world = world
        self.is_out = False
        self.upstream = ScriptedUpstream(otherwise=self._reply)

    async def begin(self) -> None:
        self.upstream._socket = SimSocket(PORTS[self.name])  # type: ignore[assignment]
        await self.listen()

    async def listen(self) -> None:
        loop = self._world.loop
        self.upstream._server = await loop.create_server(
            lambda: upstream._ServedConnection(self.upstream), sock=self.upstream._socket
        )

    def _reply(self, request: Received) -> Sequence[Step]:
        seen = self._see(request)
        self._world.seen.append(seen)
        fault = self._world.next_fault(seen.marker) if not seen.is_judge else ""
        if self.is_out:
            return fails(500)(request)
        if fault.isdigit():
            return fails(int(fault), headers={"retry-after": "1"} if fault == "429" else None)(
                request
            )
        if fault:
            return self._break(fault, seen, request)
        return self._answer(seen, request)

    def _see(self, request: Received) -> Seen:
        markers = MARKER.findall(request.body)
        items = tuple(name for name, text in ITEMS.items() if text.encode() in request.body)
        is_judge = b"rubric" in request.body.lower()
        model = str(request.json.get("model"))
        marker = int(markers[-1]) if markers else 0
        now = self._world.scheduler.now_ns
        return Seen(self.name, model, marker, items, is_judge, now, request.body)

    def words(self, seen: Seen) -> str:
        return f"echo-{seen.marker}-of-{self.name}-{seen.model} " + "word " * (seen.marker % 7)

    def usage(self, seen: Seen) -> Usage:
        return Usage(1 + seen.marker % 9, 5 + seen.marker % 89)

    def _answer(self, seen: Seen, request: Received) -> Sequence[Step]:
        used = self.usage(seen)
        if seen.is_judge:
            return says("7", usage=used)(request)
        is_result = b"tool-result-" in request.body
        if request.json.get("tools") and not is_result and self._world.wants_tool(seen.marker):
            return calls(("look", {"marker": seen.marker}), usage=used)(request)
        return says(self.words(seen), usage=used)(request)

    def _break(self, fault: str, seen: Seen, request: Received) -> Sequence[Step]:  # noqa: PLR0911 - one a fault
        words, used = self.words(seen), self.usage(seen)
        pieces = answer_events(request, a_response(Text(words), usage=used))
        begun: list[Step] = [SendBytes(stream_head(request))]
        if request.is_stream:
            begun += [SendBytes(chunk(each)) for each in pieces[: len(pieces) // 2 + 1]]
        match fault:
            case "reset":
                return [Reset()]
            case "cut":
                return [*begun, Pause(0.01), Reset()]
            case "end":
                return [*begun, Pause(0.01), Close()]
            case "slow":
                return [Pause(2.0), *says(words, usage=used)(request)]
            case "stall":
                return [*begun, Pause()]
            case "silent":
                return [Pause()]
        page = b"<html>no</html>"
        length = {"content-length": str(len(page))}
        return [SendBytes(head(headers=length, content_type="text/html") + page)]


def _break_off(connection: Any) -> None:
    if connection._transport is not None:
        connection._transport.abort()


upstream._ServedConnection.break_off = _break_off  # type: ignore[method-assign]
