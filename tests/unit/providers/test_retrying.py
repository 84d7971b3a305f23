"""Retrying, driven by hand: which errors, how often, how long, with which key. No network."""

import pytest

from pointsman.providers.http.provider import Try, Wait, pause_s, retry_flow
from pointsman.providers.port import UpstreamError


def effects(*classes, keys=1, first=0, jitter=0.0, **error):
    """Give the effects of a call that fails in these ways and then works."""
    flow = retry_flow(keys, first, lambda: jitter)
    seen, left, told = [], list(classes), None
    while True:
        try:
            effect = flow.send(told)
        except StopIteration:
            return seen
        seen.append(effect)
        told = None
        if isinstance(effect, Try) and left:
            told = UpstreamError("x", error_class=left.pop(0), **error)


def test_a_call_that_works_is_made_once():
    assert effects() == [Try(0)]


@pytest.mark.parametrize("error_class", ["rate_limit", "server_error", "network"])
def test_passing_errors_are_tried_twice_more_after_doubling_pauses(error_class):
    wanted = [Try(0), Wait(1.0), Try(0), Wait(2.0), Try(0)]
    assert effects(*[error_class] * 9) == wanted
    assert effects(error_class) == wanted[:3]


@pytest.mark.parametrize(
    "error_class",
    ["auth", "context_overflow", "invalid_request", "cancelled", "other", "timeout"],
)
def test_other_errors_are_not_retried(error_class):
    assert effects(error_class) == [Try(0)]


def test_a_refusal_is_final_whatever_its_class():
    assert effects("rate_limit", keys=3, is_policy_refusal=True) == [Try(0)]


@pytest.mark.parametrize("error_class", ["rate_limit", "auth"])
def test_errors_of_a_key_go_on_with_the_next_key_at_once(error_class):
    assert effects(error_class, keys=3, first=2) == [Try(2), Try(0)]


def test_every_key_is_tried_before_the_first_pause():
    seen = effects(*["rate_limit"] * 9, keys=2)
    assert seen == [Try(0), Try(1), Wait(1.0), Try(1), Wait(2.0), Try(1)]
    assert effects(*["auth"] * 9, keys=2) == [Try(0), Try(1)]


def test_what_the_provider_asks_for_is_waited_without_jitter():
    assert effects("rate_limit", jitter=1.0, retry_after_s=7.0) == [Try(0), Wait(7.0), Try(0)]


def test_pauses_double_up_to_half_a_minute_and_spread_by_a_quarter():
    assert [pause_s(done, None, 0.0) for done in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert (pause_s(0, None, -1.0), pause_s(0, None, 1.0)) == (0.75, 1.25)
