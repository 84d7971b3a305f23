"""The live feed: what is recorded is told to whoever follows it, and never any text."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from typing import Any

import httpx2 as httpx
from tests.gateway.conftest import Town
from tests.gateway.house import Running, eventually, keeps, running, write_home

from pointsman.app import Pointsman
from pointsman.storage.policies.publications import PUBLISHED
from pointsman.storage.sqlite.database import SQL
from pointsman.testing.upstream_replies import fails


class Follower:
    """Follows the feed in a thread of its own."""

    def __init__(self, live: Running, headers: dict[str, str] | None = None) -> None:
        self.lines: list[str] = []
        self._headers = headers
        self.status = 0
        self._live = live
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()
        eventually(lambda: self.status)

    def _follow(self) -> None:
        with httpx.stream(
            "GET", f"{self._live.url}/api/events", timeout=30, headers=self._headers
        ) as response:
            self.status = response.status_code
            for line in response.iter_lines():
                self.lines.append(line)

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        names = [each[7:] for each in self.lines if each.startswith("event: ")]
        data = [json.loads(each[6:]) for each in self.lines if each.startswith("data: ")]
        return list(zip(names, data, strict=False))

    def counted(self, name: str, most: int) -> bool:
        """Wait for so many events of a name."""
        return eventually(lambda: sum(each == name for each, _ in self.events()) >= most)

    def told(self, name: str) -> dict[str, Any]:
        return eventually(lambda: next((d for n, d in self.events() if n == name), None))


def test_a_turn_and_the_end_of_its_call_are_told(live: Running) -> None:
    follower = Follower(live)
    answer = live.chat("a secret sentence")
    decided, ended = follower.told("route.decided"), follower.told("call.ended")
    assert decided["turn_id"] == answer.headers["x-pointsman-turn"]
    assert decided["chosen_model"] == ended["model"] == "open:big"
    assert decided["policy"] == "global_default"
    assert (ended["status"], ended["error_class"], ended["output_tokens"]) == (200, "", 7)
    assert "a secret sentence" not in "\n".join(follower.lines)


def test_a_fallback_and_an_outage_are_told(town: Town) -> None:
    write_home(
        town.home,
        routing={
            "schema_version": 1,
            "global_default": "house:llama",
            "rules": [{"when": {"message_matches": "one"}, "use": "open:big", "name": "big"}],
        },
    )
    town.openai.then(fails(401, "authentication_error", "no"))
    with running(town.home) as live:
        follower = Follower(live)
        assert live.chat("one").headers["x-pointsman-fallback-from"] == "open:big"
        assert follower.told("turn.fallback")["chosen_model"] == "house:llama"
        out = follower.told("routing.provider_unavailable")
        assert (out["provider"], out["trigger_reason"]) == ("open", "auth_error")
        kinds = [each.kind for each in live.entries("event.routing.")]
        assert kinds == ["event.routing.provider_unavailable"]


def test_pins_taints_feedback_and_invalid_policies_are_told(town: Town) -> None:
    write_home(town.home, placement=keeps("secret"))
    with running(town.home) as live:
        follower = Follower(live)
        named = {"x-session-id": "mine", "x-pointsman-privacy": "local"}
        turn = live.chat("mine", "llama", headers=named).headers["x-pointsman-turn"]
        assert follower.told("placement.tainted")["session_id"] == "mine"
        live.post("/api/sessions/mine/pin", {"model": "llama"})
        assert follower.told("session.pinned")["pinned_model"] == "house:llama"
        live.post("/api/sessions/mine/clear-taint", {"reason": "words of mine"})
        assert follower.told("placement.cleared")["session_id"] == "mine"
        live.post("/api/feedback", {"turn_id": turn, "score": 0.5})
        assert follower.told("feedback.given")["score"] == 0.5
        (town.home / "routing.yaml").write_text("nonsense: true")
        live.parts.pointsman.reload()

        def invalid() -> object:
            live.chat("another", "llama")
            return [name for name, _ in follower.events() if name == "routing.policy_invalid"]

        eventually(invalid)
        assert follower.told("routing.policy_invalid")["file"] == "routing.yaml"
        assert "words of mine" not in "\n".join(follower.lines)


def test_a_policy_that_is_published_is_told_once_by_whom_and_of_which_files(town: Town) -> None:
    (town.home / "pointsman.yaml").write_text('{"policy": {"source": "ledger"}}')
    with running(town.home) as live, Pointsman(town.home) as other:
        other.publish(other.publishing().candidate(), "anna")
        eventually(lambda: live.parts.pointsman.in_force().origin.number == 1, seconds=30)
        follower = Follower(live)
        eventually(lambda: live.parts.feed.readers == 1)
        small = {"schema_version": 1, "global_default": "open:small"}
        (town.home / "routing.yaml").write_text(json.dumps(small))
        given = other.publishing().compile_with("routing.yaml", json.dumps(small).encode())
        made = other.publish(given, "berta")
        eventually(lambda: live.chat().headers["x-pointsman-model"] == "open:small", seconds=30)
        told = follower.told("policy.published")
        assert (told["number"], told["by"], told["files"]) == (2, "berta", ["routing.yaml"])
        assert told["policy_id"] == live.parts.pointsman.in_force().policy_id
        assert told["publication_id"] == made.id
        ids = [each[4:] for each in follower.lines if each.startswith("id: ")]
        assert live.entries(PUBLISHED)[-1].id in ids
        # Something else changes around the policy: it is not told as published again.
        forge(live, live.entries(PUBLISHED)[0].payload.replace(b'"number":1', b'"number":9'))
        refused = eventually(lambda: live.chat() and _named(follower, "policy.refused"), seconds=30)
        assert refused[0]["entry_id"] == "forged-9"
        assert refused[0]["problems"]
        assert len(_named(follower, "policy.published")) == 1


def test_a_policy_that_only_claims_to_be_published_is_not_told_as_if_it_were(town: Town) -> None:
    (town.home / "pointsman.yaml").write_text('{"policy": {"source": "ledger"}}')
    with running(town.home) as live:
        follower = Follower(live)
        live.parts.pointsman.publish(live.parts.pointsman.publishing().candidate(), "anna")
        assert follower.told("policy.published")["number"] == 1
        (announced,) = live.entries(PUBLISHED)
        forge(live, announced.payload.replace(b'"number":1', b'"number":9'))
        told = eventually(lambda: live.chat() and _named(follower, "policy.refused"), seconds=30)
        assert told[0]["publication"] == "publication 9"
        assert "says other than its entry" in told[0]["problems"][0]
        assert [each["number"] for each in _named(follower, "policy.published")] == [1]


def forge(live: Running, payload: bytes) -> None:
    """Write an announcement into the database, as somebody without a key could."""
    database = live.parts.pointsman.home.database
    with closing(database.writing("schema.sql")) as connection:
        connection.execute(SQL["add_chain"], ("forged",))
        number = connection.execute(SQL["find_chain"], ("forged",)).get
        row = (number, 0, 1, PUBLISHED, "forged-9", "", payload, b"", b"p", b"h")
        connection.execute(SQL["append_entry"], row)


def _named(follower: Follower, name: str) -> list[dict[str, Any]]:
    return [data for each, data in follower.events() if each == name]


def test_the_feed_ends_when_the_gateway_does(town: Town) -> None:
    with running(town.home) as live:
        follower = Follower(live)
        eventually(lambda: live.parts.feed.readers == 1)
    follower.thread.join(30)
    assert not follower.thread.is_alive()


def test_a_reader_that_leaves_is_forgotten(live: Running) -> None:
    live.get("/health")
    idle = live.tasks()
    with live.client.stream("GET", "/api/events") as response:
        assert response.status_code == 200
        eventually(lambda: live.parts.feed.readers == 1)
    eventually(lambda: live.parts.feed.readers == 0)
    eventually(lambda: live.tasks() <= idle)
