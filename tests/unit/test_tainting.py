"""Sessions that held what must stay: when they are tainted, for whom, and how they are cleared."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.unit.placed_home import IBAN, LOCAL, a_turn, kinds, ledger, placement_facts, written

from pointsman import NotFound, Pointsman
from pointsman.placement.facts import Taint
from pointsman.recording.taints import LOOK_S
from pointsman.testing import CountedIds, FrozenClock, a_home, assert_replays


@pytest.fixture
def home(tmp_path: Path) -> Path:
    written(tmp_path / "home")
    return tmp_path / "home"


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
        # A fast machine runs a whole process between two looks.
        time.sleep(LOOK_S)
        assert a_turn(pointsman).outcome.chosen_model == LOCAL
        pointsman.clear_taint("s", "done")
        assert a_turn(pointsman).outcome.chosen_model == "acme:big"
    assert pointsman.verify().is_intact
    assert assert_replays(pointsman) == 6
