"""Calls that ended somehow at some second, and what is out after them."""

from pointsman.kernel.instant import SECOND, Instant
from pointsman.turns.registry.availability import (
    ALL_HEALTHY,
    AvailabilityState,
    Transition,
    after,
    health,
)
from pointsman.turns.registry.call_event import CallEvent, Result
from pointsman.turns.registry.provider_state import THRESHOLDS, Health, Thresholds

OPUS = "anthropic:claude-opus-4-7"
SONNET = "anthropic:claude-sonnet-4-6"
HAIKU = "anthropic:claude-haiku-4-5"
GPT = "openai:gpt-5"
START = 1_800_000_000 * SECOND
KEY = "key-a"
OTHER_KEY = "key-b"

COUNTED: tuple[Result, ...] = ("rate_limit", "server_error", "network", "other", "timeout", "cut")
IGNORED: tuple[Result, ...] = ("cancelled", "invalid_request", "context_overflow")


def call(
    seconds: float, result: Result = "server_error", model: str = OPUS, credential: str = KEY
) -> CallEvent:
    provider = model.partition(":")[0]
    return CallEvent(instant(seconds), credential, provider, model, result)


def instant(seconds: float) -> Instant:
    return Instant(START + round(seconds * SECOND))


def folded(
    *events: CallEvent, models: tuple[str, ...] = (), thresholds: Thresholds = THRESHOLDS
) -> tuple[AvailabilityState, list[Transition]]:
    state, seen = ALL_HEALTHY, []
    for event in events:
        state, transitions = after(state, event, models, thresholds)
        seen += transitions
    return state, seen


def out_after(*events: CallEvent) -> dict[str, Health]:
    return health(folded(*events)[0], events[-1].at, KEY)


def failures(count: int, start: float = 0, step: float = 1, model: str = OPUS) -> list[CallEvent]:
    return [call(start + step * index, model=model) for index in range(count)]
