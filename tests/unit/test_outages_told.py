"""What is told of outages: events, reports, and the decisions made during them."""

import msgspec
import pytest
from tests.unit.calls_made import (
    GPT,
    HAIKU,
    KEY,
    OPUS,
    SONNET,
    call,
    failures,
    folded,
    instant,
    out_after,
)

from pointsman.testing import a_policy, some_facts
from pointsman.turns.decide import Evaluation, decide
from pointsman.turns.policy import RoutingRule
from pointsman.turns.registry.availability import (
    ALL_HEALTHY,
    Report,
    Transition,
    after,
    at,
    reports,
)
from pointsman.turns.registry.provider_state import Health, ProviderRecovered, ProviderUnavailable
from pointsman.turns.rules.condition import Condition


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
    rules = (
        RoutingRule("deep", Condition(), OPUS),
        RoutingRule("deep, second", Condition(), SONNET),
    )
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
