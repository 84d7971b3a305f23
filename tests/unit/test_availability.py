"""Availability: every trigger at its boundary, clearing, credentials that cannot touch others."""

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.kernel.instant import SECOND, Instant
from pointsman.testing import a_policy, some_facts
from pointsman.turns.availability import (
    ALL_HEALTHY,
    AVAILABILITY_FORM,
    THRESHOLDS,
    AvailabilityState,
    CallEvent,
    Outage,
    ProviderRecovered,
    ProviderUnavailable,
    Report,
    Result,
    Thresholds,
    Transition,
    after,
    at,
    clears_at,
    health,
    reports,
)
from pointsman.turns.condition import Condition
from pointsman.turns.decide import Evaluation, decide
from pointsman.turns.facts import Health
from pointsman.turns.policy import Rule

OPUS = "anthropic:claude-opus-4-7"
SONNET = "anthropic:claude-sonnet-4-6"
HAIKU = "anthropic:claude-haiku-4-5"
GPT = "openai:gpt-5"
START = 1_800_000_000 * SECOND
KEY = "key-a"
OTHER_KEY = "key-b"

COUNTED: tuple[Result, ...] = ("rate_limit", "server_error", "network", "other", "timeout")
IGNORED: tuple[Result, ...] = ("cancelled", "invalid_request", "context_overflow")
RESULTS: tuple[Result, ...] = ("success", "auth", *COUNTED, *IGNORED)


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


def wire(value: object) -> bytes:
    return msgspec.json.encode(value)


@pytest.mark.req(137, 138)
def test_the_fifth_failure_in_a_row_takes_the_model_out_and_the_fourth_does_not() -> None:
    assert out_after(*failures(4)) == {}
    assert out_after(*failures(5)) == {OPUS: "unavailable"}


@pytest.mark.req(138)
@pytest.mark.parametrize(("step", "is_out"), [(30, True), (30.000001, False)])
def test_the_span_of_the_last_five_is_at_most_two_minutes(step: float, is_out: bool) -> None:
    assert bool(out_after(*failures(5, step=step))) is is_out


@pytest.mark.req(138)
def test_five_failures_over_eight_minutes_are_no_outage() -> None:
    assert out_after(*failures(5, step=119)) == {}


@pytest.mark.req(138)
def test_old_failures_leave_the_window_one_by_one() -> None:
    events = [call(0), *failures(4, start=121)]
    assert out_after(*events) == {}
    assert out_after(*events, call(126)) == {OPUS: "unavailable"}


@pytest.mark.req(139)
def test_a_success_ends_the_streak() -> None:
    assert out_after(*failures(4), call(5, "success"), *failures(4, start=6)) == {}


@pytest.mark.req(139)
def test_a_success_of_another_model_does_not_end_the_streak() -> None:
    events = [*failures(4), call(5, "success", SONNET), call(6)]
    assert out_after(*events) == {OPUS: "unavailable"}


@pytest.mark.req(138)
@pytest.mark.parametrize("result", [each for each in COUNTED if each != "network"])
def test_errors_of_the_provider_count(result: Result) -> None:
    assert out_after(*(call(second, result) for second in range(5))) == {OPUS: "unavailable"}


@pytest.mark.req(138)
@pytest.mark.parametrize("result", IGNORED)
def test_errors_of_the_request_count_as_nothing(result: Result) -> None:
    state, transitions = folded(*(call(second, result) for second in range(9)))
    assert (state, transitions) == (ALL_HEALTHY, [])


@pytest.mark.parametrize("result", IGNORED)
def test_errors_of_the_request_do_not_end_the_streak(result: Result) -> None:
    assert out_after(*failures(4), call(4, result), call(5)) == {OPUS: "unavailable"}


@pytest.mark.req(145)
def test_retries_that_ran_out_inside_one_call_change_no_state() -> None:
    state, transitions = folded(call(0, "rate_limit"))
    assert transitions == []
    assert health(state, instant(0), KEY) == {}


def test_failures_of_different_models_do_not_add_up() -> None:
    events = [call(second, model=model) for second in range(4) for model in (OPUS, SONNET, HAIKU)]
    assert out_after(*events) == {}


@pytest.mark.req(137, 140, 296)
@pytest.mark.parametrize(("last", "is_out"), [(120, True), (120.000001, False)])
def test_three_models_out_within_two_minutes_take_the_provider_out(
    last: float, is_out: bool
) -> None:
    events = [
        *failures(5, start=-4),
        *failures(5, start=10, model=SONNET),
        *failures(5, start=last - 4, model=HAIKU),
    ]
    assert ("anthropic" in out_after(*events)) is is_out
    assert {OPUS, SONNET, HAIKU} <= set(out_after(*events))


@pytest.mark.req(140)
def test_two_models_out_leave_the_provider_in() -> None:
    found = out_after(*failures(5), *failures(5, start=10, model=SONNET))
    assert found == {OPUS: "unavailable", SONNET: "unavailable"}


@pytest.mark.req(140)
def test_a_model_that_came_back_is_not_one_of_the_three() -> None:
    events = [
        *failures(5),
        *failures(5, start=10, model=SONNET),
        call(16, "success", SONNET),
        *failures(5, start=20, model=HAIKU),
    ]
    assert out_after(*events) == {OPUS: "unavailable", HAIKU: "unavailable"}


@pytest.mark.req(140)
def test_one_model_that_goes_out_again_and_again_is_one_model() -> None:
    restless = Thresholds(clear_after_s=5)
    events = [event for start in (0, 20, 40) for event in failures(5, start=start)]
    state, _ = folded(*events, thresholds=restless)
    assert health(state, instant(45), KEY, restless) == {OPUS: "unavailable"}


@pytest.mark.req(140)
def test_models_of_other_providers_are_not_counted() -> None:
    events = [*failures(5), *failures(5, start=5, model=SONNET), *failures(5, start=10, model=GPT)]
    found = out_after(*events)
    assert list(found) == sorted([OPUS, SONNET, GPT])


@pytest.mark.req(141, 295)
def test_one_auth_error_takes_the_provider_out_at_once() -> None:
    assert out_after(call(0, "auth")) == {"anthropic": "unavailable"}


@pytest.mark.req(141)
def test_a_refusal_by_policy_is_no_outage() -> None:
    refusal = msgspec.structs.replace(call(0, "auth"), is_policy_refusal=True)
    assert folded(refusal, refusal) == (ALL_HEALTHY, [])


def test_an_auth_error_is_no_strike_against_its_model() -> None:
    assert out_after(*failures(4), call(4, "auth")) == {"anthropic": "unavailable"}


@pytest.mark.req(142, 144)
@pytest.mark.parametrize(("apart", "is_out"), [(30, True), (30.000001, False), (31, False)])
def test_two_network_errors_within_thirty_seconds_take_the_provider_out(
    apart: float, is_out: bool
) -> None:
    found = out_after(call(0, "network"), call(apart, "network", SONNET))
    assert found == ({"anthropic": "unavailable"} if is_out else {})


@pytest.mark.req(143)
def test_one_network_error_is_one_strike_and_nothing_more() -> None:
    assert out_after(call(0, "network")) == {}
    assert out_after(call(0, "network"), *failures(3, start=1)) == {}
    assert out_after(call(0, "network"), *failures(4, start=1)) == {OPUS: "unavailable"}


@pytest.mark.req(143, 144)
def test_network_errors_far_apart_still_strike_their_model() -> None:
    window = Thresholds(network_window_s=1)
    state, _ = folded(*(call(2 * n, "network") for n in range(5)), thresholds=window)
    assert health(state, instant(8), KEY, window) == {OPUS: "unavailable"}


@pytest.mark.req(147)
def test_a_success_of_any_model_empties_the_network_window() -> None:
    events = [call(0, "network"), call(1, "success", SONNET), call(2, "network")]
    assert out_after(*events) == {}


@pytest.mark.req(142)
def test_a_timeout_is_no_network_error() -> None:
    assert out_after(call(0, "timeout"), call(1, "network")) == {}


@pytest.mark.req(146)
def test_a_success_brings_its_model_back_at_once() -> None:
    assert out_after(*failures(5), call(5, "success")) == {}


@pytest.mark.req(146)
def test_a_model_that_came_back_starts_counting_anew() -> None:
    assert out_after(*failures(5), call(5, "success"), *failures(4, start=6)) == {}


@pytest.mark.req(147)
def test_a_success_of_any_model_brings_the_provider_back() -> None:
    assert out_after(call(0, "auth"), call(1, "success", SONNET)) == {}


@pytest.mark.req(147)
def test_a_provider_that_comes_back_leaves_other_models_out() -> None:
    events = [
        *failures(5),
        *failures(5, start=10, model=SONNET),
        *failures(5, start=20, model=HAIKU),
        call(30, "success", HAIKU),
    ]
    state, transitions = folded(*events)
    assert health(state, instant(30), KEY) == {OPUS: "unavailable", SONNET: "unavailable"}
    assert [each.payload for each in transitions[-2:]] == [
        ProviderRecovered("anthropic", "model_specific", (HAIKU,), 6),
        ProviderRecovered("anthropic", "provider_wide", (HAIKU,), 6),
    ]


@pytest.mark.req(147)
def test_a_provider_that_came_back_counts_its_models_anew() -> None:
    events = [
        *failures(5),
        *failures(5, start=10, model=SONNET),
        *failures(5, start=20, model=HAIKU),
        call(30, "success", HAIKU),
        *failures(5, start=31, model=HAIKU),
    ]
    assert "anthropic" not in out_after(*events)


@pytest.mark.req(148)
@pytest.mark.parametrize(("idle_s", "is_out"), [(299.999999, True), (300, False)])
def test_an_outage_clears_after_five_minutes_without_attempts(idle_s: float, is_out: bool) -> None:
    state, _ = folded(*failures(5), call(4, "auth", GPT))
    expected = {OPUS: "unavailable", "openai": "unavailable"} if is_out else {}
    assert health(state, instant(4 + idle_s), KEY) == expected


@pytest.mark.req(148)
def test_an_attempt_that_fails_puts_the_clearing_off() -> None:
    state, _ = folded(*failures(5), call(200), call(250, "auth", GPT), call(400, "network", GPT))
    assert health(state, instant(499), KEY) == {OPUS: "unavailable", "openai": "unavailable"}
    assert health(state, instant(500), KEY) == {"openai": "unavailable"}
    assert health(state, instant(700), KEY) == {}


@pytest.mark.req(148)
def test_an_attempt_on_one_model_does_not_put_off_the_clearing_of_another() -> None:
    state, _ = folded(*failures(5), call(200, model=SONNET))
    assert health(state, instant(304), KEY) == {}


@pytest.mark.req(148)
def test_what_cleared_starts_counting_anew() -> None:
    assert out_after(*failures(5), *failures(4, start=304)) == {}


def test_a_state_that_knows_nothing_is_empty() -> None:
    state, _ = folded(*failures(5), call(4, "auth", GPT), call(4, credential=OTHER_KEY))
    assert at(state, instant(1000))[0] == ALL_HEALTHY
    assert folded(call(0), call(1, "success"))[0] == ALL_HEALTHY


@pytest.mark.req(138, 252)
def test_a_model_going_out_and_coming_back_is_told_once_each() -> None:
    _, transitions = folded(*failures(9), call(10, "success"), call(11, "success"))
    assert transitions == [
        Transition(
            instant(4),
            KEY,
            ProviderUnavailable("anthropic", "model_specific", (OPUS,), "5_consecutive_failures"),
        ),
        Transition(instant(10), KEY, ProviderRecovered("anthropic", "model_specific", (OPUS,), 6)),
    ]


@pytest.mark.req(252)
def test_a_provider_going_out_is_told_once_with_all_its_models() -> None:
    _, transitions = folded(
        call(0, "auth"),
        call(1, "auth"),
        call(2, "network"),
        call(3, "network", SONNET),
        models=(SONNET, OPUS, GPT),
    )
    payload = ProviderUnavailable("anthropic", "provider_wide", (OPUS, SONNET), "auth_error")
    assert transitions == [Transition(instant(0), KEY, payload)]


@pytest.mark.req(252)
def test_the_cause_of_an_outage_is_told() -> None:
    _, network = folded(call(0, "network"), call(1, "network", SONNET))
    assert [each.payload for each in network] == [
        ProviderUnavailable("anthropic", "provider_wide", (OPUS, SONNET), "dns_error")
    ]
    three = [event for model in (OPUS, SONNET, HAIKU) for event in failures(5, model=model)]
    last = folded(*three)[1][-1].payload
    assert last == ProviderUnavailable(
        "anthropic", "provider_wide", (HAIKU, OPUS, SONNET), "multi_model_failures"
    )


@pytest.mark.req(148, 252)
def test_an_outage_that_clears_by_itself_is_told_at_the_time_it_was_due() -> None:
    state, _ = folded(*failures(5), call(4.5, "auth"))
    expected = [
        Transition(
            instant(304.5), KEY, ProviderRecovered("anthropic", "model_specific", (OPUS,), 300)
        ),
        Transition(
            instant(304.5), KEY, ProviderRecovered("anthropic", "provider_wide", (OPUS,), 300)
        ),
    ]
    assert list(at(state, instant(9999))[1]) == expected
    _, by_the_next_call = after(state, call(9999, "success"))
    assert list(by_the_next_call) == expected


@pytest.mark.req(252)
def test_what_clears_by_itself_is_told_in_order_of_time() -> None:
    state, _ = folded(
        call(3, "auth", credential="a"), call(1, "auth", credential="b"), call(2, "auth", GPT, "c")
    )
    assert [each.credential for each in at(state, instant(900))[1]] == ["b", "c", "a"]


@pytest.mark.req(252)
def test_the_next_call_tells_what_cleared_before_it_in_order_of_time() -> None:
    state, _ = folded(*failures(5), *failures(5, start=10, model=HAIKU))
    _, transitions = after(state, call(900))
    assert [each.at for each in transitions] == [instant(304), instant(314)]


def test_events_are_named_as_in_the_catalogue() -> None:
    assert ProviderUnavailable.event_type == "routing.provider_unavailable"
    assert ProviderRecovered.event_type == "routing.provider_recovered"
    payload = ProviderUnavailable("p", "model_specific", ("p:m",), "5_consecutive_failures")
    assert sorted(msgspec.to_builtins(payload)) == [
        "models_affected",
        "provider",
        "scope",
        "trigger_reason",
    ]


def rejection(availability: dict[str, Health], candidate: str = OPUS) -> Evaluation:
    policy = a_policy(candidate, OPUS, SONNET)
    return decide(policy, some_facts(availability=availability))[1].chain[-1]


@pytest.mark.req(141, 282, 295)
def test_the_decision_after_an_auth_error_rejects_every_model_of_the_provider() -> None:
    found = rejection(out_after(call(0, "auth", SONNET)))
    assert (found.verdict, found.validation_failure) == ("rejected", "provider_unavailable")


@pytest.mark.req(149, 150)
def test_a_decision_looks_at_the_provider_before_the_model_and_tells_them_apart() -> None:
    alone = rejection(out_after(*failures(5)))
    both = rejection(out_after(*failures(5), call(5, "auth")))
    assert alone.validation_failure == both.validation_failure == "provider_unavailable"
    assert alone.reason == f"{OPUS} model-specific outage"
    assert both.reason == "all anthropic models temporarily unavailable"


@pytest.mark.req(137)
def test_one_model_out_leaves_its_sibling_to_be_chosen() -> None:
    assert rejection(out_after(*failures(5)), SONNET).verdict == "chose"


@pytest.mark.req(282, 294)
def test_a_rule_on_the_model_that_is_out_falls_through_to_a_rule_on_its_sibling() -> None:
    rules = (Rule("deep", Condition(), OPUS), Rule("deep, second", Condition(), SONNET))
    policy = a_policy(GPT, OPUS, SONNET, GPT, rules=rules)
    outcome, trace = decide(policy, some_facts(availability=out_after(*failures(5))))
    assert outcome.chosen_model == SONNET
    attempt = trace.chain[outcome.winner_index].rule_attempts[0]
    assert (attempt.rule_name, attempt.candidate_model) == ("deep", OPUS)
    assert attempt.validation_failure == "provider_unavailable"


def test_reports_list_providers_first_and_everything_configured() -> None:
    state, _ = folded(*failures(5), call(9, model=HAIKU), call(10, "auth", "other:m"))
    found = reports(state, instant(10), KEY, (SONNET, OPUS, GPT))
    assert [(each.provider, each.model, each.state) for each in found] == [
        ("anthropic", None, "healthy"),
        ("anthropic", HAIKU, "healthy"),
        ("anthropic", OPUS, "unavailable"),
        ("anthropic", SONNET, "healthy"),
        ("openai", None, "healthy"),
        ("openai", GPT, "healthy"),
        ("other", None, "unavailable"),
    ]


def test_a_report_says_why_since_when_until_when_and_what_is_affected() -> None:
    state, _ = folded(*failures(5), call(9))
    report = reports(state, instant(10), KEY)[1]
    assert report == Report(
        provider="anthropic",
        model=OPUS,
        state="unavailable",
        cause="5_consecutive_failures",
        since=instant(4),
        clears_at=instant(309),
        models_affected=(OPUS,),
    )


def test_nothing_known_and_nothing_configured_is_no_report() -> None:
    assert reports(ALL_HEALTHY, instant(0), KEY) == ()


def test_the_documented_thresholds_are_the_default() -> None:
    assert Thresholds(5, 120, 3, 120, 2, 30, 300) == THRESHOLDS
    outage = Outage("auth_error", instant(0), instant(1), ())
    assert clears_at(outage) == instant(301)


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
