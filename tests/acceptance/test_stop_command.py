"""`stop`, as an owner and two admins use it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.acceptance.test_actions_command import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_a_stop_is_ordered_listed_told_and_lifted_by_two(home: Home) -> None:
    assert home.run("stop").stdout == "nothing is stopped\n"
    done = home.run("stop", "--all", "--reason", "the exercise at noon")
    assert done.stdout.startswith("stopped  every call  ")
    (stop,) = home.json("stop")["stops"]
    assert (stop["scope"], stop["reason"], stop["by"]) == ("all", "the exercise at noon", "local")
    refused = home.run("route", "hello")
    assert refused.exit_code == 1
    why = " ".join(home.run("why", "last").stdout.split())
    assert "every call stopped by local: the exercise at noon" in why

    asked = home.json("stop", "--lift", stop["id"], "--reason", "it is over")
    assert (asked["action_type"], asked["status"]) == ("lift_stop", "pending")
    own = home.run("actions", "vote", asked["request_id"], "approve")
    assert own.stderr.startswith("error: action.vote_denied")
    other = home.key("bea", "admin")
    done = home.run("actions", "vote", asked["request_id"], "approve", key=other)
    assert "status     executed" in done.stdout
    assert home.run("stop").stdout == "nothing is stopped\n"
    assert home.run("route", "hello").exit_code == 0
    assert home.run("verify").exit_code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--all", "--tenant", "acme", "--reason", "x"), "say one of"),
        (("--all",), "need a reason"),
        (("--provider", "nobody", "--reason", "x"), "there is no provider or model `nobody`"),
        (("--lift", "nothing", "--reason", "x"), "no stop `nothing` is in force"),
    ],
)
def test_what_cannot_be_stopped_is_told_in_one_line(
    home: Home, words: tuple[str, ...], told: str
) -> None:
    done = home.run("stop", *words)
    assert done.exit_code == 2, done.output
    assert told in done.stderr
    assert home.run("stop").stdout == "nothing is stopped\n"


def test_only_roles_that_may_ask_can_ask_for_an_end(home: Home) -> None:
    home.run("stop", "--all", "--reason", "x")
    (stop,) = home.json("stop")["stops"]
    viewer = home.key("vic", "viewer")
    done = home.run("stop", "--lift", stop["id"], "--reason", "y", key=viewer)
    assert done.exit_code != 0
    assert "may not do" in done.stderr
