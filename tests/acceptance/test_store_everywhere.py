"""Every command that opens a home works on either kind of store, and says the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from tests.acceptance.parlour import OPUS, ROUTING, models
from tests.gateway.house import upstream, write_home

from pointsman.cli.main import main
from pointsman.testing import says

FLEET = """
modules:
  agent:a: {apt: 0.9, status: healthy, capabilities: [plan]}
  generic_agent: {apt: 0.5, status: healthy}
"""
GATE = """
decision:
  id: gate
  type: switch
  input: "{{ score }}"
  cases: [{condition: "input >= 80", target: deploy, label: pass}]
  default: {target: rework}
"""
IMPORTED = [
    {"model": OPUS, "cost_usd": 0.01, "sample_size": 20, "success": 0.9, "message": message}
    for message in ("write a commit message", "fix the failing test", "explain this error")
]


class Teller:
    """Runs commands on one home and one store."""

    def __init__(self, home: Path, store: str) -> None:
        self.home = home
        self._before = ("--home", str(home), "--store", store, "--json")

    def __call__(self, *words: str, given: str | None = None, code: int = 0) -> Any:
        done = CliRunner().invoke(main, [*self._before, *words], input=given)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert done.exit_code == code, done.output
        return json.loads(done.stdout)


@pytest.fixture(params=["sqlite", "postgres"])
def tell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Teller]:
    is_server = request.param == "postgres"
    store = request.getfixturevalue("postgres_url") if is_server else "sqlite:"
    with upstream(says("Paris."), says("Rome.")) as server:
        home = tmp_path / "home"
        write_home(home, models=models(server.url, server.url), routing=ROUTING)
        (home / "agents.yaml").write_text(FLEET)
        (home / "decisions").mkdir()
        (home / "decisions" / "gate.yaml").write_text(GATE)
        yield Teller(home, store)
    kept = {path.name for path in home.glob("*.db")}
    made_again = {"turns.db", "decision-cache.db", "taints.db"}
    if is_server:
        assert kept <= made_again, "nothing that counts is left on the disk of a replica"
    else:
        assert "ledger.db" in kept


def test_commands_do_the_same_wherever_the_home_is_kept(tell: Teller, tmp_path: Path) -> None:
    _keys(tell)
    place = tmp_path / "work"
    place.mkdir()
    _conversation(tell, place)
    _patterns(tell)
    _rooms(tell)
    assert tell("verify")["faults"] == []
    replayed = tell("replay", "--all")
    assert replayed["identical"] == replayed["total"] >= 5
    assert tell("store", "check")["usable"]


def _keys(tell: Teller) -> None:
    made = tell("keys", "create", "ann", "--budget", "5", "--per", "day")
    tell("keys", "create", "bob")
    assert [each["name"] for each in tell("keys", "list")] == ["ann", "bob"]
    tell("keys", "revoke", made["id"])
    states = [each["state"] for each in tell("keys", "list")]
    assert states == ["revoked", "live"]
    assert tell("keys", "revoke", "nobody", code=2)["error_code"] == "input.not_found"


def _conversation(tell: Teller, place: Path) -> None:
    line = ("chat", "--workspace", str(place), "--message")
    one = tell(*line, "capital of France?")
    two = tell(*line, "and Italy?", "--resume", one["session_id"])
    assert (one["answer"], two["answer"], one["model"]) == ("Paris.", "Rome.", OPUS)
    assert two["session_cost_usd"] == "0.00057"
    assert [each["id"] for each in tell("chat", "--list")] == [one["session_id"]]
    cost = tell("cost")
    assert (cost["calls"], cost["cost_usd"]) == (2, "0.00057")
    assert [each["session"] for each in cost["by_session"]] == [one["session_id"]]


def _patterns(tell: Teller) -> None:
    done = tell("patterns", "import", "-", given=json.dumps(IMPORTED))
    assert (
        done["added"],
        tell("patterns", "import", "-", given=json.dumps(IMPORTED))["added"],
    ) == (
        3,
        0,
    )
    listed = tell("patterns", "list")
    assert len(listed) >= 3
    shown = tell("patterns", "show", listed[0]["fingerprint_id"])
    assert shown["fingerprint_id"] == listed[0]["fingerprint_id"]
    tell("patterns", "report")
    tell("patterns", "delete", listed[-1]["fingerprint_id"])
    assert len(tell("patterns", "list")) == len(listed) - 1


def _rooms(tell: Teller) -> None:
    decided = tell("route", "write a commit message")
    assert tell("why", decided["turn_id"])["decision_id"] == decided["decision_id"]
    job = tell("agents", "decide", "--request", "-", given='{"query_text": "what is it"}')
    assert (job["selected_agent"], job["ordered_candidates"][0]["final_score"]) == (
        "agent:a",
        0.3849,
    )
    assert tell("agents", "why", job["job_id"])["decision_id"] == job["decision_id"]
    branch = tell("decision", "evaluate", "gate", "--input", '{"score": 90}', "--workflow-id", "w")
    assert branch["selected_targets"] == ["deploy"]
    assert len(tell("decision", "log", "--workflow-id", "w")) == 1
    assert tell("decision", "distribution", "gate")["labels"] == {"pass": 1}


def test_a_password_in_the_address_is_never_shown(tmp_path: Path, postgres_url: str) -> None:
    """Not by a check, not by a fault, not in a file that is written."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS keeper")
        connection.execute("CREATE ROLE keeper LOGIN PASSWORD 'opensesame'")
    host = postgres_url.partition("host=")[2]
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    url = f"postgresql://keeper:opensesame@/{database}?host={host}"
    line = ["--home", str(tmp_path), "--store", url]
    said = [
        CliRunner().invoke(main, [*line, *words]).output
        for words in (["store", "check"], ["store", "migrate"], ["route", "hello"], ["doctor"])
    ]
    assert all(said)
    assert not [text for text in said if "opensesame" in text]
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"opensesame" not in path.read_bytes()
