"""A process is killed in the middle of a turn; another one opens its session again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.parlour import OPUS, Bench, Parlour, a_parlour, encoded, killed, over, said
from tests.gateway.house import stalls

from pointsman.conversations.services import Kit
from pointsman.sessions.envelope import Envelope
from pointsman.sessions.events.session import TurnCancelled
from pointsman.testing import calls, says

pytestmark = pytest.mark.anyio


def cancelled(parlour: Parlour, session: str) -> list[TurnCancelled]:
    events = [each for each in parlour.conversations.events(session) if isinstance(each, Envelope)]
    return [each.payload for each in events if isinstance(each.payload, TurnCancelled)]


async def test_killed_while_the_model_speaks(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", stalls("a long story"), says("anew")) as parlour:
        session = await killed(tmp_path / "h", "tell me", "TextDelta")
        resumed = await parlour.conversations.resume(session)
        types = parlour.types(session)
        assert types == [
            "session.created", "turn.started", "route.decided", "llm.call_started",
            "session.resumed", "llm.call_failed", "turn.cancelled",
        ]  # fmt: skip
        assert cancelled(parlour, session) == [TurnCancelled("client_disconnect", 1, 0)]
        assert over(await said(resumed, "again please")).text == "anew"
        again = await parlour.conversations.resume(session)
        assert len(cancelled(parlour, session)) == 1
        assert again.history == resumed.history
        assert parlour.pointsman.replay_all().diverged == 0
        assert parlour.pointsman.verify().is_intact


async def test_killed_while_a_tool_runs_the_tool_never_runs_again(tmp_path: Path) -> None:
    bench = Bench()
    script = (calls(("look", {}), ("hang", {})), says("anew"))
    async with a_parlour(tmp_path / "h", *script) as parlour:
        session = await killed(tmp_path / "h", "do it", "ToolState")
        resumed = await parlour.conversations.resume(session, kit=Kit(bench))
        types = parlour.types(session)
        assert types[-2:] == ["tool.failed", "turn.cancelled"]
        assert types.index("session.resumed") < types.index("turn.cancelled")
        assert bench.ran == []
        updates = await said(resumed, "again please")
        assert over(updates).text == "anew"
        assert "the process ended before this did" in encoded(parlour.anthropic.requests[-1].json)


async def test_killed_while_a_worker_works_both_are_closed(tmp_path: Path) -> None:
    task: Any = {"tier": "fast", "task": "rename it", "context": {"mode": "minimal"}}

    def either(request: Any) -> Any:
        is_worker = "sub-agent" in str(request.json["system"])
        return (stalls("renaming") if is_worker else says("anew"))(request)

    async with a_parlour(tmp_path / "h", calls(("delegate", task)), *[either] * 3) as parlour:
        session = await killed(tmp_path / "h", "do it", "WorkerState")
        resumed = await parlour.conversations.resume(session)
        assert parlour.types(session)[-3:] == [
            "session.resumed", "delegate.failed", "turn.cancelled",
        ]  # fmt: skip
        (worker,) = parlour.conversations.list_sessions(include_workers=True)[0].workers
        assert worker.is_ended
        assert parlour.types(worker.id)[-2:] == ["turn.cancelled", "session.ended"]
        assert over(await said(resumed, "again please")).text == "anew"
        assert over(await said(resumed, "and then?")).model == OPUS
