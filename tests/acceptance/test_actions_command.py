"""`actions`, as an owner and as members of the council use it."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.unit.governance.chamber import in_memory

from pointsman.app import Pointsman
from pointsman.approvals.proposal import ActionProposal
from pointsman.cli.main import main
from pointsman.governance.action import QUORUM, Actor
from pointsman.kernel.document import Json
from pointsman.storage.stores.semantic import SemanticMemory

NOTE: Json = {"namespace": "facts", "key": "sky", "value": {"colour": "blue", "share": 1}}


class Home:
    """A home folder with a request in it, and the command that works on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ann = self.key("ann", "operator")
        with Pointsman(path) as pointsman:
            wanted = ActionProposal("sem_write", NOTE, "it is so")
            by = Actor(self.ann[3:19], "ann", "operator")
            self.request = pointsman.approvals.request(wanted, by).request

    def key(self, name: str, role: str) -> str:
        token: str = self.json("keys", "create", name, "--role", role)["key"]
        return token

    def run(self, *words: str, key: str = "") -> Result:
        env = {"POINTSMAN_KEY": key or None}
        return CliRunner().invoke(main, [*words, "--home", str(self.path)], env=env)

    def json(self, *words: str, key: str = "") -> Any:
        done = self.run(*words, "--json", key=key)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def vote(self, choice: str, key: str = "", *words: str) -> Result:
        return self.run("actions", "vote", self.request.request_id, choice, *words, key=key)

    def written(self) -> int:
        with closing(SemanticMemory(self.path / "semantic.db")) as memory:
            return len(memory.every_version())


@pytest.fixture
def home() -> Iterator[Home]:
    for path in in_memory():
        yield Home(path / "home")


def test_three_members_of_the_council_carry_a_request_from_the_command_line(home: Home) -> None:
    members = [home.key(f"member {n}", "council") for n in range(QUORUM)]
    for key in members[:-1]:
        told = home.vote("approve", key, "--note", "I looked at it")
        assert told.exit_code == 0, told.output
        assert "status     pending" in told.stdout
    assert home.written() == 0
    assert "status     executed" in home.vote("approve", members[-1]).stdout
    assert home.written() == 1


def test_requests_are_listed_by_how_they_stand_and_shown_with_their_hash(home: Home) -> None:
    (listed,) = home.json("actions", "list", "--status", "pending")["actions"]
    assert listed["request_id"] == home.request.request_id
    assert home.json("actions", "list", "--status", "executed")["actions"] == []
    assert home.run("actions", "list", "--status", "executed").stdout == "nothing is asked for\n"
    shown = home.json("actions", "show", home.request.request_id)
    assert (shown["payload"], shown["requester_name"]) == (NOTE, "ann")
    text = home.run("actions", "show", home.request.request_id).stdout
    assert home.request.action_hash in text
    assert "votes      0 yes, 0 no, of 3" in text


def test_the_owner_of_the_home_is_an_admin_and_has_no_vote_of_the_council(home: Home) -> None:
    told = home.vote("approve")
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr == "error: action.vote_denied: this role has no vote on this request\n"
    assert home.written() == 0


@pytest.mark.parametrize("role", ["viewer", "operator", "auditor"])
def test_a_role_that_may_not_vote_is_told_so_in_one_line(home: Home, role: str) -> None:
    told = home.vote("approve", home.key("vic", role))
    assert told.exit_code == 2
    first, *hints = told.stderr.splitlines()
    said = "this key may not do that" if role == "viewer" else f"the role `{role}` may not do this"
    assert said in first
    assert len(hints) <= 1
    (entry,) = home.json("actions", "list")["actions"]
    assert entry["tally"]["approve"] == 0


def test_a_viewer_sees_a_request_without_what_it_would_write(home: Home) -> None:
    shown = home.json("actions", "show", home.request.request_id, key=home.key("vic", "viewer"))
    assert (shown["payload"], shown["requester_name"], shown["votes"]) == (None, None, [])


def test_a_key_nobody_made_and_one_that_was_revoked_are_refused_alike(home: Home) -> None:
    member = home.key("member", "council")
    assert home.vote("approve", member).exit_code == 0
    home.run("keys", "revoke", member[3:19])
    refused = [home.vote("approve", key) for key in (member, "pk_" + "a" * 16 + "_" + "b" * 52)]
    assert refused[0].stderr == refused[1].stderr
    assert {each.exit_code for each in refused} == {2}


def test_a_vote_on_another_action_than_the_one_asked_for_does_not_count(home: Home) -> None:
    told = home.vote("approve", home.key("member", "council"), "--hash", "sha256:" + "f" * 64)
    assert told.exit_code == 1
    assert told.stderr.endswith(": this names another action than the one requested\n")


def test_who_asked_may_call_it_off_and_a_member_of_the_council_may_not(home: Home) -> None:
    name = home.request.request_id
    refused = home.run("actions", "cancel", name, key=home.key("member", "council"))
    assert refused.exit_code == 1
    told = home.run("actions", "cancel", name, "--note", "not needed", key=home.ann)
    assert told.exit_code == 0, told.output
    assert "status     cancelled" in told.stdout
    assert home.vote("approve", home.key("another", "council")).exit_code == 1


def test_a_request_nobody_made_is_not_found(home: Home) -> None:
    told = home.run("actions", "show", "r-none")
    assert told.exit_code == 2
    assert told.stderr.endswith(": no action is requested as `r-none`\n")


def test_a_revoked_keys_vote_counts_no_longer_and_its_owner_may_vote_anew(home: Home) -> None:
    first = home.key("member 0", "council")
    assert home.vote("approve", first).exit_code == 0
    home.run("keys", "revoke", first[3:19])
    assert home.vote("approve", home.key("member 1", "council")).exit_code == 0
    told = home.vote("approve", home.key("member 2", "council"))
    assert "votes      2 yes, 0 no, of 3, 1 withdrawn" in told.stdout
    assert home.written() == 0
    assert "status     executed" in home.vote("approve", home.key("member 0", "council")).stdout
    assert home.written() == 1
