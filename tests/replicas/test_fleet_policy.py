"""Replicas that follow the policy published in their ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2 as httpx
import msgspec
import psycopg
import pytest
from tests.gateway.house import ADMIN_TOKEN, eventually, upstream
from tests.replicas.fleet import Crowd, Fleet, Ship
from tests.replicas.harbour import answered, entries, faults, files_for
from tests.servers import PostgresServer, RedisServer

from pointsman.app import Pointsman
from pointsman.gateway.serving.sharing import LOOK_S
from pointsman.kernel.entry import Draft
from pointsman.kernel.record import read_recorded
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.snapshot import snapshot_draft
from pointsman.recording.decision_recorder import POLICY_REFUSED
from pointsman.storage.home import open_home
from pointsman.storage.policies.publications import (
    ANNOUNCEMENT_FORM,
    PUBLICATION_FORM,
    PUBLISHED,
    announcement,
    succession,
)
from pointsman.storage.stores.entries import LedgerReader

FOREIGN = SigningKey(b"k" * 32)


@pytest.fixture(scope="module", params=["postgres", "redis"])
def followers(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> Iterator[Fleet]:
    redis = ""
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        redis = server.url
    memory = Path("/dev/shm")
    with (
        TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        upstream(otherwise=answered) as provider,
        Fleet(postgres_server.fresh(), redis) as fleet,
    ):
        fleet.launch(Path(folder), files_for(provider.url, policy={"source": "ledger"}), 3)
        yield fleet


def put(ship: Ship, default: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {ADMIN_TOKEN}"}
    text = ship.get("/api/policies/routing.yaml").json()["text"]
    content = json.dumps({**json.loads(text), "global_default": default})
    url = f"{ship.url}/api/policies/routing.yaml"
    return httpx.put(url, content=content, headers=headers, timeout=30, trust_env=False)


def policy(ship: Ship) -> dict[str, Any]:
    found: dict[str, Any] = ship.get("/health/readiness").json()["policy"]
    return found


def agreed(fleet: Fleet) -> str:
    """Wait until all replicas have the same policy in force, and give its id."""

    def same() -> str | None:
        found = {policy(each)["policy_id"] for each in fleet.ships}
        return found.pop() if len(found) == 1 else None

    return eventually(same)


def other_model(fleet: Fleet) -> str:
    """Give the default model that is not in force now."""
    agreed(fleet)
    now = fleet.ships[0].chat("hello", "which").headers["x-pointsman-model"]
    return "p:m" if now == "q:n" else "q:n"


def policies_of(fleet: Fleet, decisions: set[str]) -> dict[str, str]:
    """Give the policy that each of some decisions names."""
    return {
        each.id: read_recorded(each.payload)[1].policy_id
        for each in entries(fleet, "decision.turn")
        if each.id in decisions
    }


def test_the_feed_of_every_replica_tells_what_is_published_at_one(followers: Fleet) -> None:
    wanted = other_model(followers)
    headers = {"authorization": f"Bearer {ADMIN_TOKEN}"}
    with httpx.Client(headers=headers, timeout=30, trust_env=False) as client, ExitStack() as stack:
        feeds = [
            stack.enter_context(client.stream("GET", f"{ship.url}/api/events")).iter_lines()
            for ship in followers.ships
        ]
        for ship in followers.ships:
            eventually(lambda ship=ship: "pointsman_feed_readers 1" in ship.get("/metrics").text)
        made = put(followers.ships[1], wanted).json()
        for lines in feeds:
            found = next(each for each in lines if '"publication_id"' in each)
            told = json.loads(found.removeprefix("data: "))
            assert told["publication_id"] == made["publication_id"]
            assert told["by"] == "admin"
            assert "routing.yaml" in told["files"]


def test_what_is_published_at_one_replica_decides_at_all(followers: Fleet) -> None:
    wanted = other_model(followers)
    told = put(followers.ships[1], wanted)
    assert told.status_code == 200, told.text
    for number, ship in enumerate(followers.ships):
        eventually(
            lambda ship=ship, number=number: (
                ship.chat("hello", f"new {number}").headers["x-pointsman-model"] == wanted
            )
        )
    # Where nobody tells of it, it is looked for so often: two seconds are promised.
    assert LOOK_S < 1
    for ship in followers.ships:
        found = policy(ship)
        assert (found["source"], found["policy_id"]) == ("ledger", told.json()["policy_id"])


def test_what_is_published_by_the_command_is_followed_too(followers: Fleet) -> None:
    wanted, home = other_model(followers), followers.ships[2].home
    path = home / "routing.yaml"
    path.write_text(json.dumps({**json.loads(path.read_text()), "global_default": wanted}))
    with Pointsman(home, store=followers.store) as machine:
        done = machine.publish(machine.publishing().candidate(), "anna")
    for ship in followers.ships:
        eventually(lambda ship=ship: policy(ship).get("publication_id") == done.id)


def test_under_load_every_decision_names_one_of_the_two_and_replays(followers: Fleet) -> None:
    wanted, before = other_model(followers), agreed(followers)
    with Crowd(6) as crowd:
        crowd.ask(followers.ports, 2_000, "rolling", seconds=2.5, key=followers.key, max_tokens=1)
        many = len(entries(followers, "decision.turn"))
        eventually(lambda: len(entries(followers, "decision.turn")) > many + 50)
        after = put(followers.ships[0], wanted).json()["policy_id"]
        answers = crowd.answers()
        # The load may have ended before a busy machine took the policy over: ask once more.
        eventually(lambda: agreed(followers) == after)
        crowd.ask(followers.ports, 2, "rolled", key=followers.key, max_tokens=1)
        answers += crowd.answers()
    assert {each["status"] for each in answers} == {200}
    named = policies_of(followers, {each["decision"] for each in answers})
    assert len(named) == len(answers)
    assert set(named.values()) == {before, after}
    models = {before: "p:m" if wanted == "q:n" else "q:n", after: wanted}
    assert all(models[named[each["decision"]]] == each["model"] for each in answers)
    assert faults(followers.ships[0].home, followers.store) == []


def forged(fleet: Fleet) -> list[Draft]:
    """Give the entries of a next publication as somebody without a key of the ledger makes them."""
    home = open_home(fleet.ships[0].home, store=fleet.store)
    with closing(LedgerReader(home.database)) as reader:
        newest = succession(reader, home).newest
    assert newest is not None
    number = newest.publication.number + 1
    said = msgspec.structs.replace(newest.publication, number=number, previous=newest.id)
    made = PUBLICATION_FORM.make(said, home.identity.ledger, FOREIGN)
    payload = ANNOUNCEMENT_FORM.encode(announcement(made.id, said))
    return [snapshot_draft(made, said.at), Draft(PUBLISHED, "forged", "", said.at, payload)]


def test_a_forged_publication_is_taken_by_no_replica_and_told_by_each(followers: Fleet) -> None:
    other = other_model(followers)
    assert put(followers.ships[0], other).status_code == 200
    before = agreed(followers)
    drafts = forged(followers)
    with psycopg.connect(followers.store, autocommit=True) as connection:
        connection.execute("SET search_path = pointsman_ledger")
        connection.execute("INSERT INTO chains (id, name) VALUES (999, 'forged')")
        for seq, each in enumerate(drafts):
            row = (seq, each.at, each.kind, each.id, each.payload, bytes([seq]))
            connection.execute(
                "INSERT INTO entries VALUES (999, %s, %s, %s, %s, '', %s, '', %s, '')", row
            )
            for body in each.attachments:
                connection.execute("INSERT INTO attachments VALUES (999, %s, 0, %s)", (seq, body))
        try:
            for ship in followers.ships:
                told = eventually(lambda ship=ship: _problems(ship))
                assert "not signed by a key of this ledger" in told[0]
                assert policy(ship)["policy_id"] == before
                assert ship.chat("hello", "forged").headers["x-pointsman-model"] == other
            refused = eventually(lambda: entries(followers, POLICY_REFUSED))
            assert {each.ref for each in refused} == {"forged"}
        finally:
            for table in ("entries", "attachments"):
                connection.execute(f"DELETE FROM {table} WHERE chain = 999")
            connection.execute("DELETE FROM chains WHERE id = 999")
    for ship in followers.ships:
        eventually(lambda ship=ship: not _problems(ship))


def _problems(ship: Ship) -> list[str]:
    found: list[str] = ship.get("/health/readiness").json()["configuration"]
    return found
