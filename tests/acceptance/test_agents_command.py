"""`agents`, `brainstate` and `jobs`, as a person or a script uses them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.turns.registry.models import EMBEDDED_MODEL

EXAMPLE = Path(__file__).parents[2] / "examples" / "agent-fleet"
FLEET = """
modules:
  agent:a: {apt: 0.9, status: healthy, capabilities: [plan]}
  agent:b: {apt: 0.7, status: healthy, capabilities: [answer]}
  generic_agent: {apt: 0.5, status: healthy}
"""


class Home:
    """A home folder and the command that works on it, without a process for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, mode=0o700)
        (path / "agents.yaml").write_text(FLEET)

    def run(self, *words: str, given: object = None) -> Result:
        text = given if isinstance(given, str) else json.dumps(given)
        return CliRunner().invoke(main, [*words, "--home", str(self.path)], input=text)

    def json(self, *words: str, given: object = None, code: int = 0) -> Any:
        result = self.run(*words, "--json", given=given)
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.mark.req(8, 9, 50)
def test_one_command_decides_where_nothing_was_prepared(home: Home) -> None:
    found = home.json("agents", "decide", "--request", "-", given={"query_text": "what is it"})
    assert found["selected_agent"] == "agent:a"
    assert found["ordered_candidates"][0]["final_score"] == 0.3849
    assert found["router_snapshot_id"].startswith("sha256:")
    text = home.run("agents", "why", "last").output
    assert "Chose: agent:a" in text
    assert max(map(len, text.splitlines())) <= 80
    assert home.json("agents", "why", found["job_id"])["decision_id"] == found["decision_id"]
    again = {
        "query_text": "what is it",
        "job_id": found["job_id"],
        "job_seed": "s",
        "selfrep_snapshot_id": found["selfrep_snapshot_id"],
        "brainstate_snapshot_id": found["brainstate_snapshot_id"],
        "candidate_list": ["agent:b"],
        "trace_id": "t-1",
    }
    named = home.json("agents", "decide", "--request", "-", given=again)
    assert (named["selected_agent"], named["trace_id"]) == ("agent:b", "t-1")


@pytest.mark.parametrize(
    ("given", "code", "exit_code"),
    [
        ({"query_text": "x", "selfrep_snapshot_id": "sha256:" + "0" * 64}, "ROUTER_NO_SNAPSHOT", 2),
        ({"query_text": "x", "odd": 1}, "input.document", 2),
        ("{", "input.document", 2),
        ({"query_text": "ask jane@example.com"}, "PRIVACY_BLOCKED", 1),
        (
            {"query_text": "x", "candidate_list": ["agent:z"], "selfrep": {"modules": {}}},
            "ROUTER_NO_MATCH",
            1,
        ),
    ],
)
def test_what_cannot_be_decided_is_one_clear_error(
    home: Home, given: object, code: str, exit_code: int
) -> None:
    found = home.json("agents", "decide", "--request", "-", given=given, code=exit_code)
    assert found["error_code"] == code
    assert home.run("agents", "decide", "--request", "-", given=given).exit_code == exit_code


def test_agents_are_listed_and_shown_as_they_are(home: Home) -> None:
    home.run("agents", "decide", "--request", "-", given={"query_text": "x"})
    listed = home.json("agents", "list")["modules"]
    assert [each["node_id"] for each in listed] == ["agent:a", "agent:b", "generic_agent"]
    assert "agent:b" in home.run("agents", "list").output
    assert home.json("agents", "show", "agent:a")["apt"] == 0.9
    assert "whatever is not forbidden" in home.run("agents", "show", "agent:a").output
    missing = home.run("agents", "show", "agent:aa")
    assert (missing.exit_code, "did you mean `agent:a`?" in missing.stderr) == (2, True)


@pytest.mark.req(391, 393)
def test_a_state_is_shown_and_ticked(home: Home) -> None:
    given = {
        "query_text": "x",
        "brainstate": {
            "goals": [{"goal_id": "g1", "type": "answer", "priority": 0.5}],
            "attention": {"attention_gain": 0.5},
            "resource_budget": {"token_budget": 1000, "max_depth_allowed": 3},
        },
    }
    name = home.json("agents", "decide", "--request", "-", given=given)["brainstate_snapshot_id"]
    shown = home.json("brainstate", "show", name)
    assert shown["hints"]["max_depth_allowed"] == 1
    assert "goal       g1: answer, active" in home.run("brainstate", "show", name).output
    inputs = {"council_approval": True, "wm": [{"type": "fact", "value": "x", "ttl_ticks": 2}]}
    ticked = home.json("brainstate", "tick", name, "--inputs", "-", given=inputs)
    assert ticked["brainstate"]["attention"]["attention_gain"] == 0.675
    assert [each["event_type"] for each in ticked["happenings"]] == ["wm_inserted"]
    text = home.run("brainstate", "tick", name, "--inputs", "-", given=inputs).output
    assert ticked["brainstate_snapshot_id"] in text
    assert home.run("brainstate", "tick", name, "--inputs", "-", given={"odd": 1}).exit_code == 2
    assert home.json("brainstate", "show", "nothing", code=2)["error_code"] == "ROUTER_NO_SNAPSHOT"


def test_a_wish_of_a_tick_is_asked_for(home: Home) -> None:
    found = home.json("agents", "decide", "--request", "-", given={"query_text": "x"})
    event = {
        "type": "action",
        "action_type": "sem_write",
        "origin": "agent:a",
        "payload": {"namespace": "n", "key": "k", "value": 1},
    }
    name = found["brainstate_snapshot_id"]
    ticked = home.json("brainstate", "tick", name, "--inputs", "-", given={"events": [event]})
    assert len(ticked["action_requests"]) == 1


def test_a_job_without_agents_ends_with_no_match(home: Home) -> None:
    found = home.json("jobs", "run", "--goal", "do something", code=1)
    assert (found["status"], found["text"]) == ("no_match", None)
    assert [each["status"] for each in found["iteration_trace"]][:1] == ["unreachable"]
    assert home.json("jobs", "show", found["log_id"])["status"] == "no_match"
    listed = home.json("jobs", "list")["jobs"]
    assert [each["log_id"] for each in listed] == [found["log_id"]]
    verdict = home.json("jobs", "replay", found["job_id"])
    assert (verdict["verdict"], verdict["is_identical"]) == ("identical", True)
    assert "identical" in home.run("jobs", "replay", found["log_id"]).output


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "run"],
        ["jobs", "run", "--goal", "x", "--resume", "y"],
        ["jobs", "run", "--goal", " "],
        ["jobs", "run", "--resume", "nothing"],
        ["jobs", "replay", "nothing"],
        ["jobs", "show", "nothing"],
        ["agents", "why", "nothing"],
        ["agents", "decide", "--request", "no-such-file"],
    ],
)
def test_bad_input_is_one_error_and_exit_2(home: Home, words: list[str]) -> None:
    home.run("agents", "decide", "--request", "-", given={"query_text": "x"})
    result = home.run(*words)
    assert result.exit_code == 2
    assert result.stderr.count("error:") == 1


def test_a_broken_file_is_warned_of(home: Home) -> None:
    (home.path / "agents.yaml").write_text("modules: {agent:a: {apt: 7}}\n")
    result = home.run("agents", "decide", "--request", "-", given={"query_text": "x"})
    assert "warning: " in result.stderr
    assert "agents.yaml" in result.stderr


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Home]:
    """The example's home; no bytecode is left beside its agents."""
    home = Home(tmp_path / "fleet")
    shutil.copytree(EXAMPLE / "home", home.path, dirs_exist_ok=True)
    sys.path.insert(0, str(EXAMPLE))
    yield home
    sys.path.remove(str(EXAMPLE))
    sys.modules.pop("council", None)


@pytest.mark.req(41, 43, 60, 69, 354, 384, 399)
def test_the_example_reroutes_asks_votes_and_replays(
    example: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    job = example.json("jobs", "run", "--request", str(EXAMPLE / "question.json"))
    assert [(each["agent_id"], each["status"]) for each in job["iteration_trace"]] == [
        ("agent:scout", "timeout"),
        ("agent:writer", "done"),
    ]
    assert [each["voter"] for each in job["council_votes"]] == ["rules", "critic"]
    asked = example.json("jobs", "run", "--request", str(EXAMPLE / "remember.json"))
    assert (asked["status"], len(asked["action_requests"])) == ("requested", 1)
    from council import main as vote

    vote(example.path)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "sem_write sem:answers/points: pending, memory holds 0"
    assert told[3] == "  mary approves: executed, memory holds 1"
    scout = example.json("agents", "show", "agent:scout")
    assert (scout["status"], scout["apt"]) == ("degraded", 0.69905)
    shown = [example.json("agents", "show", f"agent:{name}") for name in ("writer", "analyst")]
    assert [(each["status"], each["status_reason"]) for each in shown] == [
        ("degraded", "judged 1 of 2 times"),
        ("degraded", "judged 0 of 2 times"),
    ]
    for name in ("points", "remember"):
        assert example.json("jobs", "replay", name)["is_identical"]
    assert example.run("replay", "--all").exit_code == 0
    assert example.run("verify").exit_code == 0


def test_the_example_runs_what_it_shows() -> None:
    script = (EXAMPLE / "run.sh").read_text()
    for words in ("jobs run --request", "council.py", "agents show", "jobs replay", "verify"):
        assert words in script


@pytest.mark.slow
def test_an_agent_may_be_the_local_model(home: Home) -> None:
    run = "run: {agent:model: {model: {system: Answer in one word.}, timeout_ms: 300000}}"
    (home.path / "agents.yaml").write_text(f"modules: {{agent:model: {{apt: 0.9}}}}\n{run}\n")
    found = home.json("jobs", "run", "--goal", "What is the capital of France?")
    assert (found["status"], found["agents_invoked"]) == ("done", ["agent:model"])
    assert "Paris" in found["text"]
    assert found["final_output"]["confidence"] is None
    assert home.json("jobs", "replay", found["log_id"])["is_identical"]
    kinds = {each["kind"] for each in home.json("replay", "--all")["others"]}
    assert kinds == set()
    with Pointsman(home.path, create=False) as pointsman:
        state = pointsman.agency.brainstate(found["brainstate_after"])
        assert state.tokens_consumed > 0
        assert pointsman.recent(5)[0].outcome.chosen_model == EMBEDDED_MODEL
