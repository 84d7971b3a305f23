"""What left this machine, as the ledger tells it."""

from pathlib import Path

import apsw
import pytest
import yaml
from msgspec import Raw
from msgspec.structs import replace

from pointsman import GivenFacts, NotFound, Pointsman
from pointsman.audit import egress
from pointsman.kernel.content import seal_text
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import EPOCH
from pointsman.kernel.record import Aside, Names, OutcomeRecord, outcome_draft
from pointsman.operations.starter import starter_text
from pointsman.placement.trace import Placed
from pointsman.recording.placing import PlacedTurn, facts_of_turn
from pointsman.recording.ruling import Ruling, decide_turn, policies_in_force, turn_record
from pointsman.recording.waiting import BlockingWaiter
from pointsman.testing import CountedIds, FrozenClock, a_home

MODELS = (
    "schema_version: 1\nproviders: {acme: {kind: openai}}\n"
    "models: {'acme:big': {location: cloud, aliases: [big]}}\n"
)
ROUTING = (
    "schema_version: 1\nglobal_default: embedded:smollm2-135m\n"
    "rules: [{name: long, when: {estimated_input_tokens_gt: 100}, use: 'acme:big'}]\n"
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "models.yaml").write_text(MODELS)
    (tmp_path / "routing.yaml").write_text(ROUTING)
    return tmp_path


def a_turn(pointsman: Pointsman, message: str = "hi", *, tokens: int = 5, **how: object) -> str:
    is_preview = bool(how.pop("is_preview", False))
    given = GivenFacts(message, estimated_input_tokens=tokens, **how)  # type: ignore[arg-type] # keywords
    facts = pointsman.given_facts(given)
    return pointsman.route(facts, session_id="s", is_preview=is_preview).turn_id


def record(pointsman: Pointsman, change: dict[str, object], linked: str = "") -> str:
    """Record a turn by hand whose facts or outcome were changed after it was decided."""
    in_force = pointsman.in_force()
    facts = pointsman.given_facts(GivenFacts("@big secret plans"))
    about = PlacedTurn("t-9", "s", pointsman.clock.now())
    policies = policies_in_force(in_force)
    ruling = decide_turn(policies, facts_of_turn(in_force, facts, about), facts)
    if "placement" in change or "privacy_level" in change:
        ruling = replace(ruling, facts=replace(ruling.facts, **change))
    else:
        ruling = replace(ruling, outcome=replace(ruling.outcome, **change))
    return _recorded(pointsman, ruling, linked)


def _recorded(pointsman: Pointsman, ruling: Ruling, linked: str) -> str:
    seal = seal_text("secret plans", pointsman.home.content_key())
    policies = policies_in_force(pointsman.in_force())
    made = turn_record(policies, ruling, seal, pointsman.home.identity.ledger)
    name = f"by-hand-{linked}"
    names = Names(name, "t-9", pointsman.clock.now())
    aside = Aside(1, "trace", "s", is_preview=False, product_version="0")
    waits = BlockingWaiter()
    pointsman.decision_recorder.recorder().hand_in_decision(
        names, made, aside, waits.expect(), linked
    )
    waits.wait()
    return name


def test_a_home_that_recorded_nothing_has_nothing_to_prove(home: Path) -> None:
    with a_home(home) as pointsman, pytest.raises(NotFound, match="nothing is recorded yet"):
        pointsman.egress()


def test_where_nothing_left_an_intact_ledger_proves_it(home: Path) -> None:
    with a_home(home) as pointsman:
        a_turn(pointsman)
        a_turn(pointsman, "@big hi", privacy_level="local")
        a_turn(pointsman, "@big hi", is_preview=True)
    report = pointsman.egress()
    assert (report.turns, report.previews, report.left, report.rows) == (3, 1, 0, ())
    assert report.is_clean
    assert report.ledger.is_intact


def test_a_turn_that_left_is_told_with_its_model_its_rule_and_its_placement(home: Path) -> None:
    with a_home(home) as pointsman:
        turn_id = a_turn(pointsman, "hello there", tokens=5_000)
    (row,) = pointsman.egress().rows
    assert (row.turn_id, row.session_id, row.model) == (turn_id, "s", "acme:big")
    assert (row.slot, row.rule) == ("rule", "long")
    assert (row.placement_rule, row.gate) == ("AUTO_CLOUD", "open")
    assert (row.characters, row.tokens, row.call) == (11, 5_000, "not on record")
    assert not row.is_violation


def test_a_call_whose_end_is_on_record_says_so(home: Path) -> None:
    with a_home(home) as pointsman:
        a_turn(pointsman, tokens=500)
        (row,) = pointsman.egress().rows
        names = Names("o-1", row.decision_id, pointsman.clock.now())
        pointsman.decision_recorder.recorder().append(
            outcome_draft(names, OutcomeRecord("done", Raw(b"{}")))
        ).result()
        (row,) = pointsman.egress().rows
    assert row.call == "ended"


def test_only_turns_since_an_instant_are_told_and_still_the_whole_ledger_is_verified(
    home: Path,
) -> None:
    clock = FrozenClock()
    with Pointsman(home, clock=clock, ids=CountedIds()) as pointsman:
        a_turn(pointsman, tokens=500)
        clock.advance(seconds=60)
        late = a_turn(pointsman, tokens=500)
    report = pointsman.egress(clock.now())
    assert [row.turn_id for row in report.rows] == [late]
    assert report.ledger.entries == pointsman.egress(EPOCH).ledger.entries


@pytest.mark.req(99)
def test_a_fallback_that_left_is_a_row_of_its_own(home: Path) -> None:
    with a_home(home) as pointsman:
        record(pointsman, {"winner_index": 0}, linked="fallback")
    report = pointsman.egress()
    assert [row.decision_id for row in report.rows] == ["by-hand-fallback"]
    assert report.is_clean


@pytest.mark.parametrize("gate", ["local", "closed"])
def test_a_turn_that_left_past_a_shut_gate_is_a_violation(home: Path, gate: str) -> None:
    with a_home(home) as pointsman:
        placed = Placed("sha256:" + "0" * 64, "TAINT_LOCAL", gate, "held")  # type: ignore[arg-type] # a literal
        name = record(pointsman, {"placement": placed})
    report = pointsman.egress()
    assert [row.decision_id for row in report.violations] == [name]
    assert report.left == 1
    assert not report.is_clean
    assert report.ledger.is_intact


def test_a_turn_of_privacy_level_local_that_left_is_a_violation_whatever_its_gate(
    home: Path,
) -> None:
    with a_home(home) as pointsman:
        record(pointsman, {"privacy_level": "local", "placement": None})
    (row,) = pointsman.egress().violations
    assert (row.gate, row.placement_rule) == ("local", "")


def test_a_turn_that_was_never_placed_is_told_as_such(home: Path) -> None:
    with a_home(home) as pointsman:
        record(pointsman, {"placement": None})
    (row,) = pointsman.egress().rows
    assert (row.gate, row.placement_rule) == ("open", "")


def test_advice_is_told_apart_from_a_rule_that_let_a_turn_leave(home: Path) -> None:
    with a_home(home) as pointsman:
        a_turn(pointsman, tokens=500)
        a_turn(pointsman, tokens=500, privacy_level="cloud")
    with a_home(home) as pointsman:
        table = yaml.safe_load(starter_text("placement.yaml"))
        table["policy_rules"] = [{"id": "go", "action": "force_cloud", "message": "by order"}]
        (home / "placement.yaml").write_text(yaml.safe_dump(table))
        a_turn(pointsman, tokens=500)
        table["policy_rules"] = []
        table["sensitive"] = {"stays_local": ["secret"]}
        (home / "placement.yaml").write_text(yaml.safe_dump(table))
        pointsman.reload()
        a_turn(pointsman, "nothing special", tokens=500)
    rows = pointsman.egress().rows
    assert [(each.placement_rule, each.is_advice) for each in rows] == [
        ("AUTO_LOCAL", True),
        ("PRIVACY_CLOUD", False),
        ("POLICY_FORCE_CLOUD", False),
        ("AUTO_LOCAL", True),
    ]


def test_each_call_under_a_decision_is_a_departure_of_the_same_turn(home: Path) -> None:
    clock = FrozenClock()
    with Pointsman(home, clock=clock, ids=CountedIds()) as pointsman:
        record(pointsman, {"winner_index": 0})
        clock.advance(seconds=60)
        record(pointsman, {"winner_index": 0}, linked="fallback")
        for number in range(3):
            names = Names(f"o-{number}", "by-hand-fallback", pointsman.clock.now())
            draft = outcome_draft(names, OutcomeRecord("done", Raw(b"{}")))
            pointsman.decision_recorder.recorder().record(draft)
        a_turn(pointsman, tokens=500)
    report = pointsman.egress()
    assert (report.turns, report.left, report.departures) == (2, 2, 5)
    assert [each.calls for each in report.rows] == [1, 3, 1]
    late = pointsman.egress(clock.now())
    assert (late.turns, late.left, late.departures) == (2, 2, 4)


def test_a_model_that_the_policy_does_not_know_counts_as_one_in_the_cloud(home: Path) -> None:
    with a_home(home) as pointsman:
        record(pointsman, {"chosen_model": "gone:model"})
    (row,) = pointsman.egress().rows
    assert row.model == "gone:model"


def test_a_broken_ledger_proves_nothing(home: Path) -> None:
    with a_home(home) as pointsman:
        a_turn(pointsman)
    connection = apsw.Connection(str(pointsman.home.database))
    connection.execute("UPDATE entries SET at_us = at_us + 1 WHERE kind = 'decision.turn'")
    connection.close()
    report = pointsman.egress()
    assert report.left == 0
    assert report.ledger.fault is not None
    assert not report.is_clean


def test_a_turn_that_cannot_be_read_is_counted_and_proves_nothing(home: Path) -> None:
    with a_home(home) as pointsman:
        a_turn(pointsman)
        draft = Draft("decision.turn", "d", "t", pointsman.clock.now(), b'{"of":"another version"}')
        pointsman.decision_recorder.recorder().record(draft)
    report = pointsman.egress()
    assert (report.turns, report.unreadable, report.left) == (2, 1, 0)
    assert report.ledger.is_intact
    assert not report.is_clean


def test_only_so_many_rows_are_kept_but_every_violation(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(egress, "MOST_ROWS", 2)
    with a_home(home) as pointsman:
        for _ in range(3):
            a_turn(pointsman, tokens=500)
        placed = Placed("sha256:" + "0" * 64, "PRIVACY_LOCAL", "local", "held")
        record(pointsman, {"placement": placed})
    report = pointsman.egress()
    assert (report.left, len(report.rows), len(report.violations)) == (4, 2, 1)
