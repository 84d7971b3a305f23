"""One model call of a conversation: sends the request and shows the answer as it arrives.

`calls.model_call` reserves, charges and records it.

INVARIANT: no part of an answer is shown before the decision behind it is durable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from pointsman.access.book import Spent
from pointsman.calls.answering import output_estimate, result_after, unreadable, write_request
from pointsman.calls.cutting import NOT_MADE
from pointsman.calls.flow import CallResult
from pointsman.calls.model_call import CallContext, CallOrder, ModelCall
from pointsman.conversations.masked_calls import BodyMasker
from pointsman.conversations.services import ConversationServices
from pointsman.errors import InputError
from pointsman.providers.dialects.masked_body import Restoring
from pointsman.providers.dialects.restored_stream import RestoredEvents
from pointsman.providers.dialects.whole import fold, unfold
from pointsman.providers.messages import Block, ModelRequest, Response, Text, Usage
from pointsman.providers.port import Dialect, Outgoing, UpstreamAnswer, UpstreamError
from pointsman.providers.registry.dialects import provider_speaker
from pointsman.providers.streaming import (
    AnswerBroken,
    AnswerStarted,
    AnswerStopped,
    BlockEnded,
    BlockStarted,
    Delta,
    Event,
)
from pointsman.sessions.effects import ModelReply
from pointsman.sessions.update import (
    MessageComplete,
    TextDelta,
    ThinkingDelta,
    ToolUseBegun,
    ToolUseEnded,
    Update,
)
from pointsman.turns.registry.models import provider_of


class DisplayedCall:
    """A call whose answer is shown to the user. Cancelling it is an end like any other."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of one call, and where it is shown
        self,
        services: ConversationServices,
        order: CallOrder,
        context: CallContext,
        request: ModelRequest,
        show: Callable[[Update], None],
        durable: Callable[[], Awaitable[None]],
        mask: BodyMasker | None = None,
    ) -> None:
        self._services = services
        self._order = order
        self._request = request
        self._call = ModelCall(services.calls, order, context)
        self._unit = context.session_id
        self._show = show
        self._durable = durable
        self._who = provider_of(order.model)
        self._dialect: Dialect = "chat"
        self._events: list[Event] = []
        self._kinds: dict[int, BlockStarted] = {}
        self._open: dict[int, str] = {}
        self._mask = mask
        self._restored: RestoredEvents | None = None
        self._is_shown = False
        self._attempts = 1
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False

    @property
    def usage(self) -> Usage:
        """The usage that the provider reported so far."""
        ends = (each.usage for each in self._events if isinstance(each, AnswerStopped))
        return next(ends, Usage())

    def output_tokens(self) -> int:
        """Estimate the tokens that came so far."""
        deltas = [each for each in self._events if isinstance(each, Delta)]
        return output_estimate("".join(each.text for each in deltas), len(deltas))

    def cancel(self) -> None:
        """Cut the call off."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    def cut_off(self, why: str) -> None:  # noqa: ARG002 - the order is told by the next turn
        """Cut the call off; from any thread."""
        task = self._task
        if task is not None:
            task.get_loop().call_soon_threadsafe(self.cancel)

    async def run(self) -> ModelReply:
        """Call the model, show its answer, and return how the call ended."""
        try:
            reserving = self._call.reserve()
            if reserving is not None:
                await reserving
        except NOT_MADE as error:
            return ModelReply(result_after(error), _empty(), error_message=error.message)
        self._call.begin()
        self._task = asyncio.get_running_loop().create_task(self._send())
        self._call.holder = self
        if self._is_cancelled:
            self._task.cancel()
        try:
            await self._task
        except UpstreamError as error:
            return self._reply_failed(error)
        except asyncio.CancelledError:
            if not self._is_cancelled:
                self._call.cancel()
                raise
            return self._reply_cancelled()
        return self._reply_done()

    async def _send(self) -> None:
        order = self._order
        provider, name = self._services.calls.providers.of(order.model, order.in_force.models)
        self._dialect = provider.dialects[0]
        body = self._mask_body(write_request(self._dialect, self._request, name))
        is_stream = order.is_stream
        tokens = order.input_tokens
        outgoing = Outgoing(
            self._dialect, name, body, is_stream, unit=self._unit, input_tokens=tokens
        )
        answer = await provider.send(outgoing, self._services.calls.deadlines())
        self._attempts = answer.attempts
        self._call.take_head(answer)
        try:
            await (self._read_stream(answer) if is_stream else self._read_whole(answer))
        finally:
            await answer.close()

    def _mask_body(self, body: bytes) -> bytes:
        """Return the request as this model may see it.

        INVARIANT: where something of it cannot be masked, the call is not made.
        """
        if self._mask is None:
            return body
        masked = self._mask(body)
        found = masked.found
        if found.obstacle:
            message = f"`{self._order.model}` may not be called: {found.obstacle}"
            raise UpstreamError(message, error_class="invalid_request", status=400)
        if masked.placeholders:
            restoring = Restoring(masked.placeholders, is_json=self._request.output is not None)
            self._restored = RestoredEvents(restoring)
        return found.body

    async def _read_stream(self, answer: UpstreamAnswer) -> None:
        reader = provider_speaker(self._dialect).stream_reader()
        async for piece in answer:
            for event in self._read(lambda data=piece: reader.feed(data)):  # type: ignore[misc] # bound at once
                await self._take_event(event)
        for event in self._read(reader.end):
            await self._take_event(event)
        if not any(isinstance(each, AnswerStopped) for each in self._events):
            message = f"the stream of `{self._who}` ended before its answer did"
            raise UpstreamError(message, error_class="network", status=200)

    async def _read_whole(self, answer: UpstreamAnswer) -> None:
        body = await answer.read()
        for event in self._read(
            lambda: [*unfold(provider_speaker(self._dialect).read_response(body))]
        ):
            await self._take_event(event)

    def _read(self, work: Callable[[], list[Event]]) -> list[Event]:
        try:
            return work()
        except InputError as error:
            raise unreadable(self._who, error) from error

    async def _take_event(self, event: Event) -> None:
        """Take an event with the values in it that the model did not see."""
        for each in [event] if self._restored is None else self._restored.take(event):
            await self._add_event(each)

    async def _add_event(self, event: Event) -> None:
        """Add an event, and show it once the decision is durable."""
        if isinstance(event, AnswerBroken):
            raise UpstreamError(
                f"`{self._who}` broke off: {event.code}", error_class="server_error"
            )
        if isinstance(event, BlockStarted):
            event = self._assign_id(event)
        self._events.append(event)
        if not self._is_shown:
            if isinstance(event, AnswerStarted):
                return
            await self._durable()
            self._is_shown = True
            self._call.progress = self
            self._call.first_byte_ns = time.perf_counter_ns()
        self._show_event(event)

    def _assign_id(self, event: BlockStarted) -> BlockStarted:
        """Replace a tool call's id by our own: a provider may use an id twice in a session."""
        if event.kind == "tool_use":
            event = replace(event, id=f"tu_{self._services.opened.ids.new_id()}")
            self._open[event.index] = event.id
        self._kinds[event.index] = event
        return event

    def _show_event(self, event: Event) -> None:
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
            case AnswerStopped():
                self._show(MessageComplete(event.reason))

    def _reply_done(self) -> ModelReply:
        try:
            response = fold(self._events)
        except InputError as error:
            return self._reply_failed(unreadable(self._who, error))
        spent = self._call.complete(self, response.stop_reason, self._attempts).spent
        return ModelReply(
            CallResult(is_done=True),
            response,
            latency_ms=self._latency_ms(),
            attempts=self._attempts,
            spent=spent,
        )

    def _reply_failed(self, error: UpstreamError) -> ModelReply:
        self._attempts = error.attempts
        spent = self._call.fail(error).spent
        called = result_after(error, has_content=self._is_shown)
        return self._reply_partial(called, spent, error.message)

    def _reply_cancelled(self) -> ModelReply:
        """End a cancelled call: close its open tool uses, then its message."""
        for name in self._open.values():
            self._show(ToolUseEnded(name))
        self._show(MessageComplete("cancelled"))
        self._call.cancel(self._attempts)
        spent = None if self._call.end is None else self._call.end.spent
        called = CallResult(
            is_done=False,
            error_class="cancelled",
            has_content=self._is_shown,
            is_worth_another=False,
        )
        return replace(self._reply_partial(called, spent, "cancelled"), is_cancelled=True)

    def _reply_partial(self, called: CallResult, spent: Spent | None, message: str) -> ModelReply:
        return ModelReply(
            called,
            Response("", _text_so_far(self._events), "error", Usage()),
            latency_ms=self._latency_ms(),
            attempts=self._attempts,
            error_message=message,
            spent=spent,
        )

    def _latency_ms(self) -> int:
        return (time.perf_counter_ns() - self._order.started_ns) // 1_000_000


def _text_so_far(events: list[Event]) -> tuple[Block, ...]:
    """Return the text that arrived so far, without begun tool calls."""
    kinds = {each.index: each.kind for each in events if isinstance(each, BlockStarted)}
    texts: dict[int, list[str]] = {}
    for each in events:
        if isinstance(each, Delta) and kinds.get(each.index) == "text":
            texts.setdefault(each.index, []).append(each.text)
    return tuple(Text("".join(parts)) for parts in texts.values())


def _empty() -> Response:
    return Response("", (), "error", Usage())
