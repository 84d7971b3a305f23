"""Every slash command of the document has its stated effect in the terminal app."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.acceptance.parlour import HAIKU, OPUS, ROUTING, SONNET
from tests.acceptance.test_conversation_facts import PATTERNED, learn
from tests.tui.booth import a_booth

from pointsman.cli.main import main
from pointsman.conversations.services import Kit
from pointsman.sessions.slash import COMMANDS
from pointsman.testing import says

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def printed(home: Path, *line: str) -> str:
    """Give what the command line prints."""
    return CliRunner().invoke(main, [*line, "--home", str(home)]).output.rstrip("\n")


@pytest.mark.req(255, 268)
async def test_model_sets_clears_and_shows_the_same_chain_as_why(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("one"), says("two")) as booth:
        assert "no turn yet" in await booth.command("/model show")
        assert await booth.command("/model haiku") == f"{HAIKU} takes every turn from now on"
        assert f"sticky · {HAIKU}" not in booth.screen
        await booth.says("hi")
        assert f"sticky · {HAIKU}" in booth.screen
        told = await booth.command("/model show")
        assert told == f"active model: {HAIKU} (sticky)\n\n{printed(tmp_path, 'why')}"
        assert await booth.command("/model -") == "rules and defaults choose the model again"
        view = await booth.says("what is new today?")
        assert str(view.route_line).startswith(f"{OPUS} · global default")
        assert "is not known here" in await booth.command("/model nobody")


@pytest.mark.req(268, 269)
async def test_rules_are_checked_shown_and_reloaded_as_on_the_command_line(tmp_path: Path) -> None:
    rules = [{"when": {"message_matches": "x"}, "use": HAIKU}]
    async with a_booth(tmp_path, files={"routing": {**ROUTING, "rules": rules}}) as booth:
        checked = await booth.command("/rules check")
        assert checked == printed(tmp_path, "rules", "check")
        assert checked.splitlines()[-1].startswith("ok")
        shown = await booth.command("/rules show")
        assert shown == printed(tmp_path, "rules", "show")
        assert "rule_0" in shown
        (tmp_path / "routing.yaml").write_text("schema_version: 1\nrules: 3\n")
        assert "routing.yaml    invalid" in await booth.command("/rules reload")
        assert "routing.yaml:2:8" in await booth.command("/rules check")


@pytest.mark.req(268, 270)
async def test_cost_is_told_by_model_and_role(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("one"), says("two")) as booth:
        await booth.says("hi")
        await booth.says("@haiku what else?")
        told = await booth.command("/cost")
        assert f"Session {booth.conversation.id} — total $0.000304" in told
        cells = [line.split() for line in told.splitlines()[-2:]]
        assert cells == [
            [OPUS, "planner", "$0.000285", "1"],
            [HAIKU, "planner", "$0.000019", "1"],
        ]


@pytest.mark.req(198, 268, 285)
@pytest.mark.parametrize(
    ("act", "model", "event"),
    [
        ("/route override", SONNET, "route.overridden"),
        ("/route ignore", HAIKU, "pattern.override_dismissed"),
        ("o", SONNET, "route.overridden"),
        ("i", HAIKU, "pattern.override_dismissed"),
        ("click", SONNET, "route.overridden"),
    ],
)
async def test_a_disagreement_is_taken_or_dismissed(
    tmp_path: Path, act: str, model: str, event: str
) -> None:
    async with a_booth(
        tmp_path,
        says("done"),
        files={"routing": PATTERNED},
        kit=Kit(is_interactive=True, route_s=600),
    ) as booth:
        learn(tmp_path, "/commit it", SONNET, 200)
        await booth.types("/commit it")
        await booth.until(lambda: booth.app.panel.current is not None)
        await booth.drawn()
        told = "similar tasks). /route override to use it for this turn, /route ignore to dismiss"
        await booth.until(lambda: told in " ".join(booth.screen.replace("│", " ").split()))
        assert SONNET in booth.screen
        if act == "click":
            await booth.pilot.click(booth.app.panel.query("Button").first())
        elif act.startswith("/"):
            # Letter by letter, as a user does: the `o` of `/route` is text.
            await booth.pilot.press(*("space" if letter == " " else letter for letter in act))
            await booth.pilot.press("enter")
        else:
            await booth.pilot.press("f5", act)
        await booth.idle()
        assert booth.last.route_line.model == model
        assert event in booth.events
        assert booth.app.panel.current is None


async def test_route_has_nothing_to_choose_where_nobody_disagrees(tmp_path: Path) -> None:
    async with a_booth(tmp_path) as booth:
        assert "there is nothing to choose now" in await booth.command("/route override")


async def test_history_lists_sessions_with_their_first_words(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("one")) as booth:
        await booth.says("what is a point?")
        told = await booth.command("/history")
        assert f"{booth.conversation.id}" in told
        assert "what is a point?" in told


async def test_good_and_bad_are_noted_for_the_last_turn(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("one")) as booth:
        assert "no turn yet" in await booth.command("/good")
        await booth.says("hi")
        assert await booth.command("/good just right") == "noted: the last answer was good"
        assert await booth.command("/bad") == "noted: the last answer was bad"
        assert booth.events.count("feedback.explicit") == 2


async def test_help_tells_every_command_and_mistakes_are_told(tmp_path: Path) -> None:
    async with a_booth(tmp_path, size=(100, 50)) as booth:
        told = await booth.command("/help")
        usages = [form.usage for each in COMMANDS for form in each.forms]
        assert [line.split("  ")[0] for line in told.splitlines()] == usages
        assert "/rules check" in await booth.command("/help rules")
        assert "did you mean `/model`?" in await booth.command("/modle x")
        assert "known are /model, /route," in await booth.command("/nosuch thing")
        assert not booth.app.transcript.turns
        await booth.pilot.press("f1")
        await booth.until(lambda: booth.app.transcript.reports[-1].title == "/help")


async def test_quit_ends_the_session(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("one")) as booth:
        await booth.says("hi")
        await booth.types("/quit")
        await booth.until(lambda: booth.app.return_code is not None)
        assert "session.ended" in booth.events


async def test_every_command_is_carried_out_by_somebody(tmp_path: Path) -> None:
    lines: dict[str, Any] = {"image": "/image x", "good": "/good", "bad": "/bad", "quit": None}
    async with a_booth(tmp_path, says("one")) as booth:
        await booth.says("hi")
        for each in COMMANDS:
            form = each.forms[-1]
            line = lines.get(each.name, form.usage.split(" <")[0].split(" [")[0])
            if line is not None:
                assert "something went wrong" not in await booth.command(line)
