"""Tools in the terminal app: shown, asked about, cancelled; workers nested and hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.acceptance.parlour import HAIKU, OPUS, Bench
from tests.gateway.house import keeps, stalls
from tests.tui.booth import Booth, a_booth
from textual.widgets import Button

from pointsman.conversations.services import Kit
from pointsman.sessions.tool import ConfirmationRequest
from pointsman.testing import calls, says
from pointsman.tui.blocks import WorkerBlock
from pointsman.turns.registry.models import EMBEDDED_MODEL

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def asking() -> Bench:
    bench = Bench()
    bench.asks["look"] = ConfirmationRequest("look behind the curtain", scope_key="look")
    return bench


async def asked(booth: Booth) -> None:
    await booth.until(lambda: booth.app.panel.current is not None)
    await booth.drawn()


@pytest.mark.req(264)
async def test_calls_are_lines_that_open_on_what_was_asked_and_came_back(tmp_path: Path) -> None:
    script = (calls(("read_file", {"path": "a.txt"})), calls(("look", {})), says("done"))
    async with a_booth(tmp_path, *script) as booth:
        view = await booth.says("read it")
        assert [each.state for each in view.tools] == ["done", "done"]
        first = view.tools[0]
        assert first.line.startswith('✓ read_file  "path":"a.txt"')
        assert "read_file did it" not in booth.screen
        first._title.focus()
        await booth.pilot.press("enter")
        await booth.until(lambda: "read_file did it" in booth.screen)
        assert [each.json["model"] for each in booth.anthropic.requests] == ["claude-opus-4-7"] * 3


async def test_what_a_tool_gave_back_is_there_while_the_turn_goes_on(tmp_path: Path) -> None:
    script = (calls(("read_file", {"path": "a.txt"})), stalls("so far"))
    async with a_booth(tmp_path, *script) as booth:
        await booth.types("read it")
        await booth.until(lambda: booth.app.transcript.turns and booth.last.tools)
        await booth.until(lambda: "read_file did it" in str(booth.last.tools[0]._result.content))
        assert booth.conversation.is_busy


@pytest.mark.parametrize(
    ("key", "ran", "state", "calls_asked"),
    [("a", 2, "done", 2), ("s", 2, "done", 1), ("d", 0, "failed", 2)],
)
async def test_a_tool_that_must_ask_is_allowed_once_for_the_session_or_denied(
    tmp_path: Path, key: str, ran: int, state: str, calls_asked: int
) -> None:
    bench = asking()
    script = (calls(("look", {})), calls(("look", {})), says("done"))
    async with a_booth(tmp_path, *script, kit=Kit(bench, is_interactive=True)) as booth:
        await booth.types("look twice")
        for _ in range(calls_asked):
            await asked(booth)
            assert "look behind the curtain" in booth.screen
            current = booth.app.panel.current
            await booth.pilot.press("f5", key)
            await booth.until(lambda now=current: booth.app.panel.current is not now)
        await booth.idle()
        assert len(bench.ran) == ran
        assert [each.state for each in booth.last.tools] == [state, state]
        assert booth.events.count("tool.confirmation_requested") == calls_asked
        assert booth.app.focused is booth.app.composer


async def test_a_question_is_answered_with_the_mouse_and_never_by_accident(tmp_path: Path) -> None:
    bench = asking()
    async with a_booth(
        tmp_path, calls(("look", {})), says("done"), kit=Kit(bench, is_interactive=True)
    ) as booth:
        await booth.types("look")
        await asked(booth)
        assert booth.app.focused is booth.app.composer
        await booth.pilot.press(*"also add a test".replace(" ", "_"))
        assert booth.app.composer.text == "also_add_a_test"
        assert booth.app.panel.current is not None
        assert not bench.ran
        await booth.pilot.press("f5")
        focused = booth.app.focused
        assert isinstance(focused, Button)
        assert focused.name == "d"
        await booth.pilot.click(booth.app.panel.query(Button).first())
        await booth.idle()
        assert len(bench.ran) == 1


async def test_what_is_typed_before_a_question_can_be_read_is_no_answer(tmp_path: Path) -> None:
    bench = asking()
    async with a_booth(
        tmp_path, calls(("look", {})), says("done"), kit=Kit(bench, is_interactive=True)
    ) as booth:
        booth.app.panel._grace_s = 3600
        await booth.types("look")
        await asked(booth)
        await booth.pilot.press("f5", "a")
        assert booth.app.panel.current is not None
        booth.app.panel._grace_s = 0
        await booth.pilot.press("d")
        await booth.idle()
        assert not bench.ran


async def test_the_next_question_does_not_inherit_the_focus_of_the_one_before(
    tmp_path: Path,
) -> None:
    bench = asking()
    script = (calls(("look", {})), calls(("look", {})), says("done"))
    async with a_booth(tmp_path, *script, kit=Kit(bench, is_interactive=True)) as booth:
        await booth.types("look twice")
        await asked(booth)
        first = booth.app.panel.current
        await booth.pilot.press("f5", "a")
        await booth.until(lambda: booth.app.panel.current not in (first, None))
        await booth.drawn()
        await booth.pilot.press("a")
        assert booth.app.composer.text == "a"
        assert len(bench.ran) == 1


async def test_cancel_while_the_model_speaks(tmp_path: Path) -> None:
    async with a_booth(tmp_path, stalls("a long story")) as booth:
        await booth.types("go on")
        await booth.until(lambda: "a long" in booth.screen)
        await booth.pilot.press("escape")
        await booth.idle()
        assert booth.events[-2:] == ["llm.call_failed", "turn.cancelled"]
        assert booth.last.route_line.state == "cancelled"
        assert "a long" in booth.screen


async def test_cancel_while_a_tool_hangs(tmp_path: Path) -> None:
    bench = Bench()
    async with a_booth(tmp_path, calls(("hang", {})), kit=Kit(bench, is_interactive=True)) as booth:
        await booth.types("go on")
        await bench.running.wait()
        await booth.until(lambda: booth.last.tools and booth.last.tools[0].state == "running")
        await booth.pilot.press("escape")
        await booth.idle()
        assert booth.events[-2:] == ["tool.failed", "turn.cancelled"]
        assert [each.state for each in booth.last.tools] == ["cancelled"]


async def test_cancel_while_a_question_waits_takes_it_away(tmp_path: Path) -> None:
    bench = asking()
    async with a_booth(
        tmp_path, calls(("look", {}), ("read_file", {})), kit=Kit(bench, is_interactive=True)
    ) as booth:
        await booth.types("go on")
        await asked(booth)
        await booth.pilot.press("escape")
        await booth.idle()
        assert booth.app.panel.current is None
        assert booth.events[-1] == "turn.cancelled"
        assert not bench.ran
        assert [each.state for each in booth.last.tools] == ["cancelled", "cancelled"]


@pytest.mark.req(266, 291)
async def test_workers_are_nested_hidden_until_asked_for_and_counted(tmp_path: Path) -> None:
    task = {"tier": "fast", "task": "say green", "context": {"mode": "minimal"}}
    script = (calls(("delegate", task)), says("green"), says("it is green"))
    async with a_booth(tmp_path, *script) as booth:
        view = await booth.says("which colour?")
        (worker,) = view.query(WorkerBlock)
        assert worker.line == f"✓ worker → {HAIKU}  $0.000019"
        assert f"worker → {HAIKU}" not in booth.screen
        await booth.pilot.press("f3")
        await booth.until(lambda: f"worker → {HAIKU}" in booth.screen)
        told = await booth.command("/cost")
        assert "total $0.000589" in told
        assert f"├─ planner ({OPUS}): $0.00057, 1 turn" in told
        assert "└─ workers: $0.000019, 1 delegation" in told
        assert booth.app.top.status.cost == "$0.000589"
        listed = await booth.command("/history --include-workers")
        assert "└ " in listed


@pytest.mark.parametrize(("key", "status"), [("y", ""), ("n", "refused")])
async def test_a_turn_that_needs_a_yes_to_leave_gets_it_or_stays(
    tmp_path: Path, key: str, status: str
) -> None:
    asks = {
        "id": "p1",
        "name": "ask",
        "type": "privacy",
        "enabled": True,
        "priority": 1,
        "conditions": [{"field": "content", "operator": "contains", "value": "hello"}],
        "action": "require_confirmation",
        "message": "sure?",
    }
    table = {**keeps(), "policy_rules": [asks]}
    table.pop("sensitive")
    async with a_booth(tmp_path, says("hi"), files={"placement": table}) as booth:
        await booth.types("hello")
        await asked(booth)
        assert "sure?" in booth.screen
        await booth.pilot.press("f5", key)
        await booth.idle()
        assert booth.last.route_line.state == status
        assert len(booth.anthropic.requests) == (key == "y")


async def test_a_file_is_written_once_it_is_allowed(tmp_path: Path) -> None:
    place = tmp_path / "work"
    place.mkdir()
    write = {"path": "b.txt", "content": "42\n", "mode": "create"}
    async with a_booth(
        tmp_path / "h",
        calls(("write_file", write)),
        says("done"),
        equipped=True,
        workspace=place,
    ) as booth:
        await booth.types("write the answer")
        await asked(booth)
        assert "write_file wants to write" in booth.screen
        assert "b.txt" in booth.screen
        await booth.pilot.press("f5", "a")
        await booth.idle()
        assert (place / "b.txt").read_text() == "42\n"


async def test_a_server_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    settings = {"mcp_servers": {"ghost": {"command": "/nowhere/at/all"}}}
    async with a_booth(tmp_path, equipped=True, files={"pointsman": settings}) as booth:
        await booth.until(lambda: booth.app.transcript.reports)
        told = booth.app.transcript.reports[0].text
        assert "ghost" in told
        assert "\n" not in told


@pytest.mark.slow
async def test_the_local_model_itself_answers_in_the_app(tmp_path: Path) -> None:
    async with a_booth(
        tmp_path, files={"models": {"schema_version": 1}, "routing": {"schema_version": 1}}
    ) as booth:
        view = await booth.says("What is the capital of France? Answer in one word.")
        assert str(view.route_line).startswith(f"{EMBEDDED_MODEL} · global default · $0.00 · ")
        assert "Paris" in booth.screen
