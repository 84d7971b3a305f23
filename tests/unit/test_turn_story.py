"""What happened in a turn: the record, who was not asked, and both as text of any width."""

from __future__ import annotations

from unicodedata import east_asian_width

import msgspec
import pytest
from msgspec.structs import replace

from pointsman.errors import MissingSnapshot
from pointsman.kernel.columns import column_count, fold_line
from pointsman.kernel.content import Sealed
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import MicroUsd
from pointsman.testing import a_policy, some_facts
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.decide import decide
from pointsman.turns.explain import NARROWEST, story_to_json, to_screen
from pointsman.turns.facts import Override, TurnFacts
from pointsman.turns.policy import RoutingRule, Workspace
from pointsman.turns.rules.condition import Condition
from pointsman.turns.story.turn_story import (
    LaterDecision,
    PlacementRefusal,
    TurnCall,
    TurnStory,
    UnaskedCandidate,
    UnaskedCandidates,
    unasked_candidates,
)
from pointsman.turns.trace import Evaluation, RuleAttempt, Shown, TurnOutcome, TurnTrace

MODELS = ("acme:a", "acme:b", "acme:c", "acme:d")
ALWAYS = Condition()
DEFAULT = Evaluation("global_default", "chose", "acme:d", "global default")


def a_shown(outcome: TurnOutcome, trace: TurnTrace, **changes: object) -> Shown:
    shown = Shown(
        turn_id="01M7QC9T8PBY5JDT157J6TAX7E",
        session_id="47a5a326110fa49a79fc155152586cf8",
        decision_id="d-1",
        at=Instant(0),
        policy_id="sha256:" + "a" * 64,
        facts_id="sha256:" + "b" * 64,
        decision_version=1,
        is_preview=False,
        elapsed_us=80,
        outcome=outcome,
        trace=trace,
    )
    return replace(shown, **changes)


def decided(ready: CompiledTurnPolicy, facts: TurnFacts, **changes: object) -> Shown:
    return a_shown(*decide(ready, facts), **changes)


def a_call(decision_id: str = "d-1", model: str = "acme:a", **changes: object) -> TurnCall:
    call = TurnCall(decision_id, Instant(10), "turn", model, "done", attempts=1, elapsed_us=812_345)
    return replace(call, **changes)


FAILED = a_call(outcome="failed", error_class="server_error", status=500, attempts=3)


def a_fallback(**changes: object) -> LaterDecision:
    later = LaterDecision(
        "fallback",
        "d-2",
        Instant(20),
        TurnOutcome("acme:d", 0, ()),
        TurnTrace((DEFAULT,)),
        ("acme:a",),
    )
    return replace(later, **changes)


def three_lost() -> Shown:
    """Three rules that match and are rejected, each for a cause of its own."""
    rules = tuple(
        RoutingRule(
            f"the {name} rule, with a name that alone is longer than its column", ALWAYS, model
        )
        for name, model in (("first", "acme:a"), ("second", "acme:b"), ("third", "acme:c"))
    )
    facts = some_facts(
        availability={"acme:a": "unavailable"},
        allowed_models=("acme:a", "acme:c", "acme:d"),
        configured=("acme:a", "acme:b", "acme:d"),
    )
    return decided(a_policy("acme:d", *MODELS, rules=rules), facts)


def unfolded(screen: str) -> str:
    return " ".join(screen.split())


@pytest.mark.req(102)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_rule_that_lost_is_shown_with_its_model_code_and_cause(width: int) -> None:
    screen = to_screen(three_lost(), width)
    said = unfolded(screen)
    for name, model, code, cause in (
        ("first", "acme:a", "provider_unavailable", "acme:a model-specific outage"),
        ("second", "acme:b", "not_permitted", "acme:b is not among the allowed models"),
        ("third", "acme:c", "not_configured", "acme:c lacks a key or an address"),
    ):
        rule = f'rule "the {name} rule, with a name that alone is longer than its column"'
        assert said.count(f"{rule} -> {model} [{code}] {cause}") == 1
        assert said.count(f"[{code}]") == 1
    assert max(map(column_count, screen.splitlines())) <= width
    assert "…" not in screen


def test_a_wide_terminal_takes_one_line_for_each_rule_that_lost() -> None:
    lines = to_screen(three_lost(), 200).splitlines()
    assert sum("[provider_unavailable]" in line and "outage" in line for line in lines) == 1
    assert max(map(len, lines)) > 120


def test_rules_that_lost_before_a_rule_that_won_are_told_below_it() -> None:
    rules = (RoutingRule("one", ALWAYS, "acme:a"), RoutingRule("two", ALWAYS, "acme:b"))
    facts = some_facts(availability={"acme:a": "unavailable"})
    screen = to_screen(decided(a_policy("acme:d", *MODELS, rules=rules), facts), 200)
    assert 'chose           acme:b (rule "two" matched)' in screen
    lost = 'lost: rule "one" -> acme:a [provider_unavailable] acme:a model-specific outage'
    assert lost in screen


def test_a_default_that_lost_among_several_is_told_without_a_rules_name() -> None:
    lost = RuleAttempt("", "acme:a", "over_budget", "budget day has $0 left, acme:a needs more")
    chain = (replace(DEFAULT, rule_attempts=(lost,)),)
    screen = to_screen(a_shown(TurnOutcome("acme:d", 0, ()), TurnTrace(chain)), 200)
    assert "chose           acme:d\n" in screen
    assert "lost: acme:a [over_budget] budget day has $0 left, acme:a needs more" in screen


def test_a_default_taken_for_another_reason_says_that_reason() -> None:
    chain = (replace(DEFAULT, reason="placement keeps this turn here"),)
    screen = to_screen(a_shown(TurnOutcome("acme:d", 0, ()), TurnTrace(chain)), 200)
    assert "acme:d (placement keeps this turn here)" in screen


@pytest.mark.req(102, 254)
def test_a_plain_turn_fits_a_screen_of_24_lines_and_80_columns() -> None:
    call = a_call(
        model="anthropic:claude-opus-4-7", input_tokens=12_345, output_tokens=678,
        cached_input_tokens=1_000, cost_microusd=MicroUsd(123_456), first_byte_us=120_000,
    )  # fmt: skip
    shown = decided(a_policy("acme:d", *MODELS), some_facts())
    unasked = UnaskedCandidates((UnaskedCandidate("global_default", "", "acme:d"),))
    lines = to_screen(TurnStory(shown, calls=(call,), unasked=unasked)).splitlines()
    assert len(lines) <= 24
    assert max(map(column_count, lines)) <= 80
    assert "1970-01-01T00:00:00.000000Z" in lines[0] + lines[1]
    assert lines[3] == "Served: anthropic:claude-opus-4-7   ($0.123456)"


def test_a_turn_that_fell_back_tells_each_call_and_why_it_was_decided_again() -> None:
    lost = RuleAttempt("b", "acme:b", "over_budget", "budget day has $0 left, acme:b needs more")
    again = RuleAttempt("a", "acme:a", "provider_unavailable", "acme:a failed earlier in this turn")
    chain = (Evaluation("rule", "rejected", "acme:b", "x", "b", (again, lost)), DEFAULT)
    later = a_fallback(outcome=TurnOutcome("acme:d", 1, ()), trace=TurnTrace(chain))
    served = a_call(
        "d-2", "acme:d", number=2, cost_microusd=MicroUsd(19), input_tokens=12, output_tokens=7
    )
    rules = (RoutingRule("a", ALWAYS, "acme:a"),)
    shown = decided(a_policy("acme:d", *MODELS, rules=rules), some_facts())
    story = TurnStory(shown, (later,), (FAILED, served))
    assert (story.state, story.served_model, story.cost_microusd) == ("fallback", "acme:d", 19)
    screen = to_screen(story, 200)
    assert "Chose: acme:a   (rule)\nServed: acme:d   (fallback, $0.000019)\n" in screen
    told = screen[screen.index("Calls:") :].splitlines()
    assert told[1:5] == [
        "  call 1: acme:a failed (server_error, status 500) · 3 attempts · total 812ms",
        "  fallback: acme:a failed (server_error, status 500); chose acme:d (global default)",
        '      lost: rule "b" -> acme:b [over_budget] budget day has $0 left, acme:b needs more',
        "  call 2: acme:d done · 12 in, 7 out · $0.000019 · total 812ms",
    ]
    (value,) = story_to_json(story)["fallbacks"]  # type: ignore[misc] # a list
    assert (value["failed_model"], value["error_class"], value["status"]) == (
        "acme:a", "server_error", 500,
    )  # fmt: skip
    assert (value["chosen_model"], value["policy"]) == ("acme:d", "global_default")


def test_a_fallback_whose_cause_is_not_on_record_still_names_the_model_that_failed() -> None:
    shown = decided(a_policy("acme:d", *MODELS), some_facts())
    story = TurnStory(shown, (a_fallback(),))
    assert story.state == "fallback"
    assert "  fallback: acme:a failed; chose acme:d (global default)" in to_screen(story)


def test_a_choice_of_the_user_is_told_as_such() -> None:
    shown = decided(a_policy("acme:d", *MODELS), some_facts())
    later = a_fallback(kind="override", excluded_models=())
    story = TurnStory(shown, (later,), (a_call("d-2"),))
    assert story.state == "done"
    assert "  override: the user took what similar turns speak for; chose acme:d" in (
        to_screen(story, 100)
    )


def test_shadow_runs_and_judges_stand_under_a_heading_of_their_own() -> None:
    shown = decided(a_policy("acme:d", *MODELS), some_facts())
    beside = (a_call("d-3", "acme:b", role="shadow"), a_call("d-4", "acme:c", role="judge"))
    story = TurnStory(shown, calls=(a_call(cost_microusd=MicroUsd(5)),), beside=beside)
    told = to_screen(story).split("Beside the turn:\n")[1].splitlines()
    assert told[0].startswith("  shadow run: acme:b done")
    assert told[1].startswith("  judge: acme:c done")
    assert (story.served_model, story.cost_microusd) == ("acme:a", 5)


def test_a_call_tells_what_was_estimated_cached_or_has_no_price() -> None:
    shown = decided(a_policy("acme:d", *MODELS), some_facts())
    guessed = a_call(cost_microusd=MicroUsd(7), is_estimated=True, output_tokens=1)
    unknown = a_call(
        cost_microusd=None, input_tokens=2, cached_input_tokens=3, cache_creation_input_tokens=4
    )
    cut = a_call(outcome="failed", error_class="network", status=200)
    screen = to_screen(TurnStory(shown, calls=(guessed, unknown, cut)), 200)
    assert "0 in, 1 out · about $0.000007" in screen
    assert "9 in (3 cached), 0 out · price unknown" in screen
    assert "acme:a failed (network) · total" in screen
    assert "Served: acme:a   (failed: network, $0.000007)" in screen


REFUSED = a_call(outcome="refused", error_class="over_budget", status=402, attempts=0, elapsed_us=0)
KEPT = PlacementRefusal("d-9", Instant(30), "acme:a", "TAINT_LOCAL", "turn t-1 held a secret")


@pytest.mark.parametrize(
    ("changes", "state", "served"),
    [
        ({}, "open", "Served: the end of no call is on record"),
        ({"calls": (a_call(),)}, "done", "Served: acme:a   ($0)"),
        ({"calls": (FAILED,)}, "failed", "Served: no model   (failed: server_error, status 500)"),
        ({"calls": (REFUSED,)}, "refused", "Served: no model   (refused: over_budget, status 402)"),
        ({"calls": (FAILED, a_call())}, "done", "Served: acme:a   ($0)"),
        (
            {"calls": (a_call(),), "refusals": (KEPT,)},
            "refused",
            "Served: acme:a   (refused: TAINT_LOCAL, $0)",
        ),
        (
            {"later": (a_fallback(),), "calls": (FAILED, replace(FAILED, decision_id="d-2"))},
            "failed",
            "Served: no model   (failed: server_error, status 500)",
        ),
        (
            {"calls": (a_call(at=Instant(40)),), "refusals": (KEPT,)},
            "done",
            "Served: acme:a   ($0)",
        ),
    ],
)
def test_what_became_of_a_turn_is_one_word_and_one_line(
    changes: dict[str, object], state: str, served: str
) -> None:
    shown = decided(a_policy("acme:d", *MODELS), some_facts())
    story = replace(TurnStory(shown), **changes)
    assert story.state == state
    assert f"\n{served}\n" in to_screen(story)
    assert story_to_json(story)["state"] == state


def test_a_preview_and_a_turn_without_a_model_were_served_by_none() -> None:
    preview = TurnStory(decided(a_policy("acme:d", *MODELS), some_facts(), is_preview=True))
    refused = TurnStory(decided(a_policy(None), some_facts()))
    assert (preview.state, refused.state) == ("preview", "refused")
    assert "Served" not in to_screen(preview) + to_screen(refused)


def test_a_refusal_by_placement_tells_its_rule_and_reason() -> None:
    shown = decided(a_policy("acme:d", *MODELS), some_facts())
    screen = to_screen(TurnStory(shown, calls=(a_call(),), refusals=(KEPT,)), 200)
    assert "  refused: no call may go on to acme:a (TAINT_LOCAL: turn t-1 held a secret)" in screen
    (value,) = story_to_json(TurnStory(shown, refusals=(KEPT,)))["refusals"]  # type: ignore[misc] # a list
    assert (value["rule_id"], value["model"]) == ("TAINT_LOCAL", "acme:a")


def test_the_json_of_a_turn_keeps_every_field_of_the_decision() -> None:
    shown = three_lost()
    value = msgspec.json.decode(msgspec.json.encode(story_to_json(TurnStory(shown))))
    assert value["chosen_model"] == "acme:d"
    assert [each["candidate_model"] for each in value["chain"][2]["rule_attempts"]] == [
        "acme:a", "acme:b", "acme:c",
    ]  # fmt: skip
    assert {"decision_id", "policy_id", "facts_id", "banners", "placement"} <= {*value}


@pytest.mark.parametrize("letter", ["界", "é", "x", "\U0001f600"])
@pytest.mark.parametrize("width", [NARROWEST, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal_in_any_script(letter: str, width: int) -> None:
    reason = f"{letter * 150} {letter * 3} {letter * 90}"
    chain = (Evaluation("rule", "chose", "p:" + letter * 70, reason, rule_name="r"),)
    shown = a_shown(
        TurnOutcome("p:" + letter * 90, 0, ()), TurnTrace(chain), session_id=letter * 60
    )
    screen = to_screen(TurnStory(shown, calls=(a_call(model=letter * 100),)), width)
    wide = max(sum(2 if east_asian_width(c) in "WF" else 1 for c in n) for n in screen.split("\n"))
    assert width - 2 <= wide <= width
    assert screen.count(letter) >= 70 + 90 + 243 + 60 + 100


def test_a_text_is_folded_between_words_and_indented() -> None:
    assert fold_line("  one two three", 9) == ["  one two", "      thr", "      ee"]
    assert fold_line("  one two three", 11) == ["  one two", "      three"]
    assert fold_line("short", 9) == ["short"]
    assert fold_line("Chose: x   (rule)", 14) == ["Chose: x", "    (rule)"]
    assert fold_line("Chose: x   (r) y", 14) == ["Chose: x   (r)", "    y"]
    assert fold_line("a 界界界界界", 8, 2) == ["a", "  界界界", "  界界"]


def test_who_would_have_taken_a_turn_is_told_by_slot_rule_and_model() -> None:
    rules = (
        RoutingRule("no", Condition(has_images=True), "acme:a"),
        RoutingRule("first", ALWAYS, "acme:a"),
        RoutingRule("second", ALWAYS, "acme:b"),
        RoutingRule("images", Condition(has_images=True), "acme:b"),
        RoutingRule("gone", ALWAYS, "acme:c"),
    )
    workspaces = (Workspace("/w", default="acme:b", rules=(), pattern=None, tiers=None),)
    ready = a_policy("acme:d", *MODELS, rules=rules, workspaces=workspaces)
    facts = some_facts(workspace_path="/w", configured=("acme:a", "acme:b", "acme:d"))
    found = unasked_candidates(ready, facts, *decide(ready, facts))
    assert [(each.policy, each.rule_name, each.model) for each in found.candidates] == [
        ("rule", "second", "acme:b"),
        ("workspace_default", "", "acme:b"),
        ("global_default", "", "acme:d"),
    ]
    screen = to_screen(TurnStory(decided(ready, facts), unasked=found))
    assert '  not asked: rule "second" -> acme:b\n' in screen
    assert "  not asked: global default -> acme:d\n" in screen


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({"override": Override("c", "acme:c")}, ["acme:a", "acme:d"]),
        ({"sticky_model": "acme:c"}, ["acme:a", "acme:d"]),
        ({}, ["acme:d"]),
        ({"availability": {"acme:a": "unavailable"}}, []),
        ({"delegate_tier": "fast"}, []),
        ({"configured": ()}, []),
    ],
)
def test_only_slots_behind_the_winner_are_told_as_not_asked(
    facts: dict[str, object], wanted: list[str]
) -> None:
    rules = (RoutingRule("first", ALWAYS, "acme:a"),)
    ready = a_policy("acme:d", *MODELS, rules=rules, tiers={"fast": "acme:b"})
    asked = some_facts(**facts)
    found = unasked_candidates(ready, asked, *decide(ready, asked))
    assert [each.model for each in found.candidates] == wanted


def test_of_a_list_of_defaults_those_behind_the_one_taken_were_not_asked() -> None:
    ready = a_policy(("acme:a", "acme:b", "acme:c"), *MODELS)
    chain = (replace(DEFAULT, candidate_model="acme:b"),)
    found = unasked_candidates(ready, some_facts(), TurnOutcome("acme:b", 0, ()), TurnTrace(chain))
    assert [each.model for each in found.candidates] == ["acme:c"]


def test_rules_whose_text_is_gone_are_left_out_and_counted() -> None:
    rules = (
        RoutingRule("first", ALWAYS, "acme:a"),
        RoutingRule("reads", Condition(message_matches="hello"), "acme:b"),
        RoutingRule("reads too", Condition(message_contains_any=("hello",)), "acme:b"),
        RoutingRule("sees", Condition(has_images=False), "acme:c"),
    )
    ready = a_policy(None, *MODELS, rules=rules)
    outcome, trace = decide(ready, some_facts("hello"))
    erased = some_facts(message=Sealed("hmac-sha256:" + "0" * 64, 5))
    with pytest.raises(MissingSnapshot):
        ready.look(erased).hits  # noqa: B018 - it raises
    found = unasked_candidates(ready, erased, outcome, trace, "the message text was erased")
    assert [each.rule_name for each in found.candidates] == ["sees"]
    assert found.unknown == "2 rules read the message: the message text was erased"
    told = to_screen(TurnStory(a_shown(outcome, trace), unasked=found), 200)
    assert f"  not asked: cannot be told for all: {found.unknown}\n" in told
    whole = unasked_candidates(ready, some_facts("hello"), outcome, trace)
    assert [each.rule_name for each in whole.candidates] == ["reads", "reads too", "sees"]
