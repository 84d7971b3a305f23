"""An agent that is a model: its turn is gathered, decided, called and recorded like a chat's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.acceptance.parlour import HAIKU, OPUS, ROUTING, models
from tests.gateway.house import Upstream, facts_of, keeps, upstream, write_home

from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.jobs.jobs import JobResult
from pointsman.jobs.request import JobRequest
from pointsman.kernel.record import OUTCOME, OUTCOME_FORM
from pointsman.storage.home import open_home
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing import fails, says
from pointsman.turns.story.turn_story import TurnStory

AGENTS = {
    "modules": {"agent:writer": {"apt": "0.9", "status": "healthy"}},
    "run": {"agent:writer": {"model": {"system": "Answer in one sentence."}}},
}
ASKED = "what is a point"


@contextmanager
def at_home(home: Path, *replies: Any, **files: Any) -> Iterator[Upstream]:
    with upstream(*replies) as server:
        written = {"models": models(server.url, server.url), "routing": ROUTING, "agents": AGENTS}
        write_home(home, **{**written, **files})
        yield server


def run_job(home: Path) -> tuple[JobResult, TurnStory]:
    with Pointsman(home) as pointsman:
        result = pointsman.jobs.run(JobRequest(ASKED))
    with Pointsman(home) as pointsman:
        return result, pointsman.read_turn("last")


def run_chat(home: Path) -> TurnStory:
    CliRunner().invoke(main, ["chat", "--home", str(home), "--message", ASKED])
    with Pointsman(home) as pointsman:
        return pointsman.read_turn("last")


def ends(home: Path) -> list[dict[str, Any]]:
    with closing(LedgerReader(open_home(home).database)) as ledger:
        entries = [each.entry for each in ledger.of_kind(OUTCOME)]
    details = [json.loads(bytes(OUTCOME_FORM.read(each.payload).detail)) for each in entries]
    return [each for each in details if "spent" in each]


def reasons(story: TurnStory) -> list[tuple[str, str, str]]:
    return [(slot.policy, slot.verdict, slot.reason) for slot in story.first.trace.chain]


def test_an_agents_turn_is_decided_called_and_charged_like_a_chats(tmp_path: Path) -> None:
    with at_home(tmp_path, says("a switch"), says("a switch")):
        result, of_agent = run_job(tmp_path)
        of_chat = run_chat(tmp_path)
    assert result.text == "a switch"
    assert reasons(of_agent) == reasons(of_chat)
    assert of_agent.served_model == of_chat.served_model == OPUS
    first, second = ends(tmp_path)
    told = ("model", "location", "number", "is_stream", "status", "error_class", "attempts")
    assert [first[name] for name in told] == [second[name] for name in told]
    own = {"at", "workspace", "session_id"}
    paid, other_paid = (
        {name: each["spent"][name] for name in each["spent"].keys() - own}
        for each in (first, second)
    )
    assert paid == other_paid
    assert first["spent"]["cost_microusd"] == 285
    assert first["request_id"] == second["request_id"] == "req_1"
    facts, other = (facts_of(tmp_path, each.first.decision_id) for each in (of_agent, of_chat))
    assert facts.message == other.message
    assert facts.has_system_prompt is other.has_system_prompt is True


def test_an_agents_turn_gathers_the_cost_of_the_day(tmp_path: Path) -> None:
    cap = {"name": "cap", "when": {"cost_today_exceeds_usd": "0.0001"}, "use": HAIKU}
    with at_home(tmp_path, says("one"), says("two"), routing={**ROUTING, "rules": [cap]}):
        assert run_job(tmp_path)[1].served_model == OPUS
        story = run_job(tmp_path)[1]
    assert story.served_model == HAIKU
    assert facts_of(tmp_path, story.first.decision_id).cost_today_microusd == 285


def test_a_failed_call_of_an_agent_is_recorded_and_falls_back_like_a_chats(tmp_path: Path) -> None:
    routing = {**ROUTING, "global_default": [OPUS, HAIKU]}
    with at_home(tmp_path, fails(401), says("from haiku"), routing=routing):
        result, story = run_job(tmp_path)
    assert result.text == "from haiku"
    assert [(each.model, each.outcome) for each in story.calls] == [
        (OPUS, "failed"),
        (HAIKU, "done"),
    ]
    assert [each.kind for each in story.later] == ["fallback"]
    assert [(each["error_class"], each["spent"] is None) for each in ends(tmp_path)] == [
        ("auth", True),
        ("", False),
    ]


@pytest.mark.parametrize("act", [lambda home: run_job(home)[1], run_chat])
def test_a_turn_that_needs_a_yes_and_has_no_human_is_refused_alike(
    tmp_path: Path, act: Any
) -> None:
    rule = {"id": "ask", "action": "requireConfirmation", "message": "is this wise?"}
    with at_home(tmp_path, placement={**keeps(), "policy_rules": [rule]}) as server:
        story = act(tmp_path)
        assert server.requests == []
    assert story.state == "refused"
    (end,) = ends(tmp_path)
    assert (end["error_class"], end["status"], end["spent"]) == ("confirmation_needed", 403, None)
