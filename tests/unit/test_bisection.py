"""Which entry moved turns from one model to another: planted causes are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.test_backtest import MODELS, turn

from pointsman.app import Pointsman
from pointsman.audit.bisection import Bisection, read_flip
from pointsman.errors import DocumentError, InputError, NotFound
from pointsman.testing import CountedIds, FrozenClock
from pointsman.turns.facts import BudgetLeft

COMMITS = "schema_version: 1\nglobal_default: [acme:big, acme:cheap]\n"
RULE = COMMITS + "rules: [{name: c, when: {message_matches: commit}, use: acme:cheap}]\n"
FLIP = "{message_contains_any: [commit]} moved from acme:big to acme:cheap"


class Life:
    """A home that lives on, its policy changed between turns."""

    def __init__(self, path: Path) -> None:
        path.mkdir(mode=0o700)
        self.path, self.clock, self.ids = path, FrozenClock(), CountedIds()
        self.policy = ""
        self.change(COMMITS)
        (path / "models.yaml").write_text(MODELS)
        self.pointsman = self.opened()

    def opened(self) -> Pointsman:
        return Pointsman(self.path, clock=self.clock, ids=self.ids)

    def change(self, routing: str = "", models: str = "") -> None:
        """Write other files; later turns are decided under them."""
        if routing:
            (self.path / "routing.yaml").write_text(routing)
        if models:
            (self.path / "models.yaml").write_text(models)
        if hasattr(self, "pointsman"):
            self.pointsman.close()
            self.pointsman = self.opened()

    def live(self, count: int, **facts: Any) -> list[str]:
        names = []
        for number in range(count):
            self.clock.advance(seconds=1)
            message = "a commit message" if number % 2 else "a poem"
            names.append(turn(self.pointsman, message, **facts))
        return names

    def bisect(self, flip: str = FLIP) -> Bisection:
        return self.pointsman.bisect(flip)


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    made = Life(tmp_path / "home")
    yield made
    made.pointsman.close()


def test_a_new_rule_is_found_in_log2_steps(life: Life) -> None:
    life.live(9)
    before = life.live(20)
    life.change(RULE)
    after = life.live(60)
    found = life.bisect()
    (cause,) = found.causes
    assert (cause.part, cause.fields) == ("policy", ("rules",))
    assert (found.last_before, found.first_after) == (before[-1], after[1])
    assert found.steps <= 12
    assert cause.entry_kind == "snapshot"
    assert "commit" in cause.became
    assert "commit" not in cause.was


def test_an_outage_is_found_among_changes_that_matter_not(life: Life) -> None:
    life.live(8)
    life.change(COMMITS + "tiers: {deep: acme:big}\n")
    life.live(8)
    life.live(8, availability={"acme:big": "unavailable"}, local_minutes=800)
    (cause,) = life.bisect().causes
    assert (cause.part, cause.fields) == ("health", ("availability",))
    assert cause.became == '{"availability":{"acme:big":"unavailable"}}'


@pytest.mark.parametrize(
    ("facts", "part"),
    [
        ({"configured": ("acme:cheap",)}, "keys"),
        ({"allowed_models": ("acme:cheap",)}, "permission"),
        ({"budgets": (BudgetLeft("team", 70),)}, "budgets"),
        ({"sticky_model": "acme:cheap"}, "choice by hand"),
    ],
)
def test_other_parts_of_the_state_are_told_apart(
    life: Life, facts: dict[str, Any], part: str
) -> None:
    life.live(6)
    life.live(6, tokens=5, max_output_tokens=20, **facts)
    (cause,) = life.bisect().causes
    assert cause.part == part


def test_a_price_that_breaks_a_budget_is_a_part_of_the_policy(life: Life) -> None:
    left = (BudgetLeft("team", 20_000),)
    facts: dict[str, Any] = {"budgets": left, "max_output_tokens": 100}
    life.live(6, **facts)
    life.change(models=MODELS.replace("input: 3, output: 15", "input: 30, output: 150"))
    life.live(6, **facts)
    (cause,) = life.bisect().causes
    assert (cause.part, cause.fields) == ("policy", ("models",))


def test_two_changes_that_only_together_turn_turns_are_both_named(life: Life) -> None:
    life.live(6)
    gated = "{all_of: [{message_matches: commit}, {cost_today_exceeds_usd: 1}]}"
    life.change(COMMITS + f"rules: [{{name: c, when: {gated}, use: acme:cheap}}]\n")
    life.live(6, cost_today_microusd=2_000_000)
    assert {each.part for each in life.bisect().causes} == {"policy", "budgets"}


def test_of_several_moves_a_real_one_is_found(life: Life) -> None:
    for _ in range(3):
        life.live(5)
        life.live(5, availability={"acme:big": "unavailable"})
    found = life.bisect()
    assert [each.part for each in found.causes] == ["health"]


def test_no_move_and_no_common_kind_of_turns_say_so(life: Life) -> None:
    life.live(4)
    with pytest.raises(NotFound, match="no such turn moved") as refused:
        life.bisect()
    assert refused.value.hint == "2 recorded turns meet the condition"
    life.change(RULE)
    turn(life.pointsman, "a poem")
    life.clock.advance(seconds=5)
    turn(life.pointsman, "a commit")
    with pytest.raises(NotFound, match="moved"):
        life.bisect("{message_matches: poem} moved from acme:big to acme:cheap")


def test_turns_that_differ_in_what_they_ask_are_not_blamed_on_the_state(life: Life) -> None:
    life.change(RULE)
    turn(life.pointsman, "a poem")
    life.clock.advance(seconds=5)
    turn(life.pointsman, "a commit")
    with pytest.raises(NotFound, match="differ in what they ask"):
        life.bisect("turns moved from acme:big to acme:cheap")


def test_a_question_that_cannot_be_read_is_refused() -> None:
    for text in ("turns moved", "moved to a from b", "a\nb moved from x:y to z:w"):
        with pytest.raises(InputError):
            read_flip(text)
    assert read_flip("turns moved from a/b to c:d").before == "a:b"


def test_a_condition_with_a_fault_is_told_like_a_rule(life: Life) -> None:
    with pytest.raises(DocumentError, match="the condition"):
        life.bisect("{message_matchs: x} moved from acme:big to acme:cheap")
