"""Asking a model for one whole answer, and what the failures of calls mean to their turn."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pointsman.calls.flow import WORTH_ANOTHER, Called
from pointsman.calls.model_call import OVER_BUDGET
from pointsman.calls.usage import WholeAnswer
from pointsman.errors import InputError, PointsmanError
from pointsman.providers.dialects.speaker import speaker
from pointsman.providers.failures import failure_inside
from pointsman.providers.messages import Request, Response
from pointsman.providers.port import Deadlines, Dialect, Outgoing, Provider, UpstreamError


class Answered(Struct, frozen=True):
    """A whole answer, as the provider wrote it and as it was read."""

    written: WholeAnswer
    response: Response
    attempts: int
    headers: Mapping[str, str]


async def ask_whole(
    provider: Provider, name: str, request: Request, deadlines: Deadlines
) -> Answered:
    """Send a request and read its whole answer, or raise `UpstreamError`."""
    dialect = provider.dialects[0]
    body = written_request(dialect, request, name)
    answer = await provider.send(Outgoing(dialect, name, body, False), deadlines)  # noqa: FBT003 - no stream
    try:
        said = await answer.read()
    finally:
        await answer.close()
    inside = failure_inside(provider.name, said)
    if inside is not None:
        raise inside
    try:
        response = speaker(dialect).read_response(said)
    except InputError as error:
        raise unreadable(provider.name, error) from error
    return Answered(
        WholeAnswer(dialect, said, response.usage), response, answer.attempts, answer.headers
    )


def written_request(dialect: Dialect, request: Request, name: str) -> bytes:
    """Return a request in a provider's dialect, or raise that the dialect cannot say it."""
    try:
        return speaker(dialect).write_request(request, name).body
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


def called_after(error: PointsmanError, *, has_content: bool = False) -> Called:
    """Return how a failed call went, for the flow to go on from."""
    if not isinstance(error, UpstreamError):
        # The money went to another call between the decision and this one.
        return Called(is_done=False, error_class=OVER_BUDGET)
    is_unsaid = error.error_class == "invalid_request" and isinstance(error.__cause__, InputError)
    worth = is_unsaid or error.error_class in WORTH_ANOTHER
    return Called(False, error.error_class, has_content, worth)  # noqa: FBT003 - not done
