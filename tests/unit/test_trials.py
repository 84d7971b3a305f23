"""Who may try what was out: one turn at a time, when, and how a trial ends."""

import pytest
from msgspec.structs import replace
from tests.unit.calls_made import GPT, HAIKU, KEY, OPUS, SONNET, call, failures, instant

from pointsman.turns.registry.call_event import CallEvent, Result
from pointsman.turns.registry.provider_state import Health, ProviderRecovered, Thresholds
from pointsman.turns.registry.trials import (
    KEPT_FOR_S,
    NOTHING_KNOWN,
    HealthState,
    after_call,
    claim,
    clear,
    health_reports,
    is_overdue,
    is_same,
    matters,
    settle,
    states,
)

EARLY = Thresholds(probe_after_s=20)
DOCUMENT = Thresholds()
UNREACHED = (call(0, "network"), call(1, "network", SONNET))


def known_after(*events: CallEvent, thresholds: Thresholds = EARLY) -> HealthState:
    known = NOTHING_KNOWN
    for event in events:
        known, _ = after_call(known, event, (), "one", thresholds)
    return known


def seen(known: HealthState, seconds: float, thresholds: Thresholds = EARLY) -> dict[str, Health]:
    return states(known.out(KEY), known.trials, instant(seconds), thresholds)


def claimed(
    known: HealthState, seconds: float, holder: str = "one", model: str = OPUS
) -> tuple[HealthState, bool]:
    return claim(known, model, holder, instant(seconds), KEY, EARLY)


def settled(known: HealthState, seconds: float) -> HealthState:
    return settle(known, instant(seconds), KEY, EARLY)[0]


@pytest.mark.parametrize(("seconds", "state"), [(20.999999, "unavailable"), (21, "half_open")])
def test_what_is_out_may_be_tried_so_long_after_the_last_attempt(
    seconds: float, state: Health
) -> None:
    assert seen(known_after(*UNREACHED), seconds) == {"anthropic": state}
    model = known_after(*failures(5, start=-3))
    assert seen(model, seconds) == {OPUS: state}


def test_without_a_setting_nothing_is_tried_before_the_outage_is_over() -> None:
    known = known_after(*UNREACHED, thresholds=DOCUMENT)
    assert seen(known, 300.999999, DOCUMENT) == {"anthropic": "unavailable"}
    assert seen(known, 301, DOCUMENT) == {"anthropic": "half_open"}


def test_a_refused_key_is_never_tried_early() -> None:
    """Neither where it took the provider out, nor where it was found out during an outage."""
    for known in (known_after(call(1, "auth")), known_after(*UNREACHED, call(1, "auth"))):
        assert seen(known, 299) == {"anthropic": "unavailable"}
        assert claimed(known, 299)[1] is False
        assert seen(known, 301) == {"anthropic": "half_open"}


def test_an_attempt_that_fails_puts_the_next_trial_off() -> None:
    known = known_after(*UNREACHED, call(15))
    assert seen(known, 34) == {"anthropic": "unavailable"}
    assert seen(known, 35) == {"anthropic": "half_open"}


def test_one_turn_at_a_time_may_try() -> None:
    known, is_granted = claimed(known_after(*UNREACHED), 21)
    assert is_granted
    assert seen(known, 21) == {"anthropic": "unavailable"}
    assert claimed(known, 21, "two") == (known, False)
    assert claimed(known, 21, "two", SONNET) == (known, False)


def test_a_turn_that_never_ends_keeps_others_off_for_a_minute() -> None:
    known, _ = claimed(known_after(*UNREACHED), 21)
    assert seen(known, 80.999999) == {"anthropic": "unavailable"}
    assert seen(known, 81) == {"anthropic": "half_open"}
    assert claimed(known, 81, "two")[1]


def test_a_model_that_is_out_within_a_provider_that_is_out_needs_both_to_be_due() -> None:
    known = known_after(*UNREACHED, *failures(5, start=2))
    assert seen(known, 26) == {"anthropic": "half_open", OPUS: "half_open"}
    only_model, is_granted = claimed(known, 26, model=HAIKU)
    assert is_granted
    assert only_model.trials.keys() == {"anthropic"}
    assert claimed(known, 26)[0].trials.keys() == {"anthropic", OPUS}
    assert claimed(only_model, 26)[1] is False


def test_what_is_healthy_needs_no_claim() -> None:
    known = known_after(*UNREACHED)
    assert claimed(known, 21, model=GPT) == (known, True)


def test_a_trial_that_succeeds_ends_the_outage_and_itself() -> None:
    known, _ = claimed(known_after(*UNREACHED), 21)
    after = after_call(known, call(22, "success"), (), "one", EARLY)[0]
    assert (seen(after, 22), after.trials) == ({}, {})


def test_a_trial_that_fails_leaves_the_outage_to_its_own_clock() -> None:
    known, _ = claimed(known_after(*UNREACHED), 21)
    after = after_call(known, call(22, "network"), (), "one", EARLY)[0]
    assert after.trials == {}
    assert seen(after, 41.999999) == {"anthropic": "unavailable"}
    assert seen(after, 42) == {"anthropic": "half_open"}


@pytest.mark.parametrize("result", ["cancelled", "invalid_request"])
def test_a_trial_that_says_nothing_lets_the_next_turn_try_at_once(result: Result) -> None:
    known, _ = claimed(known_after(*UNREACHED), 21)
    after = after_call(known, call(22, result), (), "one", EARLY)[0]
    assert seen(after, 22) == {"anthropic": "half_open"}


def test_the_failure_of_a_call_that_tries_nothing_leaves_the_trial_to_who_has_it() -> None:
    known, _ = claimed(known_after(*UNREACHED), 21)
    after = after_call(known, call(22, "timeout"), (), "two", EARLY)[0]
    assert seen(after, 60) == {"anthropic": "unavailable"}
    assert after.trials["anthropic"].holder == "one"


def test_after_an_outage_one_turn_at_a_time_tries_until_a_call_succeeds() -> None:
    known = settled(known_after(call(0, "auth")), 300)
    assert seen(known, 300) == {"anthropic": "half_open"}
    known, _ = claimed(known, 300)
    assert seen(known, 300) == {"anthropic": "unavailable"}
    failed = after_call(known, call(301, "timeout"), (), "one", EARLY)[0]
    # No new outage yet, so it may be tried again at once; by one.
    assert seen(failed, 301) == {"anthropic": "half_open"}
    back = after_call(claimed(failed, 302)[0], call(303, "success"), (), "one", EARLY)[0]
    assert (seen(back, 303), back.trials) == ({}, {})


def test_the_next_call_tells_that_an_outage_is_over_as_time_does() -> None:
    """Without a question in between, a failure 300 s later meets a scope that is to be tried."""
    known = known_after(*failures(5), call(304))
    assert known.trials.keys() == {OPUS}
    assert seen(known, 304) == {OPUS: "half_open"}


def test_a_scope_that_no_turn_wants_is_forgotten_after_an_hour() -> None:
    known = settled(known_after(*failures(5)), 304)
    assert seen(known, 304) == {OPUS: "half_open"}
    assert not is_overdue({}, known.trials, instant(304 + KEPT_FOR_S), EARLY)
    assert is_overdue({}, known.trials, instant(305 + KEPT_FOR_S), EARLY)
    assert settled(known, 305 + KEPT_FOR_S) == NOTHING_KNOWN


def test_asking_early_or_late_ends_an_outage_at_the_same_instant() -> None:
    known = known_after(*failures(5))
    early, late = settled(known, 304), settled(known, 900)
    assert early == late
    assert not is_overdue(known.out(KEY), {}, instant(303), EARLY)
    assert is_overdue(known.out(KEY), {}, instant(304), EARLY)


def test_a_success_matters_only_where_something_is_known_of_it() -> None:
    struck = known_after(call(0))
    assert matters(struck, call(1, "success"))
    assert not matters(struck, call(1, "success", SONNET))
    assert not matters(struck, call(1, "success", GPT))
    assert matters(known_after(call(0, "network")), call(1, "success", SONNET))
    assert matters(known_after(call(0, "auth")), call(1, "success", SONNET))
    assert matters(settled(known_after(call(0, "auth")), 300), call(301, "success", SONNET))
    three = [*failures(5), *failures(5, start=5, model=SONNET)]
    hit_again = known_after(*three)
    assert matters(hit_again, call(11, "success"))
    assert not matters(hit_again, call(11, "success", HAIKU))
    assert matters(NOTHING_KNOWN, call(0))


def test_a_success_that_matters_not_changes_nothing() -> None:
    known = known_after(call(0), *failures(5, start=1, model=SONNET))
    after, told = after_call(known, call(7, "success", HAIKU), (), "one", EARLY)
    assert is_same(after, known)
    assert told == ()
    assert not is_same(known_after(call(0)), known)
    assert not is_same(replace(known, trials={}), settled(known, 400))


def test_clearing_a_provider_clears_its_models_and_every_count() -> None:
    other = call(2, model=GPT)
    known = known_after(*failures(5), *UNREACHED, call(3, model=HAIKU), other)
    cleared, told = clear(claimed(known, 24)[0], "anthropic", None, instant(30), KEY)
    assert cleared == known_after(other)
    assert [each.payload for each in told] == [
        ProviderRecovered("anthropic", "model_specific", (OPUS,), 26),
        ProviderRecovered("anthropic", "provider_wide", (OPUS, SONNET), 26),
    ]
    # Strikes and network errors that were too few for an outage are gone, too.
    few = known_after(call(0, "network"))
    assert clear(few, "anthropic", None, instant(1), KEY) == (NOTHING_KNOWN, ())


def test_clearing_a_model_leaves_its_provider_and_its_siblings() -> None:
    known = known_after(*failures(5), *failures(5, start=5, model=SONNET), call(9, "auth"))
    cleared, told = clear(known, "anthropic", OPUS, instant(10), KEY)
    assert seen(cleared, 10) == {"anthropic": "unavailable", SONNET: "unavailable"}
    assert [each.payload for each in told] == [
        ProviderRecovered("anthropic", "model_specific", (OPUS,), 6)
    ]


def test_clearing_ends_a_trial() -> None:
    wide = settled(known_after(call(0, "auth"), *failures(5, model=SONNET)), 400)
    assert wide.trials.keys() == {"anthropic", SONNET}
    assert clear(wide, "anthropic", None, instant(400), KEY) == (NOTHING_KNOWN, ())
    assert clear(wide, "anthropic", SONNET, instant(400), KEY)[0].trials.keys() == {"anthropic"}
    assert clear(wide, "openai", None, instant(400), KEY) == (wide, ())


def test_a_report_says_half_open_while_a_trial_may_be_or_is_made() -> None:
    known = known_after(*UNREACHED)

    def wide(known: HealthState, seconds: float) -> tuple[object, ...]:
        found = health_reports(known, instant(seconds), KEY, (OPUS,), EARLY)[0]
        return found.state, found.cause, found.why, found.clears_at

    assert wide(known, 20) == ("unavailable", "dns_error", "network", instant(301))
    assert wide(known, 21) == ("half_open", "dns_error", "network", instant(301))
    assert wide(claimed(known, 21)[0], 22) == ("half_open", "dns_error", "network", instant(301))
    # Another process fails meanwhile: the trial is being made all the same.
    meanwhile = after_call(claimed(known, 21)[0], call(22, "timeout"), (), "two", EARLY)[0]
    assert wide(meanwhile, 23) == ("half_open", "dns_error", "network", instant(322))
    assert wide(known, 301) == ("half_open", "dns_error", "network", None)
    trying = claimed(settled(known, 301), 302)[0]
    assert wide(trying, 303) == ("half_open", "dns_error", "network", instant(362))


def test_a_model_that_is_to_be_tried_is_reported_though_it_is_not_configured() -> None:
    known = settled(known_after(*failures(5)), 304)
    found = health_reports(known, instant(304), KEY, (), EARLY)
    assert [(each.model, each.state) for each in found] == [(None, "healthy"), (OPUS, "half_open")]
