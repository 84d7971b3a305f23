"""Carrying one call out: the request in the provider's dialect, the answer in the caller's.

Where both speak the same dialect, bytes pass through unchanged but for the model's name and what
the settings add.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from pointsman.calls.answering import (
    StreamedAnswer,
    WholeAnswer,
    result_after,
    unreadable,
    untranslatable,
    write_request,
)
from pointsman.calls.cutting import NOT_MADE, TaskCut
from pointsman.calls.flow import CallResult
from pointsman.calls.model_call import ModelCall
from pointsman.errors import InputError, PointsmanError
from pointsman.gateway.serving.http import EVENTS, JSON, Headers, Send
from pointsman.gateway.turns.stream_carriers import (
    HELD_BYTES,
    Edit,
    EditedStream,
    PassThroughStream,
    StreamCarrier,
    TranslatedStream,
)
from pointsman.gateway.turns.turn import LiveTurn
from pointsman.providers.deployments import DeployedModel
from pointsman.providers.dialects.chat.stream import UnaskedUsage, asking_usage
from pointsman.providers.dialects.foreign import without_foreign
from pointsman.providers.dialects.masked_body import Restoring
from pointsman.providers.dialects.responses.namespaces import (
    Namespaces,
    OwnNamesReader,
    with_own_name,
)
from pointsman.providers.dialects.restored_stream import RestoredStream
from pointsman.providers.dialects.spans import with_model
from pointsman.providers.dialects.tap import Tap, end_of, tap
from pointsman.providers.dialects.words_before import WordsBefore, with_words_before
from pointsman.providers.failures import failure_inside
from pointsman.providers.http.exchange import Exchange
from pointsman.providers.http.provider import HttpProvider
from pointsman.providers.messages import Usage
from pointsman.providers.port import Dialect, Outgoing, UpstreamAnswer, UpstreamError
from pointsman.providers.registry.dialects import provider_speaker, speaker

if TYPE_CHECKING:
    from pointsman.gateway.turns.turn import LiveTurn


def notice_of(live: LiveTurn) -> str:
    """Return the fallback notice for the start of the answer; empty where none may stand."""
    if not live.fallen_from or live.parts.settings.fallback.notice != "in_band":
        return ""
    if not live.request.look.wants_free_text:
        return ""
    each = zip(live.fallen_from, live.fallen_as, strict=True)
    failed = ", ".join(f"{model} failed ({why})" for model, why in each)
    return f"[pointsman: {failed}; {live.model} answers]\n\n"


Begin = Callable[[], Exchange | None]
"""Sends a request that is written already, where a connection rests."""

_PASSED_ON = (b"anthropic-beta", b"anthropic-version", b"openai-beta")


class Forwarding:
    """One call to one model, for one turn."""

    # How every call begins stands with the class: it is written down only where it changes.
    has_begun = False
    error: PointsmanError | None = None
    _size = 0
    """What the provider's head says."""
    _wants_usage = True
    _namespaces: Namespaces = MappingProxyType({})
    _has_asked_usage = False
    _first = b""
    """What a stream began with."""

    call: ModelCall
    _cut: TaskCut

    def __init__(self, live: LiveTurn, model: str, send: Send, *, is_held: bool = False) -> None:
        self.live = live
        self._is_held = is_held
        """Whether the answer is held back: the turn is not bound to its model yet."""
        self.model = model
        self.send = send
        self._provider, self._name = live.parts.providers.of(model, live.in_force.models)
        wanted, spoken = live.request.dialect, self._provider.dialects
        self.dialect: Dialect = wanted if wanted in spoken else spoken[0]
        self.is_same = self.dialect == wanted
        """Whether caller and provider speak the same dialect."""
        self._restoring = live.restoring_for(model)

    def outgoing(self) -> Outgoing:
        """Return the request as the provider takes it."""
        request = self.live.request
        look = request.look
        if self.is_same:
            own = self._own_body()
            if request.dialect != "chat":
                own = without_foreign(request.dialect, own)
            is_given = own is request.asked.body
            body = look.with_model(self._name) if is_given else with_model(own, self._name)
            if look.is_stream and self.dialect == "chat":
                body = self._asking_usage(body)
        else:
            asked = speaker(request.dialect).read_request(self._own_body())
            self._wants_usage, self._namespaces = asked.wants_usage, asked.namespaces
            body = write_request(self.dialect, asked, self._name)
        passed: tuple[tuple[str, str], ...] = ()
        headers = request.asked.headers
        if self.is_same and not headers.keys().isdisjoint(_PASSED_ON):
            found = [(name, headers[name]) for name in _PASSED_ON if name in headers]
            passed = tuple((name.decode(), value.decode("latin-1")) for name, value in found)
        unit = self.live.session_id
        return Outgoing(
            self.dialect,
            self._name,
            body,
            look.is_stream,
            passed,
            unit=unit,
            input_tokens=self.live.input_tokens,
            login=request.login_at(self.live.in_force.models.providers.get(self._provider.name)),
        )

    def _own_body(self) -> bytes:
        """Return the caller's request as this model may see it."""
        body = self.live.stripped_body()
        return body if self._restoring is None else self.live.masked_body(body)

    def _asking_usage(self, body: bytes) -> bytes:
        """Ask what the stream uses, if the provider is to tell it always."""
        configured = self.live.in_force.models.providers.get(self._provider.name)
        is_http = isinstance(self._provider, HttpProvider | DeployedModel)
        if configured is None or not is_http or configured.stream_usage != "ask":
            return body
        asking = asking_usage(body, self.live.request.look.stream_options)
        self._has_asked_usage = asking is not body
        return asking

    async def run(self) -> CallResult:
        """Call the model and let its answer out; says how it went."""
        call = self.call = self.live.open_call(self.model)
        try:
            reserving = call.reserve()
            if reserving is not None:
                await reserving
        except NOT_MADE as error:
            return self.refuse(error)
        call.begin()
        return await self.run_to_end(None)

    def refuse(self, error: PointsmanError) -> CallResult:
        """Note that the call was refused; returns its result for the flow."""
        self.error = error
        return result_after(error)

    def prepare_send(self) -> Begin | None:
        """Return a call that sends the request at once, where its bytes may pass unchanged."""
        provider = self._provider
        if not (isinstance(provider, HttpProvider) and self.is_same and provider.can_begin):
            return None
        if self._restoring is not None:
            # The batcher passes answers on as they are.
            return None
        return partial(provider.begin, provider.write(self.outgoing()), self.live.parts.deadlines)

    async def run_to_end(self, begun: Exchange | None) -> CallResult:
        """Let the answer of a call out, also one that was sent already; says how it went."""
        call = self.call
        cut = self._cut = call.holder = TaskCut(lambda own: call.holder is own)
        try:
            return await self._carry_out(begun)
        except asyncio.CancelledError:
            error = cut.pop_error()
            if error is None:
                raise
            return self._fail(error)

    async def _carry_out(self, begun: Exchange | None) -> CallResult:
        live = self.live
        try:
            answer = await self._answer(begun)
        except UpstreamError as error:
            return self._fail(error)
        except InputError as error:
            return self._fail(untranslatable(error))
        self.call.take_head(answer)
        try:
            if live.request.look.is_stream:
                return await self._stream(answer)
            return await self._whole(answer)
        except UpstreamError as error:
            return self._fail(error)
        finally:
            await answer.close()

    async def _answer(self, begun: Exchange | None) -> UpstreamAnswer:
        provider, deadlines = self._provider, self.live.parts.deadlines
        if begun is None or not isinstance(provider, HttpProvider):
            return await provider.send(self.outgoing(), deadlines)
        return await provider.send(self.outgoing(), deadlines, begun)

    async def _whole(self, answer: UpstreamAnswer) -> CallResult:
        live = self.live
        body = told = await answer.read()
        self.call.stop_waiting()
        usage, reason = end_of(self.dialect, body)
        if reason is None:
            _check_is_answer(self._provider.name, body)
        if not self.is_same:
            body = self._translate(body)
        if self._restoring is not None:
            body = self._restore(self._restoring, body)
        if live.fallen_from and (words := notice_of(live)):
            body = with_words_before(live.request.dialect, body, words)
        if not self._is_held:
            await live.hold(reason or "")
        await live.durability.wait()
        self.call.first_byte_ns = time.perf_counter_ns()
        self.send.whole(200, self.headers(body, answer.headers), body)
        self.complete(answer.attempts, told, usage, reason or "")
        return CallResult(is_done=True)

    def headers(self, body: bytes, upstream: Mapping[str, str]) -> Headers:
        """Return the headers of a whole answer."""
        return [JSON, *self.live.headers(upstream), (b"content-length", b"%d" % len(body))]

    def _translate(self, body: bytes) -> bytes:
        asked = speaker(self.live.request.dialect)
        try:
            told = provider_speaker(self.dialect).read_response(body)
            if self._namespaces:
                content = (with_own_name(each, self._namespaces) for each in told.content)
                told = replace(told, content=tuple(content))
            return asked.write_response(told, self.model, int(time.time()))
        except InputError as error:
            raise unreadable(self._provider.name, error) from error

    def _restore(self, restoring: Restoring, body: bytes) -> bytes:
        try:
            return restoring.body(body)
        except InputError as error:
            raise unreadable(self._provider.name, error) from error

    async def _stream(self, answer: UpstreamAnswer) -> CallResult:
        seen, carriage = tap(self.dialect), self._carriage()
        try:
            await self._relay(answer, seen, carriage)
        except UpstreamError as error:
            if not self.has_begun:
                raise
            return await self._break_off(carriage, error)
        except asyncio.CancelledError:
            if seen.stop_reason is not None:
                # The caller had its whole answer and hung up before the last byte of the stream.
                self._complete_stream(answer, seen)
            cut = self._cut.pop_error() if self.has_begun else None
            if cut is None:
                raise
            return await self._break_off(carriage, cut)
        if seen.is_broken:
            broken = UpstreamError("the stream ended with an error", error_class="server_error")
            return self._fail(broken)
        self._complete_stream(answer, seen)
        return CallResult(is_done=True)

    async def _break_off(self, carriage: StreamCarrier, error: UpstreamError) -> CallResult:
        # Never the text again.
        await self._more(carriage.break_off("upstream_error", error.message))
        self.send.end()
        return self._fail(error)

    def _complete_stream(self, answer: UpstreamAnswer, seen: Tap) -> None:
        self.call.complete(StreamedAnswer(seen), seen.stop_reason or "", answer.attempts)

    async def _relay(self, answer: UpstreamAnswer, seen: Tap, carriage: StreamCarrier) -> None:
        """Let a stream out from its first content on, to its end, which takes no write alone."""
        waiting: list[bytes] = []
        is_bound = False
        async for piece in answer:
            seen.feed(piece)
            out = carriage.feed(piece)
            self._size += len(out)
            if self.has_begun and seen.stop_reason is None and isinstance(answer, Exchange):
                await self._more(out)
                out = await self._pass_on(answer, seen, carriage)
            if seen.stop_reason is not None and not (is_bound or self._is_held):
                is_bound = True
                await self.live.hold(seen.stop_reason)
            if not self.has_begun:
                _check_is_sound(seen)
            waiting.append(out)
            is_due = self.has_begun or seen.has_content or self._size > HELD_BYTES
            # The last piece goes out with what ends the stream, unless it does not end well.
            if is_due and (not answer.is_over or seen.stop_reason is None):
                await self._let_out(waiting, seen)
        seen.end()
        if seen.stop_reason is None and not seen.is_broken:
            held = b"".join((self._first, *waiting, carriage.held_bytes()))
            raise _unfinished_stream(self._provider.name, held)
        if not self.has_begun:
            _check_is_sound(seen)
        waiting.append(carriage.finish())
        await self._end(b"".join(waiting), seen)

    async def _pass_on(self, answer: Exchange, seen: Tap, carriage: StreamCarrier) -> bytes:
        """Write pieces as they come, up to the one that ends the answer; return that one."""
        last = b""

        def take(piece: bytes) -> bool:
            nonlocal last
            seen.feed(piece)
            out = carriage.feed(piece)
            if seen.stop_reason is None:
                return self.send.push(out)
            last = out
            return False

        while seen.stop_reason is None and await answer.pass_on(take):
            # The caller does not read as fast as the provider writes.
            await self.send.more(b"")
        return last

    async def _let_out(self, waiting: list[bytes], seen: Tap) -> None:
        data = b"".join(waiting)
        waiting.clear()
        if self.has_begun:
            await self._more(data)
        else:
            self._first = data
            headers = await self._begin_answer(seen)
            await self.send.begin(200, headers, data)

    async def _end(self, data: bytes, seen: Tap) -> None:
        if self.has_begun:
            self.send.end(data)
        else:
            headers = await self._begin_answer(seen)
            self.send.at_once(200, headers, data)

    def _carriage(self) -> StreamCarrier:
        """Return the carrier that turns the provider's stream into the caller's."""
        asked = self.live.request.dialect
        carriage: StreamCarrier = PassThroughStream(asked) if self.is_same else self._translating()
        restoring = self._restoring
        if not self._has_asked_usage and not self.live.fallen_from and restoring is None:
            return carriage
        edits: list[Edit] = [UnaskedUsage().without] if self._has_asked_usage else []
        if restoring is not None:
            edits.append(RestoredStream(asked, restoring).edit)
        if words := notice_of(self.live):
            edits.append(WordsBefore(asked, words).edit)
        return EditedStream(carriage, tuple(edits)) if edits else carriage

    def _translating(self) -> TranslatedStream:
        target = speaker(self.live.request.dialect)
        writer = target.stream_writer(self.model, int(time.time()), wants_usage=self._wants_usage)
        reader = provider_speaker(self.dialect).stream_reader()
        if self._namespaces:
            reader = OwnNamesReader(reader, self._namespaces)
        return TranslatedStream(self._provider.name, reader, writer)

    async def _begin_answer(self, seen: Tap) -> Headers:
        """Wait until a byte may leave; gives the headers that go before it."""
        live, call = self.live, self.call
        call.stop_waiting()
        await live.durability.wait()
        call.first_byte_ns = time.perf_counter_ns()
        call.progress = StreamedAnswer(seen)
        self.has_begun = True
        return [EVENTS, (b"cache-control", b"no-cache"), *live.headers(call.answer_headers)]

    async def _more(self, data: bytes) -> None:
        if data:
            await self.send.more(data)

    def complete(self, attempts: int, body: bytes, usage: Usage, reason: str) -> None:
        """Settle a call whose whole answer is out; `body` is the provider's own."""
        self.call.complete(WholeAnswer(self.dialect, body, usage), reason, attempts)

    def _fail(self, error: UpstreamError) -> CallResult:
        self.error = error
        self.call.fail(error)
        return result_after(error, has_content=self.has_begun)


def _check_is_answer(name: str, body: bytes) -> None:
    """Raise unless a body that says nothing of its end can be an answer all the same."""
    inside = failure_inside(name, body)
    if inside is not None:
        raise inside
    try:
        msgspec.json.decode(body, type=dict[str, Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UpstreamError(
            f"`{name}` answered with what is no JSON object", error_class="server_error", status=200
        ) from error


def _unfinished_stream(name: str, held: bytes) -> UpstreamError:
    """Return the error of a stream that ended before its answer did."""
    message = f"the stream of `{name}` ended before its answer did"
    return failure_inside(name, held) or UpstreamError(message, error_class="network", status=200)


def _check_is_sound(tap: Tap) -> None:
    if tap.is_broken:
        raise UpstreamError("the stream began with an error", error_class="server_error")
