"""Availability over random histories: no credential touches another, asking changes nothing."""

from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.calls_made import (
    COUNTED,
    GPT,
    HAIKU,
    IGNORED,
    KEY,
    OPUS,
    OTHER_KEY,
    SONNET,
    call,
    folded,
    instant,
)

from pointsman.kernel.instant import SECOND, Instant
from pointsman.turns.registry.availability import (
    ALL_HEALTHY,
    AVAILABILITY_FORM,
    Transition,
    after,
    at,
    health,
    reports,
)
from pointsman.turns.registry.call_event import CallEvent, Result
from pointsman.turns.registry.provider_state import ProviderRecovered, ProviderUnavailable

RESULTS: tuple[Result, ...] = ("success", "auth", *COUNTED, *IGNORED)


def wire(value: object) -> bytes:
    return msgspec.json.encode(value)


MODELS = (OPUS, SONNET, HAIKU, GPT)
GAPS = st.sampled_from([0, 1, 2, 5, 10, 20, 29, 30, 31, 60, 120, 121, 299, 300, 301])
LIKELY = st.sampled_from(["server_error", "rate_limit", "network", "success", *COUNTED, *RESULTS])
RARELY = st.sampled_from([False] * 9 + [True])
BURSTS = st.tuples(GAPS, LIKELY, st.sampled_from(MODELS), st.sampled_from([1, 5]), RARELY)


@st.composite
def histories(draw: st.DrawFn, credential: str = KEY) -> list[CallEvent]:
    """Give calls of one credential in order of time, in bursts that end the same way."""
    now, events = 0, []
    for gap, result, model, count, is_refusal in draw(st.lists(BURSTS, max_size=16)):
        now += gap
        for _ in range(count):
            event = call(now, result, model, credential)
            events.append(msgspec.structs.replace(event, is_policy_refusal=is_refusal))
            now += 1
    return events


@settings(max_examples=300, derandomize=True, deadline=None)
@given(histories(KEY), histories(OTHER_KEY), st.randoms(use_true_random=False))
def test_events_of_one_credential_never_change_what_another_sees(
    own: list[CallEvent], foreign: list[CallEvent], order: Random
) -> None:
    """The foreign events come in between in any order of time, even from clocks that run ahead."""
    queue = [*own]
    mixed: list[CallEvent] = []
    for event in foreign:
        while queue and order.random() < 0.5:
            mixed.append(queue.pop(0))
        mixed.append(event)
    mixed += queue
    alone_state, alone = folded(*own)
    mixed_state, everything = folded(*mixed)
    assert wire([each for each in everything if each.credential == KEY]) == wire(alone)
    end = own[-1].at if own else instant(0)
    for later in (0, 100, 300, 10_000):
        now = Instant(end + later * SECOND)
        assert wire(health(mixed_state, now, KEY)) == wire(health(alone_state, now, KEY))
        assert reports(mixed_state, now, KEY) == reports(alone_state, now, KEY)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(histories(), st.lists(GAPS, max_size=6))
def test_asking_in_between_changes_nothing_in_the_end(
    events: list[CallEvent], asks: list[int]
) -> None:
    end = Instant((events[-1].at if events else instant(0)) + 1000 * SECOND)
    state, plain = folded(*events)
    state, cleared = at(state, end)
    asked, seen = ALL_HEALTHY, []
    for index, event in enumerate(events):
        before = events[index - 1].at if index else event.at
        for gap in sorted(asks):
            asked, transitions = at(asked, min(event.at, Instant(before + gap * SECOND)))
            seen += transitions
        asked, transitions = after(asked, event)
        seen += transitions
    for gap in sorted(asks):
        asked, transitions = at(asked, Instant(end - 1000 * SECOND + gap * SECOND))
        seen += transitions
    asked, transitions = at(asked, end)
    assert asked == state == ALL_HEALTHY
    assert _by_provider([*seen, *transitions]) == _by_provider([*plain, *cleared])


def _by_provider(transitions: list[Transition]) -> list[bytes]:
    # Providers are independent: who asks more often hears of their clearings in another mixture.
    return [wire(each) for each in sorted(transitions, key=lambda each: each.payload.provider)]


@settings(max_examples=100, derandomize=True, deadline=None)
@given(histories())
def test_a_recorded_state_goes_on_as_the_one_that_was_recorded(events: list[CallEvent]) -> None:
    state, seen = folded(*events)
    again, repeated = ALL_HEALTHY, []
    for event in events:
        again, transitions = after(AVAILABILITY_FORM.decode(AVAILABILITY_FORM.encode(again)), event)
        repeated += transitions
    assert AVAILABILITY_FORM.encode(again) == AVAILABILITY_FORM.encode(state)
    assert wire(repeated) == wire(seen)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(histories())
def test_each_scope_goes_out_and_comes_back_in_turn(events: list[CallEvent]) -> None:
    out: set[tuple[str, str]] = set()
    for transition in folded(*events)[1]:
        payload = transition.payload
        is_model = payload.scope == "model_specific"
        if isinstance(payload, ProviderUnavailable):
            scope = (payload.provider, payload.models_affected[0] if is_model else "")
            assert scope not in out
            out.add(scope)
        else:
            scope = (payload.provider, payload.models_recovered[0] if is_model else "")
            assert payload.downtime_seconds >= 0
            out.remove(scope)


def test_a_call_reported_late_counts_from_the_latest_one_known() -> None:
    state, transitions = folded(call(50, "network"), call(10, "network", SONNET))
    assert transitions[0].at == instant(50)
    assert health(state, instant(349), KEY) == {"anthropic": "unavailable"}
    back, recovered = after(state, call(20, "success"))
    assert recovered[0].payload == ProviderRecovered(
        "anthropic", "provider_wide", (OPUS, SONNET), 0
    )
    assert back.credentials[KEY]["anthropic"].models.keys() == {SONNET}
