"""Asking a model for one whole answer, and what the failures of calls mean to their turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from pointsman.calls.call_end import OVER_BUDGET, STOPPED
from pointsman.calls.flow import WORTH_ANOTHER, CallResult
from pointsman.errors import InputError, PointsmanError, TurnStopped
from pointsman.providers.dialects.tap import Tap, said_in_answer
from pointsman.providers.failures import failure_inside
from pointsman.providers.messages import ModelRequest, Response, Usage
from pointsman.providers.port import Deadlines, Dialect, ModelProvider, Outgoing, UpstreamError
from pointsman.providers.registry.dialects import provider_speaker
from pointsman.signals.tokens import count_tokens


def output_estimate(text: str, events: int = 0, share: float = 1.0) -> int:
    """Return how many tokens an answer has: the larger of its events and its text.

    An event of a stream is a token at least; some providers send many words in one. `text` is that
    share of the answer which was kept.
    """
    counted = count_tokens(text)
    return max(1, events, counted if share >= 1 else int(counted / share))


class WholeAnswer(Struct, frozen=True):
    """An answer that came whole, in the provider's own bytes."""

    dialect: Dialect
    body: bytes
    usage: Usage

    def output_tokens(self) -> int:
        """Estimate its tokens."""
        return output_estimate(said_in_answer(self.dialect, self.body))


class StreamedAnswer(Struct, frozen=True):
    """An answer that comes in events, read along."""

    seen: Tap

    @property
    def usage(self) -> Usage:
        """What the provider told so far."""
        return self.seen.usage

    def output_tokens(self) -> int:
        """Estimate the tokens that came so far."""
        text, share = self.seen.sampled_text()
        return output_estimate(text, self.seen.events, share)


def complete_usage(told: Usage | None, input_tokens: int, output_tokens: int) -> Usage:
    """Return usage without gaps: what the provider told of an answer, the rest estimated."""
    told = told or Usage()
    return replace(
        told,
        input_tokens=input_tokens if told.input_tokens is None else told.input_tokens,
        output_tokens=max(output_tokens, told.output_tokens or 0),
    )


class ModelAnswer(Struct, frozen=True):
    """A whole answer, as the provider wrote it and as it was read."""

    written: WholeAnswer
    response: Response
    attempts: int
    headers: Mapping[str, str]


class BodyMasking(Struct, frozen=True):
    """Masks the body of a request, and restores that of its answer."""

    mask: Callable[[bytes], bytes]
    restore: Callable[[bytes], bytes]


async def ask_whole(
    provider: ModelProvider,
    name: str,
    request: ModelRequest,
    deadlines: Deadlines,
    masking: BodyMasking | None = None,
) -> ModelAnswer:
    """Send a request and read its whole answer, or raise `UpstreamError`."""
    dialect = provider.dialects[0]
    body = write_request(dialect, request, name)
    if masking is not None:
        body = masking.mask(body)
    answer = await provider.send(Outgoing(dialect, name, body, False), deadlines)  # noqa: FBT003 - no stream
    try:
        said = await answer.read()
    finally:
        await answer.close()
    inside = failure_inside(provider.name, said)
    if inside is not None:
        raise inside
    try:
        told = said if masking is None else masking.restore(said)
        response = provider_speaker(dialect).read_response(told)
    except InputError as error:
        raise unreadable(provider.name, error) from error
    written = WholeAnswer(dialect, said, response.usage)
    return ModelAnswer(written, response, answer.attempts, answer.headers)


def write_request(dialect: Dialect, request: ModelRequest, name: str) -> bytes:
    """Return a request in a provider's dialect, or raise that the dialect cannot say it."""
    try:
        return provider_speaker(dialect).write_request(request, name).body
    except InputError as error:
        raise untranslatable(error) from error


def untranslatable(error: InputError) -> UpstreamError:
    """Return the error of a request that a provider's dialect cannot say; another's may."""
    told = UpstreamError(error.message, hint=error.hint, error_class="invalid_request", status=400)
    told.__cause__ = error
    return told


def unreadable(name: str, error: InputError) -> UpstreamError:
    """Return the error of an answer that is not of its dialect."""
    message = f"the answer of `{name}` cannot be read: {error.message}"
    return UpstreamError(message, error_class="server_error", status=200)


def result_after(error: PointsmanError, *, has_content: bool = False) -> CallResult:
    """Return how a failed call went, for the flow to go on from."""
    if not isinstance(error, UpstreamError):
        if isinstance(error, TurnStopped):
            return CallResult(is_done=False, error_class=STOPPED, is_worth_another=False)
        # The money went to another call between the decision and this one.
        return CallResult(is_done=False, error_class=OVER_BUDGET)
    is_unsaid = error.error_class == "invalid_request" and isinstance(error.__cause__, InputError)
    worth = is_unsaid or error.error_class in WORTH_ANOTHER
    return CallResult(False, error.error_class, has_content, worth)  # noqa: FBT003 - not done
