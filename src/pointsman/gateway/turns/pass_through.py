"""OpenAI's other endpoints and reranking: passed through to the model that is named, or refused.

A decision is recorded as for any turn, and every veto applies; but no other model may take over:
embeddings of two models do not compare, and nothing here is translated.
"""

from __future__ import annotations

import asyncio
import time

from msgspec.structs import replace

from pointsman.access.keys import Principal
from pointsman.calls.answering import StreamedAnswer, WholeAnswer, result_after
from pointsman.calls.cutting import NOT_MADE, TaskCut
from pointsman.calls.flow import CallResult, Fallback, Record
from pointsman.calls.model_call import ModelCall
from pointsman.errors import InputError, PointsmanError
from pointsman.gateway.serving.http import EVENTS, JSON, Asked, Send
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.turns.endpoints import ModelEndpoint
from pointsman.gateway.turns.failures import refusal_of
from pointsman.gateway.turns.incoming import (
    SessionHints,
    TurnRequest,
    conversation,
    labels_of_header,
    privacy_of,
    resolve_model,
)
from pointsman.gateway.turns.named_request import TELLS_NO_OUTPUT, read_named
from pointsman.gateway.turns.turn import LiveTurn
from pointsman.gateway.turns.turn_flow import new_flow
from pointsman.providers.deployments import DeployedModel
from pointsman.providers.dialects.multipart import form_with_model, is_form
from pointsman.providers.dialects.spans import with_model
from pointsman.providers.dialects.sse import EventReader
from pointsman.providers.dialects.tap import tap, usage_of
from pointsman.providers.failures import failure_inside
from pointsman.providers.http.provider import HttpProvider
from pointsman.providers.messages import Usage
from pointsman.providers.port import (
    ModelProvider,
    Operation,
    Outgoing,
    UpstreamAnswer,
    UpstreamError,
)
from pointsman.storage.policies.policies import InForce
from pointsman.turns.registry.prices import output_bound


class _NamedTurn(LiveTurn):
    """A turn for its named model only; an `@` in its text is text."""

    def __init__(self, parts: GatewayServices, request: TurnRequest, in_force: InForce) -> None:
        super().__init__(parts, request, in_force)
        self.inline_mode = "off"
        self.fallback = Fallback(is_on=False)


class PassThroughEndpoint(ModelEndpoint):
    """Serves one of OpenAI's other endpoints."""

    def __init__(self, parts: GatewayServices, operation: Operation) -> None:
        super().__init__(parts, "chat", operation)
        self._operation: Operation = operation

    def _live(self, asked: Asked, caller: Principal, in_force: InForce) -> LiveTurn:
        """Read a request, or raise why it cannot be served."""
        return _NamedTurn(self.parts, self._read_request(asked, caller, in_force), in_force)

    def _read_request(self, asked: Asked, caller: Principal, in_force: InForce) -> TurnRequest:
        found = read_named(asked, self._operation)
        meant = resolve_model(found.model, in_force)
        if not meant.model:
            raise InputError(f"`{found.model}` routes; here a model must be named")
        self._check_provider(meant.model, in_force)
        named = SessionHints("", found.user, lambda: found.look.opening or found.beginning)
        workspace = asked.header(b"x-pointsman-workspace") or caller.workspace
        return TurnRequest(
            self._dialect,
            asked,
            found.look,
            caller,
            conversation(caller.key_id, asked.headers, named),
            meant,
            privacy_of(asked, caller),
            workspace or None,
            self._operation,
            labels_of_header(asked),
        )

    def _check_provider(self, model: str, in_force: InForce) -> None:
        provider, _name = self.parts.providers.of(model, in_force.models)
        over_http = provider if isinstance(provider, HttpProvider | DeployedModel) else None
        if over_http is None or self._operation not in over_http.operations:
            raise InputError(
                f"the provider of `{model}` has no `{self._operation}`",
                hint="providers that are spoken to in OpenAI's formats may have",
            )

    async def drive(self, live: LiveTurn, send: Send) -> None:
        """Record the decision, make the call, and pass its answer on."""
        flow = new_flow(live)
        passage: PassThroughCall | None = None
        reply: CallResult | None = None
        while True:
            try:
                effect = flow.send(reply)
            except StopIteration:
                break
            if isinstance(effect, Record):
                live.record(effect)
                live.check_confirmed(effect.ruling.placing)
                reply = None
                continue
            passage = PassThroughCall(live, self._operation, send)
            reply = await passage.run()
        if passage is None:
            raise refusal_of(live)
        if passage.error is not None and not passage.has_begun:
            raise passage.error


def _is_json(answer: UpstreamAnswer) -> bool:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in {"", "application/json"} or kind.endswith("+json")


class UnreadAnswer:
    """An answer that holds no words to count: what its provider tells of the usage.

    Where it tells nothing, the output is taken to be as long as was set aside for it.
    """

    def __init__(self, operation: Operation, most: int) -> None:
        self.usage = Usage()
        self._has_output = operation not in TELLS_NO_OUTPUT
        self._most = most if self._has_output else 0
        self._events: EventReader | None = EventReader()

    def output_tokens(self) -> int:
        """Estimate its tokens."""
        return self._most

    def read(self, body: bytes) -> None:
        """Take the usage in a whole answer, or in an event."""
        told = usage_of("chat", body)
        if told.input_tokens is None:
            told = usage_of("responses", body)
        self.usage = told if self._has_output else replace(told, output_tokens=0)

    def feed(self, piece: bytes) -> None:
        """Read along with events; those of pictures may be too large to keep."""
        if self._events is None:
            return
        try:
            for event in self._events.feed(piece):
                if b'"usage"' in event.data:
                    self.read(event.data)
        except InputError:
            self._events = None


class PassThroughCall:
    """One call to the model that was named."""

    _call: ModelCall

    def __init__(self, live: LiveTurn, operation: Operation, send: Send) -> None:
        self.live = live
        self.send = send
        self.has_begun = False
        self.error: PointsmanError | None = None
        self._operation: Operation = operation

    async def run(self) -> CallResult:
        """Make the call and let its answer out; says how it went."""
        live, model = self.live, self.live.model
        provider, name = live.parts.providers.of(model, live.in_force.models)
        call = self._call = live.open_call(model)
        try:
            reserving = call.reserve()
            if reserving is not None:
                await reserving
        except NOT_MADE as error:
            self.error = error
            return result_after(error)
        call.begin()
        cut = call.holder = TaskCut(lambda own: call.holder is own)
        try:
            return await self._carry_out(provider, name)
        except asyncio.CancelledError:
            cut_off = cut.pop_error()
            if cut_off is None:
                raise
            return self._fail(cut_off)

    async def _carry_out(self, provider: ModelProvider, name: str) -> CallResult:
        live = self.live
        try:
            answer = await provider.send(self._outgoing(provider.name, name), live.parts.deadlines)
        except UpstreamError as error:
            return self._fail(error)
        self._call.take_head(answer)
        try:
            if self._operation == "completions" and live.request.look.is_stream:
                await self._stream(answer)
            elif _is_json(answer):
                await self._whole(provider.name, answer)
            else:
                await self._relay(answer)
        except UpstreamError as error:
            return self._fail(error)
        finally:
            await answer.close()
        return CallResult(is_done=True)

    def _outgoing(self, provider: str, name: str) -> Outgoing:
        """Return the request with the provider's own name for the model."""
        live = self.live
        request = live.request
        asked, media_type = request.asked, request.asked.header(b"content-type")
        if is_form(media_type):
            body = form_with_model(asked.body, media_type, name)
        else:
            body, media_type = with_model(asked.body, name), ""
        return Outgoing(
            request.dialect,
            name,
            body,
            request.look.is_stream,
            operation=self._operation,
            unit=live.session_id,
            input_tokens=live.input_tokens,
            media_type=media_type,
            login=request.login_at(live.in_force.models.providers.get(provider)),
        )

    async def _whole(self, name: str, answer: UpstreamAnswer) -> None:
        body = await answer.read()
        self._call.stop_waiting()
        inside = failure_inside(name, body)
        if inside is not None:
            raise inside
        length = (b"content-length", str(len(body)).encode())
        self.send.whole(200, await self._head([JSON, length]), body)
        if self._operation == "completions":
            whole = WholeAnswer("chat", body, usage_of("chat", body))
            self._call.complete(whole, "end", answer.attempts)
            return
        seen = self._unread()
        seen.read(body)
        self._call.complete(seen, "end", answer.attempts)

    async def _relay(self, answer: UpstreamAnswer) -> None:
        """Let sound, plain text or events out as they come, under the provider's own type."""
        seen = self._unread()
        media_type = answer.headers.get("content-type", "application/octet-stream")
        async for piece in answer:
            if media_type.startswith("text/event-stream"):
                seen.feed(piece)
            if self.has_begun:
                await self.send.more(piece)
                continue
            self._call.stop_waiting()
            self._call.progress = seen
            head = await self._head([(b"content-type", media_type.encode("latin-1", "replace"))])
            await self.send.begin(200, head, piece)
        if not self.has_begun:
            raise UpstreamError("the answer ended before it began", error_class="network")
        self.send.end()
        self._call.complete(seen, "end", answer.attempts)

    def _unread(self) -> UnreadAnswer:
        live = self.live
        known = live.in_force.ready.models.get(live.model)
        if known is None or known.price is None or not known.price.output:
            return UnreadAnswer(self._operation, 0)
        asked, most = live.request.look.max_output_tokens, known.capabilities.max_output_tokens
        return UnreadAnswer(self._operation, output_bound(asked, most))

    async def _stream(self, answer: UpstreamAnswer) -> None:
        """Let a stream out as it comes; one that breaks off is broken off here, too."""
        seen = tap("chat")
        try:
            async for piece in answer:
                if not self.has_begun:
                    self._call.stop_waiting()
                    self._call.progress = StreamedAnswer(seen)
                    head = await self._head([EVENTS, (b"cache-control", b"no-cache")])
                    seen.feed(piece)
                    await self.send.begin(200, head, piece)
                    continue
                seen.feed(piece)
                await self.send.more(piece)
        except asyncio.CancelledError:
            if seen.stop_reason is not None:
                self._call.complete(StreamedAnswer(seen), seen.stop_reason, answer.attempts)
            raise
        seen.end()
        if not self.has_begun:
            raise UpstreamError("the stream ended before it began", error_class="network")
        self.send.end()
        self._call.complete(StreamedAnswer(seen), seen.stop_reason or "end", answer.attempts)

    async def _head(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return the headers of the answer, once the decision is durable."""
        live = self.live
        await live.durability.wait()
        self._call.first_byte_ns = time.perf_counter_ns()
        self.has_begun = True
        return [*headers, *live.headers(self._call.answer_headers)]

    def _fail(self, error: UpstreamError) -> CallResult:
        self.error = error
        self._call.fail(error)
        return replace(result_after(error, has_content=self.has_begun), is_worth_another=False)
