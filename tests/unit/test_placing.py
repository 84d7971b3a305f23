"""Placement in a home: what is recorded, what a broken table does, what replays and is shown."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.placed_home import (
    IBAN,
    LOCAL,
    a_turn,
    given_facts,
    kinds,
    ledger,
    placement_facts,
    written,
)

from pointsman import Pointsman, Verdict, why_screen
from pointsman.kernel.content import Sealed, seal_text
from pointsman.kernel.json_text import read_json
from pointsman.kernel.record import read_recorded
from pointsman.placement.explain import to_json, to_screen
from pointsman.placement.facts import PlacementFacts, read_facts
from pointsman.recording.placing import facts_given
from pointsman.signals.sensitivity import sensitivity
from pointsman.storage.stores.content import ContentStore
from pointsman.testing import a_home, assert_replays


@pytest.fixture
def home(tmp_path: Path) -> Path:
    written(tmp_path / "home")
    return tmp_path / "home"


def test_a_placement_that_leaves_all_open_is_a_fact_of_the_turn_and_no_entry(home: Path) -> None:
    with a_home(home) as pointsman:
        turn = a_turn(pointsman)
        assert turn.outcome.chosen_model == "acme:big"
        assert turn.placed is not None
        assert (turn.placed.rule_id, turn.placed.gate) == ("AUTO_LOCAL", "open")
        assert kinds(pointsman, "decision.") == ["decision.turn"]
        assert pointsman.shown("last") == turn
        assert assert_replays(pointsman) == 1


@pytest.mark.req(85, 97)
def test_a_binding_placement_is_a_decision_of_its_own_ahead_of_the_turns(home: Path) -> None:
    with a_home(home) as pointsman:
        turn = a_turn(pointsman, "@big hello", privacy_level="local")
        assert turn.outcome.chosen_model == LOCAL
        assert kinds(pointsman, "decision.") == ["decision.placement", "decision.turn"]
        with ledger(pointsman) as reader:
            (first,) = reader.of_kind("decision.placement")
        assert first.entry.ref == turn.turn_id
        record = read_recorded(first.entry.payload)[1]
        assert json.loads(bytes(record.outcome))["rule_id"] == "PRIVACY_LOCAL"
        assert assert_replays(pointsman) == 2
        assert pointsman.replay([turn.turn_id]).identical == 2


@pytest.mark.req(71)
def test_the_version_of_the_table_is_in_every_recorded_placement(home: Path) -> None:
    written(home, router_version="1.4.2")
    with a_home(home) as pointsman:
        a_turn(pointsman, privacy_level="local")
        shown = pointsman.place(placement_facts(pointsman))
        assert shown.outcome.router_version == "1.4.2"
        with ledger(pointsman) as reader:
            for stored in reader.of_kind("decision.placement"):
                record = read_recorded(stored.entry.payload)[1]
                assert json.loads(bytes(record.outcome))["router_version"] == "1.4.2"


def test_a_text_that_must_stay_is_nowhere_in_the_ledger_but_its_kind_is(home: Path) -> None:
    written(home, sensitive={"stays_local": ["iban"]})
    with a_home(home) as pointsman:
        turn = a_turn(pointsman, IBAN)
        assert turn.outcome.chosen_model == LOCAL
        assert turn.placed is not None
        assert (turn.placed.rule_id, turn.placed.reason) == ("SENSITIVE_LOCAL", "holds pii.iban")
        assert assert_replays(pointsman) == 2
    stored = pointsman.home.database.read_bytes()
    assert b"pii.iban" in stored
    assert b"DE89" not in stored
    assert b"0532 0130" not in stored


def test_nobody_looks_into_a_text_while_nothing_must_stay(home: Path) -> None:
    with a_home(home) as pointsman:
        assert placement_facts(pointsman, IBAN).sensitivity is None
        assert a_turn(pointsman, IBAN).outcome.chosen_model == "acme:big"


def test_a_detector_that_fails_lets_nothing_leave(home: Path) -> None:
    def broken(_text: str) -> list[Any]:
        raise RecursionError

    written(home, sensitive={"stays_local": ["secret"]})
    with a_home(home) as pointsman:
        facts = placement_facts(pointsman, "nothing special")
        found = sensitivity("nothing special", pointsman.home.content_key(), broken)
        shown = pointsman.place(replace(facts, sensitivity=found))
        assert (shown.outcome.rule_id, shown.outcome.gate) == ("SENSITIVE_UNKNOWN", "local")
        assert [each.taint.rule_id for each in pointsman.tainted()] == ["SENSITIVE_UNKNOWN"]
        assert assert_replays(pointsman) == 1


def test_an_unreadable_table_lets_nothing_leave_and_says_so(home: Path) -> None:
    (home / "placement.yaml").write_text("router_version: 1.0.0\n")
    with a_home(home) as pointsman:
        turn = a_turn(pointsman, "@big hello", privacy_level="cloud")
        assert turn.outcome.chosen_model == LOCAL
        assert turn.placed is not None
        assert turn.placed.rule_id == "TABLE_UNREADABLE"
        (broken,) = pointsman.in_force().invalid
        assert (broken.name, broken.using_last_known_good) == ("placement.yaml", False)
        assert assert_replays(pointsman) == 2
        written(home)
        assert a_turn(pointsman).outcome.chosen_model == "acme:big"


def test_a_table_that_became_unreadable_leaves_the_last_good_one_in_force(home: Path) -> None:
    written(home, sensitive={"stays_local": ["iban"]})
    with a_home(home) as pointsman:
        good = pointsman.in_force().placement_id
    (home / "placement.yaml").write_text("router_version: [\n")
    with a_home(home) as pointsman:
        assert pointsman.in_force().placement_id == good
        assert pointsman.in_force().invalid[0].using_last_known_good
        assert a_turn(pointsman).outcome.chosen_model == "acme:big"
        assert a_turn(pointsman, IBAN, session="t").outcome.chosen_model == LOCAL
        event = kinds(pointsman, "event.routing.")
    assert event == ["event.routing.policy_invalid"]


def test_without_a_table_the_built_in_one_holds(home: Path) -> None:
    with a_home(home) as pointsman:
        written_id = pointsman.in_force().placement_id
        (home / "placement.yaml").unlink()
        assert pointsman.reload().placement_id == written_id


READS = [
    {"id": "alba", "action": "warn", "conditions": [
        {"field": "content", "operator": "contains", "value": "alba"}]},
]  # fmt: skip


def erased(pointsman: Pointsman, text: str) -> None:
    key = pointsman.home.content_key()
    store = ContentStore(pointsman.home.content, key, "full", str)
    assert store.erase([seal_text(text, key).digest])
    store.close()


def test_a_placement_whose_rules_read_an_erased_text_cannot_be_replayed(home: Path) -> None:
    written(home, policy_rules=READS)
    with a_home(home) as pointsman:
        shown = pointsman.place(placement_facts(pointsman, "project alba"))
        assert shown.trace.warnings == ("alba",)
        assert pointsman.replay([shown.decision_id]).is_clean
    erased(pointsman, "project alba")
    (told,) = pointsman.replay([shown.decision_id]).others
    assert (told.verdict, told.kind) == (Verdict.UNABLE, "placement")
    assert "was erased" in told.reason


def test_a_placement_whose_rules_read_no_text_replays_after_it_was_erased(home: Path) -> None:
    written(home, sensitive={"stays_local": ["iban"]})
    with a_home(home) as pointsman:
        shown = pointsman.place(placement_facts(pointsman, IBAN))
    erased(pointsman, IBAN)
    assert shown.outcome.rule_id == "SENSITIVE_LOCAL"
    assert pointsman.replay([shown.decision_id]).is_clean


def test_a_text_that_is_not_kept_cannot_be_read_again(home: Path) -> None:
    (home / "pointsman.yaml").write_text("retain: digest\n")
    written(home, policy_rules=READS)
    with a_home(home) as pointsman:
        shown = pointsman.place(placement_facts(pointsman, "project alba"))
        (told,) = pointsman.replay([shown.decision_id]).others
    assert (told.verdict, told.reason) == (Verdict.UNABLE, "the message text was not kept")


@pytest.mark.req(97)
def test_a_replay_of_a_placement_does_not_look_at_the_table_of_today(home: Path) -> None:
    with a_home(home) as pointsman:
        pointsman.place(placement_facts(pointsman))
        written(home, policy_rules=[{"id": "never", "action": "block"}])
        assert pointsman.place(placement_facts(pointsman)).outcome.error_code == "E-ROUTE-001"
        assert assert_replays(pointsman) == 2


def test_a_placement_that_is_not_recorded_leaves_no_trace(home: Path) -> None:
    with a_home(home) as pointsman:
        shown = pointsman.place(placement_facts(pointsman), record=False)
        assert shown.outcome.route == "local"
        assert not pointsman.home.database.exists()


def test_facts_that_were_sealed_are_placed_and_keep_their_seal(home: Path) -> None:
    seal = Sealed("hmac-sha256:" + "0" * 64, 5)
    with a_home(home) as pointsman:
        facts = replace(placement_facts(pointsman), content=seal)
        shown = pointsman.place(facts)
        assert pointsman.replay([shown.decision_id]).is_clean


def test_tokens_are_counted_where_they_are_not_given_and_by_whom_is_a_fact() -> None:
    def facts(model: str, count: int | None) -> PlacementFacts:
        local = {"model_name": model, "supported_intents": [], "available": True}
        state: dict[str, Any] = {"local_model": local}
        if count is not None:
            state["token_count"] = count
        return facts_given(read_facts(read_json(given_facts("hello world", state=state), "f")))

    exact, estimate, given = facts("ollama:llama3.2", None), facts("x:y", None), facts("x:y", 7)
    assert (exact.token_count, exact.counted_by.tokenizer, exact.counted_by.is_exact) == (
        2,
        "llama3",
        True,
    )
    assert (estimate.counted_by.tokenizer, estimate.counted_by.is_exact) == ("o200k_base", False)
    assert (given.token_count, given.counted_by.tokenizer) == (7, "given")


def test_constraints_are_named_by_their_content(home: Path) -> None:
    with a_home(home) as pointsman:
        one = placement_facts(pointsman, question={"constraints": {"a": 1, "b": [None]}})
        same = placement_facts(pointsman, question={"constraints": {"b": [None], "a": 1}})
        none = placement_facts(pointsman)
    assert one.constraints_id == same.constraints_id
    assert one.constraints_id.startswith("sha256:")
    assert none.constraints_id == ""


def test_a_decision_as_printed_can_be_given_back_as_the_one_that_failed(home: Path) -> None:
    with a_home(home) as pointsman:
        first = to_json(pointsman.place(placement_facts(pointsman)))
        text = msgspec.json.encode(first)
        facts = placement_facts(pointsman, initial_decision=json.loads(text), execution_failed=True)
        then = pointsman.place(facts)
    assert (then.outcome.route, then.outcome.log_escalation) == ("cloud", True)


def test_a_local_model_that_is_down_or_excluded_is_not_available(home: Path) -> None:
    with a_home(home) as pointsman:
        for given in (
            {"availability": {"embedded": "unavailable"}},
            {"availability": {LOCAL: "unavailable"}},
            {"availability": {"embedded": "rate_limited"}},
            {"configured": ("acme:big",)},
            {"excluded_models": (LOCAL,)},
        ):
            placed = a_turn(pointsman, **given).placed
            assert placed is not None
            assert placed.rule_id == "AUTO_CLOUD", given


@pytest.mark.req(81)
def test_a_turn_that_may_leave_still_finds_a_model_here_without_a_network(home: Path) -> None:
    with a_home(home) as pointsman:
        turn = a_turn(pointsman, privacy_level="cloud", network_state="offline")
    assert turn.outcome.chosen_model == LOCAL
    assert turn.placed is not None
    assert (turn.placed.rule_id, turn.placed.gate) == ("NETWORK_UNAVAILABLE", "open")


def test_the_why_screen_of_a_placed_turn_says_so_and_cuts_no_cause(home: Path) -> None:
    long = "x" * 390
    written(home, policy_rules=[{"id": "here", "action": "force_local", "message": long}])
    with a_home(home) as pointsman:
        screen = why_screen(a_turn(pointsman, "@big hello"))
        lines = screen.splitlines()
        assert lines[2].startswith("Placed: stays on this machine   (POLICY_FORCE_LOCAL: ")
        assert max(map(len, lines)) <= 80
        assert screen.count("x") >= len(long)
        assert "…" not in screen
        short = {"id": "here", "action": "force_local", "message": "it stays in the house"}
        written(home, policy_rules=[short])
        assert len(why_screen(a_turn(pointsman, "hello", session="v")).splitlines()) <= 24
        written(home, policy_rules=[{"id": "never", "action": "block"}])
        assert "Placed: goes nowhere   (POLICY_BLOCK" in why_screen(a_turn(pointsman, session="t"))
        written(home)
        assert "Placed" not in why_screen(a_turn(pointsman, session="u"))


def test_the_screen_of_a_placement_fits_80_columns_and_hides_nothing_of_its_verdict(
    home: Path,
) -> None:
    rules = [
        {"id": "a", "action": "warn", "message": "w" * 390},
        {"id": "b", "action": "require_confirmation", "message": "b\x1b[31m" + "c" * 380},
    ]
    written(home, policy_rules=rules)
    with a_home(home) as pointsman:
        text = to_screen(pointsman.place(placement_facts(pointsman)))
        lines = text.splitlines()
        assert max(map(len, lines)) <= 80
        assert "\x1b" not in text
        assert lines[0] == "Route: local   o:l   (AUTO_LOCAL)"
        assert "a local failure may fall back to the cloud, once" in lines
        assert "a human must confirm this" in lines
        assert any(line.startswith("warning: www") for line in lines)
        offline = placement_facts(pointsman, state={"network_state": "offline"},
                                  human_override="force_remote")  # fmt: skip
        text = to_screen(pointsman.place(offline))
    assert text.startswith("Route: error E-NET-001   (NETWORK_UNAVAILABLE)")
    assert "Rules:" not in text


def test_an_escalation_says_on_its_screen_that_it_is_logged(home: Path) -> None:
    stored = {
        "route": "local", "model": "o:l", "rule_id": "AUTO_LOCAL", "fallback_allowed": True,
        "router_version": "1.0.0",
    }  # fmt: skip
    with a_home(home) as pointsman:
        facts = placement_facts(pointsman, initial_decision=stored, execution_failed=True)
        text = to_screen(pointsman.place(facts))
    assert "this is an escalation, and logged as one" in text
    assert "hit  LOCAL_EXECUTION_FAILURE: route = local and execution_failed and initial" in text
