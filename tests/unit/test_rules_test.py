"""Tables of expected decisions: how they are read, compared and refused."""

from collections.abc import Callable
from typing import Any

import pytest

from pointsman.errors import DocumentError
from pointsman.operations.rules.cases import TableReport, read_table, run_table
from pointsman.testing import a_policy
from pointsman.turns.chain.override import split_override
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.facts import GivenFacts, TurnFacts, turn_facts
from pointsman.turns.policy import RoutingRule
from pointsman.turns.rules.condition import Condition

RULES = (
    RoutingRule("pictures", Condition(has_images=True), "embedded:smollm2-135m"),
    RoutingRule("commits", Condition(message_matches="commit"), "acme:big"),
)
READY = a_policy("embedded:smollm2-135m", "acme:big", rules=RULES)


def exactly(ready: CompiledTurnPolicy) -> Callable[[GivenFacts], TurnFacts]:
    return lambda given: turn_facts(given, *split_override(given.message, ready.aliases))


def run(text: str) -> TableReport:
    return run_table(read_table(text.encode(), "table.yaml"), READY, exactly(READY))


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(DocumentError) as caught:
        read_table(text.encode(), "table.yaml")
    return [(str(each.place), each.code) for each in caught.value.problems]


def test_a_table_that_is_right_passes() -> None:
    report = run("""
- note: commits go to the big model
  facts: {message: write a commit message, estimated_input_tokens: 12}
  want: {chosen_model: acme:big, policy: rule, rule: commits, banners: []}
- note: an alias names its model
  facts: {message: hello}
  want: {chosen_model: local, policy: global_default}
- note: pictures need a model that sees
  facts: {message: look, has_images: true}
  want: {validation_failure: no_vision_support, chosen_model: ""}
- note: an unknown alias is an error
  facts: {message: "@nobody hello"}
  want_error: input.invalid
- note: and says so
  facts: {message: "@nobody hello"}
  want_error: names no model
""")
    assert report.failures == 0
    assert [row.state for row in report.rows] == ["passed"] * 5


def row(case: str) -> Any:
    (only,) = run("- note: one\n  " + case.replace("\n", "\n  ")).rows
    return only.state, only.expected, only.got


def test_what_differs_is_named_and_nothing_else() -> None:
    assert row("facts: {message: commit}\nwant: {chosen_model: local, policy: rule}") == (
        "failed",
        {"chosen_model": "embedded:smollm2-135m"},
        {"chosen_model": "acme:big"},
    )


def test_a_rule_that_did_not_win_is_told() -> None:
    wanted = "facts: {message: hello}\nwant: {rule: commits, validation_failure: over_budget}"
    assert row(wanted) == (
        "failed",
        {"rule": "commits", "validation_failure": "over_budget"},
        {"rule": "none", "validation_failure": "none"},
    )


def test_banners_are_compared_by_code() -> None:
    wanted = "facts: {message: hello, configured: []}\nwant: {banners: [turns.other]}"
    assert row(wanted) == ("failed", {"banners": "turns.other"}, {"banners": "turns.no_model"})


def test_no_model_is_written_as_an_empty_text() -> None:
    wanted = 'facts: {message: hello}\nwant: {chosen_model: "", policy: rule}'
    state, expected, _ = row(wanted)
    assert (state, expected["chosen_model"]) == ("failed", "no model")


def test_an_error_nobody_wanted_fails_the_row() -> None:
    state, expected, got = row('facts: {message: "@nobody x"}\nwant: {chosen_model: local}')
    assert (state, expected) == ("failed", {"error": "none"})
    assert got["error"] == "input.invalid: `@nobody` names no model"


def test_an_error_that_does_not_come_fails_the_row() -> None:
    state, _, got = row("facts: {message: hello}\nwant_error: input.invalid")
    assert (state, got) == ("failed", {"error": "decided: embedded:smollm2-135m"})


def test_rows_know_where_they_stand() -> None:
    report = run("""- {note: a, facts: {message: x}, want: {chosen_model: local}}
- {note: b, facts: {message: x}, want: {chosen_model: local}}
""")
    assert [each.place for each in report.rows] == ["table.yaml:1:3", "table.yaml:2:3"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", [("table.yaml:1:1", "config.wrong_type")]),
        ("[]", [("table.yaml:1:1", "config.too_short")]),
        ("- {note: a", [("table.yaml:1:11", "config.syntax")]),
        ("- {note: a, facts: {message: x}}", [("table.yaml:1:3", "config.invalid_value")]),
        (
            "- {note: a, facts: {message: x}, want: {}}",
            [("table.yaml:1:3", "config.too_short")],
        ),
        (
            "- {note: a, facts: {message: x}, want: {rule: a}, want_error: b}",
            [("table.yaml:1:3", "config.invalid_value")],
        ),
        (
            "- note: a\n  facts: {mood: 1}\n  want: {polcy: rule}",
            [
                ("table.yaml:2:10", "config.missing_key"),
                ("table.yaml:2:11", "config.unknown_key"),
                ("table.yaml:3:10", "config.unknown_key"),
            ],
        ),
        (
            "- {note: a, facts: {message: x}, want: {policy: rules}}",
            [("table.yaml:1:49", "config.unknown_value")],
        ),
    ],
)
def test_a_bad_table_is_refused_with_every_problem_at_its_place(
    text: str, wanted: list[tuple[str, str]]
) -> None:
    assert problems(text) == wanted
