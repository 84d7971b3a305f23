"""Behaviour of conversations, told in YAML files and driven by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.sessions.models import a_policy
from tests.unit.sessions.play import Play, a_tool, a_turn, a_use, answer, nth

from pointsman.kernel.yaml_text import read_yaml
from pointsman.sessions import effects
from pointsman.sessions.effects import ModelReply
from pointsman.turns.learning.pattern_row import PatternRow

FOLDER = Path(__file__).parent / "sessions"


def _cases() -> list[Any]:
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        cases: Any = read_yaml(path.read_bytes(), path.name).value
        for case in cases:
            marks = pytest.mark.req(*case.get("req", []))
            found.append(pytest.param(case, id=f"{path.stem}: {case['note']}", marks=marks))
    return found


def _replies(given: list[Any]) -> list[ModelReply]:
    return [_reply(each, number) for number, each in enumerate(given, 1)]


def _reply(given: Any, number: int) -> ModelReply:
    if "text" in given:
        return answer(given["text"])
    uses = [
        a_use(name, value, id=f"tu_{number}_{name}")
        for each in given["tools"]
        for name, value in each.items()
    ]
    return answer(*uses, stop="tool_use")


def _facts(given: dict[str, Any]) -> dict[str, Any]:
    facts = dict(given)
    pattern = facts.pop("pattern", None)
    if pattern is not None:
        row = ("f1", pattern["model"], 900_000_000, 10, pattern["samples"], 950_000_000)
        facts["pattern_rows"] = (PatternRow(*row),)
    return facts


@pytest.mark.parametrize("case", _cases())
def test_session_case(case: dict[str, Any]) -> None:
    cancel, want = case.get("cancel"), case["want"]
    play = Play(
        *_replies(case.get("model", [])),
        workers={task: _replies(each) for task, each in case.get("workers", {}).items()},
        route=case.get("route", "none"),
    )
    if cancel is not None:
        play.cancel_at = nth(getattr(effects, cancel["at"]), cancel["number"])
    tools = [a_tool(name) for name in case.get("tools", [])]
    facts = _facts(case.get("facts", {}))
    end = play.turn(a_turn(a_policy(case.get("routing")), case["say"], tools=tools, **facts))
    assert end.status == want.get("status", "completed")
    if "events" in want:
        assert play.log == want["events"]
    if "models" in want:
        assert [each.model for each in play.calls] == want["models"]
    if "chain" in want:
        chain = {each.policy: each.verdict for each in play.records[0].ruling.trace.chain}
        assert {name: chain[name] for name in want["chain"]} == want["chain"]
    if "worker_chain" in want:
        ruling = play.records[1].ruling
        assert {each.policy: each.verdict for each in ruling.trace.chain} == want["worker_chain"]
    if "banner" in want:
        assert [each.text for each in play.records[0].ruling.outcome.banners] == [want["banner"]]
