"""One call to one model for a conversation: paid for, streamed, shown once it may be, accounted.

INVARIANT: nothing of an answer is shown before the decision behind it is durable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pointsman.access.budgets import Refused, Reservation
from pointsman.access.caps import Owners
from pointsman.access.charges import output_bound, quoted
from pointsman.access.spent import Spent
from pointsman.calls.call_end import CallEnd, outcome_of
from pointsman.calls.flow import WORTH_ANOTHER, Called
from pointsman.errors import InputError
from pointsman.kernel.record import Names, outcome_draft
from pointsman.providers.dialects.speaker import speaker
from pointsman.providers.dialects.whole import fold, unfold
from pointsman.providers.messages import Block, Request, Response, Text, Usage
from pointsman.providers.port import Answer, Deadlines, Dialect, Outgoing, UpstreamError
from pointsman.providers.streaming import (
    BlockEnded,
    BlockStarted,
    Broken,
    Delta,
    Event,
    Started,
    Stopped,
)
from pointsman.recording.waiting import Blocking
from pointsman.runs.conversations.conversation_house import House
from pointsman.sessions.effects import Replied
from pointsman.sessions.update import (
    MessageComplete,
    TextDelta,
    ThinkingDelta,
    ToolUseBegun,
    ToolUseEnded,
    Update,
)
from pointsman.storage.policies import InForce
from pointsman.turns.call_event import Result
from pointsman.turns.registry import provider_of

OVER_BUDGET: Final = "over_budget"


class Order(Struct, frozen=True):
    """What is called, for whom, under which decision."""

    model: str
    number: int
    request: Request
    decision_id: str
    owners: Owners
    input_tokens: int
    in_force: InForce


class ModelCall:
    """A call on its way. Cancelling it is an end like any other."""

    def __init__(
        self,
        house: House,
        order: Order,
        show: Callable[[Update], None],
        durable: Callable[[], Awaitable[None]],
    ) -> None:
        self._house = house
        self._order = order
        self._show = show
        self._durable = durable
        self._who = provider_of(order.model)
        self._dialect: Dialect = "chat"
        self._events: list[Event] = []
        self._kinds: dict[int, BlockStarted] = {}
        self._open: dict[int, str] = {}
        self._is_shown = False
        self._started_ns = time.perf_counter_ns()
        self._first_byte_ns = 0
        self._attempts = 1
        self._reservation: Reservation | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._can_say = True

    def cancel(self) -> None:
        """Cut the call off."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    async def run(self) -> Replied:
        """Call the model, show what it says, and tell how it went."""
        refused = self._reserved()
        if refused is not None:
            called = Called(is_done=False, error_class=OVER_BUDGET, is_worth_another=False)
            return Replied(called, _empty(), error_message=refused.message)
        self._house.health.begin(self._order.model, self._order.input_tokens)
        self._task = asyncio.get_running_loop().create_task(self._called())
        if self._is_cancelled:
            self._task.cancel()
        try:
            await self._task
        except UpstreamError as error:
            return self._failed(error)
        except asyncio.CancelledError:
            if not self._is_cancelled:
                self._ended("cancelled", None)
                raise
            return self._cut()
        return self._done()

    def _reserved(self) -> Refused | None:
        """Set aside what the call may cost."""
        order, ground = self._order, self._house.ground
        known = order.in_force.ready.models.get(order.model)
        most = None if known is None else known.capabilities.max_output_tokens
        quote = quoted(
            order.model,
            None if known is None else known.price,
            ground.files.prices.id,
            order.input_tokens,
            output_bound(order.request.max_output_tokens, most),
        )
        caps = self._house.caps(order.in_force)
        found = self._house.budgets.reserve(order.owners, quote, caps, ground.clock.now())
        if isinstance(found, Refused):
            return found
        self._reservation = found
        return None

    async def _called(self) -> None:
        order = self._order
        provider, name = self._house.providers.of(order.model, order.in_force.models)
        self._dialect = provider.dialects[0]
        try:
            written = speaker(self._dialect).write_request(order.request, name)
        except InputError as error:
            # The provider's dialect cannot say what is asked: another's may.
            raise UpstreamError(
                error.message, error_class="context_overflow", status=400
            ) from error
        is_stream = order.request.is_stream
        outgoing = Outgoing(self._dialect, name, written.body, is_stream)
        answer = await provider.send(outgoing, self._deadlines())
        self._attempts = answer.attempts
        try:
            await (self._streamed(answer) if is_stream else self._whole(answer))
        finally:
            await answer.close()

    def _deadlines(self) -> Deadlines:
        limits = self._house.settings.limits
        return Deadlines(limits.connect_s, limits.head_s, limits.idle_s, limits.total_s)

    async def _streamed(self, answer: Answer) -> None:
        reader = speaker(self._dialect).stream_reader()
        async for piece in answer:
            for event in self._read(lambda data=piece: reader.feed(data)):  # type: ignore[misc] # bound at once
                await self._take(event)
        for event in self._read(reader.end):
            await self._take(event)
        if not any(isinstance(each, Stopped) for each in self._events):
            message = f"the stream of `{self._who}` ended before its answer did"
            raise UpstreamError(message, error_class="network", status=200)

    async def _whole(self, answer: Answer) -> None:
        body = await answer.read()
        for event in self._read(lambda: [*unfold(speaker(self._dialect).read_response(body))]):
            await self._take(event)

    def _read(self, work: Callable[[], list[Event]]) -> list[Event]:
        try:
            return work()
        except InputError as error:
            message = f"the answer of `{self._who}` cannot be read: {error.message}"
            raise UpstreamError(message, error_class="server_error", status=200) from error

    async def _take(self, event: Event) -> None:
        """Take one event in, and show it once the decision is durable."""
        if isinstance(event, Broken):
            raise UpstreamError(
                f"`{self._who}` broke off: {event.code}", error_class="server_error"
            )
        if isinstance(event, BlockStarted):
            event = self._begun(event)
        self._events.append(event)
        if not self._is_shown:
            if isinstance(event, Started):
                return
            await self._durable()
            self._is_shown = True
            self._first_byte_ns = time.perf_counter_ns()
        self._tell(event)

    def _begun(self, event: BlockStarted) -> BlockStarted:
        """Name a tool call by an id of our own: a provider's may come twice in a session."""
        if event.kind == "tool_use":
            event = replace(event, id=f"tu_{self._house.ground.ids.new_id()}")
            self._open[event.index] = event.id
        self._kinds[event.index] = event
        return event

    def _tell(self, event: Event) -> None:
        match event:
            case BlockStarted(kind="tool_use"):
                self._show(ToolUseBegun(event.id, event.name))
            case Delta():
                kind = self._kinds[event.index].kind
                if kind == "text":
                    self._show(TextDelta(event.text))
                elif kind == "thinking":
                    self._show(ThinkingDelta(event.text))
            case BlockEnded() if event.index in self._open:
                self._show(ToolUseEnded(self._open.pop(event.index)))
            case Stopped():
                self._show(MessageComplete(event.reason))

    def _done(self) -> Replied:
        try:
            response = fold(self._events)
        except InputError as error:
            message = f"the answer of `{self._who}` cannot be read: {error.message}"
            return self._failed(UpstreamError(message, error_class="server_error", status=200))
        spent = self._ended("success", None, response)
        return Replied(
            Called(is_done=True),
            response,
            latency_ms=self._latency_ms(),
            attempts=self._attempts,
            spent=spent,
        )

    def _failed(self, error: UpstreamError) -> Replied:
        self._attempts = error.attempts
        spent = self._ended(error.error_class, error)
        called = Called(
            is_done=False,
            error_class=error.error_class,
            has_content=self._is_shown,
            is_worth_another=not self._can_say or error.error_class in WORTH_ANOTHER,
        )
        return self._short(called, spent, error.message)

    def _cut(self) -> Replied:
        """Tell of a call that was cancelled: open tool uses are closed, then the message is."""
        for name in self._open.values():
            self._show(ToolUseEnded(name))
        self._show(MessageComplete("cancelled"))
        spent = self._ended("cancelled", None)
        called = Called(
            is_done=False,
            error_class="cancelled",
            has_content=self._is_shown,
            is_worth_another=False,
        )
        return replace(self._short(called, spent, "cancelled"), is_cancelled=True)

    def _short(self, called: Called, spent: Spent | None, message: str) -> Replied:
        return Replied(
            called,
            Response("", _words_of(self._events), "error", Usage()),
            latency_ms=self._latency_ms(),
            attempts=self._attempts,
            error_message=message,
            spent=spent,
        )

    def _latency_ms(self) -> int:
        return (time.perf_counter_ns() - self._started_ns) // 1_000_000

    def _ended(
        self, result: Result, error: UpstreamError | None, response: Response | None = None
    ) -> Spent | None:
        """Take the end of the call into account: availability, money, the ledger."""
        house, order = self._house, self._order
        models = order.in_force.ready.models
        is_refusal = error is not None and error.is_policy_refusal
        ended_as = result if error is None else error.result
        house.health.ended(order.model, ended_as, models, is_policy_refusal=is_refusal)
        entry_id = "" if self._reservation is None else self._reservation.id
        spent = self._settled(result, response)
        if spent is not None:
            house.health.used(order.model, spent.output_tokens)
        known, now_ns = models.get(order.model), time.perf_counter_ns()
        told = CallEnd(
            model=order.model,
            location="cloud" if known is None else known.location,
            number=order.number,
            is_stream=order.request.is_stream,
            status=200 if error is None else error.status,
            error_class="" if result == "success" else result,
            attempts=self._attempts,
            stop_reason="" if response is None else response.stop_reason,
            elapsed_us=(now_ns - self._started_ns) // 1000,
            first_byte_us=max(0, self._first_byte_ns - self._started_ns) // 1000,
            spent=spent,
        )
        ground = house.ground
        names = Names(entry_id or ground.ids.new_id(), order.decision_id, ground.clock.now())
        # Nobody waits for it here: what is lost of it the ledger's health tells.
        unwatched = Blocking().expect()
        ground.desk.recorder().hand_in(outcome_draft(names, outcome_of(told)), unwatched)
        return spent

    def _settled(self, result: Result, response: Response | None) -> Spent | None:
        """Charge the call; one that failed before its first word costs nothing."""
        reservation, self._reservation = self._reservation, None
        if reservation is None:
            return None
        budgets = self._house.budgets
        if response is not None and response.usage.output_tokens is not None:
            return budgets.settle(reservation, response.usage)
        if result != "success" and not self._is_shown:
            budgets.release(reservation)
            return None
        # Not told: an event of a stream is about a token.
        deltas = sum(isinstance(each, Delta) for each in self._events)
        used = Usage(self._order.input_tokens, max(1, deltas))
        return budgets.settle(reservation, used, is_estimated=True)


def _words_of(events: list[Event]) -> tuple[Block, ...]:
    """Give the words that had come; what a model began to ask of tools is not among them."""
    kinds = {each.index: each.kind for each in events if isinstance(each, BlockStarted)}
    texts: dict[int, list[str]] = {}
    for each in events:
        if isinstance(each, Delta) and kinds.get(each.index) == "text":
            texts.setdefault(each.index, []).append(each.text)
    return tuple(Text("".join(parts)) for parts in texts.values())


def _empty() -> Response:
    return Response("", (), "error", Usage())
