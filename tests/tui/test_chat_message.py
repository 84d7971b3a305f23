"""`pointsman chat` for scripts: one turn, the answer on standard output, codes that say how."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.acceptance.parlour import OPUS, ROUTING, models
from tests.gateway.house import Upstream, upstream, write_home

from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.testing import calls, fails, says


def run(home: Path, *line: str, given: str | None = None) -> Result:
    found = CliRunner().invoke(main, ["chat", "--home", str(home), *line], input=given)
    assert found.exception is None or isinstance(found.exception, SystemExit)
    return found


@contextmanager
def served(home: Path, *replies: Any) -> Iterator[Upstream]:
    with upstream(*replies) as server:
        write_home(home, models=models(server.url, server.url), routing=ROUTING)
        yield server


def test_the_answer_is_on_standard_output_and_who_gave_it_on_the_other(tmp_path: Path) -> None:
    with served(tmp_path, says("Paris.")):
        found = run(tmp_path, "--message", "capital of France?")
    assert found.exit_code == 0
    assert found.stdout == "Paris.\n"
    assert f"model: {OPUS} · global default" in found.stderr
    assert "$0.000285 · completed" in found.stderr


def test_json_holds_answer_decision_usage_cost_and_session(tmp_path: Path) -> None:
    with served(tmp_path, says("Paris."), says("Rome.")):
        one = json.loads(run(tmp_path, "--json", "--message", "-", given="France?").stdout)
        line = ("--json", "--resume", one["session_id"][-8:], "--message", "and Italy?")
        two = json.loads(run(tmp_path, *line).stdout)
    assert (one["answer"], one["model"], one["cost_usd"]) == ("Paris.", OPUS, "0.000285")
    assert one["decision"]["chosen_model"] == OPUS
    assert one["decision"]["turn_id"] == one["turn_id"]
    assert (one["usage"]["input_tokens"], one["usage"]["output_tokens"]) == (12, 7)
    assert two["session_id"] == one["session_id"]
    assert two["session_cost_usd"] == "0.00057"


@pytest.mark.parametrize(("allow", "is_written"), [((), False), (("--allow", "write"), True)])
def test_a_script_allows_what_it_says_and_nothing_else(
    tmp_path: Path, allow: tuple[str, ...], is_written: bool
) -> None:
    place = tmp_path / "work"
    place.mkdir()
    write = {"path": "b.txt", "content": "42\n", "mode": "create"}
    with served(tmp_path / "h", calls(("write_file", write)), says("done")):
        found = run(tmp_path / "h", "--workspace", str(place), *allow, "--message", "write it")
    assert found.exit_code == 0
    assert (place / "b.txt").exists() is is_written
    assert f"tool: write_file {'done' if is_written else 'failed'}" in found.stderr


def test_what_went_wrong_is_one_line_and_a_code(tmp_path: Path) -> None:
    with served(tmp_path, fails(401)):
        assert run(tmp_path, "--message", "hi").exit_code == 1
        unknown = run(tmp_path, "--message", "@nobody hi")
        assert unknown.exit_code == 2
        assert "`@nobody` names no model" in unknown.stderr
        gone = run(tmp_path, "--resume", "nothing", "--message", "hi")
        assert gone.exit_code == 2
        assert "`nothing` names no session" in gone.stderr
        assert run(tmp_path, "--workspace", str(tmp_path / "no"), "--message", "x").exit_code == 2
        picture = run(tmp_path, "--image", str(tmp_path / "no.png"), "--message", "x")
        assert picture.exit_code == 2
        assert "cannot be read" in picture.stderr


def test_without_a_terminal_the_app_says_what_to_do(tmp_path: Path) -> None:
    found = run(tmp_path)
    assert found.exit_code == 2
    assert "needs a terminal" in found.stderr
    assert "--message" in found.stderr


def test_sessions_are_listed(tmp_path: Path) -> None:
    assert run(tmp_path, "--list").stdout == "no sessions yet\n"
    with served(tmp_path, says("one")):
        run(tmp_path, "--message", "what is a point?")
    assert "what is a point?" in run(tmp_path, "--list").stdout
    (listed,) = json.loads(run(tmp_path, "--list", "--json").stdout)
    assert (listed["turns"], listed["cost_usd"]) == (1, "0.000285")


def test_no_thread_or_loop_is_left_behind(tmp_path: Path) -> None:
    with served(tmp_path, says("one")):
        before = {*threading.enumerate()}
        run(tmp_path, "--message", "hi")
        for each in {*threading.enumerate()} - before:
            each.join(5)  # one that is about to end is none that stays
            assert not each.is_alive(), each
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_a_message_to_nobody_leaves_no_session_behind(tmp_path: Path) -> None:
    with served(tmp_path):
        found = run(tmp_path, "--message", "@nobody hello")
        assert found.exit_code == 2
        assert "`@nobody` names no model" in found.stderr
        assert "no sessions yet" in run(tmp_path, "--list").stdout
    with Pointsman(tmp_path) as pointsman:
        assert not pointsman.conversations.services.store.sessions(9)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/nosuch", "there is no command `/nosuch`"),
        ("/modle opus", "did you mean `/model`?"),
        ("/cost", "`/cost` is a command of the terminal app"),
    ],
)
def test_a_command_in_a_script_is_refused_and_never_sent(
    tmp_path: Path, line: str, told: str
) -> None:
    with served(tmp_path) as server:
        found = run(tmp_path, "--message", line)
        assert found.exit_code == 2
        assert told in found.stderr
        assert not server.requests
        assert "no sessions yet" in run(tmp_path, "--list").stdout


def test_a_backslash_or_a_rule_makes_a_message_of_it(tmp_path: Path) -> None:
    rule = {"name": "notes", "when": {"message_matches": "^/note "}, "use": OPUS}
    with served(tmp_path, says("one"), says("two")) as server:
        write_home(tmp_path, routing={**ROUTING, "rules": [rule]})
        assert run(tmp_path, "--message", r"\/nosuch").exit_code == 0
        assert run(tmp_path, "--message", "/note it").exit_code == 0
        sent = [each.json["messages"][-1]["content"] for each in server.requests]
    assert [blocks[0]["text"] for blocks in sent] == ["/nosuch", "/note it"]
