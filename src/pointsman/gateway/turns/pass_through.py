"""`/v1/embeddings` and `/v1/completions`: passed through to the model that is named, or refused.

A decision is recorded as for any turn, and every veto applies; but no other model may take over,
because embeddings of two models do not compare.
"""

from __future__ import annotations

import asyncio
import time

import msgspec
from msgspec import Struct
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
    privacy_of,
    resolve_model,
)
from pointsman.gateway.turns.turn import LiveTurn
from pointsman.gateway.turns.turn_flow import new_flow
from pointsman.providers.dialects.body import decode
from pointsman.providers.dialects.look import RequestLook, look
from pointsman.providers.dialects.spans import unique, with_model
from pointsman.providers.dialects.tap import tap, usage_of
from pointsman.providers.failures import failure_inside
from pointsman.providers.http.provider import HttpProvider
from pointsman.providers.port import (
    ModelProvider,
    Operation,
    Outgoing,
    UpstreamAnswer,
    UpstreamError,
)
from pointsman.storage.policies.policies import InForce


class _Body(Struct):
    """The fields that are read; token ids stand for text that cannot be read here."""

    model: str
    input: str | list[str | int | list[int]] | None = None
    prompt: str | list[str | int | list[int]] | None = None
    stream: bool | None = None
    max_tokens: int | None = None
    user: str | None = None


_BODY = msgspec.json.Decoder(_Body)


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
        unique(asked.body)
        body = decode(_BODY, asked.body)
        meant = resolve_model(body.model, in_force)
        if not meant.model:
            raise InputError(f"`{body.model}` routes; here a model must be named")
        self._check_provider(meant.model, in_force)
        seen = _look(body, self._operation)
        named = SessionHints("", body.user or "", lambda: seen.opening)
        workspace = asked.header(b"x-pointsman-workspace") or caller.workspace
        return TurnRequest(
            self._dialect,
            asked,
            seen,
            caller,
            conversation(caller.key_id, asked.headers, named),
            meant,
            privacy_of(asked, caller),
            workspace or None,
            self._operation,
        )

    def _check_provider(self, model: str, in_force: InForce) -> None:
        provider, _name = self.parts.providers.of(model, in_force.models)
        if not isinstance(provider, HttpProvider) or self._operation not in provider.operations:
            raise InputError(
                f"the provider of `{model}` has no `{self._operation}`",
                hint="providers of kind `openai` and `ollama` have",
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


def _look(body: _Body, operation: Operation) -> RequestLook:
    """Look at the texts as at a conversation of one message."""
    given = body.input if operation == "embeddings" else body.prompt
    if given is None:
        raise InputError(f"`{'input' if operation == 'embeddings' else 'prompt'}` is missing")
    if not isinstance(given, str):
        given = "\n".join(map(str, given))
    value = {
        "model": body.model,
        "messages": [{"role": "user", "content": given}],
        "stream": bool(body.stream) and operation == "completions",
        "max_completion_tokens": 1 if operation == "embeddings" else body.max_tokens,
    }
    return look("chat", msgspec.json.encode(value))


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
        live, request = self.live, self.live.request
        body, is_stream = with_model(request.asked.body, name), request.look.is_stream
        outgoing = Outgoing(
            request.dialect, name, body, is_stream, (), self._operation, live.session_id
        )
        try:
            answer = await provider.send(outgoing, live.parts.deadlines)
        except UpstreamError as error:
            return self._fail(error)
        self._call.take_head(answer)
        try:
            await (self._stream(answer) if is_stream else self._whole(provider.name, answer))
        except UpstreamError as error:
            return self._fail(error)
        finally:
            await answer.close()
        return CallResult(is_done=True)

    async def _whole(self, name: str, answer: UpstreamAnswer) -> None:
        body = await answer.read()
        self._call.stop_waiting()
        inside = failure_inside(name, body)
        if inside is not None:
            raise inside
        length = (b"content-length", str(len(body)).encode())
        self.send.whole(200, await self._head([JSON, length]), body)
        usage = usage_of("chat", body)
        if self._operation == "embeddings":
            # Embeddings have no output tokens, and providers do not report any.
            usage = replace(usage, output_tokens=0)
        self._call.complete(WholeAnswer("chat", body, usage), "end", answer.attempts)

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
