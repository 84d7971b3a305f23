"""Answers that are held back until a second opinion says whose is let out."""

from __future__ import annotations

from typing import Final

from pointsman.calls.answer_agreement import read_opinion
from pointsman.calls.flow import AskOpinion, CallResult
from pointsman.calls.judging import Rubric, answer_text, judge_request, question_text, verdict
from pointsman.errors import InputError
from pointsman.gateway.serving.http import EVENTS, Headers, Send
from pointsman.gateway.turns.forwarding import Forwarding
from pointsman.gateway.turns.side_call import SideCall
from pointsman.gateway.turns.turn import LiveTurn
from pointsman.kernel.number import Billionths
from pointsman.providers.dialects.whole import fold
from pointsman.providers.messages import Response
from pointsman.providers.port import Dialect
from pointsman.providers.registry.dialects import speaker
from pointsman.signals.tokens import count_tokens
from pointsman.turns.learning.second_opinion import Opinion

STREAM_HEADERS: Final = (EVENTS, (b"cache-control", b"no-cache"))


class HeldSend:
    """Takes an answer in place of the caller, and keeps it."""

    def __init__(self) -> None:
        self.status = 0
        self.is_stream = False
        self._pieces: list[bytes] = []

    @property
    def body(self) -> bytes:
        """The answer as the caller would have it."""
        return b"".join(self._pieces)

    def whole(self, status: int, _headers: Headers, body: bytes) -> None:
        """Keep a whole answer."""
        self.status = status
        self._pieces.append(body)

    async def begin(self, status: int, _headers: Headers, first: bytes) -> None:
        """Keep the beginning of an answer of pieces."""
        self.status, self.is_stream = status, True
        self._pieces.append(first)

    async def more(self, data: bytes) -> None:
        """Keep more of it."""
        self._pieces.append(data)

    def push(self, data: bytes) -> bool:
        """Keep more of it."""
        self._pieces.append(data)
        return True

    def end(self, last: bytes = b"") -> None:
        """Keep the end of it."""
        self._pieces.append(last)

    def at_once(self, status: int, _headers: Headers, data: bytes) -> None:
        """Keep all the pieces."""
        self.status, self.is_stream = status, True
        self._pieces.append(data)

    def response(self, dialect: Dialect) -> Response:
        """Read the answer; raises `InputError` where that cannot be done."""
        reader = speaker(dialect)
        if not self.is_stream:
            return reader.read_response(self.body)
        events = reader.stream_reader()
        return fold([*events.feed(self.body), *events.end()])


class HeldAnswers:
    """The answers to one turn that no caller has seen yet, by their models."""

    def __init__(self, live: LiveTurn) -> None:
        self._live = live
        self._held: dict[str, tuple[Forwarding, HeldSend]] = {}

    async def ask(self, effect: AskOpinion) -> CallResult:
        """Call a model and hold its answer back; or ask the judge about one that is held."""
        self._live.number = effect.number
        if effect.about:
            return await self._ask_judge(effect)
        kept = HeldSend()
        call = Forwarding(self._live, effect.model, kept, is_held=True)
        result = await call.run()
        if not result.is_done:
            return result
        self._held[effect.model] = (call, kept)
        return CallResult(is_done=True, opinion=self._opinion(effect.model, kept))

    async def release(self, model: str, send: Send) -> Forwarding:
        """Let a held answer out: its headers tell of the decision that took it."""
        live, (call, kept) = self._live, self._held[model]
        live.call = call.call
        end = call.call.end
        await live.hold("" if end is None else end.stop_reason)
        await live.durability.wait()
        upstream = call.call.answer_headers
        if kept.is_stream:
            send.at_once(200, [*STREAM_HEADERS, *live.headers(upstream)], kept.body)
        else:
            send.whole(200, call.headers(kept.body, upstream), kept.body)
        return call

    def _opinion(self, model: str, kept: HeldSend) -> Opinion:
        live = self._live
        dialect = live.request.dialect
        key = live.parts.pointsman.home.content_key()
        try:
            asked = speaker(dialect).read_request(live.stripped_body())
            return read_opinion(model, kept.response(dialect), asked, key)
        except InputError:
            return Opinion(model, "failed")

    async def _ask_judge(self, effect: AskOpinion) -> CallResult:
        live = self._live
        message = effect.ruling.facts.message
        words = answer_text(self._held[effect.about][1].response(live.request.dialect))
        given = live.parts.settings.judge.rubric
        rubric = Rubric(given) if given else Rubric()
        request = judge_request(rubric, message if isinstance(message, str) else "", words)
        tokens = count_tokens(question_text(request))
        call = SideCall(
            live.parts,
            live,
            effect.ruling,
            "opinion",
            tokens,
            decision_id=live.decision_id,
            number=effect.number,
        )
        response = await call.make(request)
        if call.end is not None and call.end.spent is not None:
            live.earlier_tokens += call.end.spent.input_tokens + call.end.spent.output_tokens
        score: Billionths | None = None if response is None else verdict(answer_text(response))
        return CallResult(is_done=True, opinion=Opinion(effect.model, "text", score=score))
