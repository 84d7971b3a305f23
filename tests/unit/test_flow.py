"""One turn as effects: ruled, recorded, called, and fallen back where that is allowed."""

from decimal import Decimal

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from pointsman.calls.flow import (
    CallEffect,
    CallResult,
    Claim,
    EgressRefused,
    Fallback,
    FlowEnd,
    Record,
    RecordPlacement,
    TurnLock,
    _may_go_on,
    check_egress,
    continue_turn,
    turn,
)
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.instant import Instant
from pointsman.placement.compiled import compile_policy
from pointsman.placement.facts import CountedBy, LocalModel, PlacementFacts, Taint
from pointsman.placement.policy import BUILT_IN, placement_policy
from pointsman.recording.ruling import Policies, Ruling, decide_turn
from pointsman.testing import a_policy, some_facts
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.decide import decide, run_chain
from pointsman.turns.facts import Override, TurnFacts
from pointsman.turns.policy import RoutingRule
from pointsman.turns.registry.models import (
    EMBEDDED_MODEL,
    GivenModel,
    GivenPrice,
    ModelsFile,
    registry,
)
from pointsman.turns.rules.condition import Condition

ID = ContentId("sha256:" + "0" * 64)
FAILED = CallResult(is_done=False, error_class="timeout")
DONE = CallResult(is_done=True)


def a_model(location: str, price: int | None = 1) -> GivenModel:
    given = None if price is None else GivenPrice(Decimal(price), Decimal(price))
    return GivenModel(location=location, price=given)  # type: ignore[arg-type] # a literal


def turns_under(default: str, *rules: str, **models: GivenModel) -> CompiledTurnPolicy:
    """A policy over these models; the rules all match, in this order."""
    named = {name.replace("_", ":"): model for name, model in models.items()}
    known = registry(ModelsFile(1, models=named), lambda _name: None)
    made = tuple(RoutingRule(f"to {use}", Condition(has_images=False), use) for use in rules)
    local = (name for name, model in named.items() if model.location == "local")
    return a_policy(default, models=known, rules=made, local_model=next(local, UNSET))


TWO_CLOUD_ONE_LOCAL = turns_under(
    "l:m", "c:big", "c:small", c_big=a_model("cloud", 9), c_small=a_model("cloud"),
    l_m=a_model("local", 0),
)  # fmt: skip


def policies(turns: CompiledTurnPolicy = TWO_CLOUD_ONE_LOCAL, **placement: object) -> Policies:
    policy = placement_policy(BUILT_IN)
    return Policies(compile_policy(replace(policy, **placement)), ID, turns, ID)


def asked(**changes: object) -> PlacementFacts:
    facts = PlacementFacts(
        "t", "s", "hello", "auto", None, "", Instant(0), LocalModel("l:m", None, (), True), "c:big",
        "online", 5, CountedBy("given", False),
    )  # fmt: skip
    return replace(facts, **changes)


def driven(
    under: Policies,
    *answers: CallResult,
    about: PlacementFacts | None = None,
    facts: TurnFacts | None = None,
    fallback: Fallback | None = None,
    claim: Claim | None = None,
) -> tuple[list[str], FlowEnd]:
    """Drive a turn; give its effects in words, and how it ended."""
    given = (about or asked(), facts or some_facts(), fallback or Fallback(), claim)
    steps = turn(under, *given)
    told, left, answer = [], list(answers), None
    while True:
        try:
            effect = steps.send(answer)
        except StopIteration as stop:
            return told, stop.value
        if isinstance(effect, Record):
            outcome = effect.ruling.placing.outcome
            told.append(f"record {effect.kind} {outcome.rule_id} {effect.ruling.model or 'nobody'}")
            answer = None
        else:
            assert isinstance(effect, CallEffect)
            told.append(f"call {effect.model}")
            answer = left.pop(0)


def test_a_turn_is_recorded_before_it_is_called() -> None:
    told, ended = driven(policies(), DONE)
    assert told == ["record turn AUTO_LOCAL c:big", "call c:big"]
    assert (ended.status, ended.attempts, ended.ruling.model) == ("done", 1, "c:big")


@pytest.mark.req(99)
def test_a_model_that_failed_is_left_out_and_the_next_is_recorded_before_it_is_called() -> None:
    told, ended = driven(policies(), FAILED, FAILED, DONE)
    assert told == [
        "record turn AUTO_LOCAL c:big",
        "call c:big",
        "record fallback AUTO_LOCAL c:small",
        "call c:small",
        "record fallback AUTO_LOCAL l:m",
        "call l:m",
    ]
    assert (ended.status, ended.attempts) == ("done", 3)
    assert ended.ruling.facts.excluded_models == ("c:big", "c:small")
    assert not ended.ruling.is_placed_anew


HALF_OPEN = some_facts(availability={"c:big": "half_open", "c:small": "half_open"})


def test_what_is_half_open_is_claimed_for_the_turn_that_chose_it() -> None:
    asked_for: list[str] = []
    told, ended = driven(
        policies(), DONE, facts=HALF_OPEN, claim=lambda each: not asked_for.append(each)
    )
    assert told == ["record turn AUTO_LOCAL c:big", "call c:big"]
    assert asked_for == ["c:big"]
    assert ended.ruling.facts.availability == HALF_OPEN.availability


def test_what_another_turn_is_trying_is_out_for_this_one() -> None:
    """Decided again before anything is recorded: the facts say what the turn could not have."""
    told, ended = driven(policies(), DONE, facts=HALF_OPEN, claim=lambda each: each != "c:big")
    assert told == ["record turn AUTO_LOCAL c:small", "call c:small"]
    assert ended.ruling.facts.availability == {"c:big": "unavailable", "c:small": "half_open"}
    assert ended.ruling.is_placed_anew
    told, ended = driven(
        policies(), DONE, facts=some_facts(availability={"c": "half_open"}), claim=lambda _: False
    )
    assert told == ["record turn AUTO_LOCAL l:m", "call l:m"]
    assert ended.ruling.facts.availability == {"c": "unavailable"}


def test_a_fallback_claims_too() -> None:
    facts = some_facts(availability={"c:small": "half_open"})
    told, ended = driven(policies(), FAILED, DONE, facts=facts, claim=lambda _: False)
    assert told == [
        "record turn AUTO_LOCAL c:big",
        "call c:big",
        "record fallback AUTO_LOCAL l:m",
        "call l:m",
    ]
    assert not ended.ruling.is_placed_anew


def test_what_is_not_half_open_is_not_claimed() -> None:
    told, _ = driven(policies(), DONE, claim=lambda _: False)
    assert told == ["record turn AUTO_LOCAL c:big", "call c:big"]


def test_no_more_models_are_tried_than_allowed() -> None:
    told, ended = driven(policies(), FAILED, FAILED, fallback=Fallback(most_attempts=2))
    assert [each for each in told if each.startswith("call")] == ["call c:big", "call c:small"]
    assert (ended.status, ended.attempts, ended.error_class) == ("failed", 2, "timeout")


def test_without_fallback_the_first_failure_is_the_last() -> None:
    _, ended = driven(policies(), FAILED, fallback=Fallback(is_on=False))
    assert (ended.status, ended.attempts) == ("failed", 1)


def test_after_the_first_content_nothing_falls_back() -> None:
    _, ended = driven(policies(), CallResult(False, "cut", has_content=True))
    assert (ended.status, ended.attempts, ended.error_class) == ("failed", 1, "cut")


def test_a_failure_that_another_model_would_share_is_not_tried_again() -> None:
    _, ended = driven(policies(), CallResult(False, "refused", is_worth_another=False))
    assert (ended.status, ended.attempts) == ("failed", 1)


def test_a_model_the_request_names_has_no_fallback() -> None:
    told, ended = driven(policies(), FAILED, facts=some_facts(named_model="c:small"))
    assert told[-1] == "call c:small"
    assert (ended.status, ended.attempts) == ("failed", 1)


@pytest.mark.parametrize(
    ("facts", "goes_on"),
    [
        (some_facts(named_model="c:small"), False),
        (some_facts(named_model="c:small", sticky_model="c:big"), False),
        (some_facts(sticky_model="c:small"), True),
        (some_facts(override=Override("small", "c:small"), named_model="c:big"), True),
    ],
    ids=["named", "named beside a pin", "sticky", "override of another name"],
)
def test_the_chain_ends_at_a_named_model_before_anything_is_decided_again(
    facts: TurnFacts, goes_on: bool
) -> None:
    # The chain would refuse every other model, too: only this line spares the second decision.
    ruling = decide_turn(policies(), asked(), facts)
    assert ruling.model == "c:small"
    assert _may_go_on(Fallback(), ruling, FAILED, 1) is goes_on


@pytest.mark.parametrize(
    "facts",
    [
        some_facts(override=Override("big", "c:small")),
        some_facts(sticky_model="c:small"),
    ],
    ids=["override", "sticky"],
)
def test_a_pinned_model_or_an_alias_that_fails_is_followed_as_any_other(facts: TurnFacts) -> None:
    told, ended = driven(policies(), FAILED, DONE, facts=facts)
    assert told[-1] == "call c:big"
    assert ended.status == "done"


@pytest.mark.parametrize(
    "facts",
    [
        some_facts(override=Override("mine", "l:m")),
        some_facts(sticky_model="l:m"),
        some_facts(named_model="l:m"),
    ],
    ids=["override", "sticky", "named"],
)
def test_a_local_model_chosen_by_hand_is_never_followed_by_a_cloud_one(facts: TurnFacts) -> None:
    told, ended = driven(policies(), FAILED, facts=facts)
    assert [each for each in told if each.startswith("call")] == ["call l:m"]
    assert ended.status == "failed"


def test_a_rejected_alias_falls_to_the_model_the_request_names_and_no_further() -> None:
    facts = some_facts(
        override=Override("big", "c:big"), named_model="c:small", excluded_models=("c:big",)
    )
    assert driven(policies(), DONE, facts=facts)[0][-1] == "call c:small"
    both_away = replace(facts, excluded_models=("c:big", "c:small"))
    told, ended = driven(policies(), facts=both_away)
    assert told == ["record turn AUTO_LOCAL nobody"]
    assert ended.status == "no_model"


def test_a_turn_that_no_model_may_take_is_recorded_and_calls_nobody() -> None:
    turns = turns_under("c:big", c_big=a_model("cloud"))
    away = some_facts(privacy_level="local", excluded_models=(EMBEDDED_MODEL,))
    told, ended = driven(policies(turns), about=asked(privacy_level="local"), facts=away)
    assert told == ["record turn PRIVACY_LOCAL nobody"]
    assert (ended.status, ended.attempts) == ("no_model", 0)


@pytest.mark.parametrize(
    ("named", "models", "served"),
    [
        ("l:two", {"l_one": a_model("local", 0), "l_two": a_model("local", 0)}, "l:two"),
        (UNSET, {"l_one": a_model("local", 0), "l_two": a_model("local", 0)}, "l:one"),
        (UNSET, {}, EMBEDDED_MODEL),
    ],
    ids=["placement.yaml names it", "the first of models.yaml", "the embedded one"],
)
def test_a_turn_that_must_stay_is_taken_by_the_placements_own_local_model(
    named: str | UnsetType, models: dict[str, GivenModel], served: str
) -> None:
    turns = turns_under("c:big", c_big=a_model("cloud"), **models)
    under = policies(turns, local_model=named)
    ruling = decide_turn(under, asked(privacy_level="local"), some_facts(privacy_level="local"))
    assert (ruling.model, ruling.trace.chain[-1].reason) == (
        served,
        "placement keeps this turn here",
    )
    assert [each.candidate_model for each in ruling.trace.chain[-1].rule_attempts] == ["c:big"]


def test_when_nobody_is_left_the_turn_ends_with_the_last_failure() -> None:
    turns = turns_under("c:big", c_big=a_model("cloud"))
    told, ended = driven(policies(turns), FAILED)
    assert told == ["record turn AUTO_LOCAL c:big", "call c:big"]
    assert (ended.status, ended.error_class) == ("failed", "timeout")


def test_a_driver_that_sends_nothing_back_means_that_the_call_was_done() -> None:
    steps = turn(policies(), asked(), some_facts(), Fallback())
    next(steps)
    next(steps)
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value.status == "done"


@pytest.mark.parametrize(
    ("ratio", "calls"), [(None, 2), (8, 1), (9, 2)], ids=["none", "below", "at"]
)
def test_a_fallback_stays_within_its_price_ceiling(ratio: int | None, calls: int) -> None:
    turns = turns_under(
        "l:m", "c:cheap", "c:dear",
        c_cheap=a_model("cloud", 1), c_dear=a_model("cloud", 9), l_m=a_model("local", 0),
    )  # fmt: skip
    facts = some_facts(estimated_input_tokens={"*": 1_000})
    fallback = Fallback(max_price_ratio=ratio, most_attempts=2)
    _, ended = driven(policies(turns), FAILED, FAILED, facts=facts, fallback=fallback)
    assert ended.attempts == calls


@pytest.mark.parametrize("unknown", ["first", "second"])
def test_a_price_nobody_knows_is_above_every_ceiling(unknown: str) -> None:
    turns = turns_under(
        "l:m", "c:a", "c:b",
        c_a=a_model("cloud", None if unknown == "first" else 1),
        c_b=a_model("cloud", None if unknown == "second" else 1), l_m=a_model("local", 0),
    )  # fmt: skip
    _, ended = driven(policies(turns), FAILED, DONE, fallback=Fallback(max_price_ratio=100))
    assert ended.attempts == 1


def test_a_binding_placement_keeps_every_fallback_here() -> None:
    turns = turns_under(
        "c:big", "c:big", "l:one", "l:two",
        c_big=a_model("cloud"), l_one=a_model("local", 0), l_two=a_model("local", 0),
    )  # fmt: skip
    here = {"about": asked(privacy_level="local"), "facts": some_facts(privacy_level="local")}
    told, ended = driven(policies(turns), FAILED, FAILED, **here)  # type: ignore[arg-type] # keywords
    calls = [each for each in told if each.startswith("call")]
    assert calls == ["call l:one", "call l:two"]
    assert ended.status == "failed"


@pytest.mark.req(92, 98, 99)
def test_a_binding_auto_escalates_once_and_only_after_it_is_recorded() -> None:
    turns = turns_under(
        "l:two", "l:one", "c:big", "c:small",
        c_big=a_model("cloud"), c_small=a_model("cloud"), l_one=a_model("local", 0),
        l_two=a_model("local", 0),
    )  # fmt: skip
    told, ended = driven(policies(turns, auto="binding"), FAILED, FAILED, DONE)
    assert told == [
        "record turn AUTO_LOCAL l:one",
        "call l:one",
        "record fallback LOCAL_EXECUTION_FAILURE c:big",
        "call c:big",
        "record fallback LOCAL_EXECUTION_FAILURE c:small",
        "call c:small",
    ]
    assert ended.ruling.placing.outcome.log_escalation
    assert not ended.ruling.placing.outcome.fallback_allowed
    assert not ended.ruling.is_placed_anew


@pytest.mark.req(81)
def test_an_escalation_without_a_network_finds_nobody() -> None:
    turns = turns_under("l:m", "l:m", "c:big", c_big=a_model("cloud"), l_m=a_model("local", 0))
    told, ended = driven(
        policies(turns, auto="binding"),
        FAILED,
        about=asked(network_state="offline"),
        facts=some_facts(network_state="offline"),
    )
    assert told == ["record turn AUTO_LOCAL l:m", "call l:m"]
    assert ended.status == "failed"


def test_a_binding_auto_whose_models_are_all_away_has_no_model() -> None:
    turns = turns_under("c:big", c_big=a_model("cloud"), l_m=a_model("local", 0))
    away = some_facts(excluded_models=("l:m",))
    told, ended = driven(policies(turns, auto="binding"), facts=away)
    assert told == ["record turn AUTO_LOCAL nobody"]
    assert ended.status == "no_model"


def a_ruling(**changes: object) -> tuple[Policies, Ruling]:
    under = policies()
    ruling = decide_turn(under, asked(privacy_level="cloud"), some_facts())
    outcome = replace(ruling.placing.outcome, **changes)
    return under, replace(ruling, placing=replace(ruling.placing, outcome=outcome))


@pytest.mark.parametrize("gate", ["local", "closed"])
def test_the_door_refuses_what_a_decision_should_never_have_chosen(gate: str) -> None:
    under, ruling = a_ruling(gate=gate, rule_id="TAINT_LOCAL")
    with pytest.raises(EgressRefused, match=r"c:big may not be called: TAINT_LOCAL"):
        check_egress(under, ruling)


def test_the_door_refuses_every_model_of_a_turn_that_goes_nowhere() -> None:
    under, ruling = a_ruling(gate="closed")
    local = replace(ruling, outcome=replace(ruling.outcome, chosen_model="l:m"))
    with pytest.raises(EgressRefused):
        check_egress(under, local)


def test_the_door_takes_a_model_it_does_not_know_for_one_in_the_cloud() -> None:
    under, ruling = a_ruling(gate="local")
    unknown = replace(ruling, outcome=replace(ruling.outcome, chosen_model="l:gone"))
    with pytest.raises(EgressRefused):
        check_egress(under, unknown)


def test_the_door_lets_local_models_and_open_gates_pass() -> None:
    under, ruling = a_ruling(gate="local")
    check_egress(under, replace(ruling, outcome=replace(ruling.outcome, chosen_model="l:m")))
    check_egress(*a_ruling(gate="open"))


def advice(about: PlacementFacts, **placement: object) -> bool:
    under = policies(**placement)
    return decide_turn(
        under, about, some_facts(privacy_level=about.privacy_level)
    ).placing.is_advice


def test_what_left_everything_open_by_the_table_alone_is_advice() -> None:
    assert advice(asked())
    assert advice(asked(privacy_level="cloud"))
    assert advice(asked(privacy_level="cloud", network_state="offline"))


def test_what_binds_or_was_asked_of_somebody_is_a_decision_of_its_own() -> None:
    assert not advice(asked(privacy_level="local"))
    assert not advice(asked(), auto="binding")
    assert not advice(asked(human_override="force_remote"))
    assert not advice(asked(), is_unreadable=True)


def test_what_a_placement_leaves_open_is_a_fact_of_the_turn() -> None:
    ruling = decide_turn(policies(), asked(privacy_level="local"), some_facts())
    placed = ruling.facts.placement
    assert placed is not None
    assert (placed.policy_id, placed.rule_id, placed.gate) == (ID, "PRIVACY_LOCAL", "local")
    assert ruling.model == "l:m"
    blocked = ruling.trace.chain[2]
    assert blocked.validation_failure == "privacy_blocked"
    assert blocked.reason.endswith("this turn stays local: PRIVACY_LOCAL")


def test_a_turn_that_goes_nowhere_says_by_which_rule() -> None:
    about = asked(privacy_level="local", human_override="force_remote")
    ruling = decide_turn(policies(), about, some_facts(privacy_level="local"))
    assert ruling.model == ""
    assert ruling.trace.chain[-1].reason.startswith("POLICY_FORCE_CLOUD: human override")


def went_on(
    under: Policies, about: PlacementFacts, model: str | TurnLock, *answers: CallResult
) -> tuple[list[str], FlowEnd]:
    """Drive a turn that waited for a tool."""
    lock = TurnLock("t", "d", model) if isinstance(model, str) else model
    steps = continue_turn(under, about, lock)
    told, left, answer = [], list(answers), None
    while True:
        try:
            effect = steps.send(answer)
        except StopIteration as stop:
            return told, stop.value
        answer = None
        if isinstance(effect, RecordPlacement):
            told.append(f"record {effect.placing.outcome.rule_id}")
        else:
            assert isinstance(effect, CallEffect)
            told.append(f"call {effect.model} {effect.number}")
            answer = left.pop(0) if left else None


def test_a_turn_that_waited_for_a_tool_goes_on_with_its_model() -> None:
    told, ended = went_on(policies(), asked(), "c:big", DONE)
    assert told == ["call c:big 2"]
    assert (ended.status, ended.attempts) == ("done", 1)
    assert went_on(policies(), asked(), "c:big")[1].status == "done"


def test_a_turn_that_goes_on_has_no_fallback() -> None:
    told, ended = went_on(policies(), asked(), "c:big", FAILED)
    assert told == ["call c:big 2"]
    assert (ended.status, ended.error_class) == ("failed", "timeout")


def test_what_a_tool_brought_that_must_stay_ends_the_turn_of_a_cloud_model() -> None:
    tainted = asked(taint=Taint("t", "SENSITIVE_LOCAL"))
    told, ended = went_on(policies(), tainted, "c:big")
    assert told == ["record TAINT_LOCAL"]
    assert (ended.status, ended.attempts) == ("refused", 0)
    told, ended = went_on(policies(), tainted, "l:m", DONE)
    assert told == ["record TAINT_LOCAL", "call l:m 2"]
    assert ended.status == "done"


def test_a_turn_let_go_by_an_escalation_is_held_again_by_what_it_brings_only() -> None:
    binding = policies(auto="binding")
    assert went_on(binding, asked(), "c:big")[1].status == "refused"
    let_go = TurnLock("t", "d", "c:big", is_escalated=True)
    assert went_on(binding, asked(), let_go, DONE)[1].status == "done"
    assert went_on(binding, asked(privacy_level="local"), let_go)[1].status == "refused"


def test_a_named_model_takes_the_slot_of_a_pin() -> None:
    facts = some_facts(named_model="c:small", sticky_model="c:big")
    for judge in (decide, run_chain):
        outcome, trace = judge(policies().turns, facts)
        winner = trace.chain[outcome.winner_index]
        assert (winner.policy, winner.candidate_model) == ("manual_sticky", "c:small"), judge
