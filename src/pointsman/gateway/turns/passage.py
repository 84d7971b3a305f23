"""One call that passes through: the caller's bytes but for the model's name, and the provider's."""

from __future__ import annotations

import asyncio
import time

from msgspec.structs import replace

from pointsman.calls.answering import StreamedAnswer, WholeAnswer, result_after
from pointsman.calls.flow import CallResult
from pointsman.calls.model_call import ModelCall
from pointsman.errors import OverBudget, PointsmanError
from pointsman.gateway.http import EVENTS, JSON, Send
from pointsman.gateway.turns.turn import LiveTurn
from pointsman.providers.dialects.spans import with_model
from pointsman.providers.dialects.tap import tap, usage_of
from pointsman.providers.failures import failure_inside
from pointsman.providers.port import Answer, Operation, Outgoing, UpstreamError


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
        except OverBudget as error:
            self.error = error
            return result_after(error)
        call.begin()
        request = live.request
        body, is_stream = with_model(request.asked.body, name), request.look.is_stream
        outgoing = Outgoing(request.dialect, name, body, is_stream, operation=self._operation)
        try:
            answer = await provider.send(outgoing, live.deadlines())
        except UpstreamError as error:
            return self._fail(error)
        self._call.answer_headers = answer.headers
        try:
            await (self._stream(answer) if is_stream else self._whole(provider.name, answer))
        except UpstreamError as error:
            return self._fail(error)
        finally:
            await answer.close()
        return CallResult(is_done=True)

    async def _whole(self, name: str, answer: Answer) -> None:
        body = await answer.read()
        self._call.stop_waiting()
        inside = failure_inside(name, body)
        if inside is not None:
            raise inside
        await self._begin([JSON, (b"content-length", str(len(body)).encode())])
        await self.send({"type": "http.response.body", "body": body})
        usage = usage_of("chat", body)
        if self._operation == "embeddings":
            # What is only read makes no output, and says nothing about it.
            usage = replace(usage, output_tokens=0)
        self._call.complete(WholeAnswer("chat", body, usage), "end", answer.attempts)

    async def _stream(self, answer: Answer) -> None:
        """Let a stream out as it comes; one that breaks off is broken off here, too."""
        seen = tap("chat")
        try:
            async for piece in answer:
                if not self.has_begun:
                    self._call.stop_waiting()
                    self._call.progress = StreamedAnswer(seen)
                    await self._begin([EVENTS, (b"cache-control", b"no-cache")])
                seen.feed(piece)
                await self.send({"type": "http.response.body", "body": piece, "more_body": True})
        except asyncio.CancelledError:
            if seen.stop_reason is not None:
                self._call.complete(StreamedAnswer(seen), seen.stop_reason, answer.attempts)
            raise
        seen.end()
        if not self.has_begun:
            raise UpstreamError("the stream ended before it began", error_class="network")
        await self.send({"type": "http.response.body", "body": b""})
        self._call.complete(StreamedAnswer(seen), seen.stop_reason or "end", answer.attempts)

    async def _begin(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Let the head out, once the decision is durable."""
        live = self.live
        await live.durability.wait()
        self._call.first_byte_ns = time.perf_counter_ns()
        self.has_begun = True
        told = [*headers, *live.headers(self._call.answer_headers)]
        await self.send({"type": "http.response.start", "status": 200, "headers": told})

    def _fail(self, error: UpstreamError) -> CallResult:
        self.error = error
        self._call.fail(error)
        return replace(result_after(error, has_content=self.has_begun), is_worth_another=False)
