"""Placement in a home: what is recorded, what taints a session, what a broken table does."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pointsman import GivenFacts, NotFound, Pointsman, Shown, Verdict, why_screen
from pointsman.kernel.content import Sealed, sealed
from pointsman.kernel.json_text import read_json
from pointsman.kernel.record import read_recorded
from pointsman.placement.explain import placement_screen, placement_value
from pointsman.placement.facts import PlacementFacts, Taint, read_placement_facts
from pointsman.placement.policy import BUILT_IN
from pointsman.runs.placing import facts_given
from pointsman.signals.sensitivity import sensitivity
from pointsman.storage.sqlite.content import ContentStore
from pointsman.storage.sqlite.reading import LedgerReader
from pointsman.testing import CountedIds, FrozenClock, a_home, assert_replays

MODELS = (
    "schema_version: 1\nproviders: {acme: {kind: openai}}\n"
    "models: {'acme:big': {location: cloud, aliases: [big]}}\n"
)
ROUTING = (
    "schema_version: 1\nglobal_default: embedded:smollm2-135m\n"
    "rules: [{name: all, when: {has_images: false}, use: 'acme:big'}]\n"
)
IBAN = "please pay to DE89 3704 0044 0532 0130 00 today"
LOCAL = "embedded:smollm2-135m"


def written(home: Path, **table: object) -> None:
    """Write a home whose turns go to the cloud unless something keeps them."""
    home.mkdir(exist_ok=True)
    (home / "models.yaml").write_text(MODELS)
    (home / "routing.yaml").write_text(ROUTING)
    value = json.loads(msgspec.json.encode(BUILT_IN)) | table
    (home / "placement.yaml").write_text(json.dumps(value))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    written(tmp_path / "home")
    return tmp_path / "home"


def a_turn(pointsman: Pointsman, message: str = "hello", session: str = "s", **given: Any) -> Shown:
    is_preview = given.pop("is_preview", False)
    facts = pointsman.given_facts(GivenFacts(message, **given))
    return pointsman.route(facts, session_id=session, is_preview=is_preview)


def given_facts(content: str = "hello", **changes: Any) -> bytes:
    question = {
        "id": "q", "session_id": "s", "content": content, "privacy_level": "auto",
        "timestamp": "2026-11-15T14:05:00Z",
    }  # fmt: skip
    local = {"model_name": "o:l", "supported_intents": [], "available": True}
    value = {
        "question": question | changes.pop("question", {}),
        "state": {
            "local_model": local, "cloud_model": {"model_name": "c:m"}, "network_state": "online",
        } | changes.pop("state", {}),
        **changes,
    }  # fmt: skip
    return json.dumps(value).encode()


def placement_facts(pointsman: Pointsman, content: str = "hello", **changes: Any) -> PlacementFacts:
    document = read_json(given_facts(content, **changes), "facts")
    return pointsman.placement_facts(read_placement_facts(document))


@contextmanager
def ledger(pointsman: Pointsman) -> Iterator[LedgerReader]:
    with closing(LedgerReader(pointsman.home.database)) as reader:
        yield reader


def kinds(pointsman: Pointsman, prefix: str = "") -> list[str]:
    with ledger(pointsman) as reader:
        return [each.entry.kind for each in reader.of_kind(prefix)]


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


def test_a_session_that_held_what_must_stay_stays(home: Path) -> None:
    with a_home(home) as pointsman:
        first = a_turn(pointsman, privacy_level="local")
        later = a_turn(pointsman)
        assert later.outcome.chosen_model == LOCAL
        assert later.placed is not None
        assert later.placed.rule_id == "TAINT_LOCAL"
        assert later.placed.reason.endswith(f"turn {first.turn_id}, PRIVACY_LOCAL")
        assert a_turn(pointsman, session="other").outcome.chosen_model == "acme:big"
        assert a_turn(pointsman, session="").outcome.chosen_model == "acme:big"
        assert assert_replays(pointsman) == 6


def test_a_session_is_tainted_once(home: Path) -> None:
    with a_home(home) as pointsman:
        for _ in range(3):
            a_turn(pointsman, privacy_level="local")
        assert kinds(pointsman, "event.placement.") == ["event.placement.tainted"]
        (held,) = pointsman.tainted()
        assert (held.session_id, held.taint.rule_id) == ("s", "PRIVACY_LOCAL")


def test_a_preview_and_a_turn_without_a_session_taint_nothing(home: Path) -> None:
    with a_home(home) as pointsman:
        a_turn(pointsman, privacy_level="local", is_preview=True)
        a_turn(pointsman, session="", privacy_level="local")
        assert pointsman.tainted() == []


def test_a_binding_auto_taints_nothing(home: Path) -> None:
    written(home, auto="binding")
    with a_home(home) as pointsman:
        turn = a_turn(pointsman)
        assert turn.placed is not None
        assert (turn.placed.rule_id, turn.placed.gate) == ("AUTO_LOCAL", "local")
        assert pointsman.tainted() == []


def test_a_table_that_cannot_be_read_taints_nothing(home: Path) -> None:
    (home / "placement.yaml").write_text("rules: 7\n")
    with a_home(home) as pointsman:
        a_turn(pointsman)
        assert pointsman.tainted() == []


def test_without_taint_every_turn_is_looked_at_alone(home: Path) -> None:
    written(home, sensitive={"taint": "off"})
    with a_home(home) as pointsman:
        a_turn(pointsman, privacy_level="local")
        assert pointsman.tainted() == []
        assert a_turn(pointsman).outcome.chosen_model == "acme:big"


def test_switching_taint_off_frees_a_session_that_is_held(home: Path) -> None:
    with a_home(home) as pointsman:
        a_turn(pointsman, privacy_level="local")
        written(home, sensitive={"taint": "off"})
        assert a_turn(pointsman).outcome.chosen_model == "acme:big"


def test_a_refused_override_taints_too_because_the_session_held_the_text(home: Path) -> None:
    written(home, sensitive={"stays_local": ["iban"]})
    with a_home(home) as pointsman:
        shown = pointsman.place(placement_facts(pointsman, IBAN, human_override="force_remote"))
        assert shown.outcome.error_code == "E-ROUTE-002"
        (held,) = pointsman.tainted()
        assert held.taint.rule_id == "SENSITIVE_LOCAL"


def test_a_policy_rule_that_keeps_a_text_here_taints(home: Path) -> None:
    written(home, policy_rules=[{"id": "here", "action": "force_local"}])
    with a_home(home) as pointsman:
        a_turn(pointsman)
        assert [each.taint.rule_id for each in pointsman.tainted()] == ["POLICY_FORCE_LOCAL"]


def test_a_policy_rule_that_blocks_taints_nothing(home: Path) -> None:
    written(home, policy_rules=[{"id": "never", "action": "block", "message": "not here"}])
    with a_home(home) as pointsman:
        turn = a_turn(pointsman)
        assert turn.outcome.chosen_model == ""
        assert turn.placed is not None
        assert turn.placed.gate == "closed"
        assert pointsman.tainted() == []
        assert assert_replays(pointsman) == 2


def test_a_failure_without_a_fallback_taints_nothing(home: Path) -> None:
    stored = {
        "route": "local", "model": "o:l", "rule_id": "AUTO_LOCAL", "fallback_allowed": False,
        "router_version": "1.0.0",
    }  # fmt: skip
    with a_home(home) as pointsman:
        facts = placement_facts(pointsman, initial_decision=stored, execution_failed=True)
        assert pointsman.place(facts).outcome.error_code == "E-LOCAL-001"
        assert pointsman.tainted() == []


def test_a_session_that_is_cleared_may_leave_again_and_the_reason_is_recorded(home: Path) -> None:
    with a_home(home) as pointsman:
        first = a_turn(pointsman, privacy_level="local")
        was = pointsman.clear_taint("s", "the minutes are public now")
        assert was == Taint(first.turn_id, "PRIVACY_LOCAL")
        assert pointsman.tainted() == []
        assert a_turn(pointsman).outcome.chosen_model == "acme:big"
        with ledger(pointsman) as reader:
            (cleared,) = reader.of_kind("event.placement.cleared")
        assert b"the minutes are public now" in cleared.entry.payload
        a_turn(pointsman, privacy_level="local")
        assert [each.session_id for each in pointsman.tainted()] == ["s"]


def test_only_a_session_that_is_held_can_be_cleared(home: Path) -> None:
    with a_home(home) as pointsman:
        with pytest.raises(NotFound):
            pointsman.clear_taint("s", "why not")
        assert pointsman.tainted() == []
        a_turn(pointsman, privacy_level="local")
        pointsman.clear_taint("s", "done")
        with pytest.raises(NotFound, match="`s` is not held here"):
            pointsman.clear_taint("s", "again")


def test_a_taint_outlives_the_process_that_noted_it(home: Path) -> None:
    with a_home(home) as pointsman:
        a_turn(pointsman, privacy_level="local")
    with Pointsman(home, clock=FrozenClock(), ids=CountedIds("again")) as pointsman:
        assert a_turn(pointsman).outcome.chosen_model == LOCAL
        pointsman.clear_taint("s", "done")
    with Pointsman(home, clock=FrozenClock(), ids=CountedIds("third")) as pointsman:
        assert a_turn(pointsman).outcome.chosen_model == "acme:big"


@pytest.mark.slow
def test_a_taint_noted_by_one_process_binds_another_that_is_open(home: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pointsman import GivenFacts, Pointsman\n"
        "with Pointsman(Path(sys.argv[1])) as p:\n"
        "    facts = p.given_facts(GivenFacts('hi', privacy_level='local'))\n"
        "    p.route(facts, session_id='s')\n"
    )
    with Pointsman(home) as pointsman:
        assert a_turn(pointsman).outcome.chosen_model == "acme:big"
        subprocess.run([sys.executable, "-c", code, str(home)], check=True, timeout=60)
        assert a_turn(pointsman).outcome.chosen_model == LOCAL
        pointsman.clear_taint("s", "done")
        assert a_turn(pointsman).outcome.chosen_model == "acme:big"
    assert pointsman.verify().is_intact
    assert assert_replays(pointsman) == 6


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
    assert store.erase(sealed(text, key).digest)
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
        return facts_given(
            read_placement_facts(read_json(given_facts("hello world", state=state), "f"))
        )

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
        first = placement_value(pointsman.place(placement_facts(pointsman)))
        text = msgspec.json.encode(first)
        facts = placement_facts(pointsman, initial_decision=json.loads(text), execution_failed=True)
        then = pointsman.place(facts)
    assert (then.outcome.route, then.outcome.log_escalation) == ("cloud", True)


def test_a_local_model_that_is_down_or_excluded_is_not_available(home: Path) -> None:
    with a_home(home) as pointsman:
        for given in (
            {"availability": {"embedded": "unavailable"}},
            {"availability": {LOCAL: "unavailable"}},
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


def test_the_why_screen_of_a_placed_turn_says_so_and_fits_24_by_80(home: Path) -> None:
    long = "x" * 390
    written(home, policy_rules=[{"id": "here", "action": "force_local", "message": long}])
    with a_home(home) as pointsman:
        lines = why_screen(a_turn(pointsman, "@big hello")).splitlines()
        assert lines[2].startswith("Placed: stays on this machine   (POLICY_FORCE_LOCAL: ")
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80
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
        text = placement_screen(pointsman.place(placement_facts(pointsman)))
        lines = text.splitlines()
        assert max(map(len, lines)) <= 80
        assert "\x1b" not in text
        assert lines[0] == "Route: local   o:l   (AUTO_LOCAL)"
        assert "a local failure may fall back to the cloud, once" in lines
        assert "a human must confirm this" in lines
        assert any(line.startswith("warning: www") for line in lines)
        offline = placement_facts(pointsman, state={"network_state": "offline"},
                                  human_override="force_remote")  # fmt: skip
        text = placement_screen(pointsman.place(offline))
    assert text.startswith("Route: error E-NET-001   (NETWORK_UNAVAILABLE)")
    assert "Rules:" not in text


def test_an_escalation_says_on_its_screen_that_it_is_logged(home: Path) -> None:
    stored = {
        "route": "local", "model": "o:l", "rule_id": "AUTO_LOCAL", "fallback_allowed": True,
        "router_version": "1.0.0",
    }  # fmt: skip
    with a_home(home) as pointsman:
        facts = placement_facts(pointsman, initial_decision=stored, execution_failed=True)
        text = placement_screen(pointsman.place(facts))
    assert "this is an escalation, and logged as one" in text
    assert "hit  LOCAL_EXECUTION_FAILURE: route = local and execution_failed and initial" in text
