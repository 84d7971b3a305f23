"""Availability: every trigger at its boundary, and clearing."""

import msgspec
import pytest
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
    failures,
    folded,
    instant,
    out_after,
)

from pointsman.turns.registry.availability import ALL_HEALTHY, at, health, reports
from pointsman.turns.registry.call_event import Result
from pointsman.turns.registry.provider_state import (
    THRESHOLDS,
    Outage,
    ProviderRecovered,
    Thresholds,
    clears_at,
)


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


@pytest.mark.req(142, 143)
def test_connections_that_break_off_strike_their_model_and_never_the_provider() -> None:
    """However many, and however soon: the provider was reached each time."""
    assert out_after(*(call(n, "cut", model) for n in range(4) for model in (OPUS, SONNET))) == {}
    assert out_after(*(call(n, "cut") for n in range(5))) == {OPUS: "unavailable"}
    assert out_after(call(0, "network"), call(1, "cut"), call(2, "cut")) == {}


@pytest.mark.req(147)
def test_a_success_of_any_model_empties_the_network_window() -> None:
    events = [call(0, "network"), call(1, "success", SONNET), call(2, "network")]
    assert out_after(*events) == {}


@pytest.mark.req(142)
def test_a_timeout_is_no_network_error() -> None:
    assert out_after(call(0, "timeout"), call(1, "network")) == {}


@pytest.mark.req(141)
def test_a_key_that_is_refused_during_an_outage_is_its_cause_from_then_on() -> None:
    unreached = [call(0, "network"), call(1, "network", SONNET)]
    state, told = folded(*unreached, call(30, "auth"))
    (wide,) = [each for each in reports(state, instant(30), KEY) if each.model is None]
    assert (wide.cause, wide.since, wide.clears_at) == ("auth_error", instant(1), instant(330))
    # It is the same outage: it is not told again.
    assert told == folded(*unreached)[1]


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


def test_the_documented_thresholds_are_the_default() -> None:
    assert Thresholds(5, 120, 3, 120, 2, 30, 300) == THRESHOLDS
    outage = Outage("auth_error", instant(0), instant(1), ())
    assert clears_at(outage) == instant(301)
