"""`place`, `taint` and `audit egress`, as a person or a script uses them."""

import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner, Result

from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.kernel.entry import Draft
from pointsman.turns.facts import GivenFacts

MODELS = """
schema_version: 1
providers: {acme: {kind: openai}}
models: {"acme:big": {location: cloud, aliases: [big]}}
"""
ROUTING = """
schema_version: 1
rules: [{name: all, when: {has_images: false}, use: "acme:big"}]
"""


class Home:
    """A home folder and the command that works on it, without a process for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        (path / "models.yaml").write_text(MODELS)
        (path / "routing.yaml").write_text(ROUTING)

    def run(self, *words: str, text: str | None = None) -> Result:
        return CliRunner().invoke(main, [*words, "--home", str(self.path)], input=text)

    def json(self, *words: str, text: str | None = None) -> Any:
        return json.loads(self.run(*words, "--json", text=text).stdout)

    def place(self, *words: str, **changes: Any) -> Result:
        return self.run("place", "--facts", "-", *words, text=facts(**changes))

    def turn(self, session: str = "s", **given: Any) -> str:
        with Pointsman(self.path) as pointsman:
            made = pointsman.given_facts(GivenFacts("hello", **given))
            return pointsman.route(made, session_id=session).turn_id


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def facts(**changes: Any) -> str:
    """Facts of a question that fits the local model, with parts of it replaced."""
    value: dict[str, Any] = {
        "question": {
            "id": "q-1", "session_id": "s", "content": "hello", "privacy_level": "auto",
            "timestamp": "2026-11-15T14:05:00Z",
        },
        "state": {
            "local_model": {"model_name": "o:l", "supported_intents": [], "available": True},
            "cloud_model": {"model_name": "c:m"}, "network_state": "online", "token_count": 5,
        },
    }  # fmt: skip
    for name, part in changes.items():
        value[name] = value.get(name, {}) | part if isinstance(part, dict) else part
    return json.dumps(value)


def test_place_prints_the_contracts_decision(home: Home) -> None:
    done = home.place("--json")
    value = json.loads(done.stdout)
    assert done.exit_code == 0
    assert list(value) == [
        "route", "model", "fallback_allowed", "confidence", "requires_confirmation",
        "log_escalation", "rule_id", "reason", "router_version", "trace", "decision_id",
        "policy_id", "facts_id", "decision_version", "elapsed_ms",
    ]  # fmt: skip
    assert (value["route"], value["model"], value["rule_id"]) == ("local", "o:l", "AUTO_LOCAL")
    assert value["confidence"] == 1.0
    assert value["router_version"] == "1.0.0"
    assert value["trace"]["terminated_at"] == "autoModeLogic"


def test_place_prints_a_screen_for_people(home: Home) -> None:
    done = home.place()
    assert done.exit_code == 0
    assert done.stdout.startswith("Route: local   o:l   (AUTO_LOCAL)\n")
    assert "Asked: privacy auto, network online, 5 tokens of 4096" in done.stdout
    assert "  autoModeLogic       terminated     AUTO_LOCAL" in done.stdout


@pytest.mark.req(81)
def test_a_question_that_goes_nowhere_ends_with_1_and_its_code(home: Home) -> None:
    changes = {"question": {"privacy_level": "cloud"}, "state": {"network_state": "offline"}}
    done = home.place("--json", **changes)
    assert done.exit_code == 1
    said = json.loads(done.stdout)
    assert (said["error_code"], said["rule_id"]) == ("E-NET-001", "NETWORK_UNAVAILABLE")
    assert "route" not in said


@pytest.mark.req(92, 94, 98)
def test_a_printed_decision_that_failed_escalates_once_and_no_further(home: Home) -> None:
    first = json.loads(home.place("--json").stdout)
    then = home.place("--json", initial_decision=first, execution_failed=True)
    second = json.loads(then.stdout)
    assert (second["route"], second["log_escalation"]) == ("cloud", True)
    assert second["fallback_allowed"] is False
    last = home.place("--json", initial_decision=second, execution_failed=True)
    assert last.exit_code == 1
    assert json.loads(last.stdout)["error_code"] == "E-CLOUD-001"


def test_facts_that_do_not_fit_are_e_valid_001_and_end_with_2(home: Home) -> None:
    done = home.place("--json", mood="calm", human_override="force_cloud")
    value = json.loads(done.stdout)
    assert done.exit_code == 2
    assert value["error_code"] == "E-VALID-001"
    assert len(value["problems"]) == 2
    done = home.place(mood="calm")
    assert done.exit_code == 2
    assert "config.unknown_key" in done.stderr
    assert not (home.path / "ledger.db").exists()


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"question": 1}'])
def test_input_that_is_no_facts_ends_with_2(home: Home, text: str) -> None:
    done = home.run("place", "--facts", "-", text=text)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: standard input:")
    value = home.json("place", "--facts", "-", text=text)
    assert value["error_code"] == "E-VALID-001"


def test_a_file_of_facts_that_is_not_there_ends_with_2(home: Home) -> None:
    done = home.run("place", "--facts", str(home.path / "no"))
    assert done.exit_code == 2
    assert "cannot be read" in done.stderr


def test_facts_must_be_given(home: Home) -> None:
    assert home.run("place").exit_code == 2


def test_place_can_be_kept_out_of_the_ledger(home: Home) -> None:
    assert home.place("--no-record").exit_code == 0
    assert not (home.path / "ledger.db").exists()


def test_a_recorded_placement_replays_and_the_ledger_stays_intact(home: Home) -> None:
    decision = json.loads(home.place("--json").stdout)["decision_id"]
    assert home.run("replay", decision).exit_code == 0
    assert home.run("replay", "--all").stdout == "1 of 1 decision identical\n"
    assert home.run("verify").exit_code == 0


def test_a_broken_table_warns_and_lets_nothing_leave(home: Home) -> None:
    (home.path / "placement.yaml").write_text("router_version: 1.0.0\n")
    done = home.place(question={"privacy_level": "cloud"})
    assert done.exit_code == 0
    assert "(TABLE_UNREADABLE)" in done.stdout
    assert "warning: " in done.stderr
    assert "config.missing_key" in done.stderr
    checked = home.run("rules", "check")
    assert checked.exit_code == 2
    assert "in force: nothing leaves this machine" in checked.stdout
    assert "nothing leaves this machine" in home.run("rules", "reload").stdout


def test_route_takes_the_privacy_level_of_its_facts(home: Home) -> None:
    given = {"message": "@big hello", "privacy_level": "local"}
    done = home.run("route", "--facts", "-", text=json.dumps(given))
    assert "Chose: embedded:smollm2-135m" in done.stdout
    assert "Placed: stays on this machine   (PRIVACY_LOCAL: privacy_level = local)" in done.stdout
    assert home.run("why").stdout == done.stdout
    open_ = home.run("route", "--facts", "-", text=json.dumps({"message": "hello"}))
    assert "Chose: acme:big" in open_.stdout
    assert "Placed" not in open_.stdout
    offline = {"message": "hello", "network_state": "offline"}
    said = home.run("route", "--facts", "-", text=json.dumps(offline))
    assert "Chose: embedded:smollm2-135m" in said.stdout


def test_taint_lists_what_is_held_and_lets_it_go_with_a_reason(home: Home) -> None:
    turn = home.turn(privacy_level="local")
    done = home.run("taint", "list")
    assert done.exit_code == 0
    assert done.stdout.startswith("s  since 2")
    assert done.stdout.endswith(f"PRIVACY_LOCAL  turn {turn}\n")
    (held,) = home.json("taint", "list")["sessions"]
    assert held["taint"] == {"turn_id": turn, "rule_id": "PRIVACY_LOCAL"}
    done = home.run("taint", "clear", "s", "--reason", "public now")
    assert (done.exit_code, done.stdout) == (
        0,
        f"s may leave again; it was held since turn {turn}\n",
    )
    assert home.run("taint", "list").stdout == "no session is held on this machine\n"


def test_a_session_that_is_not_held_cannot_be_cleared(home: Home) -> None:
    home.run("init")
    done = home.run("taint", "clear", "nobody", "--reason", "x")
    assert done.exit_code == 2
    assert "the session `nobody` is not held here" in done.stderr
    assert home.run("taint", "clear", "nobody").exit_code == 2
    assert home.run("taint", "list").exit_code == 0


def test_audit_proves_zero_where_it_was_zero(home: Home) -> None:
    home.turn(privacy_level="local")
    home.run("route", "hello")
    done = home.run("audit", "egress")
    assert done.exit_code == 0
    first, last = done.stdout.splitlines()
    assert first == "0 of 1 turn left this machine (1 preview called nobody)"
    assert last.startswith("proved by ")
    value = home.json("audit", "egress")
    assert (value["turns"], value["left"], value["proved"], value["violations"]) == (2, 0, True, [])


def test_audit_lists_what_left_and_by_which_rule(home: Home) -> None:
    turn = home.turn()
    done = home.run("audit", "egress")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "1 of 1 turn left this machine, in 1 departure"
    row = done.stdout.splitlines()[1]
    assert 'acme:big  by rule "all", advice: AUTO_LOCAL, ' in row
    assert row.endswith(f"turn {turn}  (end of call not on record)")
    (value,) = home.json("audit", "egress")["rows"]
    assert (value["turn_id"], value["model"], value["gate"]) == (turn, "acme:big", "open")


def test_audit_can_begin_at_an_instant(home: Home) -> None:
    home.turn()
    done = home.run("audit", "egress", "--since", "2999-01-01T00:00:00Z")
    assert done.exit_code == 0
    assert done.stdout.startswith("0 of 0 turns left this machine since 2999-01-01")
    assert home.run("audit", "egress", "--since", "yesterday").exit_code == 2


def test_audit_cuts_a_long_list_and_says_so(home: Home) -> None:
    with Pointsman(home.path) as pointsman:
        for number in range(43):
            pointsman.route(pointsman.given_facts(GivenFacts(f"hello {number}")))
    lines = home.run("audit", "egress").stdout.splitlines()
    assert len(lines) == 1 + 40 + 2
    assert lines[-2] == "… and 3 more in --json"
    assert len(home.json("audit", "egress")["rows"]) == 43


def test_audit_says_when_a_turn_cannot_be_read(home: Home) -> None:
    home.turn(privacy_level="local")
    with Pointsman(home.path) as pointsman:
        draft = Draft("decision.turn", "d", "t", pointsman.clock.now(), b"{}")
        pointsman.decision_recorder.recorder().record(draft)
    done = home.run("audit", "egress")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1] == "NOT PROVED: 1 turn cannot be read"
    assert home.json("audit", "egress")["proved"] is False


def test_audit_of_an_empty_home_ends_with_2(home: Home) -> None:
    home.run("init")
    done = home.run("audit", "egress")
    assert done.exit_code == 2
    assert "nothing is recorded yet" in done.stderr


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE entries SET at_us = at_us + 1 WHERE kind = 'decision.turn'",
        "UPDATE entries SET payload = X'7b7d' WHERE kind = 'decision.turn'",
        "DELETE FROM entries WHERE kind = 'snapshot'",
        "DELETE FROM attachments",
    ],
    ids=["an instant", "a payload", "a policy gone", "facts gone"],
)
def test_a_broken_ledger_proves_nothing_and_ends_with_1(home: Home, damage: str) -> None:
    home.turn()
    connection = apsw.Connection(str(home.path / "ledger.db"))
    connection.execute(damage)
    connection.close()
    done = home.run("audit", "egress")
    assert done.exit_code == 1
    assert "proved by" not in done.stdout
    assert "NOT PROVED: the ledger is broken" in done.stdout
    value = home.json("audit", "egress")
    assert value["proved"] is False
    assert value["fault"]["code"].startswith("ledger.")
