"""One model in several places: a session keeps one of them while it is in use and has room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pointsman.errors import InputError
from pointsman.providers.choice_ring import AT_LIMIT_S, ChoiceRing
from pointsman.providers.dialects.multipart import form_with_model, is_form
from pointsman.providers.dialects.spans import with_model
from pointsman.providers.http.provider import HttpProvider
from pointsman.providers.key_choice import KeyChoice, with_used_key
from pointsman.providers.port import (
    Deadlines,
    Dialect,
    Operation,
    Outgoing,
    UpstreamAnswer,
    UpstreamError,
)

_NAMES_MODEL: Final[tuple[Dialect, ...]] = ("chat", "responses", "messages")
"""The dialects in which the body names the model."""


class ModelPlace(Struct, frozen=True):
    """Where a model is served, and by which name; limits are for a minute, None for none."""

    provider: HttpProvider
    name: str
    weight: int = 1
    rpm: int | None = None
    tpm: int | None = None

    @property
    def id(self) -> str:
        """Its name in records."""
        return f"{self.provider.name}:{self.name}"


class Allowance:
    """The rest of a limit; all of it comes back over a minute."""

    __slots__ = ("_at", "_left", "_per_minute")

    def __init__(self, per_minute: int, now: float) -> None:
        self._per_minute = per_minute
        self._left = float(per_minute)
        self._at = now

    def rest(self, now: float) -> float:
        """Return how much of it there is; below zero after a call larger than the rest."""
        come_back = (now - self._at) * self._per_minute / 60
        self._left, self._at = min(self._per_minute, self._left + come_back), now
        return self._left

    def take(self, amount: int, now: float) -> None:
        """Take something out."""
        self._left = self.rest(now) - amount

    def wait_s(self, now: float) -> float:
        """Return how long until one is free."""
        return max(0.0, (1 - self.rest(now)) * 60 / self._per_minute)


class PlaceRing(ChoiceRing):
    """Chooses a place for each call: in use, and with room in its limits."""

    def __init__(self, places: Sequence[ModelPlace], now: Callable[[], float]) -> None:
        super().__init__([(each.id, each.weight) for each in places], "deployment", now)
        at = now()
        self._limits = [
            (
                None if each.rpm is None else Allowance(each.rpm, at),
                None if each.tpm is None else Allowance(each.tpm, at),
            )
            for each in places
        ]

    def wait_s(self, number: int) -> float:
        """Return how long until a place has room; 0 where it has."""
        now = self._now()
        return max((each.wait_s(now) for each in self._limits[number] if each), default=0.0)

    def take(self, number: int, tokens: int) -> None:
        """Count a call against the limits of a place."""
        now = self._now()
        for limit, amount in zip(self._limits[number], (1, tokens), strict=True):
            if limit is not None:
                limit.take(amount, now)

    def note_failure(self, number: int, error: UpstreamError) -> None:
        """Put a place that failed behind the others for a while."""
        super().note_failure(number, error)
        if error.error_class not in ("auth", "rate_limit"):
            self._out_until[number] = self._now() + AT_LIMIT_S

    def _is_open(self, number: int, now: float) -> bool:
        return super()._is_open(number, now) and self.wait_s(number) == 0


class DeployedModel:
    """One model that several places serve; a call that fails in one goes on in the next."""

    def __init__(self, name: str, places: Sequence[ModelPlace], now: Callable[[], float]) -> None:
        first, *others = (each.provider for each in places)
        self.name = name
        self.dialects = tuple(
            each for each in first.dialects if all(each in other.dialects for other in others)
        )
        if not self.dialects:
            raise InputError("the deployments of a model must have a wire format in common")
        self.operations: tuple[Operation, ...] = tuple(
            each for each in first.operations if all(each in other.operations for other in others)
        )
        self._places = tuple(places)
        self._ring = PlaceRing(places, now)

    async def send(self, outgoing: Outgoing, deadlines: Deadlines) -> UpstreamAnswer:
        """Make one call, in the places that have room, the session's own first."""
        first, choice = self._ring.choose(outgoing.unit)
        waits = {each: self._ring.wait_s(each) for each in self._ring.order(outgoing.unit, first)}
        order = [each for each, wait in waits.items() if not wait]
        if not order:
            raise _all_at_limit(self.name, min(waits.values()), choice)
        attempts = 0
        for number in order:
            place, is_last = self._places[number], number == order[-1]
            self._ring.take(number, outgoing.input_tokens)
            try:
                answer = await place.provider.send(_for(place, outgoing, is_last), deadlines)
            except UpstreamError as error:
                attempts += error.attempts
                error.attempts = attempts
                error.deployment_choice = with_used_key(choice, place.id)
                if is_last or not _may_work_elsewhere(error):
                    raise
                self._ring.note_failure(number, error)
            else:
                self._ring.note_success(number)
                answer.attempts += attempts
                answer.deployment_choice = with_used_key(choice, place.id)
                return answer
        raise AssertionError  # the last place answers or raises

    async def close(self) -> None:
        """Leave the providers to who opened them."""


def _for(place: ModelPlace, outgoing: Outgoing, is_last: bool) -> Outgoing:  # noqa: FBT001 - told by name in the one call
    """Return a call as a place takes it; while others are left it does not wait and try again."""
    body = outgoing.body
    if outgoing.media_type and is_form(outgoing.media_type):
        body = form_with_model(body, outgoing.media_type, place.name)
    elif outgoing.operation or outgoing.dialect in _NAMES_MODEL:
        body = with_model(body, place.name)
    return replace(outgoing, model=place.name, body=body, has_others=not is_last)


def _may_work_elsewhere(error: UpstreamError) -> bool:
    """Tell whether a failure is the place's own, and came soon."""
    if error.is_policy_refusal:
        return False
    if error.error_class == "timeout":
        return error.is_unreached
    return error.error_class in ("auth", "rate_limit", "server_error", "network", "busy")


def _all_at_limit(name: str, wait_s: float, choice: KeyChoice | None) -> UpstreamError:
    message = f"all deployments of `{name}` have used up their limits"
    error = UpstreamError(message, error_class="rate_limit", status=429, retry_after_s=wait_s)
    error.deployment_choice = with_used_key(choice, "")
    return error
