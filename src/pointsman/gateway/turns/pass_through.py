"""`/v1/embeddings` and `/v1/completions`: passed through to the model that is named, or refused.

A decision is recorded as for any turn, and every veto applies; but no other model may take over,
because embeddings of two models do not compare.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pointsman.access.keys import Principal
from pointsman.calls.flow import CallResult, Fallback, Record
from pointsman.errors import InputError
from pointsman.gateway.http import Asked, Send
from pointsman.gateway.parts import Parts
from pointsman.gateway.turns.endpoints import ModelEndpoint
from pointsman.gateway.turns.failures import refusal_of
from pointsman.gateway.turns.incoming import (
    SessionHints,
    TurnRequest,
    conversation,
    privacy_of,
    resolve_model,
)
from pointsman.gateway.turns.passage import PassThroughCall
from pointsman.gateway.turns.turn import LiveTurn
from pointsman.gateway.turns.turn_flow import new_flow, prepare_vector
from pointsman.providers.dialects.body import decode
from pointsman.providers.dialects.look import Look, look
from pointsman.providers.dialects.spans import unique
from pointsman.providers.http_provider import HttpProvider
from pointsman.providers.port import Operation
from pointsman.storage.policies.policies import InForce
from pointsman.turns.chain.override import Mode


class _Body(Struct):
    """What is looked at; token ids stand for text that nobody can read here."""

    model: str
    input: str | list[str | int | list[int]] | None = None
    prompt: str | list[str | int | list[int]] | None = None
    stream: bool | None = None
    max_tokens: int | None = None
    user: str | None = None


_BODY = msgspec.json.Decoder(_Body)


class _NamedTurn(LiveTurn):
    """A turn that its named model takes, or nobody; an `@` in its text is text."""

    @property
    def inline_mode(self) -> Mode:
        """How an `@alias` is taken."""
        return "off"

    def fallback(self) -> Fallback:
        """Give when another model may take over: never."""
        return Fallback(is_on=False)


class PassThroughEndpoint(ModelEndpoint):
    """Serves one of OpenAI's other endpoints."""

    def __init__(self, parts: Parts, operation: Operation) -> None:
        super().__init__(parts, "chat", operation)
        self._operation: Operation = operation

    def _live(self, asked: Asked, caller: Principal, in_force: InForce) -> LiveTurn:
        """Understand a request, or raise saying what is wrong with it."""
        return _NamedTurn(self.parts, self._read_request(asked, caller, in_force), in_force)

    def _read_request(self, asked: Asked, caller: Principal, in_force: InForce) -> TurnRequest:
        unique(asked.body)
        body = decode(_BODY, asked.body)
        meant = resolve_model(body.model, in_force)
        if not meant.model:
            raise InputError(f"`{body.model}` routes; here a model must be named")
        self._check_provider(meant.model, in_force)
        seen = _look(body, self._operation)
        named = SessionHints("", body.user or "", seen.opening)
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
        if live.parts.pointsman.gathering.vectors.is_slow:
            await prepare_vector(live)
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


def _look(body: _Body, operation: Operation) -> Look:
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
